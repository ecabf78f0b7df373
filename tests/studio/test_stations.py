"""Start here: every stop of every station on its model, every task undone and then done, and what
is drawn of a training in the plane."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import torch
from tests.in_process import run as command
from tests.studio.browser import Page, page, running, tab  # noqa: F401  (fixtures)
from tests.studio.serving import Served, serving
from tests.studio.test_access import RULES, violations
from tests.studio.test_lesson import claimed

import translucid as tl
from translucid import shipped_models
from translucid.cli import explore
from translucid.core.errors import InputError
from translucid.model import Model
from translucid.models import build
from translucid.models.perceptron import Perceptron, PerceptronConfig
from translucid.studio import lesson_checks, lesson_files, lesson_refusals, lessons, plane
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library
from translucid.studio.text_runs import Run

STATIONS = lesson_files.stations()
LETTERS = {name: letter for letter, name in zip("abcdefgh", shipped_models.names(), strict=True)}
TOLD = re.compile(r"\{([^{}]+)\}")
LSTM = "encoder.recurrent.layers.0.lstm"
# What one does at a task: a text (None: the station's own), and where the page stands then.
SOLVED: dict[tuple[str, str], tuple[str | None, str]] = {
    ("neuron", "The threshold"): ("0 1", "flow"),
    ("neuron", "Before it has learnt"): (None, "train?step=3"),
    ("neuron", "Until it is right"): (None, "train?step=60"),
    ("neuron", "Another problem"): (None, "train?problem=or&step=60"),
    ("neuron", "What no line can do"): (None, "train?problem=xor&step=200"),
    ("layers", "Your turn"): ("1 1", "flow"),
    ("layers", "Before it has learnt"): (None, "train?problem=xor&step=1"),
    ("layers", "Gradient descent"): (None, "train?problem=xor&step=60"),
    ("layers", "A bad start"): (None, "train?problem=xor&seed=3&step=60"),
    ("vectors", "Another word"): ("The dog never sleeps.", "flow"),
    ("rnn", "A unit of your choice"): (None, "recurrent?unit=5"),
    ("rnn", "Your turn"): ("The dog is tired.", "recurrent"),
    ("rnn", "Without memory"): (None, "whatif?off=decoder.recurrent.layers.0"),
    ("lstm", "Make the forget gate close"): ("The food was bad.", "recurrent"),
    ("lstm", "Not bad"): ("The food was not bad.", "recurrent"),
    ("lstm", "Hold it shut"): ("The food was not bad.", f"whatif?off={LSTM}.forget_gate=0"),
    ("attention", "Your turn"): ("The dog does not see the cat.", "attention"),
    ("attention", "Without attention"): (None, "whatif?off=decoder.alignment"),
    ("transformer", "Find the head"): (None, "attention?kind=cross&layer=1&head=0"),
    ("transformer", "Take something away"): (None, "whatif?off=decoder.layers.1.cross_attention"),
}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library({name: tl.load(name) for name in shipped_models.names()})


def run_of(library: Library, key: str, text: str | None = None, off: tuple[str, ...] = ()) -> Run:
    station = lessons.lesson(key)
    return library.run(LETTERS[station["model"]], text or station["text"], None, off)


def plain(pieces: list[dict[str, Any]]) -> str:
    return "".join(str(p.get("text", p.get("word", p.get("value")))) for p in pieces)


# ---- the stations ----


def test_there_are_seven_in_order() -> None:
    assert list(STATIONS) == ["neuron", "layers", "vectors", "rnn", "lstm", "attention",
                              "transformer"]  # fmt: skip
    tasks = {(key, stop["title"]) for key, station in STATIONS.items()
             for stop in station["steps"] if "check" in stop}  # fmt: skip
    assert tasks == set(SOLVED)
    for key, station in STATIONS.items():
        assert 8 <= len(station["steps"]) <= 16
        assert any(name == key for name, _ in tasks)
        titles = [stop["title"] for stop in station["steps"]]
        assert len(set(titles)) == len(titles)
        for stop in station["steps"]:
            say, do = claimed(stop), claimed(stop, "do")
            assert len(TOLD.sub("0.000", say)) < 330, "a stop is a few short sentences"
            typed = re.findall(r"\d+[.,]\d+|\d{2,}", TOLD.sub("", say + do))
            assert typed == [], "numbers are those of the model"


@pytest.mark.parametrize("key", [*STATIONS, lesson_files.OPENING])
def test_every_stop_has_its_numbers(library: Library, key: str) -> None:
    run = run_of(library, key)
    model = run.opened.model
    assert isinstance(model, Model)
    trace = model.trace(run.text)
    for stop in lessons.on_run(run, key)["steps"]:
        assert "lacks" not in stop, stop
        assert "{" not in stop["address"] + "".join(stop["light"]) + plain(stop["say"])
        for piece in [*stop["say"], *stop["do"]]:
            if "value" in piece:
                wanted = number(model, trace, piece["at"], piece["index"], piece["value"])
                assert piece["value"] == pytest.approx(wanted, abs=1e-5), (stop["title"], piece)
        for name in re.findall(r"at=([\w.]+)", stop["address"]):
            assert name in run.shapes
        for switch in re.findall(r"off=([\w.=]+)", stop["address"]):
            assert switch in run.opened.switches


def number(model: Model, trace: Any, at: str, index: list[int], shown: float) -> float:
    """A number of a lesson, worked out from Python."""
    kind, _, rest = at.partition(" ")
    match kind:
        case "softmax":
            return float(trace[rest][0].softmax(-1)[tuple(index)])
        case "mean":  # over the heads
            return float(trace[rest][(0, slice(None), *index)].mean())
        case "training":  # in the plane, at the stop on a bad start and at the beginning
            made = [plane.answer("mlp", "xor", *at) for at in ((0,), (200, 0))]
            return min((now[rest] for now in made), key=lambda loss: abs(loss - shown))
        case "weight":
            return float(model.network.state_dict()[rest][tuple(index)])
        case "gradient":  # of the error at "are"
            target = trace.example.words.follows.index("are")
            gradient = model.gradients(trace.example.text, of=target)[rest]
            return float(gradient[0, index[0]].square().sum().sqrt())
        case "cosine":
            word, other = rest.split(" ")
            bars = model.neighbours(word, 8)
            return float(bars.values[bars.labels.index(other)])
    value = trace[at]
    return float(value[(0, *index)] if value.dim() else value)


@pytest.mark.parametrize("corner", ["0 0", "0 1", "1 0", "1 1"])
def test_what_stands_beside_a_number_holds_for_it(library: Library, corner: str) -> None:
    run = run_of(library, "layers", corner)
    for stop in lessons.on_run(run, "layers")["steps"]:
        for piece, after in itertools.pairwise(stop.get("say", [])):
            if near := re.match(r",? near (\d)", after.get("text", "")):
                assert piece["value"] == pytest.approx(float(near[1]), abs=0.2), stop["title"]


def test_a_stop_that_speaks_of_a_switch_sets_it() -> None:
    switched = re.compile(r"\bHere [^.:]*(switched off|stands at)|\bTake \w+ other switch away")
    stops = [stop for station in STATIONS.values() for stop in station["steps"]]
    speaking = [stop for stop in stops if switched.search(f"{stop['say']} {stop['do']}")]
    assert speaking
    assert speaking == [stop for stop in stops if "off=" in stop["address"]]


@pytest.mark.parametrize("key", ["rnn", "lstm"])
def test_the_panel_shows_the_step_that_is_worked_out(library: Library, key: str) -> None:
    """It shows the first of the pins."""
    stops = [stop for stop in lessons.on_run(run_of(library, key), key)["steps"]
             if "unit=" in stop["address"] and stop["pin"]]  # fmt: skip
    assert len(stops) >= 3
    for stop in stops:
        result = [piece for piece in stop["say"] if "value" in piece][-1]
        assert int(stop["pin"][0].partition(":")[2]) == result["index"][0], stop["title"]


def test_all_that_a_decoder_starts_with_is_counted(library: Library) -> None:
    run = run_of(library, "attention")
    starts = sum(run[name].numel() for name in run.shapes if name.startswith("decoder.bridge."))
    text = plain(lessons.on_run(run, "attention")["steps"][0]["say"])
    assert sum(map(int, re.findall(r"\d+", text))) == starts


def test_the_cell_lasts_as_the_lab_has_it() -> None:
    """C26: that the cell prevents gradients from vanishing."""
    path = Path(__file__).parents[2] / "docs" / "lab" / "results.json"
    results = json.loads(path.read_text("utf-8"))["results"]
    (finding,) = (entry["findings"]["C26"] for entry in results if "C26" in entry["findings"])
    text = " ".join(map(claimed, STATIONS["lstm"]["steps"]))
    assert ("does not fade" in text) == (finding["verdict"] == "supported")
    assert ("the cell fades too" in text) == (finding["verdict"] == "depends")


def test_no_stop_goes_by_a_theme() -> None:
    """What is bright in the one is dark in the other."""
    for lesson in [*STATIONS.values(), *lesson_files.tours().values(), lesson_files.opening()]:
        for step in lesson["steps"]:
            for stop in step.get("one_of", [step]):
                text = f"{stop['say']} {stop['do']}"
                assert not re.search(r"\b(bright|dark|pale)", text, re.IGNORECASE), text


# ---- claims ----

COMPARES = re.compile(
    r"\b(nearly|almost|hardly|vanish\w*|fade\w*|most|mostly|least|larger|largest|smaller|smallest|"
    r"only|more|less|fewer|better|best|worse|stronger|strongest|near|nearest|closer|closest|higher|"
    r"highest|lower|lowest|longer|than)\b",
    re.IGNORECASE,
)
# A sentence that begins so tells what to do, and one with a question mark asks.
INSTRUCTS = re.compile(
    r"(Press|Move|Look|Click|Choose|Find|Write|Set|Switch|Swap|Let|Add|Compare)\b"
)
# What is true of another sentence than the station's own.
ELSEWHERE = {("rnn", "Your turn", "singular"): "The dog is tired."}
EVERY = {**STATIONS, **lesson_files.tours(), lesson_files.OPENING: lesson_files.opening()}
KINDS = [(key, kind) for key, lesson in EVERY.items() for stop in lesson["steps"]
         for kind in stop.get("one_of", [stop])]  # fmt: skip


def comparing(text: str) -> list[str]:
    """The sentences that compare, order, or say nearly, vanish, most, only and the like."""
    plain = re.sub(r"\]\([^)]*\)", "", TOLD.sub("", text))
    return [sentence for sentence in re.split(r"(?<=[.?!]) +", plain)
            if COMPARES.search(sentence) and not sentence.endswith("?")
            and not INSTRUCTS.match(sentence)]  # fmt: skip


def test_a_sentence_that_compares_has_a_condition() -> None:
    for key, kind in KINDS:
        texts = [kind["say"], kind["do"], kind.get("check", {}).get("right", "")]
        texts += [claim.get("else", "") for claim in kind.get("claims", {}).values()]
        for text in texts:
            assert comparing(text) == [], f"{key}, {kind['title']}: make it a claim with conditions"


@pytest.mark.parametrize("text", [
    "Every small step makes the loss larger.", "Many such factors in a row vanish.",
    "It is nearly the state of {word A[q]}.", "Most of them are silent.",
])  # fmt: skip
def test_sentences_that_compare_are_found(text: str) -> None:
    assert comparing(f"A beginning. {text}") == [text.replace("{word A[q]}", "")]


@pytest.mark.parametrize("key", EVERY)
def test_every_claim_is_true_of_the_models_that_come_with_the_package(
    library: Library, key: str
) -> None:
    models = {"attn": "demo:translate", "gates": "demo:translate-lstm"}
    m = LETTERS[EVERY[key]["model"] or models[key]]
    for stop in EVERY[key]["steps"]:
        for kind in stop.get("one_of", [stop]):
            for name, claim in kind.get("claims", {}).items():
                text = ELSEWHERE.get((key, stop["title"], name), EVERY[key]["text"])
                run = library.run(m, text or "The dog does not sleep.")
                shown = lesson_checks.Checked(run, run, EVERY[key]["let"], kind, kind["address"])
                assert shown.claim_holds(claim), f"{key}, {stop['title']}: {claim['say']}"
                said = list(shown.pieces(claim["say"]))
                assert "{" not in plain(said)


def test_a_claim_that_is_false_of_a_model_is_not_shown() -> None:
    """A perceptron whose bias is positive; a translator whose rows of the embedding are others."""
    neuron, words = tl.load("demo:perceptron"), tl.load("demo:translate")
    neuron.network.get_parameter("bias").data.fill_(2.0)
    table = words.network.get_parameter("encoder.embedding.table.weight").data
    table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(0)))
    library = Library({"demo:perceptron": neuron, "demo:translate": words})
    bias = lessons.on_run(library.run("a", "1 1"), "neuron")["steps"][3]
    assert "It is not negative" in plain(bias["say"])
    assert "only where" not in plain(bias["say"])
    run = library.run("b", "The dog does not sleep.")
    nouns = lessons.on_run(run, "vectors")["steps"][5]
    assert nouns["title"] == "Nouns"
    assert "They are nouns" not in plain(nouns["say"])
    assert "nearest to dog are" in plain(nouns["say"])  # which is true of any table


def test_a_claim_that_cannot_be_evaluated_is_not_shown(library: Library) -> None:
    """The gradient of a sentence without the words that it goes from and to."""
    steps = lessons.on_run(run_of(library, "rnn", "Cats sing."), "rnn")["steps"]
    (fades,) = (stop for stop in steps if stop["title"] == "Why it can fade")
    assert "can shrink the gradient, or let it grow" in plain(fades["say"])


# ---- the tasks ----


@pytest.mark.parametrize(("key", "title"), SOLVED, ids=lambda part: part)
def test_a_task_is_undone_until_it_is_done(library: Library, key: str, title: str) -> None:
    station = lessons.lesson(key)
    place = 1 + [stop["title"] for stop in station["steps"]].index(title)
    before = run_of(library, key)
    address = lessons.on_run(before, key)["steps"][place - 1]["address"]
    assert not lesson_checks.check(before, before, station, place, address)["done"]
    text, solved = SOLVED[key, title]
    off = tuple(filter(None, solved.partition("off=")[2].split(",")))
    unchanged, changed = run_of(library, key, text), run_of(library, key, text, off)
    verdict = lesson_checks.check(changed, unchanged, station, place, f"#/{solved}")
    assert verdict["done"], plain(verdict["say"])
    assert "{" not in plain(verdict["say"])


# What is asked for, and a sentence with nothing that any stop points at.
@pytest.mark.parametrize(
    ("place", "text", "pieces"),
    [
        (6, "The dog that the old man sees are tired.", ["dog", "man", "sees"]),
        (7, "The dog is tired.", ["dog"]),
        (7, "The dog sees the dogs.", ["dog"]),
        (8, "The dog that the old man sees is tired.", ["is", "dog", "sees", "man", "dog"]),
    ],
)
def test_who_does_as_asked_keeps_the_stop(
    library: Library, place: int, text: str, pieces: list[str]
) -> None:
    """The RNN's stops on one dog: they tell of it, with its own numbers."""
    run = run_of(library, "rnn", text)
    stop = lessons.on_run(run, "rnn")["steps"][place - 1]
    assert "lacks" not in stop, stop
    assert [piece["word"] for piece in stop["say"] if "word" in piece] == pieces
    model = run.opened.model
    assert isinstance(model, Model)
    trace = model.trace(text)
    row = run.example.words.target.index(pieces[-1])
    for piece in stop["say"] if place == 7 else ():
        if "value" in piece:
            chances = trace["head.logits"][0, row].softmax(-1)
            assert piece["value"] == pytest.approx(float(chances[piece["index"][1]]), abs=1e-5)


