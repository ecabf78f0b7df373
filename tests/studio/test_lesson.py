"""Lessons: their files can be read, their names exist, and their numbers are those of the trace."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
import torch
from tests.studio.browser import Page, page, running, tab  # noqa: F401  (fixtures)
from tests.studio.serving import FAMILIES, TEXT, Served, model, serving, text_for
from tests.tiny.dealt import chosen

from translucid.core.catalogue import CATALOGUE
from translucid.studio import lessons
from translucid.studio.library import Library
from translucid.studio.text_runs import Run

VIEWS = ("flow", "attention", "recurrent", "decode", "whatif", "compare", "train")
KEYS = {"say", "do", "address", "pin", "light", "needs"}
MAY = {"let", "title", "claims"}
CLAIM = re.compile(r"\{claim (\w+)\}")
ASKED = re.compile(r"\{([^{}]+)\}")


def steps(key: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every kind of every step, with the names that it may use."""
    given = lessons.lesson(key)
    for step in given["steps"]:
        for each in step.get("one_of", [step]):
            yield each, {**given["let"], **each.get("let", {})}


def claimed(stop: dict[str, Any], key: str = "say") -> str:
    """A text with its claims in it, as where they hold."""
    return CLAIM.sub(lambda match: stop["claims"][match[1]]["say"], stop[key])


@pytest.fixture(scope="module")
def library() -> Library:
    return Library({family: model(family) for family in FAMILIES})


def run_of(library: Library, family: str, text: str | None = None) -> Run:
    m = next(m for m, each in library.opened.items() if each.name == family)
    return library.run(m, text_for(family) if text is None else text)


# ---- the files ----


@pytest.mark.parametrize("key", lessons.lessons())
def test_every_step_says_goes_and_asks(key: str) -> None:
    given = lessons.lesson(key)
    assert given["name"]
    assert given["teaches"]
    titles = [step["title"] for step in given["steps"]]
    assert len(set(titles)) == len(titles)
    for each, _ in steps(key):
        assert set(each) - MAY == KEYS
        assert claimed(each).endswith((".", "…"))
        assert claimed(each, "do").endswith((".", "?"))
        assert len(ASKED.sub("0.000", claimed(each))) < 330, "a stop is a few short sentences"
        view, _, query = each["address"].partition("?")
        assert view in VIEWS
        for pair in filter(None, query.split("&")):
            assert re.fullmatch(r"(at|i|head|moment|unit|step|off)=\S+", pair), pair
        for mark in [*each["light"], *re.findall(r"\]\(([^)]+)\)", claimed(each) + each["do"])]:
            assert re.match(r"(part|head|moment|switch|gate|src|tgt):", mark), mark


@pytest.mark.parametrize("key", lessons.lessons())
def test_no_number_is_typed_in(key: str) -> None:
    for each, _ in steps(key):
        text = claimed(each) + claimed(each, "do")
        assert re.findall(r"\d+[.,]\d+|\d{2,}", ASKED.sub("", text)) == []


@pytest.mark.parametrize("key", lessons.lessons())
def test_every_name_is_in_the_catalogue(key: str) -> None:
    for each, names in steps(key):
        for name, patterns in names.items():
            if not name[0].isupper():
                continue
            for pattern in patterns:
                scope, _, point = pattern.rpartition(".")
                part = scope.rpartition(".")[2].rpartition("_")[2].lstrip("*") or "*"
                part = "*" if part.endswith("}") else part  # of a name that stands before
                known = [entry for entry in CATALOGUE if entry.endswith(f".{point}")]
                if not part.endswith("*"):
                    known = [entry for entry in known if entry == f"{part}.{point}"]
                assert known, f"{pattern} names no point"
        texts = [claimed(each), claimed(each, "do"), each["address"], *each["pin"]]
        asked = ASKED.findall(" ".join(texts))
        for letter in re.findall(r"\b[A-Za-z]\b", " ".join(asked)):
            assert letter in names, f"{letter} has no meaning"


# ---- on models ----


def test_an_unknown_lesson_is_told(library: Library) -> None:
    with serving({"small": model("tag-lstm")}) as served:
        answer = served.get("/api/lessons/atn")
        assert answer.status == 422
        assert "there are attn, gates" in answer.json["error"]
        assert [each["id"] for each in served.get("/api/lessons").json] == list(lessons.lessons())
        found = served.get("/api/lessons/attn").json
        assert len(found["steps"]) == served.get("/api/lessons").json[0]["steps"]
        run = served.run("a", TEXT)["run"]
        assert served.get(f"/api/runs/{run}/lesson/attn").json["id"] == "attn"
        assert served.get(f"/api/runs/{run}/lesson/..").status == 422
        _no_paths(served, run)


