"""Motion on the page: it shows a change, ends with any input, changes no number, and there is none
where the system asks for less."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.studio.browser import Page, opened
from tests.studio.serving import TEXT, Served, model, serving

pytestmark = pytest.mark.slow

# Every motion that a script starts: its end in ms, and what it moves.
RECORDED = """(() => {
  window.motions = [];
  const animate = Element.prototype.animate;
  Element.prototype.animate = function (frames, timing) {
    window.motions.push([timing.duration + (timing.delay ?? 0), this.getAttribute('class') ?? '']);
    return animate.call(this, frames, timing);
  };
})()"""
OLD = "document.querySelectorAll('.old, .running').length"


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    made = {
        "translate": model("translate-transformer", layers=2),
        "lstm": model("translate-lstm"),
    }
    with serving(made) as served:
        yield served


@pytest.fixture
def moving(running: Any) -> Iterator[Page]:
    with opened(running) as found:
        found.inner.emulate_media(reduced_motion="no-preference")
        found.inner.at_once.add_init_script(RECORDED)
        yield found
        found.check()


def address(studio: Served, view: str, **keys: str) -> str:
    more = "".join(f"&{key}={value}" for key, value in keys.items())
    return f"{studio.address}#/{view}?text={quote(TEXT)}{more}"


# What is on the stage: every element with its attributes, and every canvas pixel by pixel.
STILL = """() => [document.getElementById('stage').innerHTML,
  ...[...document.querySelectorAll('#stage canvas')].map(el => el.toDataURL())]"""
# A change in each view that moves something: the address, and what to press or click.
CHANGES = {
    "head": ("attention", {"kind": "cross", "layer": "0", "head": "0"}, "]"),
    "layer": ("attention", {"kind": "decoder", "layer": "0", "head": "1"}, "ArrowDown"),
    "token": ("attention", {"kind": "cross", "pin": "tgt:1"}, "ArrowRight"),
    "layer of Flow": ("flow", {"at": "decoder.layers.1.cross_attention.pattern"}, "ArrowUp"),
    "unit": ("recurrent", {"m": "b", "unit": "3"}, "]"),
    "switch": ("whatif", {}, ".headswitch"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_motion_ends_in_the_picture_that_is_drawn_without_it(
    studio: Served, own_page: Page, name: str
) -> None:
    view, keys, act = CHANGES[name]
    own_page.inner.at_once.add_init_script(RECORDED)
    found = []
    for wanted in ("no-preference", "reduce"):
        own_page.inner.emulate_media(reduced_motion=wanted)
        own_page.inner.goto("about:blank")
        own_page.see(address(studio, view, **keys))
        own_page.inner.evaluate("() => { motions.length = 0; }")
        before = own_page.inner.evaluate(STILL)
        if act.startswith("."):
            own_page.inner.locator(act).first.click()
            own_page.wait("/Restore/.test(document.querySelector('#stage .panel').textContent)")
        else:
            own_page.inner.keyboard.press(act)
        own_page.wait("before => document.getElementById('stage').innerHTML !== before", before[0])
        found.append(own_page.inner.evaluate(STILL))
        moved = own_page.inner.evaluate("motions.length")
        assert (moved > 0) == (wanted == "no-preference" and name != "token")  # a transition
        assert found[-1] != before
    assert found[0] == found[1]


def slowly(page: Page) -> None:
    """Motion takes a hundred times as long: a test can look at it."""
    session = page.inner.context.new_cdp_session(page.inner.at_once)
    session.send("Animation.enable")
    session.send("Animation.setPlaybackRate", {"playbackRate": 0.01})


def test_data_runs_along_the_strands_once_for_each_text(studio: Served, moving: Page) -> None:
    moving.see(address(studio, "flow"))
    moved = moving.inner.evaluate("motions")
    assert [kind for _, kind in moved] == ["running", "running"]  # the encoder, then the decoder
    assert max(end for end, _ in moved) == 400
    assert moving.inner.evaluate(OLD) == 0
    moving.turn(address(studio, "flow", theme="dark"))
    moving.inner.keyboard.press("d")
    assert moving.inner.evaluate("motions.filter(([, kind]) => kind === 'running').length") == 2


def test_a_head_turns_into_the_next_and_the_numbers_are_there_at_once(
    studio: Served, moving: Page
) -> None:
    moving.see(address(studio, "attention", kind="cross", layer="0", head="0"))
    slowly(moving)
    page = moving.inner.at_once  # not at rest: it moves
    page.keyboard.press("]")
    moving.wait("document.querySelectorAll('#stage .old').length === 2")  # matrix and ribbons
    moving.wait("document.querySelector('#stage .panel h2').textContent === 'Head 1'")
    assert all(200 <= end <= 400 for end, _ in page.evaluate("motions"))
    assert page.evaluate("[...document.querySelectorAll('.old')].every(el => el.inert)")
    page.keyboard.press("Shift")  # any input ends it
    assert page.evaluate(OLD) == 0
    assert page.evaluate("document.querySelectorAll('[data-turning]').length") == 0
    page.keyboard.press("]")
    page.keyboard.press("[")
    moving.wait("document.querySelector('#stage .panel h2').textContent === 'Head 1'")


def test_a_layer_of_flow_turns_into_the_next(studio: Served, moving: Page) -> None:
    moving.see(address(studio, "flow", at="decoder.layers.1.cross_attention.pattern"))
    slowly(moving)
    page = moving.inner.at_once
    page.keyboard.press("ArrowUp")
    moving.wait("document.querySelector('.scene > .old') !== null")
    (x, y) = page.evaluate("""() => { const box = document.querySelector('.scene .part');
        const { x, y } = box.getBoundingClientRect(); return [x + 5, y + 5]; }""")
    page.mouse.click(x, y)  # a click goes to the new picture, through the old one
    moving.wait("location.hash.includes('at=encoder.embedding')")


def test_reduced_motion_moves_nothing(studio: Served, own_page: Page) -> None:
    own_page.inner.at_once.add_init_script(RECORDED)
    own_page.see(address(studio, "flow"))
    own_page.inner.keyboard.press("ArrowUp")
    own_page.turn(address(studio, "attention"))
    own_page.inner.keyboard.press("]")
    own_page.turn(address(studio, "whatif"))
    own_page.inner.locator(".headswitch").first.click()
    assert own_page.inner.evaluate("motions") == []
    assert own_page.inner.evaluate(OLD) == 0
