"""What would have been: other beginnings, parts switched off, two runs or models side by side."""

import math
from typing import Any

import pytest
import torch
from tests.see.small import LABELS, TAGS, pair
from tests.tiny.dealt import dealt

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.model import Model
from translucid.studio import answers, attention_tables
from translucid.studio.library import Library
from translucid.studio.text_runs import Run
from translucid.tasks.model_folder import Bundle

pytestmark = pytest.mark.slow

TEXT = "the dog sees a cat ."
TASKS = ["translate", "language", "tag", "classify", "regress"]


def model(task: Any, family: str = "transformer", **keys: Any) -> Model:
    made, network = pair(task, family, **keys)
    names = {"translate": ("source", "target"), "regress": ()}.get(task, ("tokenizer",))
    tokenizers: dict[str, Tokenizer] = {each: getattr(made, each) for each in names}
    labels = {"classify": LABELS, "tag": TAGS}.get(task, [])
    statistics = {"columns": made.columns.as_json()} if task == "regress" else {}
    return Model(Bundle(network.float(), task, tokenizers, tuple(labels), statistics=statistics))


def run(task: str, **keys: Any) -> tuple[Library, Run]:
    library = Library({task: model(task, **keys)})
    return library, library.run("a", "0.5 1 -2" if task == "regress" else TEXT)


@pytest.mark.parametrize(
    ("task", "kind"), dealt(["translate", "language"], ["word", "bpe"], share=2)
)
def test_the_step_after_a_beginning_is_what_the_search_saw(task: str, kind: str) -> None:
    _, read = run(task, kind=kind)
    nodes = answers.decode(read, 2, 2, {})["tree"]["nodes"]
    for node in nodes[1:]:
        tokens: list[int] = []
        up = nodes[node["parent"]]
        while up["parent"] is not None:
            tokens.insert(0, up["token"])
            up = nodes[up["parent"]]
        n = len(tokens)
        told = answers.steps_along(read, tokens, range(n, n + 1), 200)
        (found,) = told["steps"]
        at = found["ids"].index(node["token"])
        assert found["probabilities"][at] == pytest.approx(
            math.exp(node["token_log_prob"]), rel=1e-3
        )
        assert found["words"][at] == node["label"]
        assert found["logits"][at] - found["log_sum"] == pytest.approx(
            node["token_log_prob"], abs=1e-4
        )
        assert sum(found["weights"]) == pytest.approx(1, abs=1e-4)
        assert len(told["looks"]["words"]) == len(found["weights"])
        assert told["looks"]["side"] == ("src" if task == "translate" else "tgt")


@pytest.mark.parametrize("family", ["transformer", "lstm"])
@pytest.mark.parametrize("task", ["translate", "language"])
def test_all_steps_of_a_text_are_those_of_each_beginning(task: str, family: str) -> None:
    """One pass along the tokens, and the network asked behind each beginning of them."""
    _, read = run(task, family=family)
    network, tokens = read.opened.model.network, [7, 5, 6, 8]
    side = "target" if task == "translate" else "ids"
    kinds = attention_tables.kinds_of_attention(read)
    patterns = kinds.get("cross") or kinds.get("decoder", [])
    whole = answers.steps_along(read, tokens, None, 5)
    assert [each["n"] for each in whole["steps"]] == [0, 1, 2, 3, 4]
    for n, each in enumerate(whole["steps"]):
        inputs = read.example.inputs_for(network)
        begun = inputs[side][:, :1] if task == "translate" else inputs[side]
        inputs[side] = torch.cat([begun, begun.new_tensor([tokens[:n]], dtype=begun.dtype)], 1)
        trace = Trace([*patterns])
        with torch.no_grad():
            logits = network(**inputs, trace=trace)[0, -1]
        best = logits.softmax(-1).topk(5)
        assert each["ids"] == best.indices.tolist()
        assert each["probabilities"] == pytest.approx(best.values.tolist(), rel=1e-4)
        assert each["logits"] == pytest.approx(logits[best.indices].tolist(), abs=1e-4)
        assert each["log_sum"] == pytest.approx(float(logits.logsumexp(-1)), abs=1e-4)
        alone = answers.steps_along(read, tokens[:n], range(n, n + 1), 5)
        assert each["words"] == alone["steps"][0]["words"]
        assert ("weights" in each) == ("looks" in alone)
        if "looks" in alone:
            rows = [trace[name][0, ..., -1, :] for name in patterns]
            means = [row.mean(0) if row.dim() == 2 else row for row in rows]
            assert each["weights"] == pytest.approx(torch.stack(means).mean(0).tolist(), abs=1e-5)
            assert whole["looks"]["words"][: len(each["weights"])] == alone["looks"]["words"]


def test_a_forced_beginning_begins_every_text() -> None:
    _, read = run("translate")
    begin = [7, 5, 6]
    told = answers.decode(read, 3, 3, dict(enumerate(begin)))
    first = read.opened.model.output_tokenizer.pieces(begin)
    assert all(text["pieces"][:3] == first for text in told["texts"])
    assert any(node["fate"] == "forbidden" for node in told["tree"]["nodes"])
    with pytest.raises(InputError, match="there is no token"):
        answers.decode(read, 1, 1, {0: 10**6})


def test_nothing_comes_after_a_label() -> None:
    _, read = run("classify")
    with pytest.raises(InputError, match="does not generate text"):
        answers.steps_along(read, [], None, 3)


@pytest.mark.parametrize("task", TASKS)
def test_a_measured_switch_is_the_run_without_it(task: str) -> None:
    library, read = run(task)
    for key in list(read.opened.switches)[:12]:
        other = library.run("a", read.text, read.target, [key])
        quick, whole = answers.effect(read, [key]), answers.compare(read, other)
        for name in ("variation", "gap"):
            assert (name in quick) == (name in whole)
            assert quick.get(name, 0) == pytest.approx(whole.get(name, 0), abs=1e-6)
        assert quick["loss"] == [pytest.approx(each, nan_ok=True) for each in whole["loss"]]
        one, two = whole["says"]
        assert len(one) == len(two)
        if task != "regress":
            differ = sum(a["word"] != b["word"] for a, b in zip(one, two, strict=True))
            assert quick["changed"] == differ


def test_models_are_compared_where_their_outputs_mean_the_same() -> None:
    library = Library({
        "one": model("translate"), "two": model("translate", "lstm"),
        "other": model("translate", kind="char"), "tags": model("tag"),
    })  # fmt: skip
    runs = [library.run(m, TEXT, "der hund ." if m != "d" else None) for m in "abcd"]
    found = answers.compare(runs[0], runs[1])
    one, two = (each["head.logits"][0].softmax(-1) for each in runs[:2])
    assert found["variation"] == pytest.approx(((one - two).abs().sum(-1) / 2).tolist(), abs=1e-6)
    assert "ripple" not in found
    for other in runs[2:]:
        assert "variation" not in answers.compare(runs[0], other)
    assert torch.isfinite(torch.tensor(found["loss"])).all()