@pytest.mark.parametrize(("key", "title"), SOLVED, ids=lambda part: part)
def test_no_sentence_takes_a_task_away(library: Library, key: str, title: str) -> None:
    station = lessons.lesson(key)
    if station["model"] in ("demo:perceptron", "demo:regress"):
        return  # these read numbers
    place = 1 + [stop["title"] for stop in station["steps"]].index(title)
    run = run_of(library, key, "Cats sing.")
    stop = lessons.on_run(run, key)["steps"][place - 1]
    assert stop["task"]
    assert "{" not in plain(stop["say"]) + plain(stop["do"]) + stop["address"]
    verdict = lesson_checks.check(run, run, station, place, f"#/{stop['address']}")
    assert not verdict["done"]
    assert "no such part" not in plain(verdict["say"])
    for word in ("dogs or dog", "not"):
        if f"there is no {word} in this sentence" in station["steps"][place - 1]["needs"].values():
            assert plain(stop["say"]).startswith("Not here: ")


def test_a_stop_that_the_sentence_lacks_is_not_called_the_models(library: Library) -> None:
    stops = lessons.on_run(run_of(library, "rnn", "Cats sing."), "rnn")
    assert stops["text"] == STATIONS["rnn"]["text"]
    (stop,) = (stop for stop in stops["steps"] if stop["title"] == "What is remembered")
    assert stop["lacks"] == "there is no sees in this sentence"
    assert stop["in_sentence"]
    other = lessons.on_run(run_of(library, "lstm"), "rnn")["steps"]  # another model
    assert {(stop["lacks"], "in_sentence" in stop) for stop in other} == {
        ("it is no plain RNN", False)
    }


