"""Texts of more than 96 words: Flow has a window of rows around the pin and presses the others, the
sentence bar is a strip, and the numbers in the window and the lens are those of `model.trace`."""

import math
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.studio.browser import Page
from tests.studio.serving import Served, model, serving
from tests.studio.shown import behind, check_foot, foot, same
from tests.tiny.dealt import chosen

from translucid.model import Model
from translucid.see.reading import Reading

pytestmark = pytest.mark.slow

WORDS = ["the", "old", "dog", "sees", "a", "cat", "and", "the", "bird", "sleep", ".", "sings"]
ROWS = 20  # of the window, at 1280 x 800
# The budget of the design: nodes of the whole page, and bytes of numbers for Flow.
NODES = {"flow": 900, "attention": 500}
BYTES = 100_000
# What stands on a canvas cannot be read back: every text is kept as it is painted.
SPY = """() => {
    if (window.spied) return;
    window.spied = true;
    const paint = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        (this.canvas.painted ??= []).push([text, x, y]);
        return paint.call(this, text, x, y);
    };
}"""
COUNT = "document.querySelectorAll('*').length"
WINDOW = "#stage .scene text.word.row:not(.part *):not(.floats *)"


def text_of(count: int) -> str:
    return " ".join((WORDS * count)[:count])


@pytest.fixture(scope="module")
def small() -> Model:
    keys = {"d_model": 96, "heads": 4, "d_ff": 160, "layers": 3, "max_length": 1040}
    return model("language-transformer", **keys)


@pytest.fixture(scope="module")
def studio(small: Model) -> Iterator[Served]:
    with serving({"long": small, "tag": model("tag-lstm"),
                  "both": model("translate-transformer")}) as served:  # fmt: skip
        yield served


@pytest.fixture(scope="module")
def traces(small: Model) -> dict[int, Reading]:
    return {count: small.trace(text_of(count)) for count in (120, 512)}


def address(studio: Served, view: str, count: int, **more: str) -> str:
    return f"{studio.address}#/{view}?{urlencode({'text': text_of(count), **more})}"


def words_of(studio: Served, count: int, m: str = "a") -> dict[str, list[str]]:
    return studio.run(m, text_of(count))["tokens"]


def in_window(page: Page) -> list[str]:
    return page.words(WINDOW)


# All that the read-out says, also what is soon replaced by all digits.
TOLD = """() => {
  window.told = [];
  const box = document.getElementById('readout');
  const note = () =>
    window.told.push(['.path', '.value'].map(name => box.querySelector(name)?.textContent ?? ''));
  new MutationObserver(note).observe(box, { childList: true, characterData: true, subtree: true });
}"""


def settled(page: Page) -> str:
    """The read-out with all digits: its name has no slice any more."""
    page.wait("!/\\d:\\d/.test(document.querySelector('#readout .path')?.textContent)")
    return foot(page)[0]


def place(page: Page, name: str) -> dict[str, float]:
    found = page.inner.eval_on_selector(
        f'#stage .part[aria-label*="{name}"] .hit',
        "el => { const r = el.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }",
    )
    return dict(zip(("x", "y", "width", "height"), found, strict=True))


def row_of(page: Page, row: int) -> float:
    return page.inner.eval_on_selector_all(
        WINDOW,
        "(all, i) => { const r = all[i].getBoundingClientRect(); return r.y + r.height / 2; }",
        row,
    )  # fmt: skip


