"""Nobody is left out: the page by keyboard alone, and axe-core's rules for WCAG 2.2 A and AA."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.studio.browser import Page, opened
from tests.studio.serving import Served, serving
from tests.studio.shown import check_foot, foot
from tests.studio.trained import TEXTS, VIEWS, address_of, trained
from tests.tiny.dealt import chosen

pytestmark = pytest.mark.slow

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Every view with a model of each kind that draws it in another way.
LIGHT = [("translate", "flow"), ("lstm", "recurrent"), ("lstm", "decode"), ("translate", "compare"),
         ("translate", "lesson"),
         *(pytest.param(*place, marks=pytest.mark.thorough)
           for place in (("lstm", "flow"), ("regress", "flow"), ("classify", "flow"),
                         ("translate", "attention"), ("tag", "whatif"), ("translate", "whatif"),
                         ("regress", "whatif"), ("tag", "compare")))
         ]  # fmt: skip
DARK = [("language", "attention"), ("lstm", "whatif"),
        *(pytest.param(*place, marks=pytest.mark.thorough)
          for place in (("translate", "flow"), ("lstm", "lesson"), ("tag", "recurrent"),
                        ("language", "decode"), ("lstm", "compare")))
        ]  # fmt: skip


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving(trained()) as served:
        yield served


# ---- rules ----


def violations(page: Page, rules: list[str]) -> list[str]:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe-core comes with the package axe-playwright-python; pip install it",
    )
    only: dict[str, Any] = {"runOnly": rules, "resultTypes": ["violations"]}
    found = axe.Axe().run(page.inner, options=only).response["violations"]
    return [f"{each['id']}: {node['target']}: {node.get('failureSummary')}"
            for each in found for node in each["nodes"]]  # fmt: skip


@pytest.mark.parametrize(("family", "view"), LIGHT)
def test_no_rule_is_broken(studio: Served, leaf: Page, family: str, view: str) -> None:
    more = {"off": next(iter(library_switches(studio, family)))} if view == "whatif" else {}
    leaf.turn(address_of(studio, family, view, pin="src:1", **more))
    assert violations(leaf, RULES) == []


@pytest.mark.parametrize(("family", "view"), DARK)
def test_no_rule_is_broken_in_the_dark(studio: Served, leaf: Page, family: str, view: str) -> None:
    more = {"off": next(iter(library_switches(studio, family)))} if view == "whatif" else {}
    leaf.turn(address_of(studio, family, view, pin="src:1", theme="dark", **more))
    assert violations(leaf, ["wcag2aa", "wcag21aa", "wcag22aa"]) == []


def test_an_opened_number_and_its_credit_break_no_rule(studio: Served, leaf: Page) -> None:
    opened = "head.logits[0, 1, 7];decoder.final_norm.output[0, 1, 3]"
    for theme in ("light", "dark"):
        more = {"at": "head.logits", "i": "1,7", "walk": opened, "theme": theme}
        leaf.turn(address_of(studio, "translate", "flow", **more))
        leaf.wait("document.querySelector('.terms .crumbs')")
        assert violations(leaf, RULES) == []


def library_switches(studio: Served, family: str) -> Any:
    return next(each for each in studio.library.opened.values() if each.name == family).switches


def test_errors_and_questions_break_no_rule(studio: Served, leaf: Page) -> None:
    leaf.expected.append("422")
    assert leaf.turn(address_of(studio, "tag", "flow", text="")) == "error"
    assert violations(leaf, RULES) == []
    leaf.turn(address_of(studio, "tag", "flow"))
    leaf.inner.keyboard.press("/")
    assert violations(leaf, RULES) == []
    leaf.inner.keyboard.press("Escape")


# ---- the keyboard ----

FOCUSED = """() => { const el = document.activeElement;
    return el === document.body ? null : [el.tagName, el.getAttribute('aria-label')
        || el.title || el.textContent.trim()].join(' '); }"""
# Whether a frame is drawn around what has the focus, or around what stands for it.
RINGED = """() => { const el = document.activeElement, style = getComputedStyle(el),
    inner = el.querySelector?.('.hit');
    return (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1.5)
        || (inner && getComputedStyle(inner).stroke !== 'rgba(0, 0, 0, 0)'
            && getComputedStyle(inner).strokeDasharray !== 'none'); }"""
# All that can be clicked, but for what one tab stop and the arrows reach.
REACHABLE = """() => [...document.querySelectorAll(
        'button, a[href], input, select, [tabindex="0"]')]
    .filter(el => !el.disabled && el.tabIndex >= 0 && el.getClientRects().length
        && !el.closest('.skip'))
    .map(el => [el.tagName, el.getAttribute('aria-label') || el.title || el.textContent.trim()]
         .join(' '))"""


def stops(page: Page, most: int = 400) -> list[str]:
    """What Tab comes by, from the top of the page until it leaves it."""
    page.inner.evaluate(
        "() => { document.activeElement.blur(); const top = document.querySelector('.skip');"
        " top.focus(); }"
    )
    found = []
    for _ in range(most):
        page.inner.keyboard.press("Tab")
        now, ringed = page.inner.evaluate(f"() => [({FOCUSED})(), ({RINGED})()]")
        if now is None or now.endswith("Skip to the view"):
            return found
        assert ringed, f"no frame around {now}"
        found.append(now)
    raise AssertionError(f"Tab does not come to an end: {found[-3:]}")


CONTROLS = [("tag", "flow"), ("classify", "attention"), ("language", "decode"), ("tag", "whatif"),
            ("translate", "flow"), ("tag", "recurrent"), ("tag", "compare")]  # fmt: skip


@pytest.mark.parametrize(("family", "view"), chosen(CONTROLS, *CONTROLS[1:3]))
def test_tab_comes_by_every_control(studio: Served, leaf: Page, family: str, view: str) -> None:
    leaf.turn(address_of(studio, family, view))
    found = stops(leaf)
    # Read after it: a panel tells of the cell that had the focus last, and stands still.
    wanted = leaf.inner.evaluate(REACHABLE)
    assert len(wanted) > 10
    assert [each for each in wanted if each not in found] == []


def test_skipping_to_the_view_keeps_the_address(studio: Served, leaf: Page) -> None:
    leaf.turn(address_of(studio, "translate", "attention", pin="src:1"))
    before = leaf.inner.url
    leaf.inner.focus(".skip")
    leaf.inner.keyboard.press("Enter")
    assert leaf.inner.evaluate("document.activeElement.id") == "stage"
    assert leaf.inner.url == before


def test_every_view_by_its_number(studio: Served, leaf: Page) -> None:
    leaf.turn(address_of(studio, "lstm", "flow"))
    for number, view in enumerate(
        ["flow", "attention", "recurrent", "decode", "whatif", "compare"]
    ):
        if number:
            assert leaf.changed(
                lambda number=number: leaf.inner.keyboard.press(str(number + 1))
            ).startswith(view)


def test_a_view_is_chosen_with_tab_and_enter_and_keeps_the_focus(
    studio: Served, leaf: Page
) -> None:
    leaf.turn(address_of(studio, "translate", "flow"))
    leaf.inner.focus(".views a >> nth=0")
    for view in ("attention", "decode", "whatif"):  # Recurrent is greyed, and is no stop
        leaf.inner.keyboard.press("Tab")
        assert leaf.changed(lambda: leaf.inner.keyboard.press("Enter")).startswith(view)
        assert leaf.inner.evaluate("document.activeElement.getAttribute('aria-current')") == "page"


def test_words_are_looked_at_and_pinned(studio: Served, leaf: Page) -> None:
    leaf.turn(address_of(studio, "translate", "attention"))
    leaf.inner.focus("#sentence .token >> nth=2")
    leaf.inner.keyboard.press("Shift+Tab")
    assert leaf.words("#sentence .token.lit .word") == ["old"]
    leaf.inner.keyboard.press("Enter")
    assert "pin=src:1" in leaf.inner.url
    leaf.inner.keyboard.press("Escape")
    assert "pin=" not in leaf.inner.url


def walk(page: Page, picture: str, keys: list[str]) -> list[str]:
    """Focus a picture by Tab, press keys, and tell what the read-out says after each."""
    page.inner.evaluate("picture => document.querySelector(picture).focus()", picture)
    page.inner.keyboard.press("Shift+Tab")
    page.inner.keyboard.press("Tab")
    assert page.inner.evaluate(RINGED), picture
    told = []
    for key in keys:
        page.inner.keyboard.press(key)
        told.append(" ".join(foot(page)))
    return told


@pytest.mark.parametrize(("family", "view", "picture", "more"), [
    ("translate", "flow", "#stage .panel .heat svg", {}),
    ("translate", "flow", "#stage .panel .heat svg", {"at": "encoder.final_norm.output"}),
    ("translate", "attention", "#stage .matrix svg", {}),
    ("lstm", "recurrent", "#stage .strips svg", {}),
    ("lstm", "decode", "#stage .tree svg", {"step": "3"}),
    ("lstm", "decode", "#stage .looks", {"step": "3"}),
    ("translate", "whatif", "#stage .ripplebox svg",
     {"off": "encoder.layers.0.self_attention.head.0"}),
    ("translate", "compare", "#stage .cmppic svg", {}),
])  # fmt: skip
def test_arrows_walk_over_a_picture(
    studio: Served, leaf: Page, family: str, view: str, picture: str, more: dict[str, str]
) -> None:
    """Each step shows another number at the foot of the page, as the pointer would."""
    leaf.turn(address_of(studio, family, view, **more))
    told = walk(leaf, picture, ["ArrowRight", "ArrowRight", "ArrowLeft"])
    assert told[0] != told[1]
    assert told[2] == told[0]
    assert all(any(letter.isdigit() for letter in each) for each in told)
    leaf.inner.evaluate("document.activeElement.blur()")


def test_a_part_of_the_model_is_opened_and_read(studio: Served, leaf: Page) -> None:
    """Flow by keys alone: along the panes, into one, to a cell of its tensor, and pinned."""
    model = trained()["translate"]
    leaf.turn(address_of(studio, "translate", "flow"))
    leaf.inner.focus('#stage .part[tabindex="0"]')
    before = leaf.inner.evaluate(FOCUSED)
    leaf.inner.keyboard.press("ArrowRight")
    now = leaf.inner.evaluate(FOCUSED)
    assert now != before
    at = now.rpartition(": ")[2]
    assert foot(leaf)[0] == at
    leaf.inner.keyboard.press("Enter")
    leaf.wait("at => document.querySelector('#stage .panel select').value === at", at)
    leaf.wait("at => document.activeElement.getAttribute('aria-label')?.endsWith(at)", at)
    walk(leaf, "#stage .panel .heat svg", ["ArrowDown", "ArrowRight"])
    leaf.inner.keyboard.press("Enter")
    leaf.wait("/[?&]i=/.test(location.hash)")
    leaf.wait("document.activeElement.matches('.panel svg')")  # redrawn, and still there
    leaf.inner.evaluate("document.activeElement.blur()")
    check_foot(leaf, model.trace(TEXTS["translate"]))


def test_switches_and_swaps_by_keys(studio: Served, leaf: Page) -> None:
    leaf.turn(address_of(studio, "tag", "whatif"))
    leaf.inner.focus("#stage .switch >> nth=0")
    name = leaf.inner.evaluate("document.activeElement.title")
    leaf.inner.keyboard.press("Space")
    leaf.wait("/Restore/.test(document.querySelector('#stage .panel').textContent)")
    assert leaf.inner.evaluate("document.activeElement.title") == name
    assert leaf.inner.evaluate("document.activeElement.ariaChecked") == "true"  # "... is silent"
    leaf.inner.keyboard.press("Backspace")
    leaf.wait("document.querySelector('#stage .panel h2').textContent === 'As trained'")
    leaf.inner.focus("#stage .swaps button >> nth=1")
    leaf.inner.keyboard.press("Enter")
    leaf.inner.keyboard.type("sleeps")
    leaf.inner.keyboard.press("Enter")
    leaf.wait("/Swapped/.test(document.querySelector('#stage .panel').textContent)")
    leaf.wait("document.activeElement.getAttribute('aria-label') === 'swap works'")


def test_a_word_is_forced_by_keys(studio: Served, leaf: Page) -> None:
    leaf.turn(address_of(studio, "lstm", "decode", step="2"))
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        leaf.inner.keyboard.press(key)
    leaf.changed(lambda: leaf.inner.keyboard.press("f"))
    assert "force=" in leaf.inner.url
    leaf.changed(lambda: leaf.inner.keyboard.press("Backspace"))
    assert "force=" not in leaf.inner.url


def test_reduced_motion_disables_animations(studio: Served, running: Any) -> None:
    """Reduced motion: no transition; forced colours: what is chosen has a frame."""
    with opened(running) as page:
        page.inner.emulate_media(reduced_motion="reduce", forced_colors="active")
        page.see(address_of(studio, "translate", "flow", pin="src:1"))
        moving = (
            "[...document.querySelectorAll('*')].filter(el => getComputedStyle(el)"
            ".transitionDuration.split(',').some(t => parseFloat(t) > 0)).length"
        )
        assert page.inner.evaluate(moving) == 0
        outline = "getComputedStyle(document.querySelector('.token.pinned')).outlineStyle"
        assert page.inner.evaluate(outline) == "solid"
        page.check()


def test_the_page_has_a_language_and_a_title(studio: Served, leaf: Page) -> None:
    for view in VIEWS["tag"]:
        leaf.turn(address_of(studio, "tag", view))
        title = leaf.inner.title()
        assert title.endswith("Translucid studio")
        assert "tag" in title
        assert leaf.inner.evaluate("document.documentElement.lang") == "en"
        assert len(leaf.words("h1")) == 1
