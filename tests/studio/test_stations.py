"""Start here: every stop of every station on its model, every task undone and then done, and what
is drawn of a training in the plane."""

import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.lesson_sources import sentences
from tests.studio.serving import Served, serving
from tests.studio.test_access import RULES, violations

import translucid as tl
from translucid.data import shipped_models
from translucid.model import Model
from translucid.models import build
from translucid.models.mlp import Perceptron, PerceptronConfig
from translucid.studio import lesson_answers, plane
from translucid.studio.handlers import Handlers
from translucid.studio.lesson_run import LessonRun, PageState
from translucid.studio.lessons import OPENING, STATIONS, TOURS
from translucid.studio.library import Library
from translucid.studio.text_runs import Run

EVERY = STATIONS | TOURS | OPENING
LETTERS = {name: letter for letter, name in zip("abcdefgh", shipped_models.names(), strict=True)}
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
    ("rnn", "Without its state"): (None, "whatif?off=decoder.recurrent.layers.0"),
    ("lstm", "Make the forget gate close"): ("The food was bad.", "recurrent"),
    ("lstm", "Not bad"): ("The food was not bad.", "recurrent"),
    ("lstm", "Hold it closed"): ("The food was not bad.", f"whatif?off={LSTM}.forget_gate=0"),
    ("attention", "Your turn"): ("The dog does not see the cat.", "attention"),
    ("attention", "Without attention"): (None, "whatif?off=decoder.layers.1.cross_attention"),
    ("transformer", "Find the head"): (None, "attention?kind=cross&layer=1&head=0"),
    ("transformer", "Take something away"): (None, "whatif?off=decoder.layers.1.cross_attention"),
}
LONGER = "The cat that the woman knows and the boy that the old man sees are tired."
# What one types at a question: a text (None: the lesson's own), expressions for the right answer
# and for a mistake, and what is said of the mistake. `n` are the numbers that the stop shows.
TYPED: dict[tuple[str, str], tuple[str | None, str, str, str]] = {
    ("neuron", "The weighted sum"): (None, "2 * n[0] + n[1] + n[2]", "2 * n[0] + n[1]", "bias"),
    ("neuron", "One step of the rule"): (
        None, "[n[0] - 1, n[1] - 1, n[2] - 1]", "[n[0] + 1, n[1] + 1, n[2] + 1]", "subtract"
    ),
    ("layers", "The activation"): (None, "1 - n[3] ** 2", "1 - n[3]", "square"),
    ("layers", "The answer"): (None, "n[2] * n[3]", "n[3]", "weight"),
    ("vectors", "Words in similar directions"): (
        None, "math.degrees(math.acos(n[1]))", "math.acos(n[1])", "radians"
    ),
    ("rnn", "Your turn"): ("The dog is tired.", "n[1] / n[0]", "n[0] / n[1]", "divide"),
    ("rnn", "Learning through time"): (None, "n[2] / n[0]", "n[1] / n[0]", "between"),
    ("rnn", "One step back"): (None, "n[1] / n[0]", "n[0] / n[1]", "divide"),
    ("rnn", "Longer distances"): (LONGER, "'man'", "'sees'", "starts"),
    ("rnn", "Why it can fade, or grow"): (None, "1.44 ** 10", "1.5 ** 10", "slope"),
    ("lstm", "One step by hand"): (None, "n[1] + n[2] * n[3]", "n[4]", "all of the old cell"),
    ("attention", "not → nicht"): (None, "'sleep'", "'does'", "position"),
    ("attention", "Weights"): (
        None, "math.exp(5 - n[0]) / n[4]", "math.exp(5 - n[0])", "divide by the sum"
    ),
    ("transformer", "Score and scale"): (None, "12 * n[1]", "12 / 32", "root"),
    ("attn", "Softmax"): (None, "n[3] / (n[0] + n[3])", "n[3] / n[4]", "two exponentials"),
    ("gates", "One step by hand"): (None, "0.5 * n[1] + n[2] * n[3]", "n[4]", "0.5"),
}  # fmt: skip


@pytest.fixture(scope="module")
def library() -> Library:
    return Library({name: tl.load(name) for name in shipped_models.names()})


