"""Values of one run in another, as the page is told and shows it: against `model.trace` with an
edit by hand."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from tests.studio.browser import Page
from tests.studio.serving import TEXT, Served, model, serving
from tests.studio.shown import same

from translucid.core.trace import Trace
from translucid.see.edits import from_trace
from translucid.studio import patching
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library

OTHER = "the cat sees a dog ."
GERMAN = "der hund sieht eine katze ."
CAT = "the cat sees a cat ."
SUM = "encoder.layers.0.feedforward_residual.sum"


class Two:
    """A clean and a corrupted run of a model, and how to ask about them."""

    def __init__(self, family: str, other: str = OTHER, **more: Any) -> None:
        self.model = model(family)
        self.library = Library({family: self.model})
        target = GERMAN if family.startswith("translate") else None
        self.clean = self.library.run("a", TEXT, target)
        self.corrupted = self.library.run("a", other, self.clean.target, **more)

    def ask(self, what: str, **query: Any) -> Any:
        query = {"clean": self.clean.key, "corrupted": self.corrupted.key, **query}
        reply = Handlers(self.library).ask("GET", f"/api/patching{what}?{urlencode(query)}")
        return json.loads(reply.body)


@pytest.mark.parametrize("family", ["translate-transformer", "tag-lstm", "language-rnn"])
def test_rows_and_cells_are_those_of_python(family: str) -> None:
    two = Two(family)
    outline = two.ask("")
    table = outline["tables"][0]
    assert table["part"] == "stream"
    at = table["points"][1 if len(table["points"]) > 1 else 0]
    where = {name: outline[name] for name in ("position", "output")}
    where["against"] = rival = (where["output"] + 1) % 3
    row = two.ask("/row", at=at, **where)
    clean = two.model.trace(TEXT, two.clean.target)
    traced = clean.patching(two.model.trace(OTHER, two.clean.target), **where)
    assert row["recovered"] == pytest.approx(traced.recovered(at), abs=1e-4)
    assert (row["clean"], row["corrupted"]) == pytest.approx(
        (traced.clean_value, traced.corrupted_value), abs=1e-5
    )
    part = two.ask("/row", at=at, tokens="1:3", **where)
    assert part["recovered"] == pytest.approx(row["recovered"][1:3], abs=1e-4)
    cell = two.ask("/cell", at=at, token=2, **where)
    assert cell["recovered"] == pytest.approx(row["recovered"][2], abs=1e-4)
    scope: dict[str, Any] = {"model": two.model}
    *lines, last = cell["python"].splitlines()
    exec("\n".join(lines), scope)
    patched = scope["patched"]
    number = patched["head.logits"][0, where["position"]]
    assert float(eval(last, scope)) == float(number[where["output"]])
    assert float(number[where["output"]] - number[rival]) == pytest.approx(cell["value"], abs=1e-4)
    likeliest = patched["head.logits"][0].argmax(-1).tolist()
    read = patched.example.target_ids or [None] * len(likeliest)
    names = [patched.outputs.name(*pair) for pair in zip(likeliest, read, strict=True)]
    assert [one["word"] for one in cell["says"]] == names


def test_the_patched_text_is_the_search_with_the_edit() -> None:
    two = Two("translate-transformer")
    cell = two.ask("/cell", at=SUM, token=1)
    clean = two.model.trace(TEXT, two.clean.target)
    edit = Trace([], edit=from_trace(clean, SUM, tokens={1: 1}))
    (decoded,) = two.model.decode([OTHER], beam_size=1, trace=edit)
    assert cell["text"] == decoded.texts[0].text
    assert two.ask("/cell", at="decoder.embedding.lookup", token=1)["text"] is None


def test_parts_that_are_off_stay_off_also_in_the_python_code() -> None:
    off = ["encoder.layers.0.self_attention.head.1@50"]
    two = Two("translate-transformer", off=off)
    cell = two.ask("/cell", at=SUM, token=1, position=0, output=3)
    scope: dict[str, Any] = {"model": two.model}
    *lines, last = cell["python"].splitlines()
    exec("\n".join(lines), scope)
    assert "at_strength" in cell["python"]
    assert float(eval(last, scope)) == pytest.approx(cell["value"], abs=1e-5)


def test_the_outline_offers_what_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Two("translate-transformer")
    outline = two.ask("")
    assert [(one["part"], one["side"]) for one in outline["tables"]] == [
        (part, side) for part in ("stream", "attention", "feed-forward")
        for side in ("encoder", "decoder")
    ]  # fmt: skip
    ripple = json.loads(
        Handlers(two.library).ask("GET", f"/api/diff?a={two.clean.key}&b={two.corrupted.key}").body
    )["ripple"]
    streams = [one for one in outline["tables"] if one["part"] == "stream"]
    for table, drawn in zip(streams, ripple, strict=True):
        assert (table["points"], table["words"]) == (drawn["points"], drawn["words"])
        assert table["depths"] == drawn["depths"]
    assert outline["tables"][2]["depths"][0] == "layer 0, self-attention output"
    assert outline["position"] in [one["n"] for one in outline["positions"]]
    chosen = next(one for one in outline["choices"] if one["id"] == outline["output"])
    logits = two.model.trace(TEXT, two.clean.target)["head.logits"][0, outline["position"]]
    assert chosen["clean"] == pytest.approx(float(logits[outline["output"]]), abs=1e-5)
    monkeypatch.setattr(patching, "CELLS", 3)
    error = two.ask("/row", at=SUM)["error"]
    assert "tokens: 7 requested, but the limit is 3 per request" in error
    assert "tokens=0:3" in error


@pytest.mark.parametrize(
    ("what", "query", "message"),
    [
        ("", {"clean": "x"}, "run 'x' has expired"),
        ("/row", {}, r"^at\b.* required"),
        ("/row", {"at": "encoder.nothing"}, "unknown point 'encoder.nothing'"),
        ("/cell", {"at": SUM}, "token.* required"),
        ("/cell", {"at": SUM, "token": 99}, "token 99: .* 0 and 6"),
        ("/cell", {"at": SUM, "token": 1, "position": 99}, "position = 99: must be between 0 and"),
    ],
)
def test_invalid_queries_get_a_message(what: str, query: dict[str, Any], message: str) -> None:
    assert re.search(message, Two("translate-transformer").ask(what, **query)["error"])


def test_texts_of_different_lengths_are_an_error() -> None:
    error = Two("translate-transformer", "the dog sleeps .").ask("")["error"]
    assert "source: the clean run has 7 tokens (the dog sees a cat . </s>)" in error
    assert "5 (" in error


# ---- on the page ----


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"translate": model("translate-transformer")}) as served:
        yield served


# Points of the map's canvas that are painted.
INK = """() => {
  const sheet = document.querySelector('.ripplebox canvas');
  const all = sheet.getContext('2d').getImageData(0, 0, sheet.width, sheet.height).data;
  return all.filter((value, k) => k % 4 === 3 && value > 0).length;
}"""


@pytest.mark.slow
def test_a_click_patches_and_trace_all_paints_the_map(studio: Served, leaf: Page) -> None:
    """With the numbers of Python, and what cannot be compared is told."""
    base = f"{studio.address}#/whatif?text={quote(TEXT)}&target={quote(GERMAN)}"
    leaf.turn(f"{base}&swap=1:cat&cell={SUM}@1")
    leaf.wait("document.querySelector('.patchcard .strong .n')")
    held = studio.library.opened["a"].model
    clean = held.trace(TEXT, GERMAN)
    traced = clean.patching(held.trace(CAT, GERMAN))
    numbers = leaf.words(".patchcard .sumtable .n")
    value = traced.value(SUM, [1])
    shown = (traced.clean_value, traced.corrupted_value, value)
    assert all(same(text, true) for text, true in zip(numbers[1:4], shown, strict=True))
    assert numbers[4] == f"{100 * traced.fraction(value):.0f} %".replace("-", "−")
    leaf.inner.click("text=recovered")
    leaf.inner.hover(".ripplebox svg")
    leaf.wait("document.querySelector('#readout .at').textContent.endsWith(': not measured yet')")
    assert leaf.text("#readout .value") == ""  # no number that nobody has computed
    assert leaf.inner.evaluate(INK) > 100  # the cells can be seen before they are tried
    leaf.inner.click("text=Trace all")
    leaf.wait("document.querySelector('.patchtools .edit')?.textContent === 'All traced'")
    leaf.inner.focus(".ripplebox svg")
    leaf.inner.keyboard.press("t")
    leaf.wait("document.querySelector('.tablebox td')")
    row = leaf.inner.eval_on_selector_all(
        ".tablebox tr", "rows => [...rows[2].querySelectorAll('td')].map(cell => cell.textContent)"
    )
    runs = [studio.library.run("a", text, GERMAN).key for text in (TEXT, CAT)]
    ripple = studio.get("/api/diff?a={}&b={}".format(*runs)).json["ripple"]
    true = [traced.recovered(at)[1] for at in ripple[0]["points"]]
    assert all(same(text, number) for text, number in zip(row, true, strict=True))
    leaf.inner.keyboard.press("Escape")
    leaf.expected.append("422")
    leaf.turn(f"{base}&instead={quote('the dog sleeps .')}")
    told = "document.querySelector('.ripplebox .tail').textContent.includes('the clean run has 7')"
    leaf.wait(told)
