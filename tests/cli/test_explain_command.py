"""`translucid explain` as people meet it, on models that the command line has trained."""
# ruff: noqa: F811 (a fixture of another file looks like a name that is overwritten)

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.cli.test_bad_input import (
    Command,
    assert_refused,
    command,  # noqa: F401 (a fixture)
    trained_models,
)
from tests.cli.test_decoding import on_terminal

from translucid.model import Model, load
from translucid.see.walk.walk import NOTHING

TRANSLATED = "the dog sleeps"


@pytest.fixture(scope="module")
def models() -> dict[str, str]:
    """A translator with few positions, a tagger, and a network of numbers."""
    trained = trained_models()
    return {**trained, "translate": trained["learned-translate"]}


@pytest.fixture(scope="module")
def translator(models: dict[str, str]) -> Model:
    return load(models["translate"])


def quoted(folder: object) -> str:
    """As a shell wants it: the name of a folder may hold a space."""
    return shlex.quote(str(folder))


def test_walk_ends_with_the_prediction(
    command: Command, models: dict[str, str], translator: Model
) -> None:
    answer = command(["explain", models["translate"], TRANSLATED, "--width", "90"])
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    said = translator.translate([TRANSLATED])[0] or NOTHING
    assert lines[0] == f"“{TRANSLATED}” → {said}"
    assert max(map(len, lines[:-1])) <= 90
    assert "\x1b" not in answer.out
    assert "encoder layer 0: self-attention" in answer.out
    assert lines[-1] == (
        f'next: translucid explain {quoted(models["translate"])} --html walk.html "{TRANSLATED}"'
    )
    tagged = command(["explain", models["tag"], "Anna sleeps"])
    spans = load(models["tag"]).tag(["Anna sleeps"])[0]
    first = tagged.out.splitlines()[0]
    assert all(f"{span.text.split()[0]}/B-{span.label}" in first for span in spans)
    numbers = command(["explain", models["regress"], "--", "-0.5"])
    predicted = load(models["regress"]).predict([[-0.5]])[0][0]
    assert numbers.out.splitlines()[0] == f"“-0.5” → {predicted:.6g}"
    assert numbers.out.endswith(' --html walk.html -- "-0.5"\n')


def test_json_contains_the_values_of_the_trace(
    command: Command, models: dict[str, str], translator: Model
) -> None:
    words = ["explain", models["translate"], TRANSLATED, "--json", "--target", "der Hund", "--top"]
    answer = command([*words, "3"])
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert (found["task"], found["text"], found["answer"]) == ("translate", TRANSLATED, "der Hund")
    trace = translator.trace(TRANSLATED, "der Hund")
    told = {stage["address"]: stage for stage in found["stages"] if stage["address"]}
    for address, stage in told.items():
        assert tuple(stage["shape"]) == tuple(trace[address].shape)
    address = "decoder.layers.0.cross_attention.pattern"
    best = trace[address][0].mean(0).max(dim=-1).values.tolist()
    firsts = [row["cells"][0]["value"] for row in told[address]["rows"]]
    assert firsts == pytest.approx(best, rel=1e-5)
    top = trace["head.logits"][0].softmax(-1).topk(3).values.tolist()
    likeliest = [[c["value"] for c in row["cells"][:3]] for row in told["head.logits"]["rows"]]
    assert likeliest == [pytest.approx(row, rel=1e-5) for row in top]