def run_of(library: Library, key: str, text: str | None = None, off: tuple[str, ...] = ()) -> Run:
    station = EVERY[{"attn": "transformer", "gates": "lstm"}.get(key, key)]  # a model for a tour
    assert station.model is not None
    assert station.text is not None
    return library.run(LETTERS[station.model], text or station.text, None, off)


def plain(pieces: list[dict[str, Any]], number: str | None = None) -> str:
    return "".join(str(p.get("text", p.get("word", number or p.get("value")))) for p in pieces)


# ---- the stations ----


def test_there_are_seven_in_order() -> None:
    assert list(STATIONS) == ["neuron", "layers", "vectors", "rnn", "lstm", "attention",
                              "transformer"]  # fmt: skip
    tasks = {(key, stop.title) for key, station in STATIONS.items()
             for stop in station.stops if stop.task}  # fmt: skip
    asked = {(key, stop.title) for key, lesson in EVERY.items() for stop in lesson.stops
             if stop.typed}  # fmt: skip
    assert asked == set(TYPED)
    assert {key for key, _ in asked} == {*STATIONS, *TOURS}
    assert tasks == set(SOLVED) | {(key, title) for key, title in asked if key in STATIONS}
    for key, station in STATIONS.items():
        assert 8 <= len(station.stops) <= 16
        assert any(name == key for name, _ in tasks)


@pytest.mark.parametrize("key", [*STATIONS, *OPENING])
def test_every_stop_has_its_numbers(library: Library, key: str) -> None:
    run = run_of(library, key)
    model = run.opened.model
    assert isinstance(model, Model)
    trace = model.trace(run.text)
    for stop in lesson_answers.on_run(run, key)["steps"]:
        assert "lacks" not in stop, stop
        assert len(plain(stop["say"], "0.000")) < 330, "a stop is a few short sentences"
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
            bars = model.nearest_words(word, 8)
            return float(bars.values[bars.labels.index(other)])
    value = trace[at]
    return float(value[(0, *index)] if value.dim() else value)


@pytest.mark.parametrize("corner", ["0 0", "0 1", "1 0", "1 1"])
def test_claims_beside_a_number_are_true(library: Library, corner: str) -> None:
    run = run_of(library, "layers", corner)
    for stop in lesson_answers.on_run(run, "layers")["steps"]:
        for piece, after in itertools.pairwise(stop.get("say", [])):
            if near := re.match(r",? near (\d)", after.get("text", "")):
                assert piece["value"] == pytest.approx(float(near[1]), abs=0.2), stop["title"]


def test_a_stop_that_speaks_of_a_switch_sets_it(library: Library) -> None:
    switched = re.compile(r"\bHere [^.:]*(switched off|is held at)|\bTake \w+ other switch away")
    stops = [stop for key in STATIONS
             for stop in lesson_answers.on_run(run_of(library, key), key)["steps"]]  # fmt: skip
    speaking = [stop for stop in stops if switched.search(plain(stop["say"] + stop["do"]))]
    assert speaking
    assert speaking == [stop for stop in stops if "off=" in stop["address"]]


@pytest.mark.parametrize("key", ["rnn", "lstm"])
def test_the_panel_shows_the_step_that_is_worked_out(library: Library, key: str) -> None:
    """It shows the first of the pins."""
    stops = [stop for stop in lesson_answers.on_run(run_of(library, key), key)["steps"]
             if "unit=" in stop["address"] and stop["pin"]]  # fmt: skip
    assert len(stops) >= 3
    for stop in stops:
        result = [piece for piece in stop["say"] if "value" in piece][-1]
        assert int(stop["pin"][0].partition(":")[2]) == result["index"][0], stop["title"]


def test_attention_has_the_model_and_the_sentence_of_the_first_page(library: Library) -> None:
    first, station = OPENING["opening"], STATIONS["attention"]
    assert (station.model, station.text) == (first.model, first.text)
    stops = lesson_answers.on_run(run_of(library, "attention"), "attention")["steps"]
    (opening,) = lesson_answers.on_run(run_of(library, "opening"), "opening")["steps"]
    weight = next(piece for piece in opening["say"] if "value" in piece)
    assert weight in stops[1]["say"]


