"""What somebody meets in the first hour on the page: words the model does not know, clicks, pins,
switches, links with mistakes, a server that has stopped, windows of every size."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.see.small import pair
from tests.studio.browser import Page
from tests.studio.serving import Served, serving
from tests.studio.trained import TEXTS, address_of, trained
from tests.tiny.dealt import chosen

from translucid.core.trace import Trace
from translucid.data.features import Columns
from translucid.model import Model
from translucid.tasks.model_folder import Bundle

pytestmark = pytest.mark.slow

LAYOUT = (Path(__file__).parent / "layout.js").read_text("utf-8")
STRANGE = "The zebra does not like the xylophone."
LONG = " ".join(["The old dog does not like the small cat ."] * 3)
# What can be pressed in the bars lies in the window, and nothing lies on it.
CROWDED = """() => {
    const pressed = '#bar :is(a, button:not(.skip), select), #sentence .edit';
    const all = [...document.querySelectorAll(pressed)]
        .filter(el => el.getClientRects().length).map(el => [el, el.getBoundingClientRect()]);
    const outside = all.filter(([, r]) => r.left < -1 || r.right > innerWidth + 1 || r.width < 8);
    const covered = all.filter(([el, r]) => all.some(([other, o]) => el !== other
        && Math.min(r.right, o.right) - Math.max(r.left, o.left) > 1
        && Math.min(r.bottom, o.bottom) - Math.max(r.top, o.top) > 1));
    return [...outside, ...covered].map(([el]) => el.outerHTML.slice(0, 60)); }"""


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    models = {name: trained()[name] for name in ("translate", "lstm")}
    task, network = pair(
        "classify", "transformer", positions="rotary", heads=12, layers=12, d_model=48
    )
    held = Bundle(network.float(), "classify", {"tokenizer": task.tokenizer}, ("bad", "good"))
    models["rotary"] = Model(held)
    task, network = pair("classify", "transformer")
    held = Bundle(network.float(), "classify", {"tokenizer": task.tokenizer}, ("bad", "good"))
    models["untrained"] = Model(held)
    _, network = pair("regress", "mlp")
    scale = {"mean": [200_000.0], "deviation": [50_000.0]}
    columns = Columns.numbers(["x1", "x2", "x3"]).as_json()
    statistics = {"columns": columns, "targets": scale}
    models["prices"] = Model(Bundle(network.float(), "regress", statistics=statistics))
    with serving(models) as served:
        yield served


def seen(page: Page, studio: Served, family: str, view: str, **more: str) -> Page:
    texts = dict.fromkeys(("rotary", "untrained"), "the dog sees a cat .") | {"prices": "0.5 1 -2"}
    text = more.pop("text", texts.get(family) or TEXTS[family])
    m = next(m for m, each in studio.library.opened.items() if each.name == family)
    given = {"m": m, "text": text, **more}
    page.inner.evaluate("document.activeElement.blur()")  # what has the focus is read out
    page.turn(address_of(studio, "lstm", view, **given))
    return page


def path(page: Page) -> str:
    return page.text("#readout .path")


# ---- words, rows, pins ----


def test_unknown_words_are_marked(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "translate", "flow", text=STRANGE)
    assert leaf.words("#sentence .token.unknown .word") == ["zebra", "xylophone"]
    assert "2 tokens are unknown: read as <unk>" in leaf.text("#sentence")
    assert leaf.words("#stage text.unknown") == ["zebra", "xylophone"]
    seen(leaf, studio, "translate", "flow")
    assert leaf.words(".unknown, .unknowns") == []


def test_an_example_of_the_models_own_data_comes_first(studio: Served) -> None:
    opened = next(each for each in studio.library.opened.values() if each.name == "translate")
    first = studio.get(f"/api/model/{opened.key}").json["examples"][0]
    assert first == opened.model.facts["example"]
    assert studio.run(opened.key, first)["unknown"]["source"] == []


def test_a_click_in_a_pane_shows_the_row_under_it(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "translate", "flow")
    box = leaf.inner.locator("#stage .part").first.bounding_box()
    rows = leaf.inner.locator("#stage svg text.row")
    y = rows.nth(5).bounding_box()
    leaf.inner.mouse.click(box["x"] + box["width"] / 2, y["y"] + y["height"] / 2)
    leaf.inner.mouse.move(1, 1)
    leaf.wait(r"() => /embedding\.\w+\[5, /.test(document.querySelector('#readout').textContent)")
    assert "pin=src:5" in leaf.inner.url


def test_a_pinned_source_word_selects_the_row_that_attends_to_it_most(
    studio: Served, leaf: Page
) -> None:
    model = trained()["translate"]
    at = "decoder.layers.1.cross_attention.pattern"
    for word in (2, 7):
        seen(leaf, studio, "translate", "flow", at=at, pin=f"src:{word}")
        column = model.trace(TEXTS["translate"])[at][0, 0, :, word]
        assert path(leaf) == f"{at}[0, {int(column.argmax())}, {word}]"


def test_escape_in_tables_keeps_the_pins(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "translate", "flow", pin="src:2")
    leaf.inner.keyboard.press("t")
    leaf.wait("document.querySelector('dialog .tablebox td')")
    leaf.inner.keyboard.press("Escape")
    leaf.wait("!document.querySelector('dialog')")
    assert "pin=src:2" in unquote(leaf.inner.url)
    leaf.inner.keyboard.press("Escape")
    leaf.wait("!location.hash.includes('pin')")


# ---- switches ----


def test_switches_show_their_state(studio: Served, leaf: Page) -> None:
    """What names a change is off until it is made; what names a part is on until it is taken."""
    seen(leaf, studio, "lstm", "whatif")
    switches = leaf.inner.locator("#stage .switch")
    names = switches.locator("b").all_inner_texts()
    assert any(name.startswith("Forget gate = ") for name in names)
    for place, name in enumerate(names):
        change = "=" in name or "silent" in name or " looks " in name or " starts " in name
        on = switches.nth(place).get_attribute("aria-checked")
        assert on == str(not change).lower(), name
    gate = names.index("Forget gate = 0")
    switches.nth(gate).click()
    leaf.wait("document.querySelector('#stage .switch.thrown')")
    assert switches.nth(gate).get_attribute("aria-checked") == "true"


def test_greedy_outputs_are_shown_beside_teacher_forcing(studio: Served, leaf: Page) -> None:
    model = trained()["lstm"]
    opened = next(each for each in studio.library.opened.values() if each.name == "lstm")
    key = next(key for key in opened.switches if key.endswith("forget_gate=0"))
    seen(leaf, studio, "lstm", "whatif", off=key)
    leaf.wait("document.querySelector('.freely dd')?.textContent !== '…'")
    assert "teacher forcing" in leaf.text(".freely")
    edits = Trace([], edit=dict(opened.switches[key].edit))
    texts = [
        model.decode([TEXTS["lstm"]], beam_size=1, trace=trace)[0].texts[0].text
        for trace in (None, edits)
    ]
    assert leaf.words(".freely dd") == texts


def test_every_kind_of_switch_can_be_written_with(studio: Served) -> None:
    for opened in list(studio.library.opened.values())[:2]:
        text = TEXTS[opened.name]
        for key in {switch.kind: key for key, switch in opened.switches.items()}.values():
            run = studio.run(opened.key, text, off=[key])["run"]
            answer = studio.get(f"/api/runs/{run}/decode?beam_size=1")
            assert answer.status == 200, (key, answer.body)


def test_a_head_that_changes_little_is_painted_pale(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "untrained", "whatif")
    leaf.inner.locator("#stage .headswitch").nth(3).click()
    leaf.wait("/full /.test(document.querySelector('#stage .switches').textContent)")
    assert re.search(r"full .* 0\.20", leaf.text("#stage .switches"))


# ---- pictures ----


@pytest.mark.parametrize("width", [1280, 1440])
def test_rows_of_compare_are_whole(studio: Served, leaf: Page, width: int) -> None:
    leaf.inner.set_viewport_size({"width": width, "height": 800})
    seen(leaf, studio, "translate", "compare", target="Kraftfahrzeuge Konzertsaal nicht ein .")
    cut = """() => [...document.querySelectorAll('.cmppic svg text')].filter(el =>
        el.getBoundingClientRect().left < el.closest('svg').getBoundingClientRect().left - 1)
        .map(el => el.textContent)"""
    assert leaf.inner.evaluate(cut) == []
    leaf.inner.set_viewport_size({"width": 1280, "height": 800})


def test_rotary_positions_are_listed_with_their_attention(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "rotary", "flow")
    names = leaf.inner.eval_on_selector_all(
        "#stage .part", "all => all.map(el => el.getAttribute('aria-label'))"
    )
    assert not any("position" in name.lower() for name in names)
    assert "positions.angles" in leaf.words("#stage .panel .chooser option")


def test_every_head_of_many_is_seen(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "rotary", "attention")
    found = leaf.inner.evaluate("""() => {
        const box = document.querySelector('.headgrids').getBoundingClientRect();
        return [...document.querySelectorAll('.headgrid button')].map(el => {
            const r = el.getBoundingClientRect();
            return r.width >= 16 && r.right <= box.right + 1 && r.bottom <= box.bottom + 1; });
    }""")
    assert len(found) == 12 * 13
    assert all(found)


def test_cut_off_content_has_scroll_buttons(studio: Served, leaf: Page) -> None:
    leaf.inner.set_viewport_size({"width": 480, "height": 800})
    seen(leaf, studio, "translate", "decode", text=LONG, beam_size="8")
    right, left = (leaf.inner.locator(f"#sentence .rollon.{side}") for side in ("right", "left"))
    right.wait_for()
    rolled = "document.querySelector('#sentence .rolling').firstChild.scrollLeft"
    before = leaf.inner.evaluate(rolled)
    right.click()
    leaf.wait(f"before => {rolled} > before", before)
    left.wait_for()
    # The tree folds steps that have no room, so that nothing of it is cut off.
    assert leaf.inner.locator(".dec .rollon:visible").count() == 0
    assert "folded" in " ".join(leaf.words(".dec"))
    leaf.inner.set_viewport_size({"width": 1280, "height": 800})
    seen(leaf, studio, "translate", "decode", text="The dog .")
    assert leaf.inner.locator("#sentence .rollon:visible").count() == 0


def test_play_becomes_pause(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "translate", "decode", step="1")
    # In one go: it plays on meanwhile, and at the end is Play again.
    told = leaf.inner.evaluate(
        "() => ['aria-label', 'title', 'aria-label'].map((name, n) => {"
        " const button = () => document.querySelector('.play .go');"
        " if (n !== 1) button().click(); return button().getAttribute(name); })"
    )
    assert told == ["Pause", "Pause (Space)", "Play, step by step"]


def test_formulas_have_a_font_of_their_own(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "translate", "flow")
    leaf.wait(
        "() => [...document.fonts].some("
        "face => /Studio Math/.test(face.family) && face.status === 'loaded')"
    )
    leaf.wait("document.querySelector('#stage math')")
    fonts = leaf.inner.eval_on_selector_all(
        "#stage math", "all => [...new Set(all.map(el => getComputedStyle(el).fontFamily))]"
    )
    assert [font.split(",")[0] for font in fonts] == ['"Studio Math"'] * len(fonts)


def test_numbers_of_a_regression_have_their_units(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "prices", "flow")
    opened = next(each for each in studio.library.opened.values() if each.name == "prices")
    (value,) = opened.model.predict([[0.5, 1, -2]])[0]
    assert "output, standardised" in leaf.text("#stage .scene")
    assert "in the data’s units" in leaf.text("#stage .scene")
    said = float(leaf.text("#stage text.said").replace(",", ""))
    assert said == pytest.approx(value, rel=1e-5)
    told = re.search(r"in the data’s units ([\d,.]+)", leaf.text("#stage .panel"))
    assert told is not None
    assert float(told[1].replace(",", "")) == pytest.approx(value, rel=1e-6)


# ---- links, stops, windows ----


def test_invalid_keys_of_a_link_are_reported(studio: Served, leaf: Page) -> None:
    wrong = {"head": "99", "pin": "src:70", "theme": "pink", "nonsense": "1", "at": "nowhere"}
    leaf.see(address_of(studio, "translate", "attention", **wrong))
    told = leaf.told()
    for name, value in wrong.items():
        assert f"{name}={value} (" in told
    assert "heads 0 to 3 are there" in told
    assert leaf.inner.locator("#stage .matrix").count() == 1
    leaf.turn(address_of(studio, "translate", "recurrent"))
    assert "view=recurrent (This model has no recurrent part)" in leaf.told()
    leaf.turn(address_of(studio, "translate", "attention", head="3", pin="src:2,tgt:1"))
    assert leaf.told() == ""
    leaf.changed(lambda: leaf.inner.keyboard.press("1"))
    assert leaf.told() == ""


def test_a_server_that_has_stopped_leaves_the_picture(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "translate", "flow", text="The dog sees the cat .")
    address = leaf.inner.url
    leaf.expected += ["Failed to load", "ERR_FAILED"]
    leaf.inner.route("**/api/**", lambda route: route.abort())
    try:
        leaf.changed(lambda: leaf.inner.keyboard.press("4"))
        assert "the studio’s server has stopped" in leaf.told()
        assert leaf.inner.locator("#stage .part").count() > 5
        assert leaf.inner.url == address
        leaf.inner.locator("#stage .part").nth(6).click()  # a click that nobody answers
        leaf.wait("document.querySelector('.told')")
        assert leaf.inner.locator("#stage .part").count() > 5
    finally:
        leaf.inner.unroute("**/api/**")
    leaf.changed(lambda: leaf.inner.keyboard.press("4"))
    assert leaf.told() == ""
    assert leaf.inner.locator(".treebox").count() == 1


def test_an_empty_sentence_is_not_read(studio: Served, leaf: Page) -> None:
    seen(leaf, studio, "translate", "flow")
    address = leaf.inner.url
    leaf.inner.keyboard.press("/")
    leaf.inner.locator("#sentence input").fill("  ")
    leaf.inner.keyboard.press("Enter")
    leaf.wait("/is empty/.test(document.querySelector('#readout').textContent)")
    assert leaf.inner.url == address
    assert leaf.inner.locator("#stage .part").count() > 5
    leaf.inner.keyboard.press("Escape")
    leaf.expected += ["422"]
    leaf.turn(address_of(studio, "translate", "flow", text=" "))  # by a link
    assert "text is empty" in leaf.told()
    assert leaf.inner.locator("#stage .part").count() > 5


# The first answer about a text comes when it is let go; what waits a second is held.
HELD = """() => {
    const { fetch, setInterval, clearInterval } = window;
    const held = new Map();
    let go;
    const later = new Promise(open => { go = open; });
    window.fetch = async (to, ...more) => {
        if (String(to).endsWith('/api/runs')) await later;
        return fetch(to, ...more);
    };
    window.setInterval = (act, ms, ...more) => {
        if (ms !== 1000) return setInterval(act, ms, ...more);
        held.set(-1 - held.size, act);
        return -held.size;
    };
    window.clearInterval = id => held.delete(id) || clearInterval(id);
    window.held = held;
    window.letGo = () => {
        held.forEach(act => act());
        Object.assign(window, { fetch, setInterval, clearInterval });
        go();
    };
}"""


def test_a_view_that_was_left_draws_nothing_more(studio: Served, leaf: Page) -> None:
    """Somebody asks for a text, and before it is read for another one, which is there at once."""
    seen(leaf, studio, "translate", "flow")
    address, page = leaf.inner.url, leaf.inner.at_once
    told = leaf.text("#readout")
    page.evaluate(HELD)
    to = "to => { delete document.documentElement.dataset.ready; location.hash = to; }"
    page.evaluate(to, "#/flow?m=a&text=the+cat+.")
    leaf.wait("held.size === 1")
    page.evaluate(to, address.partition("#")[2])
    leaf.ready()
    page.evaluate("letGo()")
    assert leaf.text("#readout") == told


EDGES = """() => ['.over > header button', '.over > header', '.over'].map(
    name => document.querySelector(name).getBoundingClientRect().right)"""
# What stands on top at the last cell of a table's first row, when the table is rolled to its end.
LAST_CELL = """() => {
    const box = document.querySelector('.over .tablebox');
    box.scrollLeft = box.scrollWidth;
    const cell = box.querySelector('tbody tr').lastElementChild;
    const { x, y, width, height } = cell.getBoundingClientRect();
    const top = document.elementFromPoint(x + width / 2, y + height / 2);
    return cell.contains(top) ? 'seen' : `under ${top.textContent}`;
}"""


# Texts that a box cuts off without a sign: it does not roll, and has no ellipsis.
CUT = """() => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode;
        let up = node.parentElement;
        if (!node.data.trim() || up.closest('svg,option,.unseen,.skip')) continue;
        while (up && getComputedStyle(up).overflowX === 'visible') up = up.parentElement;
        if (!up || getComputedStyle(up).overflowX !== 'hidden') continue;
        if (getComputedStyle(up).textOverflow === 'ellipsis') continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        const { right, width } = range.getBoundingClientRect();
        if (width && right > up.getBoundingClientRect().right + 1) found.push(node.data);
    }
    return found;
}"""
# The sign that there is more of the sentence covers it to its end.
COVERED = """() => {
    const [sign, box] = ['.sentence .rollon.right', '.sentence .rolls'].map(
        name => document.querySelector(name).getBoundingClientRect());
    return sign.width === 0 || sign.right >= box.right;
}"""
CHOSEN_IS_SEEN = """() => {
    const [part, box] = ['.scene .part.selected', '.scene'].map(
        name => document.querySelector(name).getBoundingClientRect());
    return part.left >= box.left - 1 && part.right <= box.right + 1;
}"""
ROWS = "name => new Set([...document.querySelectorAll(name)].map(el => el.offsetTop)).size"


@pytest.mark.parametrize("width", chosen([360, 820, 1024], 360))
def test_small_windows_have_all_of_it(studio: Served, leaf: Page, width: int) -> None:
    leaf.inner.set_viewport_size({"width": width, "height": 780})
    try:
        for number, view in enumerate(("flow", "attention", "decode", "whatif", "compare")):
            theme = ("light", "dark")[number % 2]
            seen(leaf, studio, "translate", view, theme=theme, pin="src:1")
            assert leaf.inner.evaluate("document.documentElement.scrollWidth") <= width, view
            assert leaf.inner.evaluate(CROWDED) == [], view
            assert leaf.inner.evaluate(CUT) == [], view
            assert leaf.inner.evaluate(COVERED), view
            wrong = leaf.inner.evaluate(LAYOUT)
            if width <= 860:  # what stands under the window is rolled to
                wrong = [each for each in wrong if each.endswith(" px")]
            assert [each for each in wrong if "on the panel" not in each] == [], view
        assert leaf.inner.evaluate(ROWS, ".losses th") == 1, "one loss beside the other"
        assert leaf.inner.evaluate(ROWS, ".views a") <= 2
        seen(leaf, studio, "translate", "flow", at="head.logits")
        assert leaf.inner.evaluate(CHOSEN_IS_SEEN), "what a link chooses is rolled to"
        seen(leaf, studio, "translate", "flow")
        leaf.inner.keyboard.press("t")
        leaf.inner.locator(".over .datatable").wait_for()
        edges = leaf.inner.evaluate(EDGES)
        assert edges == sorted(edges), "the button that closes it is within it"
        assert leaf.inner.evaluate(LAST_CELL) == "seen"
        leaf.inner.keyboard.press("Escape")
    finally:
        leaf.inner.set_viewport_size({"width": 1280, "height": 800})
