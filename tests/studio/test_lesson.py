"""Lessons: what they say can be shown, and their numbers are those of the trace."""

import ast
import importlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
import torch
from tests.studio.browser import Page
from tests.studio.lesson_sources import FILES, sentences
from tests.studio.serving import FAMILIES, TEXT, Served, model, serving, text_for
from tests.tiny.dealt import chosen

from translucid.core.catalogue import CATALOGUE
from translucid.studio import lesson_answers
from translucid.studio.lessons import OPENING, STATIONS, TOURS
from translucid.studio.library import Library
from translucid.studio.text_runs import Run

KEYS = {"title", "say", "do", "address", "pin", "light"}
EVERY = TOURS | STATIONS | OPENING
MARK = re.compile(r"(part|head|moment|switch|gate|src|tgt):")


@pytest.fixture(scope="module")
def library() -> Library:
    return Library({family: model(family) for family in FAMILIES})


def run_of(library: Library, family: str, text: str | None = None) -> Run:
    m = next(m for m, each in library.opened.items() if each.name == family)
    return library.run(m, text_for(family) if text is None else text)


# ---- the files ----


def test_every_file_is_one_lesson() -> None:
    files = {path for path in FILES["attn"].parent.glob("*.py") if path.stem != "__init__"}
    assert sorted(files) == sorted(FILES.values())
    for lesson in EVERY.values():
        assert lesson.name
        assert lesson.teaches
        titles = [stop.title for stop in lesson.stops]
        assert len(set(titles)) == len(titles)


def test_no_number_is_typed_in() -> None:
    for key in EVERY:
        texts = [sentence.text for sentence in sentences(key)]
        assert len(texts) >= 3
        assert [text for text in texts if re.search(r"\d+[.,]\d+|\d{2,}", text)] == []


def named_points(key: str) -> Iterator[str]:
    """The last words of the names that a lesson asks the trace for."""
    module = importlib.import_module(f"translucid.studio.lessons.{FILES[key].stem}")
    for node in ast.walk(ast.parse(FILES[key].read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(attr="point" | "find" | "now" | "earlier"), args=args):
                for name in args:
                    match name:
                        case ast.Constant(value=str(text)):
                            yield text.rpartition(".")[2]
                        case ast.JoinedStr(values=[*_, ast.Constant(value=str(text))]):
                            yield text.rpartition(".")[2]
                        case ast.Name(id=variable) if hasattr(module, variable):
                            yield getattr(module, variable).rpartition(".")[2]


def test_every_name_is_in_the_catalogue() -> None:
    known = {entry.rpartition(".")[2] for entry in CATALOGUE}
    for key in EVERY:
        names = set(named_points(key))
        assert names
        assert names <= known


# ---- on models ----


def plain(pieces: list[dict[str, Any]]) -> str:
    """A text with its words, and 0.000 for its numbers."""
    return "".join(str(piece.get("text", piece.get("word", "0.000"))) for piece in pieces)


def test_an_unknown_lesson_is_refused(library: Library) -> None:
    with serving({"small": model("tag-lstm")}) as served:
        answer = served.get("/api/lessons/atn")
        assert answer.status == 422
        assert "attn, gates" in answer.json["error"]
        assert [each["id"] for each in served.get("/api/lessons").json] == list(TOURS)
        found = served.get("/api/lessons/attn").json
        assert len(found["steps"]) == served.get("/api/lessons").json[0]["steps"]
        run = served.run("a", TEXT)["run"]
        assert served.get(f"/api/runs/{run}/lesson/attn").json["id"] == "attn"
        assert served.get(f"/api/runs/{run}/lesson/..").status == 422
        _no_paths(served, run)


def _no_paths(served: Served, run: str) -> None:
    for path in ("..%2Fattn", "attn.py", "%2Fetc%2Fpasswd", "attn%00"):
        assert served.get(f"/api/runs/{run}/lesson/{path}").status in (404, 422)
        assert served.get(f"/api/lessons/{path}").status in (404, 422)


@pytest.mark.parametrize("key", TOURS)
@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_are_those_of_the_trace(library: Library, family: str, key: str) -> None:
    run = run_of(library, family)
    trace = run.opened.model.trace(run.text, target=run.target)
    count = 0
    for step in lesson_answers.on_run(run, key)["steps"]:
        if "lacks" in step:
            assert set(step) - {"in_sentence"} == {"title", "lacks"}
            continue
        assert set(step) - {"task", "typed"} == KEYS
        assert plain(step["say"]).endswith((".", "…"))
        assert plain(step["do"]).strip().endswith((".", "?"))
        assert len(plain(step["say"])) < 330, "a stop is a few short sentences"
        for piece in [*step["say"], *step["do"]]:
            assert MARK.match(piece.get("means") or "src:"), piece
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
        names = re.findall(r"at=([\w.]+)", step["address"])
        assert all(name in run.shapes for name in names)
        off = re.findall(r"off=([\w.=]+)", step["address"])
        assert all(switch in run.opened.switches for switch in off)
        assert all(map(MARK.match, step["light"]))
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
    for key in TOURS:
        for step in lesson_answers.on_run(run, key)["steps"]:
            for pin in step.get("pin", []):
                side, _, place = pin.partition(":")
                words = run.example.words
                assert int(place) < len(words.source if side == "src" else words.target)


@pytest.mark.parametrize(("kind", "words"), [
    ("rotary", "has rotary positions"), ("sinusoidal", "adds sines and cosines"),
    ("learned", "has learned positions"), ("alibi", "(ALiBi)"), ("none", "there are no positions"),
])  # fmt: skip
@pytest.mark.parametrize("family", ["translate-transformer", "language-transformer"])
def test_the_step_on_position_says_what_the_model_has(family: str, kind: str, words: str) -> None:
    run = Library({"small": model(family, positions=kind)}).run("a", TEXT)
    step = lesson_answers.on_run(run, "attn")["steps"][2]
    assert step["title"] == "Position"
    assert words in plain(step["say"])


def test_the_sums_of_one_head_come_out() -> None:
    """Scores, scale and softmax as the text has them, from queries and keys."""
    library = Library({"small": model("translate-transformer", heads=4, kv_heads=2)})
    heads = set()
    for text in (TEXT, "a cat and the bird sleep .", "the old bird sings .", "the the dog sees"):
        run = library.run("a", text)
        of = {
            step["title"]: [(each["value"], each["at"], each["index"])
                            for each in step.get("say", []) if "value" in each]
            for step in lesson_answers.on_run(run, "attn")["steps"]
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
        told = lesson_answers.on_run(run_of(library, family), "gates")["steps"]
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


def hash_of(page: Page) -> str:
    return str(page.inner.evaluate("location.hash"))


WALKED = [("translate-transformer", "attn"), ("translate-lstm", "gates")]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "key"), chosen(WALKED, WALKED[1]))
def test_a_bare_link_brings_all_of_a_stop(page: Page, family: str, key: str) -> None:
    """The view, what is chosen and what is pinned, as one who follows the tour has them."""
    with serving({family: model(family)}) as studio:
        run = studio.library.run("a", TEXT)
        given = lesson_answers.on_run(run, key)["steps"]
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
def test_links_to_no_stop_and_back_to_the_list(page: Page) -> None:
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