def test_no_other_head_is_taken_for_the_right_one(library: Library) -> None:
    """Every head of the translator: the check says what its weights say."""
    run, station = run_of(library, "transformer"), lessons.lesson("transformer")
    place = 1 + [stop["title"] for stop in station["steps"]].index("Find the head")
    words = run.example.words
    q, k = words.follows.index("nicht"), words.source.index("not")
    for layer in (0, 1):
        pattern = run[f"decoder.layers.{layer}.cross_attention.pattern"][0]
        for head in range(4):
            address = f"attention?kind=cross&layer={layer}&head={head}"
            done = lesson_checks.check(run, run, station, place, address)["done"]
            assert done == bool(pattern[head, q, k] >= 0.9)
    for kind in ("encoder", "decoder", "cross"):
        address = f"#/attention?kind={kind}&layer=1&head=0"
        here = lesson_checks.Checked(run, run, {}, {}, address)
        others = [name for name in ("encoder", "decoder", "cross") if here.holds(f"kind {name}")]
        assert others == [kind]


def test_the_page_asks_for_a_check(library: Library) -> None:
    handlers = Handlers(library)
    run = run_of(library, "lstm", "The food was not bad.").key
    place = 1 + [stop["title"] for stop in STATIONS["lstm"]["steps"]].index("Hold it shut")
    for off, done in (("", False), (f"?off={LSTM}.forget_gate=0", True)):
        address = quote(f"#/whatif{off}")
        reply = handlers.ask("GET", f"/api/runs/{run}/check/lstm/{place}?address={address}")
        assert reply.status == 200
        assert (b'"done":true' in reply.body) == done
    assert handlers.ask("GET", f"/api/runs/{run}/check/lstm/99?address=").status == 422
    assert handlers.ask("GET", f"/api/runs/{run}/check/none/1?address=").status == 422