@pytest.mark.parametrize(("count", "pin"), chosen([(512, 300), (512, 0), (120, 119)], (120, 119)))
def test_the_window_is_around_the_pin(studio: Served, leaf: Page, count: int, pin: int) -> None:
    words = words_of(studio, count)["target"]
    leaf.turn(address(studio, "flow", count, pin=f"tgt:{pin}"))
    first = max(0, min(len(words) - ROWS, pin // 10 * 10 - 5))
    shown = in_window(leaf)
    special = leaf.words(WINDOW.replace("text.word", "text.special"))
    assert [*special, *shown] == words[first : first + ROWS]
    assert first <= pin < first + ROWS
    assert leaf.words("#stage .scene text.row.lit:not(.part *)") == [words[pin]]


def test_numbers_in_the_window_are_those_of_the_trace(
    studio: Served, leaf: Page, traces: Any
) -> None:
    trace, blocks = traces[512], 0
    leaf.turn(address(studio, "flow", 512, pin="tgt:300"))
    leaf.inner.evaluate(TOLD)
    for row, name in enumerate(("embedding.scaled", "positions.output", "layers.0.", "layers.1.",
                                "feedforward.activated", "final_norm.output")):  # fmt: skip
        box, y = place(leaf, name), row_of(leaf, 3 * row)
        leaf.inner.evaluate("() => { window.told.length = 0; }")
        leaf.inner.mouse.move(box["x"] + box["width"] * 0.6, y)
        settled(leaf)
        block, at_once = None, ""
        for begun, value in leaf.inner.evaluate("() => window.told"):
            if coarse := re.search(r"\[(\d+), (\d+):(\d+)\]", begun):
                block, at_once = coarse, value
        path = check_foot(leaf, trace)
        found = re.fullmatch(r"(.*)\[(\d+), (\d+)\]", path)
        assert found, path
        assert int(found[2]) == 295 + 3 * row
        if block:  # a cell of several numbers speaks for the largest of them
            part = trace[found[1]][0, int(found[2]), int(block[2]) : int(block[3])]
            assert int(found[3]) == int(block[2]) + int(part.abs().argmax())
            step = float(trace[found[1]].abs().max()) / 254  # what is drawn was sent as bytes
            drawn = float(at_once.replace("−", "-"))
            assert drawn == pytest.approx(behind(path, trace), abs=step + 0.0051)
            assert f"largest of {len(part)}" in leaf.text("#readout .at")
            blocks += 1
    assert blocks > 2


def test_attention_in_the_window_is_that_of_the_trace(
    studio: Served, leaf: Page, traces: Any
) -> None:
    trace = traces[512]
    leaf.turn(address(studio, "flow", 512, pin="tgt:300"))
    at = "decoder.layers.2.self_attention.pattern"
    box = place(leaf, at)
    for row in (2, 11):
        leaf.inner.mouse.move(box["x"] + 12, row_of(leaf, row))
        path = settled(leaf)
        assert path.startswith(f"{at}[:, {295 + row}, ")
        check_foot(leaf, trace)
        assert behind(path, trace) == pytest.approx(float(trace[at][0, :, 295 + row].mean(0).max()))


def test_outputs_in_the_window_are_those_of_the_trace(
    studio: Served, leaf: Page, traces: Any
) -> None:
    shares = traces[512]["head.logits"][0].softmax(-1)
    leaf.turn(address(studio, "flow", 512, pin="tgt:300"))
    box = place(leaf, "head.logits")
    leaf.inner.mouse.move(box["x"] + 10, row_of(leaf, 4))
    path, value = foot(leaf)
    assert path.startswith("softmax head.logits[299, ")
    assert same(value, float(shares[299].max()))
    assert len(leaf.words("#stage .part.end text.row")) == ROWS


def test_a_compressed_row_shows_the_largest_of_its_numbers(
    studio: Served, leaf: Page, traces: Any
) -> None:
    trace = traces[512]
    leaf.turn(address(studio, "flow", 512, pin="tgt:300"))
    box = place(leaf, "embedding.scaled")
    for where in (0.05, 0.15, 0.95):
        leaf.inner.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * where)
        path, value = foot(leaf)
        found = re.fullmatch(r"(.*)\[(\d+):(\d+), (\d+):(\d+)\]", path)
        assert found, path
        a, b, c, d = (int(each) for each in found.groups()[1:])
        table = trace[found[1]][0]
        block = table[a:b, c:d]
        biggest = float(block.flatten()[block.abs().argmax()])
        step = float(table.abs().max()) / 254  # it was sent as a byte
        assert abs(float(value.replace("−", "-")) - biggest) <= step + 0.0051, path
        assert f"largest of {(b - a) * (d - c)}" in leaf.text("#readout .at")
        assert b <= 295 + 10 or a >= 314 - 10  # above the window, or below it


def test_a_click_on_a_pressed_strand_brings_the_window(studio: Served, leaf: Page) -> None:
    words = words_of(studio, 512)["target"]
    leaf.turn(address(studio, "flow", 512))
    area = leaf.inner.eval_on_selector(
        "#stage .rowhit", "el => { const r = el.getBoundingClientRect(); return [r.x, r.bottom]; }"
    )
    leaf.inner.mouse.click(area[0] + 20, area[1] - 40)
    leaf.wait("/pin=tgt:\\d{3}/.test(location.hash)")
    found = re.search(r"pin=tgt:(\d+)", leaf.inner.url)
    assert found is not None
    first = min(len(words) - ROWS, int(found[1]) // 10 * 10 - 5)
    assert first > 300
    leaf.wait("first => document.querySelector('#stage .note').textContent"
              ".includes(`tokens ${first} to`)", first)  # fmt: skip
    assert in_window(leaf) == words[first : first + ROWS]


def test_a_long_text_by_keyboard(studio: Served, leaf: Page) -> None:
    """Tab to the strip, by tens to word 300, Enter; then arrows move the pin, and the window after
    it once it has gone far enough."""
    words, press = words_of(studio, 512)["target"], leaf.inner.keyboard.press
    leaf.see(address(studio, "flow", 512))
    for _ in range(40):
        press("Tab")
        if leaf.inner.evaluate("document.activeElement.closest('.minimap') !== null"):
            break
    for _ in range(30):
        press("ArrowDown")
    assert leaf.text("#readout .at") == f"token 300 of 513: {words[300]}"
    assert leaf.words(".floats text.lit") == [words[300]]  # written, where it is pressed
    press("Enter")
    leaf.wait("location.hash.includes('pin=tgt:300')")
    leaf.wait("document.querySelector('#stage .note').textContent.includes('tokens 295 to 314')")
    assert in_window(leaf) == words[295:315]
    assert leaf.words(".minimap text.pinned") == [words[300]]
    press("Tab")
    assert leaf.inner.evaluate("document.activeElement.closest('.minimap') === null")
    for place_ in range(301, 311):
        press("ArrowRight")
        leaf.wait("place => location.hash.includes(`pin=tgt:${place}`)", place_)
    leaf.wait("document.querySelector('#stage .note').textContent.includes('tokens 305 to 324')")
    assert in_window(leaf) == words[305:325]
    press("Escape")
    leaf.wait("document.querySelector('#stage .note').textContent.includes('tokens 0 to 19')")


def test_the_window_moves_under_the_focus(studio: Served, leaf: Page) -> None:
    """Who stands on a part of the picture stands on it still when the window has moved."""
    leaf.turn(address(studio, "flow", 120))
    leaf.inner.focus('#stage .part[aria-label*="feedforward.activated"]')
    leaf.inner.evaluate("import('/static/js/highlight.js').then(all => all.pin(['tgt:77']))")
    leaf.wait("document.querySelector('#stage .note').textContent.includes('tokens 65 to 84')")
    name = leaf.inner.evaluate("document.activeElement.getAttribute('aria-label')")
    assert "feedforward.activated" in name


@pytest.mark.parametrize("count", [96, 97])
def test_the_strip_is_for_long_texts(studio: Served, leaf: Page, count: int) -> None:
    words = words_of(studio, count - 1)["target"]  # and where the text begins
    assert len(words) == count
    leaf.turn(address(studio, "flow", count - 1))
    chips = leaf.words("#sentence .token .word")
    if count <= 96:
        assert chips == words
        assert leaf.inner.query_selector(".minimap") is None
        return
    assert chips == []
    assert len(leaf.inner.query_selector_all('#sentence [tabindex="0"]')) == 1
    label = leaf.inner.get_attribute(".minimap svg", "aria-label")
    assert label.startswith(f"The text, {count} tokens, from {' '.join(words[:4])}; arrow keys")
    leaf.inner.focus(".minimap svg")
    leaf.inner.keyboard.press("t")
    shown = leaf.words(".tablebox tbody tr td")
    assert shown == words[: len(shown)]
    assert len(shown) == count
    leaf.inner.keyboard.press("Escape")


@pytest.mark.parametrize("view", NODES)
@pytest.mark.parametrize("count", chosen([120, 512], 512))
def test_a_long_text_has_few_nodes(studio: Served, leaf: Page, view: str, count: int) -> None:
    moved = []
    heard = lambda answer: moved.append(answer) if "/tensors" in answer.url else None  # noqa: E731
    leaf.inner.on("response", heard)
    leaf.see(address(studio, view, count, pin="tgt:77"))
    leaf.inner.remove_listener("response", heard)
    assert leaf.inner.evaluate(COUNT) <= NODES[view]
    if view == "flow":
        assert sum(len(answer.body()) for answer in moved) <= BYTES


@pytest.mark.parametrize("m", chosen("bc", "c"))
def test_other_families_press_long_texts_too(studio: Served, leaf: Page, m: str) -> None:
    words = words_of(studio, 200, m)["source"]
    leaf.turn(address(studio, "flow", 200, m=m, pin="src:150"))
    shown = leaf.words(f"{WINDOW}.lit")
    assert shown == [words[150]]
    assert leaf.inner.evaluate(COUNT) <= NODES["flow"]
    rows = len(in_window(leaf))
    assert rows < 60  # of two bands together


# ---------------------------------------------------------------- attention
@pytest.mark.parametrize(
    ("count", "moment", "pin"),
    chosen([(512, "weights", "tgt:301"), (512, "weights", "tgt:60,tgt:62"),
            (120, "weights", "tgt:60,tgt:30"), (120, "scores", "tgt:119"),
            (512, "scores", "tgt:7,tgt:505")],
           (512, "weights", "tgt:60,tgt:62"), (120, "scores", "tgt:119")),
)  # fmt: skip
def test_numbers_in_the_lens_are_those_of_the_trace(
    studio: Served, leaf: Page, traces: Any, count: int, moment: str, pin: str
) -> None:
    trace, head = traces[count], 1
    leaf.turn(address(studio, "flow", count))
    leaf.inner.evaluate(SPY)
    leaf.turn(
        address(studio, "attention", count, head=str(head), moment=moment, pin=pin, layer="1")
    )
    leaf.inner.wait_for_selector(".lens canvas")
    at = f"decoder.layers.1.self_attention.{'pattern' if moment == 'weights' else 'scores'}"
    path = check_foot(leaf, trace)
    found = re.fullmatch(rf"{re.escape(at)}\[1, (\d+), (\d+)\]", path)
    assert found, path
    q, k = int(found[1]), int(found[2])
    table, masked = trace[at][0, head], trace[at.rpartition(".")[0] + ".masked"][0, head]
    pins = [int(each[4:]) for each in pin.split(",")]
    assert q == pins[0]
    assert k == (pins[1] if len(pins) > 1 else int(trace[f"{at.rpartition('.')[0]}.pattern"][
        0, head, q].argmax()))  # fmt: skip
    cells = leaf.inner.eval_on_selector(
        ".lens .heat", "el => [el.querySelector('canvas').painted ?? [],"
        " ['x', 'y', 'width', 'height'].map(name =>"
        " Number(el.querySelector('.hit').getAttribute(name)))]",
    )  # fmt: skip
    painted, (left, top, width, height) = cells
    labels = leaf.words(".lens .heat text")
    size = len(labels) // 2
    assert size in (3, 5, 7, 9)
    q0, k0 = (max(0, min(count + 1 - size, each - size // 2)) for each in (q, k))
    seen = set()
    for text, x, y in painted:
        i = q0 + math.floor((y - top) / (height / size))
        j = k0 + math.floor((x - left) / (width / size))
        seen.add((i, j))
        assert same(text, float(table[i, j])), (i, j, text, float(table[i, j]))
    hidden = {(i, j) for i in range(q0, q0 + size) for j in range(k0, k0 + size)
              if moment == "weights" and not math.isfinite(masked[i, j])}  # fmt: skip
    assert len(seen) == size * size - len(hidden)
    assert not seen & hidden
    words = ["</s>", *text_of(count).split()]  # what the model reads
    assert labels == words[q0 : q0 + size] + words[k0 : k0 + size]
    leaf.inner.focus(".lens svg")
    leaf.inner.keyboard.press("ArrowRight")
    leaf.inner.keyboard.press("ArrowUp")
    check_foot(leaf, trace)
    assert leaf.inner.evaluate("document.activeElement.closest('.lens') !== null")


@pytest.mark.parametrize(("count", "head"), [
    (120, "2"), pytest.param(512, "2", marks=pytest.mark.thorough),
    pytest.param(512, "mean", marks=pytest.mark.thorough),
    pytest.param(1030, "mean", marks=pytest.mark.thorough),
])  # fmt: skip
def test_ribbons_of_a_long_text_are_those_of_one_word(
    studio: Served, leaf: Page, small: Model, count: int, head: str
) -> None:
    at = "decoder.layers.2.self_attention.pattern"
    table = small.trace(text_of(count), keep=[at])[at][0, :, 77]
    row = table.mean(0) if head == "mean" else table[int(head)]
    leaf.turn(address(studio, "attention", count, head=head, pin="tgt:77"))
    leaf.wait("document.querySelectorAll('.ribbons .num').length === 5")
    best = row.topk(4)
    told = leaf.words(".ribbons .num")
    assert all(same(text, float(v)) for text, v in zip(told, best.values, strict=False))
    assert same(told[4], float(1 - best.values.sum()))
    assert len(leaf.inner.query_selector_all(".ribbons path")) == 5
    words = words_of(studio, count)["target"]
    assert leaf.words(".ribbons text.word, .ribbons text.special") == [
        words[77], *(words[i] for i in best.indices.tolist())]  # fmt: skip