def test_the_terms_of_a_softmax_come_out(library: Library) -> None:
    stops = lesson_answers.on_run(run_of(library, "attention"), "attention")["steps"]
    (stop,) = (stop for stop in stops if stop["title"] == "Weights")
    shift, score, again, power, total, weight = (p["value"] for p in stop["say"] if "value" in p)
    assert shift == again
    assert power == pytest.approx(math.exp(score - shift))
    assert weight == pytest.approx(power / total)


def test_a_line_is_right_at_three_corners_of_xor_at_most(library: Library) -> None:
    corners = [(x, y, x != y) for x in (0, 1) for y in (0, 1)]
    steps = [step / 4 for step in range(-8, 9)]
    most = max(sum((a * x + b * y + c > 0) == wanted for x, y, wanted in corners)
               for a in steps for b in steps for c in steps)  # fmt: skip
    for key, title in (("neuron", "What no line can do"), ("layers", "XOR")):
        (stop,) = (stop for stop in lesson_answers.on_run(run_of(library, key), key)["steps"]
                   if stop["title"] == title)  # fmt: skip
        assert f"right at {most} of the 4 corners" in plain(stop["say"])


def test_the_cell_lasts_as_the_lab_has_it() -> None:
    """C26: that the cell prevents gradients from vanishing."""
    path = Path(__file__).parents[2] / "docs" / "lab" / "results.json"
    results = json.loads(path.read_text("utf-8"))["results"]
    (finding,) = (entry["findings"]["C26"] for entry in results if "C26" in entry["findings"])
    text = " ".join(sentence.text for sentence in sentences("lstm"))
    assert ("does not fade" in text) == (finding["verdict"] == "supported")
    assert ("the cell fades too" in text) == (finding["verdict"] == "depends")


def test_no_stop_depends_on_the_theme() -> None:
    """What is bright in the one is dark in the other."""
    for sentence in (sentence for key in EVERY for sentence in sentences(key)):
        assert not re.search(r"\b(bright|dark|pale)", sentence.text, re.IGNORECASE), sentence


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
# Functions whose comparisons are true of any model, by the way they choose what they speak of.
TRUE_OF_ANY = {
    ("attn", "value"): "the word with the largest weight",
    ("attn", "several_heads"): "the word with the largest weight",
    ("vectors", "words_in_similar_directions"): "neighbours, the nearest first",
    ("vectors", "cosine"): "the nearest neighbour",
    ("vectors", "nouns"): "neighbours, the nearest first",
}


def comparing(text: str) -> list[str]:
    """The sentences that compare, order, or say nearly, vanish, most, only and the like."""
    plain = re.sub(r"\]\([^)]*\)", "", text)
    return [sentence for sentence in re.split(r"(?<=[.?!]) +", plain)
            if COMPARES.search(sentence) and not sentence.endswith("?")
            and not INSTRUCTS.match(sentence)]  # fmt: skip


def test_a_sentence_that_compares_has_a_condition() -> None:
    for key in EVERY:
        for sentence in sentences(key):
            if not sentence.conditional and (key, sentence.function) not in TRUE_OF_ANY:
                assert comparing(sentence.text) == [], f"{key}: {sentence}: put it under an if"


@pytest.mark.parametrize("text", [
    "Every small step makes the loss larger.", "Many such factors in a row vanish.",
    "It is nearly the state of .", "Most of them are silent.",
])  # fmt: skip
def test_sentences_that_compare_are_found(text: str) -> None:
    assert comparing(f"A beginning. {text}") == [text]