def test_where_the_sum_of_a_perceptron_comes_from(library: Library) -> None:
    run = run_of(library, "neuron")
    reply = Handlers(library).ask("GET", f"/api/runs/{run.key}/terms?address=perceptron.sum")
    assert reply.status == 200, reply.body
    opened = json.loads(reply.body)
    assert opened["value"] == pytest.approx(float(run["perceptron.sum"][0]))


# ---- a teacher's own ----

GOOD = """
name = "Mine"
[let]
E = "encoder.embedding.lookup"
q = "1 of E"
[[steps]]
title = "A row"
say = "{word E[q]} begins {E[q, 0]}."
address = "flow?at={E}"
[steps.check]
that = ["reads cat"]
right = "Yes."
wrong = "No."
"""


def test_a_teachers_lesson_is_listed_first(library: Library, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD, "utf-8")
    handlers = Handlers(library, lesson=lesson_files.read(tmp_path / "mine.toml"))
    assert b'"id":"own","name":"Mine"' in handlers.ask("GET", "/api/lessons").body
    run = run_of(library, "vectors").key
    reply = handlers.ask("GET", f"/api/runs/{run}/lesson/own")
    assert b'"word":"dog"' in reply.body
    (tmp_path / "mine.toml").write_text(GOOD.replace("flow?", "data?"), "utf-8")
    handlers = Handlers(library, lesson=lesson_files.read(tmp_path / "mine.toml"))
    assert b'"address":"data?at=' in handlers.ask("GET", f"/api/runs/{run}/lesson/own").body


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "A row"', 'titel = "A row"', r"stop 1.*no key titel; did you mean title\?"),
        ("say = ", "do = ", r"stop 1 'A row': the key say is missing"),
        ("{E[q, 0]}", "{E[r, 0]}", r"say: .*uses r, which let does not name; it names E, q"),
        ("{word E[q]}", "{wrd E[q]}", r"say: \{wrd E\[q\]\}: there is no wrd; there are word"),
        ("flow?", "flaw?", r"address: there is no view flaw; choose flow, attention"),
        ("?at=", "?ad=", r"address: no key ad; there are at, i"),
        ("reads cat", "red cat", r"check: that: 'red cat' is no condition; write A\[h, q, k\]"),
        ('["reads cat"]', '"reads cat"', r"check: that: a list is wanted"),
        ("right = ", "rihgt = ", r"check: no key rihgt; did you mean right\?"),
        (
            "begins {E[q, 0]}.",
            "is {claim a}.",
            r"stop 1.*\{claim a\} and its table claims.a belong",
        ),
        (
            "[steps.check]",
            "[steps.claims.a]\nthat = []\nsay = ''\n[steps.check]",
            r"claims: a: that: a list of conditions",
        ),
        (
            "[steps.check]",
            "[steps.claims.a]\nthat = ['E[q, 0] < 1']\nsay = ''\n[steps.check]",
            r"claims.a belong together",
        ),
        ("q = ", "qq = ", r"let: 'qq' is no name; one letter"),
        ("[[steps]]", "[[stops]]", r"no key stops; did you mean steps\?"),
        ("name = ", "name ", r"is not TOML"),
        (
            "flow?at={E}",
            "attention?kind=selfish",
            r"address: kind: encoder, decoder, cross is wanted",
        ),
        ("flow?at={E}", "attention?layer=x", r"address: layer: a number is wanted, not 'x'"),
        ("flow?at={E}", "attention?moment=late", r"address: moment: scores, scaled, .* is wanted"),
        ("reads cat", "kind self", r"that: kind: encoder, decoder, cross is wanted, not 'self'"),
        ("reads cat", "view flaw", r"that: there is no view flaw; choose flow"),
        (
            '"1 of E"',
            '"word not"',
            r"let: q = 'word not' is no place; write 2, 2 of E, word not of E",
        ),
    ],
)
def test_what_cannot_be_is_told_with_file_stop_and_key(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "bad.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1), "utf-8")
    with pytest.raises(InputError, match=message) as told:
        lesson_files.read(path)
    assert str(path) in str(told.value)


def test_a_bad_lesson_ends_the_command_before_anything_opens(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(GOOD.replace("say = ", "sya = "), "utf-8")
    ran = command("explore", "--lesson", str(tmp_path / "bad.toml"))
    assert ran.returncode != 0
    assert "stop 1 'A row': no key sya; did you mean say?" in ran.stderr
    assert ran.stdout == ""


ASKING = """
name = "Mine"
text = "The dog does not sleep."
[let]
A = "decoder.layers.1.cross_attention.pattern"
q = "writes nicht of A"
k = "column not of A"
[[steps]]
title = "A weight"
say = "It is {A[0, q, k]}."
address = "attention?kind=cross&layer=1&head=0"
[steps.check]
that = ["A[0, q, k] >= 0.5"]
right = "{A[0, q, k]}"
wrong = "{A[0, q, k]}"
"""
POINT = "decoder.layers.1.cross_attention.pattern"
# What a lesson may ask for, and why the translator cannot show it.
NOT_THERE = [
    ("{A[0, q, k]}.", "{A[9, q, k]}.", f"A[9, q, k]: there is no head 9; {POINT} has heads 0 to 3"),
    ("{A[0, q, k]}.", "{A[q, k]}.", f"{POINT} has 3 indices (heads, queries, keys), not 2"),
    ("{A[0, q, k]}.", "{A[0, q, k, 0]}.", f"A[0, q, k, 0]: {POINT} has 3 indices"),
    ("{A[0, q, k]}.", "{mean A[q]}.", f"mean A[q]: {POINT} has 3 indices"),
    ("{A[0, q, k]}.", "{size A 3}.", f"size A 3: {POINT} has 3 axes"),
    ("{A[0, q, k]}.", "{word A}.", "A: write a point and its places, as in A[h, q, k]"),
    ("{A[0, q, k]}.", "{weight none[0]}.", "this model has no weight none"),
    ("layers.1", "layers.9", "this model has no decoder.layers.9.cross_attention.pattern"),
    ("layer=1", "layer=9", "there is no layer 9; cross attention has layers 0 to 1"),
    ("head=0", "head=4", "there is no head 4; cross attention has heads 0 to 3"),
    ("A[0, q, k] >= 0.5", "A[q, k] >= 0.5", f"A[q, k]: {POINT} has 3 indices"),
    ('"{A[0, q, k]}"', '"{A[7, q, k]}"', "A[7, q, k]: there is no head 7"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "reason"), NOT_THERE, ids=[new for _, new, _ in NOT_THERE])
def test_what_the_model_lacks_is_refused_when_it_is_opened(
    library: Library, tmp_path: Path, old: str, new: str, reason: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(ASKING, "utf-8")
    translator = Library({"demo:translate": library.opened[LETTERS["demo:translate"]].model})
    lesson_refusals.refuse(translator, lesson_files.read(path), str(path))
    assert old in ASKING
    path.write_text(ASKING.replace(old, new, 1), "utf-8")
    own = lesson_files.read(path)
    for opened in (translator, library):  # among others the reason is the same
        with pytest.raises(InputError) as refused:
            lesson_refusals.refuse(opened, own, str(path))
        assert str(refused.value).startswith(f"{path}, stop 1 'A weight': on demo:")
        if opened is translator:
            assert reason in str(refused.value)
    if old in ASKING.partition("[steps.check]")[0]:
        (stop,) = lessons.on_run(translator.run("a", own["text"]), lesson_files.OWN, own)["steps"]
        assert reason in stop["lacks"]


def test_a_lesson_may_need_what_a_model_has_not(library: Library, tmp_path: Path) -> None:
    """Its needs are the lesson's own reasons; of what it names without them nothing is known."""
    path = tmp_path / "mine.toml"
    needs = ASKING.replace("[[steps]]", '[needs]\nA = "it has two layers only"\n[[steps]]')
    path.write_text(needs.replace("layers.1", "layers.9"), "utf-8")
    lesson_refusals.refuse(library, lesson_files.read(path), str(path))
    path.write_text('model = "demo:translate"' + ASKING, "utf-8")
    others = {name: library.opened[LETTERS[name]].model for name in ("demo:classify",)}
    lesson_refusals.refuse(Library(others), lesson_files.read(path), str(path))
    path.write_text(ASKING.replace("column not of A", "column horrible of A"), "utf-8")
    lesson_refusals.refuse(library, lesson_files.read(path), str(path))


def test_nothing_of_the_stations_is_refused(library: Library) -> None:
    for key, station in STATIONS.items():
        lesson_refusals.refuse(library, station, key)


def test_the_command_looks_at_the_lesson_before_it_serves(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(ASKING.replace("layer=1", "layer=9"), "utf-8")
    own = lesson_files.read(tmp_path / "mine.toml")
    folder = shipped_models.find("demo:translate")
    with pytest.raises(InputError, match=r"mine.toml, stop 1 'A weight': .*there is no layer 9"):
        explore._handlers([folder], "cpu", own, tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("place", "text", "reason"),
    [
        ("column horrible of A", None, "there is no horrible in this sentence"),
        ("column not of A", "The dog sleeps.", "it writes no nicht here"),
        ("largest A[0, r]", None, "there is no cat in this sentence"),
    ],
)
def test_a_word_that_is_not_there_is_named(
    library: Library, tmp_path: Path, place: str, text: str | None, reason: str
) -> None:
    written = ASKING.replace('k = "column not of A"', f'r = "word cat of A"\nk = "{place}"')
    (tmp_path / "mine.toml").write_text(written.partition("[steps.check]")[0], "utf-8")
    own = lesson_files.read(tmp_path / "mine.toml")
    run = run_of(library, "transformer", text)
    (stop,) = lessons.on_run(run, lesson_files.OWN, own)["steps"]
    assert stop == {"title": "A weight", "lacks": reason, "in_sentence": True}


def test_the_example_of_the_manual_can_be_followed(library: Library, tmp_path: Path) -> None:
    page_ = (Path(__file__).parents[2] / "docs" / "lessons.md").read_text("utf-8")
    example = re.search(r"^```toml\n(.*?)^```$", page_, re.DOTALL | re.MULTILINE)
    assert example is not None
    (tmp_path / "lesson.toml").write_text(example[1], "utf-8")
    own = lesson_files.read(tmp_path / "lesson.toml")
    run = run_of(library, "transformer", own["text"])
    first, second = lessons.on_run(run, lesson_files.OWN, own)["steps"]
    assert "nicht" in plain(first["say"])
    assert not lesson_checks.check(run, run, own, 2, second["address"])["done"]
    other = "attention?kind=cross&layer=0&head=3"
    assert lesson_checks.check(run, run, own, 2, other)["done"]


# ---- training in the plane ----


def test_a_perceptron_is_its_rule_point_by_point() -> None:
    x = torch.tensor([[row["x1"], row["x2"]] for row in plane.points("and")])
    y = torch.tensor([row["y"] for row in plane.points("and")])
    unit = build(PerceptronConfig(inputs=2))
    assert isinstance(unit, Perceptron)
    unit.learn(x[:7], y[:7])
    shown = plane.answer("perceptron", "and", 7)
    assert shown["weights"]["weight"] == pytest.approx(unit.weight.tolist())
    assert shown["sample"] == 6
    unit.learn(x[7:], y[7:])  # all points once
    shown = plane.answer("perceptron", "and", len(x))
    assert shown["weights"]["weight"] == pytest.approx(unit.weight.tolist())
    assert shown["mistakes"] == int((unit(x) != y).sum())
    assert plane.answer("perceptron", "and", 60)["mistakes"] == 0
    early = plane.answer("perceptron", "and", 0)  # asked for later, and the same
    assert early["weights"]["weight"] == [0.0, 0.0]


def test_an_mlp_takes_the_step_that_its_gradient_says() -> None:
    before, after = (plane.answer("mlp", "xor", step)["weights"] for step in (0, 1))
    weights = {name: torch.tensor(w).requires_grad_() for name, w in before.items()}
    x = torch.tensor([[row["x1"], row["x2"]] for row in plane.points("xor")])
    y = torch.tensor([row["y"] for row in plane.points("xor")])
    inner = torch.tanh(x @ weights["layers.0.linear.weight"].T + weights["layers.0.linear.bias"])
    out = (inner @ weights["output.linear.weight"].T + weights["output.linear.bias"])[:, 0]
    (0.5 * (out - y).square().mean()).backward()
    for name, weight in weights.items():
        assert weight.grad is not None
        moved = weight.detach() - plane.RATE * weight.grad
        assert torch.allclose(torch.tensor(after[name]), moved, atol=1e-6)
    grid = plane.answer("mlp", "xor", 0)["grid"]
    assert grid[0][0] != grid[-1][-1]


def test_bad_questions_about_the_plane_are_refused(library: Library) -> None:
    handlers = Handlers(library)
    for asked in ("rnn", "mlp?problem=nand", "mlp?step=201", "mlp?seed=10", "mlp?step=-1"):
        assert handlers.ask("GET", f"/api/plane/{asked}").status == 422


# ---- in a browser ----


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({name: tl.load(name) for name in ("demo:translate", "demo:perceptron")}) as served:
        yield served


# While the picture comes in, its button ends that.
SKIPPED = """() => {
  const skip = document.querySelector('.opening-cell.moves .skip-drawing');
  skip?.click();
  return skip && !document.querySelector('.moves, .skip-drawing');
}"""


# Signs that could stand at the beginning of a line, away from the number before them.
ALONE = """() => [...document.querySelectorAll('#lesson .told-number')]
    .filter(el => /^[.,:;?!)]/.test(el.nextSibling?.data ?? '') && !el.closest('.unbroken'))
    .map(el => el.parentElement.textContent)"""


@pytest.mark.slow
def test_a_station_is_walked_and_its_tasks_done(page: Page, studio: Served) -> None:  # noqa: F811
    """From the first page through every stop of the first station, by clicks."""
    page.inner.goto(f"{studio.address}#/lesson")
    page.wait(SKIPPED)
    page.inner.emulate_media(reduced_motion="reduce")
    page.see(f"{studio.address}#/lesson")
    assert page.words(".opening-cell.moves") == page.words(".skip-drawing") == []
    assert violations(page, RULES) == []
    assert page.words(".opening-cell h2") == ["not → nicht"]
    assert len(page.words(".station b")) == 3  # those whose models are open
    page.changed(lambda: page.inner.click(".station >> nth=0"))
    solved = {title: where for (key, title), (_, where) in SOLVED.items() if key == "neuron"}
    stops = STATIONS["neuron"]["steps"]
    for number_, stop in enumerate(stops, start=1):
        assert page.words("#lesson .stop a") == [stop["title"]]
        if "check" in stop and solved[stop["title"]].startswith("train"):
            step = re.search(r"step=(\d+)", solved[stop["title"]])
            assert step is not None
            page.inner.eval_on_selector(
                ".planepanel input[type=range]",
                "(el, step) => { el.value = step; el.dispatchEvent(new Event('change')); }",
                step[1],
            )
            page.wait("step => location.hash.includes(`step=${step}`)", step[1])
            page.inner.click("#lesson .check button")
            page.wait("() => document.querySelector('#lesson .check.right .verdict')")
        if stop["title"] in ("Until it is right", "What no line can do"):
            page.inner.evaluate(
                "theme => { document.documentElement.dataset.theme = theme; }",
                "dark" if stop["title"].startswith("Until") else "light",
            )
            assert violations(page, RULES) == []
        if number_ < len(stops):
            page.changed(lambda: page.inner.click("#lesson .onward"))
    page.changed(lambda: page.inner.click("#lesson .onward"))
    assert page.drawn().startswith("lesson ")
    assert "4 done" in page.words(".station .count")[0]
    page.turn(f"{studio.address}#/lesson?lesson=neuron.4")  # a link is enough: it brings its model
    assert page.words("#lesson .stop a") == [stops[3]["title"]]
    assert page.drawn().startswith("flow ")
    assert page.inner.evaluate(ALONE) == []


@pytest.mark.slow
def test_who_writes_one_dog_keeps_the_stop_and_its_check(page: Page) -> None:  # noqa: F811
    """The RNN's station with sentences of one's own, and the LSTM's step in the panel."""
    names = ("demo:generate-rnn", "demo:classify")
    with serving({name: tl.load(name) for name in names}) as served:
        page.see(f"{served.address}#/lesson?lesson=rnn.7&m=a&text={quote('The dog is tired.')}")
        assert page.words("#lesson .noun.word") == ["dog"]
        page.inner.click("#lesson .check button")
        page.wait("() => document.querySelector('#lesson .check.right .verdict')")
        page.turn(f"{served.address}#/recurrent?lesson=rnn.7&m=a&text={quote('Cats sing.')}")
        assert page.words("#lesson .says") == [
            "Not here: there is no dogs or dog in this sentence."
        ]
        page.inner.click("#lesson .check button")
        page.wait("() => document.querySelector('#lesson .check.wrong .verdict')")
        page.turn(f"{served.address}#/recurrent?lesson=rnn.6&m=a&text={quote('Cats sing.')}")
        assert page.words("#lesson .says") == ["Not here: there is no sees in this sentence."]
        page.changed(lambda: page.inner.click("#lesson .task a"))
        assert page.words("#lesson .noun.word") == ["dogs", "man", "sees"]
        page.turn(f"{served.address}#/lesson?lesson=lstm.5")
        assert page.words("#lesson .stop a") == ["One step by hand"]
        cell = re.search(r"\bcell\t([\d.]+)", page.inner.inner_text("#stage"))
        assert cell is not None
        assert f"{float(cell[1]):.3f}" == page.words("#lesson .told-number")[-1]


# The numbers that the read-out and the panel name.
NAMED_THERE = """() => [
  document.querySelector('#readout .path')?.textContent,
  ...[...document.querySelectorAll('#stage .panel [data-to]')].map(el => el.dataset.to),
].filter(Boolean)"""


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in STATIONS if key != "neuron"])
def test_the_page_shows_a_number_that_the_stop_speaks_of(
    page: Page,  # noqa: F811
    library: Library,
    key: str,
) -> None:
    """At the foot of the page or in the panel, at every stop whose view shows one number."""
    station = STATIONS[key]
    model = library.opened[LETTERS[station["model"]]].model
    asked = [
        (number_, {f"{piece['at']}[{', '.join(map(str, piece['index']))}]"
                   for piece in stop["say"] if " " not in piece.get("at", " ")})
        for number_, stop in enumerate(lessons.on_run(run_of(library, key), key)["steps"], start=1)
        if stop["address"].startswith(("flow", "attention", "recurrent?"))
    ]  # fmt: skip
    spoken = {number_: numbers for number_, numbers in asked if numbers}
    assert spoken
    with serving({station["model"]: model}) as served:
        for number_, numbers in spoken.items():
            page.turn(f"{served.address}#/lesson?lesson={key}.{number_}")
            there = {re.sub(r"\[0, (?=\d+, |\d+\])", "[", each, count=1) if at_batch else each
                     for each in page.inner.evaluate(NAMED_THERE)
                     for at_batch in (False, True)}  # fmt: skip
            assert numbers & there, (number_, station["steps"][number_ - 1]["title"], numbers)