def _no_paths(served: Served, run: str) -> None:
    for path in ("..%2Fattn", "attn.json", "%2Fetc%2Fpasswd", "attn%00"):
        assert served.get(f"/api/runs/{run}/lesson/{path}").status in (404, 422)
        assert served.get(f"/api/lessons/{path}").status in (404, 422)


@pytest.mark.parametrize("key", lessons.lessons())
@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_are_those_of_the_trace(library: Library, family: str, key: str) -> None:
    run = run_of(library, family)
    trace = run.opened.model.trace(run.text, target=run.target)
    count = 0
    for step in lessons.on_run(run, key)["steps"]:
        shown = set(step) == KEYS - {"needs"} | {"title"}
        assert shown or set(step) - {"in_sentence"} == {"title", "lacks"}
        for piece in [*step.get("say", []), *step.get("do", [])]:
            if "value" not in piece:
                assert piece.keys() <= {"text", "word", "means"}
                continue
            count += 1
            at, index = piece["at"], tuple(piece["index"])
            if at.startswith("softmax "):
                shares = trace[at.removeprefix("softmax ")][0].softmax(-1)
                assert piece["value"] == pytest.approx(float(shares[index]), abs=1e-6)
            elif index:
                assert piece["value"] == pytest.approx(float(trace[at][(0, *index)]), abs=1e-6)
            else:
                assert piece["value"] == pytest.approx(float(trace[at]))
        if "address" in step:
            names = re.findall(r"at=([\w.]+)", step["address"])
            assert all(name in run.shapes for name in names)
            off = re.findall(r"off=([\w.=]+)", step["address"])
            assert all(each in run.opened.switches for each in off)
            assert "{" not in step["address"] + "".join(step["light"])
    suits = {"attn": "transformer", "gates": FAMILIES[family][1]}[key] == FAMILIES[family][1]
    if key == "gates" and FAMILIES[family][1] in ("transformer", "mlp"):
        assert count == 0
    elif suits:
        assert count >= 6


@pytest.mark.parametrize("text", ["dog", "the dog", "a cat and the bird sleep . " * 12])
@pytest.mark.parametrize("family", FAMILIES)
def test_any_length_will_do(library: Library, family: str, text: str) -> None:
    if family == "regress-mlp":
        return
    run = run_of(library, family, text)
    for key in lessons.lessons():
        for step in lessons.on_run(run, key)["steps"]:
            for pin in step.get("pin", []):
                side, _, place = pin.partition(":")
                words = run.example.words
                assert int(place) < len(words.source if side == "src" else words.target)


def said(step: dict[str, Any]) -> str:
    return "".join(str(piece.get("text", piece.get("word", "#"))) for piece in step["say"])


@pytest.mark.parametrize(("kind", "words"), [
    ("rotary", "has rotary positions"), ("sinusoidal", "adds sines and cosines"),
    ("learned", "has learned positions"), ("alibi", "(ALiBi)"), ("none", "there are no positions"),
])  # fmt: skip
@pytest.mark.parametrize("family", ["translate-transformer", "language-transformer"])
def test_the_step_on_position_says_what_the_model_has(family: str, kind: str, words: str) -> None:
    run = Library({"small": model(family, positions=kind)}).run("a", TEXT)
    step = lessons.on_run(run, "attn")["steps"][2]
    assert step["title"] == "Position"
    assert words in said(step)