# What is true of the models that come with the package, each in a stop of a lesson: the first words
# of the sentence, and the text where it is not the lesson's own.
CLAIMS = [
    ("attn", "Position", "One word further, the angle is", None),
    ("attn", "Several heads", "attends most to", None),
    ("neuron", "The bias", "It is negative", None),
    ("layers", "A bad start", "From these first weights", None),
    ("vectors", "Cosine", "another form of the same verb", None),
    ("vectors", "Nouns", "They are nouns", None),
    ("vectors", "Back to words", "the model's embeddings are tied", None),
    ("rnn", "What is remembered", "differ by less than a factor of 2", None),
    ("rnn", "Your turn", "times as likely", None),
    ("rnn", "Longer distances", "it is smaller than at", None),
    ("rnn", "Longer distances", "it has grown", LONGER),
    ("rnn", "Why it can fade, or grow", "Here the gradient shrinks", None),
    ("lstm", "One step by hand", "the cell fades too", None),
    ("lstm", "Make the forget gate close", "keep at least half", None),
    ("lstm", "Make the forget gate close", "fall below one half", "The food was bad."),
    ("attention", "Words change places", "That is beyond", None),
    ("attention", "The context", "makes up nearly all of it", None),
    ("transformer", "Positions", "One word further, the angle is", None),
]


@pytest.mark.parametrize(("key", "title", "claim", "text"), CLAIMS)
def test_every_claim_is_true_of_the_models_that_come_with_the_package(
    library: Library, key: str, title: str, claim: str, text: str | None
) -> None:
    run = run_of(library, "transformer" if key == "attn" else key, text)
    (stop,) = (stop for stop in lesson_answers.on_run(run, key)["steps"] if stop["title"] == title)
    assert claim in plain(stop["say"] + stop["do"])


def test_a_claim_that_is_false_of_a_model_is_not_shown() -> None:
    """A perceptron whose bias is positive; a translator whose rows of the embedding are others."""
    neuron, words = tl.load("demo:perceptron"), tl.load("demo:translate")
    neuron.network.get_parameter("bias").data.fill_(2.0)
    table = words.network.get_parameter("encoder.embedding.table.weight").data
    table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(0)))
    library = Library({"demo:perceptron": neuron, "demo:translate": words})
    bias = lesson_answers.on_run(library.run("a", "1 1"), "neuron")["steps"][3]
    assert "It is not negative" in plain(bias["say"])
    assert "only where" not in plain(bias["say"])
    run = library.run("b", "The dog does not sleep.")
    nouns = lesson_answers.on_run(run, "vectors")["steps"][5]
    assert nouns["title"] == "Nouns"
    assert "They are nouns" not in plain(nouns["say"])
    assert "nearest to dog are" in plain(nouns["say"])  # which is true of any table


def test_a_claim_that_cannot_be_evaluated_is_not_shown(library: Library) -> None:
    """The gradient of a sentence without the words that it goes from and to."""
    steps = lesson_answers.on_run(run_of(library, "rnn", "Cats sing."), "rnn")["steps"]
    (fades,) = (stop for stop in steps if stop["title"] == "Why it can fade, or grow")
    assert "can shrink the gradient, or let it grow" in plain(fades["say"])


# ---- the tasks ----


@pytest.mark.parametrize(("key", "title"), SOLVED, ids=lambda part: part)
def test_a_task_is_undone_until_it_is_done(library: Library, key: str, title: str) -> None:
    place = 1 + [stop.title for stop in STATIONS[key].stops].index(title)
    before = run_of(library, key)
    address = lesson_answers.on_run(before, key)["steps"][place - 1]["address"]
    assert not lesson_answers.check(before, before, key, place, address)["done"]
    text, solved = SOLVED[key, title]
    off = tuple(filter(None, solved.partition("off=")[2].split(",")))
    unchanged, changed = run_of(library, key, text), run_of(library, key, text, off)
    verdict = lesson_answers.check(changed, unchanged, key, place, f"#/{solved}")
    assert verdict["done"], plain(verdict["say"])