def test_page_is_self_contained(command: Command, models: dict[str, str]) -> None:
    Path("page.html").write_text("old")
    before = os.stat("page.html").st_ino
    text = "Anna <script>alert(1)</script>"
    answer = command(["explain", models["tag"], text, "--html", "page.html"])
    assert (answer.code, answer.err) == (0, "page.html: 7 stages, 5 pictures\n")
    assert answer.out.startswith(f"next: translucid explain {quoted(models['tag'])} --layer 0 ")
    page = Path("page.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert not re.search(r"https?://|<script|src=|@import", page)
    assert os.stat("page.html").st_ino != before  # put in its place, not written over
    assert os.listdir() == ["page.html"]


@pytest.mark.parametrize("model", ["demo:perceptron", "demo:regress"])
def test_regression_model_suggests_terms(command: Command, model: str) -> None:
    *_, hint, _ = command(["explain", model, "1 1"]).out.splitlines()
    before, _, line = hint.partition(": translucid ")
    assert before == "where a number comes from"
    terms = command(shlex.split(line)).out
    assert "= sum of " in terms
    *_, bias = (b for n, b in load(model).network.named_parameters() if n.endswith("bias"))
    assert f"b = {bias.item():.6g} " in terms


def test_one_layer_and_one_head(command: Command, models: dict[str, str]) -> None:
    answer = command(["explain", models["translate"], TRANSLATED, "--layer", "0", "--head", "1"])
    assert (answer.code, answer.err) == (0, "")
    assert "only layer 0 is shown" in answer.out
    assert re.search(r"^   head 1  the ← ", answer.out, re.MULTILINE)
    assert "head 0" not in answer.out  # neither shown nor called the sharpest
    assert "all heads together add " in answer.out
    mean = command(["explain", models["translate"], TRANSLATED, "--head", "mean"])
    assert mean.out == command(["explain", models["translate"], TRANSLATED]).out
    assert "self_attention.query" in answer.out


def test_long_text_is_not_repeated_in_suggestions(command: Command, models: dict[str, str]) -> None:
    *_, last = command(["explain", models["tag"], "Anna sleeps " * 12]).out.splitlines()
    assert last == (
        f'next: translucid explain {quoted(models["tag"])} --html walk.html "..."  '
        "(... is the same text)"
    )


@pytest.mark.slow  # several processes
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_colour_only_on_terminals(models: dict[str, str]) -> None:
    words = ["explain", models["regress"], "0.5"]
    assert "\x1b[1m" in on_terminal(words, "stdout")
    assert "\x1b" not in on_terminal(words, "stdout", NO_COLOR="1")


@pytest.mark.parametrize(
    ("task", "words", "parts"),
    [
        ("translate", [" "], ["the text is empty; pass a sentence in quotes"]),
        ("translate", ["a", "--layer", "1"], ["layer = 1: the model has one layer, number 0"]),
        ("translate", ["a", "--head", "2"], ["head = 2: the model has attention heads 0 to 1"]),
        (
            "translate",
            ["a", "--head", "x"],
            ["--head x: must be the number of a head", "such as 0"],
        ),
        ("translate", ["a", "--top", "0"], ["top = 0: ", "at least 1"]),
        ("translate", ["a", "--width", "20"], ["--width 20", "at least 60 columns"]),
        ("translate", ["a " * 30], ["the text: 31 tokens, but this model has learned 16 pos"]),
        ("translate", ["a", "--target", "b " * 30], ["position 30", "learned positions end at 15"]),
        ("tag", ["Anna", "--target", "B-ORG"], ["tag 'B-ORG': the model knows O, B-PER"]),
        ("regress", ["1 2"], ["the text: x is '1 2', but a number is needed"]),
        ("regress", ["one"], ["the text: x is 'one', but a number is needed"]),
        ("regress", ["1", "--layer", "7"], ["layer = 7: the model has one layer, number 0"]),
        ("regress", ["1", "--head", "0"], ["head = 0: the model has no attention heads"]),
        ("regress", ["1", "--html", "page.pdf"], ["--html page.pdf: ", ".html\n"]),
        ("regress", ["1", "--html", "no/a.html"], ["no/a.html: no such folder no"]),
        ("nowhere", ["1"], ["nowhere"]),
    ],
)
def test_mistakes_are_reported(
    task: str, words: list[str], parts: list[str], command: Command, models: dict[str, str]
) -> None:
    assert_refused(command(["explain", models.get(task, task), *words]), *parts)
    assert os.listdir() == []


def test_terms_of_one_number_as_text_and_json(
    command: Command, models: dict[str, str], translator: Model
) -> None:
    address = "head.logits[0, 0, 5]"
    opened = translator.trace(TRANSLATED).terms(address, top=5)
    asked = ["explain", models["translate"], TRANSLATED, "--terms", address]
    assert command(asked).out == f"{opened}\n"
    data = json.loads(command([*asked, "--json"]).out)
    assert (data["address"], data["value"]) == (address, opened.value)
    total = sum(term["value"] for term in data["expression"]["arguments"])
    assert total == pytest.approx(opened.value, rel=1e-5)
    assert_refused(command([*asked, "--layer", "0"]), "--terms shows one number")
    assert_refused(command([*asked[:-1], "head.logits[0, 99, 5]"]), "[0, 99, 5] is out of range")


def test_text_above_the_trace_budget_is_refused(
    command: Command, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Model.trace.__kwdefaults__, "budget_bytes", 1000)
    answer = command(["explain", models["translate"], TRANSLATED])
    assert_refused(answer, "the budget is 1,000); explain a part of it")
    assert "keep=" not in answer.err
    assert "budget_bytes" not in answer.err
