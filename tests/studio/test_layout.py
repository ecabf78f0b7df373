"""How the page looks, at two sizes, light and dark, for every family: texts keep to their places,
controls have names, and an address brings the same picture back."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from tests.studio.at_rest import AtRest
from tests.studio.browser import Page
from tests.studio.serving import Served, serving
from tests.studio.trained import TEXTS, VIEWS, address_of, recorded, trained
from tests.tiny.dealt import chosen

from translucid.studio.library import followed_runs

pytestmark = pytest.mark.slow

LAYOUT = (Path(__file__).parent / "layout.js").read_text("utf-8")
SIZES = [(1280, 800), (1920, 1080)]
PLACES = list(product(VIEWS, SIZES))
SMALL = list(product(VIEWS, [(360, 740), (640, 400)]))  # a phone; 1280 x 800 at 200 %
# Beyond the view itself: what makes it fuller.
FULLER = {
    "flow": {"pin": "src:1"},
    "attention": {"pin": "src:1"},
    "recurrent": {"unit": "3", "lesson": "gates.4"},  # which points at the candidate
    "decode": {"beam_size": "8"},
    "whatif": {"off": ""},
    "compare": {},
}
NAMELESS = """() => [...document.querySelectorAll(
    'button, a[href], input, select, [role=button], [role=switch], [tabindex="0"]')]
    .filter(el => !(el.getAttribute('aria-label') || el.textContent.trim() || el.title
                    || el.getAttribute('aria-labelledby') || el.labels?.length))
    .map(el => el.outerHTML.slice(0, 120))"""
BEYOND = """() => [...document.querySelectorAll('.steps button')]
    .map(el => el.scrollWidth - el.clientWidth)"""
# Canvases pixel by pixel, and every text with its place.
PICTURE = """() => [
    ...[...document.querySelectorAll('canvas')].map(el => el.toDataURL()),
    ...[...document.querySelectorAll('#stage text, #stage td, #stage th, #stage button, .token')]
        .map(el => { const r = el.getBoundingClientRect();
                     return [el.textContent, el.getAttribute('class'), r.x, r.y].join(' '); }),
    document.querySelector('#readout').textContent]"""


# Numbers on canvases: those that touch the next one, and those that are too small.
FIGURES = """async () => {
    const { numbersOn } = await import('/static/js/ink.js');
    const pen = document.createElement('canvas').getContext('2d');
    const wrong = new Set();
    for (const el of document.querySelectorAll('#stage canvas')) {
        const all = numbersOn(el).map(({ text, x, y, size, weight, family }) => {
            pen.font = `${weight} ${size}px ${family}`;
            if (size < 11) wrong.add(`‘${text}’ is painted in ${size} px`);
            const half = pen.measureText(text).width / 2;
            return { text, y, left: x - half, right: x + half };
        }).sort((a, b) => a.y - b.y || a.left - b.left);
        all.forEach((a, i) => {
            const b = all[i + 1];
            if (b && Math.abs(a.y - b.y) < 3 && b.left - a.right < 1.5)
                wrong.add(`‘${a.text}’ touches ‘${b.text}’ on ${el.parentElement.className}`);
        });
    }
    return [...wrong];
}"""
BELOW = "a picture lies on the read-out"  # in a small window, the page scrolls below it


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    followed = followed_runs([recorded()], ["run"])
    with serving(trained(), followed=followed) as served:
        yield served


def fuller(studio: Served, family: str, view: str) -> dict[str, str]:
    if view != "whatif":
        pin = {"language": "tgt:1", "regress": "src:0"}.get(family)  # that there is
        return FULLER[view] | ({"pin": pin} if pin and "pin" in FULLER[view] else {})
    opened = next(each for each in studio.library.opened.values() if each.name == family)
    return {"off": next(iter(opened.switches))}


@pytest.mark.parametrize(("family", "size"), chosen(PLACES, *PLACES[2::5]))
def test_texts_keep_to_their_places(
    studio: Served, leaf: Page, family: str, size: tuple[int, int]
) -> None:
    leaf.inner.set_viewport_size({"width": size[0], "height": size[1]})
    for number, view in enumerate(VIEWS[family]):
        theme = ("light", "dark")[number % 2]
        leaf.turn(address_of(studio, family, view, theme=theme, **fuller(studio, family, view)))
        assert leaf.inner.evaluate(LAYOUT) == [], view
        assert leaf.inner.evaluate(FIGURES) == [], view
        assert leaf.inner.evaluate(NAMELESS) == [], view
        wide = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        assert leaf.inner.evaluate(wide) <= list(size), view


@pytest.mark.parametrize("wide", [1280, 1366, 1600, 1700, 1860, 1920])
def test_the_moments_of_attention_fit_into_their_buttons(
    studio: Served, leaf: Page, wide: int
) -> None:
    leaf.inner.set_viewport_size({"width": wide, "height": 900})
    leaf.turn(address_of(studio, "translate", "attention"))
    for _ in range(2):  # then larger text, for a projector; pressed twice, it is off again
        assert leaf.inner.evaluate(BEYOND) == [0, 0, 0, 0]
        leaf.inner.keyboard.press("p")


def test_the_name_of_a_point_is_broken_on_a_phone(studio: Served, leaf: Page) -> None:
    leaf.inner.set_viewport_size({"width": 360, "height": 780})
    leaf.turn(address_of(studio, "tag", "compare", pic="vectors"))
    (note,) = leaf.words(".cmpkinds .quiet")
    assert re.match(r"[\w.]{40,}, largest of", note)
    assert leaf.inner.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize(("family", "size"), chosen(SMALL, *SMALL[::3]))
def test_on_a_phone_or_zoomed_texts_keep_to_their_places(
    studio: Served, leaf: Page, family: str, size: tuple[int, int]
) -> None:
    leaf.inner.set_viewport_size({"width": size[0], "height": size[1]})
    for view in (*VIEWS[family], "data", "train") if family == "translate" else VIEWS[family]:
        leaf.turn(address_of(studio, family, view, **FULLER.get(view, {}) | {"pin": "", "off": ""}))
        assert [each for each in leaf.inner.evaluate(LAYOUT) if each != BELOW] == [], view
        assert leaf.inner.evaluate(FIGURES) == [], view
        assert leaf.inner.evaluate("document.documentElement.scrollWidth") <= size[0], view


@pytest.mark.parametrize("moment", ["scores", "weights"])
@pytest.mark.parametrize(("size", "larger"), [
    ((1280, 800), False), ((1280, 800), True), ((640, 400), False), ((360, 740), False),
])  # fmt: skip
def test_numbers_beside_a_large_matrix_do_not_touch(
    studio: Served, leaf: Page, size: tuple[int, int], larger: bool, moment: str
) -> None:
    leaf.inner.set_viewport_size({"width": size[0], "height": size[1]})
    text = " ".join((TEXTS["translate"].split() * 50)[:300])
    leaf.turn(address_of(studio, "language", "attention", text=text, moment=moment))
    if larger:
        leaf.changed(lambda: leaf.inner.keyboard.press("p"))
    try:
        assert leaf.inner.evaluate("document.querySelectorAll('.lens canvas').length") == 1
        assert leaf.inner.evaluate(FIGURES) == []
        assert [each for each in leaf.inner.evaluate(LAYOUT) if each != BELOW] == []
    finally:
        if larger:
            leaf.changed(lambda: leaf.inner.keyboard.press("p"))


@pytest.mark.parametrize("words", chosen([40, 300], 300))
def test_long_texts_keep_to_their_places(studio: Served, leaf: Page, words: int) -> None:
    leaf.inner.set_viewport_size({"width": 1280, "height": 800})
    text = " ".join((TEXTS["translate"].split() * 50)[:words])
    for family, view in (("language", "flow"), ("language", "attention"), ("tag", "flow"),
                         ("tag", "recurrent"), ("classify", "attention"), ("tag", "whatif"),
                         ("tag", "compare")):  # fmt: skip
        leaf.turn(address_of(studio, family, view, text=text))
        assert leaf.inner.evaluate(LAYOUT) == [], (family, view)


@pytest.mark.parametrize("view", chosen(FULLER, "attention"))
def test_an_address_brings_the_same_picture(studio: Served, leaf: Page, view: str) -> None:
    """A link is copied, with pins and choices; opened elsewhere it shows the same."""
    leaf.inner.set_viewport_size({"width": 1280, "height": 800})
    family = "lstm" if view == "recurrent" else "translate"
    leaf.see(address_of(studio, family, view, theme="dark"))  # anew: it knows nothing from before
    choose(leaf, view)
    leaf.inner.mouse.move(1, 1)
    leaf.inner.evaluate("document.activeElement.blur()")
    if view == "whatif":
        leaf.inner.get_by_text("All measured").wait_for()
    shown, address = leaf.inner.evaluate(PICTURE), leaf.inner.url
    again = AtRest(leaf.inner.context.new_page())
    try:
        again.set_viewport_size({"width": 1280, "height": 800})
        again.goto(address)
        again.wait_for_function("() => document.documentElement.dataset.ready")
        if view == "whatif":
            again.get_by_text("All measured").wait_for()
        other = again.evaluate(PICTURE)
        assert [each for each in shown if each not in other] == []
        assert len(shown) == len(other)
    finally:
        again.close()


def choose(page: Page, view: str) -> None:
    """Clicks, as somebody makes them before copying a link."""
    press = page.inner.keyboard.press
    page.inner.locator("#sentence .token").nth(2).click()
    match view:
        case "flow":
            page.inner.locator("#stage .part").nth(4).focus()
            press("Enter")
        case "attention":
            press("]")
            press("ArrowUp")
            page.wait("document.querySelector('.kicker')?.textContent.includes('layer 0')")
            press("m")
        case "recurrent":
            press("]")
            press("]")
        case "decode":
            press("ArrowLeft")
            press("ArrowLeft")
        case "whatif":
            page.inner.locator("#stage .switch").nth(0).click()
            page.wait("/Restore/.test(document.querySelector('#stage .panel').textContent)")
        case "compare":
            page.inner.locator("#stage .seg button").nth(1).click()