# What is asked for, and a sentence with nothing that any stop points at.
@pytest.mark.parametrize(
    ("place", "text", "pieces"),
    [
        (6, "The dog that the old man sees are tired.", ["dog", "man", "sees"]),
        (7, "The dog is tired.", ["dog", "has"]),
        (7, "The dog sees the dogs.", ["dog", "has"]),
        (8, "The dog that the old man sees is tired.", ["is", "dog", "sees", "man", "dog"]),
    ],
)
def test_the_requested_sentence_keeps_the_stop(
    library: Library, place: int, text: str, pieces: list[str]
) -> None:
    """The RNN's stops on one dog: they tell of it, with its own numbers."""
    run = run_of(library, "rnn", text)
    stop = lesson_answers.on_run(run, "rnn")["steps"][place - 1]
    assert "lacks" not in stop, stop
    assert [piece["word"] for piece in stop["say"] if "word" in piece] == pieces
    model = run.opened.model
    assert isinstance(model, Model)
    trace = model.trace(text)
    row = run.example.words.target.index(pieces[0])
    for piece in stop["say"] if place == 7 else ():
        if "value" in piece:
            chances = trace["head.logits"][0, row].softmax(-1)
            assert piece["value"] == pytest.approx(float(chances[piece["index"][1]]), abs=1e-5)


@pytest.mark.parametrize(("key", "title"), [*SOLVED, ("rnn", "Your turn")], ids=lambda part: part)
def test_no_sentence_takes_a_task_away(library: Library, key: str, title: str) -> None:
    if key in ("neuron", "layers"):
        return  # these read numbers
    place = 1 + [stop.title for stop in STATIONS[key].stops].index(title)
    run = run_of(library, key, "Cats sing.")
    stop = lesson_answers.on_run(run, key)["steps"][place - 1]
    assert stop["task"]
    assert stop["do"]
    verdict = lesson_answers.check(run, run, key, place, f"#/{stop['address']}")
    assert not verdict["done"]
    assert "no such part" not in plain(verdict["say"])
    lacking = {("rnn", "Your turn"): "this sentence does not contain “dogs” or “dog”",
               ("transformer", "Find the head"): "it does not write “nicht”"}  # fmt: skip
    reason = lacking.get((key, title))
    assert plain(stop["say"]).startswith("Not here: ") == (reason is not None)
    assert reason is None or reason in plain(stop["say"])


def test_a_stop_that_the_sentence_lacks_is_not_called_the_models(library: Library) -> None:
    stops = lesson_answers.on_run(run_of(library, "rnn", "Cats sing."), "rnn")
    assert stops["text"] == STATIONS["rnn"].text
    (stop,) = (stop for stop in stops["steps"] if stop["title"] == "What is remembered")
    assert stop["lacks"] == "this sentence does not contain “sees”"
    assert stop["in_sentence"]
    other = lesson_answers.on_run(run_of(library, "lstm"), "rnn")["steps"]  # another model
    assert {(stop["lacks"], "in_sentence" in stop) for stop in other} == {
        ("it is not a plain RNN", False)
    }


def test_no_other_head_is_taken_for_the_right_one(library: Library) -> None:
    """Every head of the translator: the check says what its weights say."""
    run = run_of(library, "transformer")
    place = 1 + [stop.title for stop in STATIONS["transformer"].stops].index("Find the head")
    words = run.example.words
    q, k = words.follows.index("nicht"), words.source.index("not")
    for layer in (0, 1):
        pattern = run[f"decoder.layers.{layer}.cross_attention.pattern"][0]
        for head in range(4):
            address = f"attention?kind=cross&layer={layer}&head={head}"
            done = lesson_answers.check(run, run, "transformer", place, address)["done"]
            assert done == bool(pattern[head, q, k] >= 0.9)
    for kind in ("encoder", "decoder", "cross"):
        address = f"#/attention?kind={kind}&layer=1&head=0"
        assert PageState(LessonRun(run), run, address).kind == kind


@pytest.mark.parametrize(("key", "title"), TYPED, ids=lambda part: part)
def test_a_typed_answer_is_compared_with_the_numbers_of_the_run(
    library: Library, key: str, title: str
) -> None:
    """The answers are worked out from the numbers as the page shows them."""
    text, right, mistaken, word = TYPED[key, title]
    run = run_of(library, key, text)
    place = 1 + [stop.title for stop in EVERY[key].stops].index(title)
    stop = lesson_answers.on_run(run, key)["steps"][place - 1]
    assert stop["typed"]
    shown = [round(piece["value"], 3) for piece in stop["say"] if "value" in piece]
    decimals = re.search(r"(\d|without) decimals?", plain(stop["do"]))
    how = "" if decimals is None else f".{decimals[1].replace('without', '0')}f"

    def check(answer: Any) -> dict[str, Any]:
        numbers = answer if isinstance(answer, list) else [answer]
        typed = answer if isinstance(answer, str) else " ".join(f"{n:{how}}" for n in numbers)
        return lesson_answers.check(run, run, key, place, f"#/{stop['address']}", None, typed)

    value = eval(right, {"math": math, "n": shown})
    assert check(value)["done"], plain(check(value)["say"])
    wrong = check(eval(mistaken, {"math": math, "n": shown}))
    assert not wrong["done"]
    assert word in plain(wrong["say"]), plain(wrong["say"])
    assert not check("")["done"]
    if not isinstance(value, str):
        opposite = [-n for n in value] if isinstance(value, list) else -value
        assert "check the sign" in plain(check(opposite)["say"])


