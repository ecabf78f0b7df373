"""Large windows, projectors, zoomed windows and deep models: the picture gets the room, and every
part has a name."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.studio.browser import Page
from tests.studio.serving import TEXT, Served, model, serving

pytestmark = pytest.mark.slow

LAYOUT = (Path(__file__).parent / "layout.js").read_text("utf-8")
LAYERS = 24
LONG = "the old dog does not like the cat that sees a bird ."
FONT = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
LABELS = "svg .panelabel"
PARTS = ".scene .part"
SCROLLS = "a picture lies on the read-out"  # in a small window, the page scrolls below it


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    made = {
        "translate": model("translate-transformer", layers=2),
        "deep": model("language-transformer", layers=LAYERS),
    }
    with serving(made) as served:
        yield served


def address(studio: Served, view: str, m: str = "a", text: str = TEXT) -> str:
    return f"{studio.address}#/{view}?m={m}&text={quote(text)}"


def sized(page: Page, width: int, height: int) -> None:
    page.inner.set_viewport_size({"width": width, "height": height})


@pytest.mark.parametrize("view", ["flow", "attention", "whatif"])
def test_a_4k_window_shows_what_a_full_hd_window_shows_at_twice_the_size(
    studio: Served, page: Page, view: str
) -> None:
    found = []
    for width, height in ((1920, 1080), (3840, 2160)):
        sized(page, width, height)
        page.see(address(studio, view))
        boxes = page.inner.eval_on_selector_all(
            "#stage .split > *, #stage .columns > *",
            "all => all.flatMap(el => { const r = el.getBoundingClientRect();"
            " return [r.left, r.right, r.top, r.bottom]; })",
        )
        found.append([side / width for side in boxes])
        assert boxes[1::4][-1] > 0.97 * width
    assert found[1] == pytest.approx(found[0], abs=0.002)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
def test_a_projector_gets_larger_text_and_keeps_the_formulas(
    studio: Served, page: Page, width: int, height: int
) -> None:
    sized(page, width, height)
    page.see(address(studio, "attention", text=LONG))
    before = 16 if width < 1600 else 20
    assert page.inner.evaluate(FONT) == before
    page.changed(lambda: page.inner.keyboard.press("p"))
    assert page.inner.evaluate(FONT) == 1.6 * before
    assert [each for each in page.inner.evaluate(LAYOUT) if each != SCROLLS or width > 1280] == []
    shown = page.inner.eval_on_selector_all(
        ".steps math", "all => all.map(el => el.getBoundingClientRect().width > 0)"
    )
    assert shown == [True] * 4
    page.changed(lambda: page.inner.keyboard.press("p"))
    assert page.inner.evaluate(FONT) == before


@pytest.mark.parametrize(("view", "picture"), [("flow", ".scene"), ("attention", ".matrix")])
def test_half_of_a_zoomed_window_is_left_for_the_picture(
    studio: Served, page: Page, view: str, picture: str
) -> None:
    """1280 x 800 at 200 %."""
    sized(page, 640, 400)
    page.see(address(studio, view))
    top, bottom = page.inner.evaluate(
        "picture => [document.querySelector(picture).getBoundingClientRect().top,"
        " document.querySelector('footer').getBoundingClientRect().top]",
        picture,
    )
    assert bottom - top >= (200 if view == "flow" else 130)
    assert [each for each in page.inner.evaluate(LAYOUT) if each != SCROLLS] == []
    if view == "attention":  # no number of the list beside it is cut off
        beyond = "(el => el.scrollWidth - el.clientWidth)(document.querySelector('.attn > div'))"
        assert page.inner.evaluate(beyond) == 0
        assert page.inner.eval_on_selector_all(
            ".facts td.n", "all => all.every(el => el.getBoundingClientRect().right <="
            " el.closest('.facts').getBoundingClientRect().right + 1)"
        )  # fmt: skip
    current = page.inner.evaluate("""() => {
        const [link, bar] = ['[aria-current]', '.views'].map(name =>
            document.querySelector(`#bar ${name}`).getBoundingClientRect());
        return link.left >= bar.left - 1 && link.right <= bar.right + 1; }""")
    assert current  # the view that is open can be seen in the bar


def layers_of(labels: list[str]) -> list[int]:
    """The layers that the plates show: "layers 0–5", "layer 7"."""
    found: list[int] = []
    for label in labels:
        plate = re.match(r"Decoder layers? (\d+)(?:–(\d+))?:.*closed", label)
        if plate:
            found += range(int(plate[1]), int(plate[2] or plate[1]) + 1)
    return found


@pytest.mark.parametrize(("opened", "groups"), [
    (23, ["layers 0–5", "6–11", "12–17"]),
    (9, ["layers 0–5", "12–17", "18–23"]),
])  # fmt: skip
def test_a_deep_model_has_labelled_groups_of_layers(
    studio: Served, page: Page, opened: int, groups: list[str]
) -> None:
    sized(page, 1920, 1080)
    page.see(f"{address(studio, 'flow', 'b')}&layer=decoder.{opened}")
    names = page.inner.eval_on_selector_all(
        PARTS, "all => all.map(el => el.getAttribute('aria-label'))"
    )
    assert sorted([*layers_of(names), opened]) == list(range(LAYERS))
    labels = page.words(LABELS)
    assert [label for label in labels if "–" in label] == groups
    near = {str(n) for n in range(LAYERS) if n // 6 == opened // 6 and n != opened}
    assert near <= set(labels)
    high, room = page.inner.evaluate(
        "[document.querySelector('.scene .part').getBoundingClientRect().height,"
        " document.querySelector('.scene').clientHeight]"
    )
    assert high > 0.7 * room
    assert page.inner.evaluate(LAYOUT) == []


def test_on_a_laptop_every_group_and_the_near_layers_have_labels(
    studio: Served, page: Page
) -> None:
    sized(page, 1280, 800)
    page.see(address(studio, "flow", "b", LONG))
    labels = page.words(LABELS)
    assert {"layers 0–5", "6–11", "12–17", "18", "19", "20", "21"} <= set(labels)
    assert page.inner.evaluate(LAYOUT) == []


@pytest.mark.parametrize(("view", "picture"), [("flow", ".scene"), ("attention", ".matrix canvas")])
def test_a_4k_window_gives_most_of_its_height_to_the_picture(
    studio: Served, page: Page, view: str, picture: str
) -> None:
    sized(page, 3840, 2160)
    page.see(address(studio, view, text=LONG))
    high = page.inner.eval_on_selector(picture, "el => el.getBoundingClientRect().height")
    assert high > 0.65 * 2160
    assert page.inner.evaluate(LAYOUT) == []


def test_the_links_of_the_flow_panel_are_in_view(studio: Served, page: Page) -> None:
    sized(page, 1280, 800)
    page.see(address(studio, "flow", "b", LONG))
    bottoms = page.inner.evaluate("""() => ['.onward a', '#stage .panel'].map(name =>
        document.querySelector(name).getBoundingClientRect().bottom)""")
    assert bottoms[0] <= bottoms[1]


def test_a_group_opens_with_the_keyboard_and_every_layer_can_be_reached(
    studio: Served, page: Page
) -> None:
    sized(page, 1280, 800)
    page.see(address(studio, "flow", "b"))
    page.inner.locator(".part[aria-label^='Decoder layers 6–11']").focus()
    page.inner.keyboard.press("Enter")
    page.wait("location.hash.includes('layer=decoder.11')")
    page.inner.locator(".part.selected").focus()
    names = page.inner.eval_on_selector_all(
        PARTS, "all => all.map(el => el.getAttribute('aria-label'))"
    )
    assert sorted([*layers_of(names), 11]) == list(range(LAYERS))
    page.inner.locator(".part[aria-label^='Decoder layer 6:']").click()
    page.wait("location.hash.includes('layer=decoder.6')")
    page.inner.evaluate("document.activeElement.blur()")
    page.inner.keyboard.press("ArrowUp")  # out of its group
    page.wait("location.hash.includes('layer=decoder.5')")
    assert "layer 5" in page.words(".panel .kicker")[0]