def test_the_sums_of_one_head_come_out() -> None:
    """Scores, scale and softmax as the text has them, from queries and keys."""
    library = Library({"small": model("translate-transformer", heads=4, kv_heads=2)})
    heads = set()
    for text in (TEXT, "a cat and the bird sleep .", "the old bird sings .", "the the dog sees"):
        run = library.run("a", text)
        of = {
            step["title"]: [(each["value"], each["at"], each["index"])
                            for each in step.get("say", []) if "value" in each]
            for step in lessons.on_run(run, "attn")["steps"]
        }  # fmt: skip
        (_, query, (h, q, _)), (_, key, (_, k, _)) = of["Score"][:2]
        heads.add(h)
        every = run[key].repeat_interleave(2, dim=1)  # two heads ask one head of keys
        dot = float(run[query][0, h, q] @ every[0, h, k])
        assert of["Score"][-1][0] == pytest.approx(dot, abs=1e-5)
        first = of["Score"][0][0] * of["Score"][1][0] + of["Score"][2][0] * of["Score"][3][0]
        assert first == pytest.approx(float(run[query][0, h, q, :2] @ every[0, h, k, :2]), abs=1e-5)
        scale = [value for value, *_ in of["Scale"]]
        assert scale[0] * scale[1] == pytest.approx(scale[2], abs=1e-5)
        best, other, largest, counts, total, _, _, share = (value for value, *_ in of["Softmax"])
        assert best == pytest.approx(1.0)
        assert torch.tensor(other - largest).exp().item() == pytest.approx(counts, abs=1e-5)
        assert counts / total == pytest.approx(share, abs=1e-5)
    assert max(heads) > 1, "a head whose keys have another number"


def test_the_sum_of_one_step_comes_out(library: Library) -> None:
    for family in ("tag-lstm", "classify-gru"):
        told = lessons.on_run(run_of(library, family), "gates")["steps"]
        step = next(step for step in told if step["title"] == "One step by hand")
        values = [piece["value"] for piece in step["say"] if "value" in piece]
        if family == "tag-lstm":
            forget, old, write, new, cell = values
            assert forget * old + write * new == pytest.approx(cell, abs=1e-5)
        else:
            stay, old, again, new, state = values
            assert stay == again
            assert stay * old + (1 - stay) * new == pytest.approx(state, abs=1e-5)


# ---- links ----


def hash_of(page: Page) -> str:  # noqa: F811
    return str(page.inner.evaluate("location.hash"))


TOURS = [("translate-transformer", "attn"), ("translate-lstm", "gates")]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "key"), chosen(TOURS, TOURS[1]))
def test_a_bare_link_brings_all_of_a_stop(page: Page, family: str, key: str) -> None:  # noqa: F811
    """The view, what is chosen and what is pinned, as one who follows the tour has them."""
    with serving({family: model(family)}) as studio:
        run = studio.library.run("a", TEXT)
        given = lessons.on_run(run, key)["steps"]
        page.see(f"{studio.address}#/lesson?text={quote(TEXT)}&theme=dark")
        here = [number for number, step in enumerate(given, start=1) if "lacks" not in step]
        followed: dict[int, str] = {}
        page.changed(lambda: page.inner.get_by_text("Begin", exact=True).first.click())
        for number in here:
            followed[number] = hash_of(page)
            page.changed(lambda: page.inner.keyboard.press("Space"))
        pinned = 0
        for number in here[1::3]:
            page.turn(f"{studio.address}#/lesson?lesson={key}.{number}&text={quote(TEXT)}"
                      "&theme=dark")  # fmt: skip
            step, now = given[number - 1], hash_of(page)
            view, _, query = step["address"].partition("?")
            named = dict(parse_qsl(now.partition("?")[2]))
            assert page.drawn().startswith(f"{view} ")
            assert now.startswith(f"#/{view}?")
            assert dict(parse_qsl(query)).items() <= named.items()
            assert named.get("pin", "") == ",".join(step["pin"])
            assert named == dict(parse_qsl(followed[number].partition("?")[2]))
            assert page.words("#lesson .onward") != ["Come back"]
            lit = page.inner.evaluate("document.querySelectorAll('.sentence .pinned').length")
            assert lit <= len(step["pin"])
            pinned += lit
        assert pinned > 0


@pytest.mark.slow
def test_links_to_no_stop_and_back_to_the_list(page: Page) -> None:  # noqa: F811
    page.expected.append("422 (Unprocessable Entity)")  # of the lesson that there is not
    with serving({"translate-transformer": model("translate-transformer")}) as studio:
        for bare in ("lesson?lesson=gates.2", "lesson?lesson=none.1", "lesson?lesson=attn.99"):
            assert page.turn(f"{studio.address}#/{bare}").startswith("lesson ")
        page.turn(f"{studio.address}#/?lesson=attn.7")  # without a view at all
        assert hash_of(page).startswith("#/attention?")
        page.changed(lambda: page.inner.keyboard.press("8"))
        assert page.drawn().startswith("lesson ")  # the list, and no stop of it
        assert page.inner.is_hidden("#lesson")
        page.inner.go_back()
        page.wait("location.hash.startsWith('#/attention')")
        page.ready()
        assert page.inner.is_visible("#lesson")