@pytest.mark.parametrize("text", ["The dogs are tired.", "The cat sees the dog."])
def test_the_subject_of_the_rnn_task_must_be_one_dog(library: Library, text: str) -> None:
    """Even if the ratio is that of the sentence."""
    run = run_of(library, "rnn", text)
    place = 1 + [stop.title for stop in STATIONS["rnn"].stops].index("Your turn")
    row = run.example.words.target.index(
        next(w for w in ("dog", "dogs") if w in text.split(".")[0].split())
    )
    chances = run["head.logits"][0, row].softmax(-1)
    are, is_ = (float(chances[run.opened.model.task.tokenizer.encode(w)[0]]) for w in ("are", "is"))
    verdict = lesson_answers.check(run, run, "rnn", place, "#/recurrent", None, f"{is_ / are:.1f}")
    assert "does not begin" in plain(verdict["say"])
    assert not verdict["done"]


def test_the_page_asks_for_a_check(library: Library) -> None:
    handlers = Handlers(library)
    run = run_of(library, "lstm", "The food was not bad.").key
    place = 1 + [stop.title for stop in STATIONS["lstm"].stops].index("Hold it closed")
    for off, done in (("", False), (f"?off={LSTM}.forget_gate=0", True)):
        address = quote(f"#/whatif{off}")
        reply = handlers.ask("GET", f"/api/runs/{run}/check/lstm/{place}?address={address}")
        assert reply.status == 200
        assert (b'"done":true' in reply.body) == done
    assert handlers.ask("GET", f"/api/runs/{run}/check/lstm/99?address=").status == 422
    assert handlers.ask("GET", f"/api/runs/{run}/check/none/1?address=").status == 422


def test_nothing_of_the_stations_is_refused(library: Library) -> None:
    for key, station in STATIONS.items():
        lesson_answers.refuse(library, station, key)


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


def test_the_planes_of_two_models_have_their_predictions() -> None:
    names = ("demo:regress", "demo:perceptron", "demo:generate-rnn")
    models = {name: tl.load(name) for name in names}
    handlers = Handlers(Library(models))
    found = json.loads(handlers.ask("GET", "/api/planes?a=a&b=b").body)
    across, up = found["ticks"]
    points = [(0, 0), (5, 60), (40, 12)]
    for grid, name in zip(found["grids"], names, strict=False):
        asked = [f"{across[i]} {up[j]}" for i, j in points]
        answers = [value for (value,) in models[name].predict(asked)]
        assert [grid[j][i] for i, j in points] == pytest.approx(answers, rel=1e-4, abs=1e-4)
    assert across[0] == pytest.approx(-0.5, abs=0.1)
    assert across[-1] == pytest.approx(1.5, abs=0.1)
    refused = handlers.ask("GET", "/api/planes?a=a&b=c")
    assert refused.status == 422
    assert b"two inputs" in refused.body


# ---- in a browser ----


@pytest.mark.slow
def test_compare_draws_the_planes_of_both_models(page: Page) -> None:
    names = ("demo:regress", "demo:perceptron")
    with serving({name: tl.load(name) for name in names}) as served:
        page.see(f"{served.address}#/compare?m=a&with=b&text=1+1")
        boxes = page.inner.locator(".cmppic .planeheat")
        assert boxes.count() == 3
        assert page.words(".cmppic figcaption") == ["A demo:regress", "B − A", "B demo:perceptron"]
        values = []
        for k in range(3):  # near the upper right corner, where both inputs are 1.5
            box = boxes.nth(k).locator(".hit").bounding_box()
            assert box is not None
            page.inner.mouse.move(box["x"] + box["width"] - 2, box["y"] + 2)
            assert "(1.5" in page.inner.inner_text("#readout")
            values.append(float(page.text("#readout .value").replace("−", "-")))
        assert values[2] == 1  # AND
        assert values[1] == pytest.approx(values[2] - values[0], abs=0.002)
        assert page.inner.locator(".cmppic .boundary").evaluate_all(
            "all => all.map(el => el.getAttribute('d').length > 0)"
        ) == [True, False, True]


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
def test_a_station_is_walked_and_its_tasks_done(own_page: Page, studio: Served) -> None:
    """From the first page through every stop of the first station, by clicks."""
    page = own_page  # no other test has done tasks on it
    page.inner.emulate_media(reduced_motion="no-preference")
    page.inner.goto(f"{studio.address}#/lesson")
    page.wait(SKIPPED)
    page.inner.emulate_media(reduced_motion="reduce")
    page.see(f"{studio.address}#/lesson")
    assert page.words(".opening-cell.moves") == page.words(".skip-drawing") == []
    assert violations(page, RULES) == []
    assert page.words(".opening-cell h2") == ["not → nicht"]
    open_now = {"demo:translate", "demo:perceptron"}
    listed = [station.name for station in STATIONS.values() if station.model in open_now]
    assert page.words(".station b") == listed
    page.changed(lambda: page.inner.click(".station >> nth=0"))
    solved = {title: where for (key, title), (_, where) in SOLVED.items() if key == "neuron"}
    stops = STATIONS["neuron"].stops
    for number_, stop in enumerate(stops, start=1):
        assert page.words("#lesson .stop a") == [stop.title]
        where = solved.get(stop.title, "")  # a typed answer has none
        if stop.task and where.startswith("train"):
            step = re.search(r"step=(\d+)", where)
            assert step is not None
            page.inner.eval_on_selector(
                ".planepanel input[type=range]",
                "(el, step) => { el.value = step; el.dispatchEvent(new Event('change')); }",
                step[1],
            )
            page.wait("step => location.hash.includes(`step=${step}`)", step[1])
            page.inner.click("#lesson .try")
            page.wait("() => document.querySelector('#lesson .check.right')")
        if stop.title in ("Until it is right", "What no line can do"):
            page.inner.evaluate(
                "theme => { document.documentElement.dataset.theme = theme; }",
                "dark" if stop.title.startswith("Until") else "light",
            )
            assert violations(page, RULES) == []
        if number_ < len(stops):
            page.changed(lambda: page.inner.click("#lesson .onward"))
    page.changed(lambda: page.inner.click("#lesson .onward"))
    assert page.words("#lesson .stop a") == [STATIONS["vectors"].stops[0].title]
    page.turn(f"{studio.address}#/lesson")
    assert "4 done" in page.words(".station .count")[0]
    page.turn(f"{studio.address}#/lesson?lesson=neuron.4")  # a link is enough: it brings its model
    assert page.words("#lesson .stop a") == [stops[3].title]
    assert page.drawn().startswith("flow ")
    assert page.inner.evaluate(ALONE) == []


@pytest.mark.slow
def test_a_sentence_with_one_dog_keeps_the_stop_and_its_check(page: Page) -> None:
    """The RNN's station with sentences of one's own, and the LSTM's step in the panel."""
    names = ("demo:generate-rnn", "demo:classify")
    with serving({name: tl.load(name) for name in names}) as served:
        page.see(f"{served.address}#/lesson?lesson=rnn.7&m=a&text={quote('The dog is tired.')}")
        assert page.words("#lesson button.noun.word") == ["dog"]  # a word of the text
        assert page.words("#lesson span.noun.word") == ["has"]  # a prediction
        page.turn(f"{served.address}#/recurrent?lesson=rnn.7&m=a&text={quote('Cats sing.')}")
        assert page.words("#lesson .says") == [
            "Not here: this sentence does not contain “dogs” or “dog”."
        ]
        page.inner.click("#lesson .try")
        page.wait("() => document.querySelector('#lesson .check.wrong')")
        page.turn(f"{served.address}#/recurrent?lesson=rnn.6&m=a&text={quote('Cats sing.')}")
        assert page.words("#lesson .says") == ["Not here: this sentence does not contain “sees”."]
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


def named_in(piece: dict[str, Any]) -> str | None:
    """How the page names a number of a stop: one of the trace, or a mean over heads."""
    kind, _, rest = piece.get("at", " ").rpartition(" ")
    index = ", ".join(map(str, piece.get("index", [])))
    if kind == "mean":
        return f"{rest}[:, {index}].mean()"
    return None if kind or not rest else f"{rest}[{index}]"


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in STATIONS if key != "neuron"])
def test_the_page_shows_a_number_that_the_stop_speaks_of(
    page: Page, library: Library, key: str
) -> None:
    """At the foot of the page or in the panel, at every stop whose view shows one number."""
    station = STATIONS[key]
    assert station.model is not None
    model = library.opened[LETTERS[station.model]].model
    stops = lesson_answers.on_run(run_of(library, key), key)["steps"]
    asked = [
        (number_, {named for piece in stop["say"] if (named := named_in(piece))})
        for number_, stop in enumerate(stops, start=1)
        if stop["address"].startswith(("flow", "attention", "recurrent?"))
    ]  # fmt: skip
    spoken = {number_: numbers for number_, numbers in asked if numbers}
    assert spoken
    with serving({station.model: model}) as served:
        for number_, numbers in spoken.items():
            page.turn(f"{served.address}#/lesson?lesson={key}.{number_}")
            there = {re.sub(r"\[0, (?=\d+, |\d+\])", "[", each, count=1) if at_batch else each
                     for each in page.inner.evaluate(NAMED_THERE)
                     for at_batch in (False, True)}  # fmt: skip
            assert numbers & there, (number_, station.stops[number_ - 1].title, numbers)


@pytest.mark.slow
def test_a_typed_answer_is_checked_on_the_page(page: Page, studio: Served) -> None:
    """Wrong, with a decimal comma, and with a vector; the answer stays when the window changes."""
    page.see(f"{studio.address}#/lesson?lesson=neuron.3")
    first, second, bias = (
        float(number.replace("−", "-").strip("()"))
        for number in page.words("#lesson .told-number")[:3]
    )

    def answer(typed: str) -> str:
        page.inner.fill("#lesson .answers input", typed)
        before = page.text("#lesson .check")
        page.inner.press("#lesson .answers input", "Enter")
        page.wait(
            "before => document.querySelector('#lesson .check').textContent !== before", before
        )
        return page.text("#lesson .check")

    assert answer(f"{2 * first + second:.2f}") == "✗ Not right: add the bias, too."
    assert answer("two") == (
        "✗ Type one number with 2 decimals: answer: 'two' is not a number; separate numbers with "
        "spaces or commas, rows with ;."
    )
    comma = f"{2 * first + second + bias:.2f}".replace(".", ",")
    assert answer(comma).startswith("✓ Yes: ")
    assert page.words("#lesson .check.right")
    assert violations(page, RULES) == []
    page.inner.press("#lesson .answers input", "Space")  # does not open the next stop
    assert page.words("#lesson .stop a") == ["The weighted sum"]
    page.changed(lambda: page.inner.click("#lesson .onward"))
    page.changed(lambda: page.inner.click("#lesson .back"))
    assert page.inner.input_value("#lesson .answers input").strip() == comma
    page.turn(f"{studio.address}#/lesson?lesson=neuron.8")
    w = [float(number.replace("−", "-")) - 1 for number in page.words("#lesson .told-number")]
    assert answer(f"{w[0]:.2f} {w[1]:.2f} {w[2] + 1:.2f}") == "✗ Not right: the bias changes, too."
    page.inner.fill("#lesson .answers input", " ".join(f"{number:.2f}" for number in w))
    page.inner.click("#lesson .try")
    page.wait("() => document.querySelector('#lesson .check.right')")
