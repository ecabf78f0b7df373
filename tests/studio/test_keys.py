"""The page by keyboard only: the tour, the tables, what is copied, the keys, small windows."""

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import torch
from tests.studio.browser import PATIENCE, Page
from tests.studio.serving import TEXT, Served, model, serving
from tests.tiny.dealt import chosen

from translucid.studio import lesson_answers
from translucid.studio.text_runs import Run

pytestmark = pytest.mark.slow

FAMILIES = ("translate-transformer", "translate-lstm", "tag-lstm", "language-transformer")


@pytest.fixture
def page(leaf: Page) -> Page:
    """One page for all tests of this module."""
    return leaf


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({family: model(family) for family in FAMILIES}) as served:
        yield served


def where(studio: Served, family: str, address: str) -> str:
    m = next(m for m, each in studio.library.opened.items() if each.name == family)
    view, _, query = address.partition("?")
    return f"{studio.address}#/{view}?m={m}&text={quote(TEXT)}&{query}"


def run_of(studio: Served, page: Page) -> Run:
    return studio.library.kept_run(page.drawn().split(" ")[1])


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.inner.keyboard.press(key)


def tab_to(page: Page, name: str) -> None:
    """The focus goes from stop to stop until it stands on what has this name."""
    for _ in range(300):
        press(page, "Tab")
        now = page.inner.evaluate(
            "() => { const el = document.activeElement;"
            " return el.getAttribute('aria-label') ?? el.textContent; }"
        )
        if name in now:
            return
    raise AssertionError(f"no tab stop is called {name}")


def told(text: str) -> float:
    """A number as the page writes it."""
    return float(text.strip("()").replace("−", "-").replace("∞", "inf"))


# ---- the tour ----


TOURS = [("translate-transformer", "attn"), ("translate-lstm", "gates")]


@pytest.mark.parametrize(("family", "key"), chosen(TOURS, TOURS[1]))
def test_the_whole_tour_with_keys_only(studio: Served, page: Page, family: str, key: str) -> None:
    page.turn(where(studio, family, "lesson?"))
    run = run_of(studio, page)
    trace = run.opened.model.trace(run.text)
    given = lesson_answers.on_run(run, key)["steps"]
    stops = [number for number, step in enumerate(given, start=1) if "say" in step]
    tab_to(page, "Begin")
    page.changed(lambda: press(page, "Enter"))
    numbers = 0
    for number in stops:
        step = given[number - 1]
        assert f"lesson={key}.{number}" in page.inner.url
        assert page.drawn().split(" ")[0] == step["address"].partition("?")[0]
        assert page.words("#lesson .stop a") == [step["title"]]
        assert page.told() == ""
        for at, shown in page.inner.eval_on_selector_all(
            "#lesson .told-number", "all => all.map(el => [el.dataset.at, el.textContent])"
        ):
            soft, name, places = re.fullmatch(r"(softmax )?([\w.]+)(?:\[(.*)\])?", at).groups()
            value = trace[name].float()
            value = value[0] if value.dim() else value
            value = value.softmax(-1) if soft else value
            index = tuple(int(place) for place in places.split(", ")) if places else ()
            assert told(shown) == pytest.approx(float(value[index]), abs=5.1e-4), at
            numbers += 1
        if step["light"]:
            assert page.inner.evaluate("() => document.querySelectorAll('.meant').length") > 0
        if number == stops[1]:  # wander off, and come back
            page.changed(lambda: press(page, "5"))
            assert page.drawn().split(" ")[0] == "whatif"
            assert page.words("#lesson .onward") == ["Come back"]
            page.changed(lambda: press(page, "Space"))
            assert page.drawn().split(" ")[0] == step["address"].partition("?")[0]
            page.changed(lambda: press(page, "Shift+Space"))
            assert f"lesson={key}.{stops[0]}" in page.inner.url
            page.changed(lambda: press(page, "Space"))
        page.changed(lambda: press(page, "Space"))
    assert page.drawn().split(" ")[0] == "lesson"
    assert page.inner.is_hidden("#lesson")
    assert numbers >= 15


def test_stops_that_a_model_lacks_are_skipped_with_a_reason(studio: Served, page: Page) -> None:
    page.turn(where(studio, "tag-lstm", "flow?lesson=attn.2"))
    assert page.words("#lesson .stop a") == ["Embedding"]
    page.changed(lambda: press(page, "Space"))
    assert page.drawn().split(" ")[0] == "lesson"  # nothing that follows is there
    assert "2 of 16 stops; tag-lstm lacks the others" in " ".join(page.words(".tour"))
    page.turn(where(studio, "tag-lstm", "flow?lesson=attn.5"))
    assert "it has no self-attention" in " ".join(page.words("#lesson .says"))
    page.turn(where(studio, "language-transformer", "flow?lesson=attn.14"))
    assert "Skipped: looking back: it has no encoder" in " ".join(page.words("#lesson .task"))


def test_a_link_to_a_stop_for_another_model_offers_what_fits(studio: Served, page: Page) -> None:
    page.see(where(studio, "language-transformer", "lesson?lesson=lstm.4"))
    assert "no such stop: it has no LSTM that reads" in page.text("#lesson .says")
    offered = page.text("#lesson .task")
    assert "Gates is a lesson on demo:classify: translucid explore demo:classify." in offered
    assert page.told() == ""  # once is enough
    fits = re.search(r"For this model: (.+) \((\d+) of (\d+) stops\)", offered)
    assert fits, offered
    page.changed(lambda: page.inner.click("#lesson .task a"))
    assert page.drawn().split(" ")[0] != "lesson"
    assert page.words("#lesson .task b") == ["Do: "]
    run = studio.run("abcd"[FAMILIES.index("language-transformer")], TEXT)["run"]
    key = re.search(r"lesson=(\w+)\.", page.inner.url)
    assert key
    steps = studio.get(f"/api/runs/{run}/lesson/{key[1]}").json["steps"]
    assert [sum("lacks" not in step for step in steps), len(steps)] == [int(fits[2]), int(fits[3])]


def test_a_link_to_an_unknown_stop_says_so(studio: Served, page: Page) -> None:
    page.turn(where(studio, "language-transformer", "flow?lesson=gates.40"))
    assert re.search(r"has \d+ stops; it has no stop 40", page.text("#lesson .says"))
    page.expected.append("422")
    page.turn(where(studio, "language-transformer", "flow?lesson=gatse.1"))
    assert "unknown lesson 'gatse'" in page.text("#lesson .says")
    assert "did you mean gates?" in page.text("#lesson .says")
    page.changed(lambda: page.inner.click("#lesson .shut"))
    assert page.inner.is_hidden("#lesson")


# ---- tables ----


def table(page: Page, title: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Press t, choose a picture, and read columns, rows and cells; then close it again.

    The list holds what is drawn when t is pressed, and the inspector is drawn last: so it is opened
    again while a picture is missing.
    """
    deadline = time.monotonic() + PATIENCE / 1000
    while True:
        press(page, "t")
        page.inner.wait_for_selector("dialog .datatable")
        names = page.words("dialog select option") or page.words("dialog .tablehead p")
        found = next((name for name in names if title in name), None)
        if found is not None:
            break
        assert time.monotonic() < deadline, f"{title}: there are {names}"
        press(page, "Escape")
        page.inner.wait_for_selector("dialog", state="detached")
    if page.words("dialog select option"):
        page.inner.select_option("dialog select", label=found)
    page.inner.wait_for_function(
        "name => document.querySelector('dialog .tablebox')?.getAttribute('aria-label') === name",
        arg=found, timeout=PATIENCE,
    )  # fmt: skip
    columns = page.words("dialog thead th[scope=col]")
    rows = page.words("dialog tbody th[scope=row]")
    cells = page.inner.eval_on_selector_all(
        "dialog tbody tr", "all => all.map(row => [...row.querySelectorAll('td')]"
        ".map(cell => cell.textContent))",
    )  # fmt: skip
    press(page, "Escape")
    page.inner.wait_for_selector("dialog", state="detached")
    return columns, rows, cells


def same(cells: list[list[str]], values: Any) -> None:
    """What is written is the numbers of the trace, to the printed digits."""
    values = torch.as_tensor(values).float()
    assert (len(cells), len(cells[0])) == tuple(values.shape)
    for row, expected in zip(cells, values.tolist(), strict=True):
        for cell, value in zip(row, expected, strict=True):
            assert told(cell) == pytest.approx(value, abs=5.1e-4)


def test_tables_of_attention(studio: Served, page: Page) -> None:
    page.turn(where(studio, "translate-transformer", "attention?kind=cross&layer=1&head=1"))
    run = run_of(studio, page)
    trace = run.opened.model.trace(run.text)
    pattern = trace["decoder.layers.1.cross_attention.pattern"][0, 1]
    columns, rows, cells = table(page, "Cross attention, layer 1, head 1, weights")
    assert columns == list(run.example.words.source)
    assert [row.partition(" → ")[0] for row in rows] == list(run.example.words.target)
    same(cells, pattern)
    same(table(page, "ribbons")[2], pattern)
    heads = torch.stack([trace[f"decoder.layers.{i}.cross_attention.pattern"][0] for i in (0, 1)])
    entropy = -(heads * heads.clamp_min(1e-12).log2()).sum(-1).mean(-1)
    columns, rows, cells = table(page, "All heads")
    assert columns == ["head", "largest weight", "mean entropy, bits"]
    assert rows[3] == "layer 1, head 1"
    same(cells, torch.stack([heads.amax((-1, -2)).flatten(), entropy.flatten()], dim=1))
    page.changed(lambda: press(page, "1"))
    page.turn(where(studio, "translate-transformer", "attention?kind=decoder&layer=0&head=0"))
    cells = table(page, "Decoder self attention")[2]
    assert cells[0][0] == "1.000"
    assert {cells[i][j] for i in range(len(cells)) for j in range(i + 1, len(cells))} == {"masked"}


def test_tables_of_flow(studio: Served, page: Page) -> None:
    page.turn(where(studio, "translate-transformer", "flow?at=encoder.embedding.lookup"))
    run = run_of(studio, page)
    trace = run.opened.model.trace(run.text)
    _, rows, cells = table(page, "encoder.embedding.lookup")
    assert rows == list(run.example.words.source)
    same(cells, trace["encoder.embedding.lookup"][0])
    names = table(page, "The parts, in the order of the data")[2]
    assert all(name in trace for name, _ in names)
    shares = trace["head.logits"][0].softmax(-1).amax(-1)
    same([row[1:] for row in table(page, "Output: next token")[2]], shares[:, None])


def test_tables_of_gates(studio: Served, page: Page) -> None:
    page.turn(where(studio, "tag-lstm", "recurrent?unit=3"))
    run = run_of(studio, page)
    trace = run.opened.model.trace(run.text)
    scope = "encoder.recurrent.layers.0.lstm"
    _, names, cells = table(page, "gates and states")
    points = {"forget": "forget_gate", "input": "input_gate", "output": "output_gate"}
    assert names == ["forget", "input", "candidate", "cell", "output", "hidden"]
    for name, row in zip(names, cells, strict=True):
        same([row], trace[f"{scope}.{points.get(name, name)}"][0, :, 3][None])
    same(table(page, "Units over the tokens")[2], trace[f"{scope}.cell"][0, :, 3][None])


TWO_WAYS = {"tag-lstm": "lstm", "classify-gru": "gru", "translate-lstm": "lstm"}


@pytest.fixture(scope="module")
def two_ways() -> Iterator[Served]:
    with serving({family: model(family, bidirectional=True) for family in TWO_WAYS}) as served:
        yield served


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("family", chosen(TWO_WAYS, "tag-lstm"))
def test_recurrent_view_of_both_directions_shows_the_trace(
    two_ways: Served, page: Page, family: str, way: str
) -> None:
    """A column for each token, the sentence above, the step on the right and its formula."""
    scope = f"encoder.recurrent.layers.0.{way}.{TWO_WAYS[family]}"
    page.turn(where(two_ways, family, f"recurrent?at={scope}&pin="))
    run = run_of(two_ways, page)
    trace = run.opened.model.trace(run.text)
    words = list(run.example.words.source)
    columns, names, cells = table(page, "gates and states")
    assert columns == ["gate or state", *words]
    for name, row in zip(names, cells, strict=True):
        layer, direction, gate = re.fullmatch(r"Encoder layer (\d), (\w+) . (\w+)", name).groups()
        own = f"encoder.recurrent.layers.{layer}.{direction}.{TWO_WAYS[family]}.{gate}"
        value = trace[own if own in trace else f"{own}_gate"][0]
        whole = value.mean(-1) if own not in trace else value.square().mean(-1).sqrt()
        same([row], whole[None])
    keeps = trace[f"{scope}.forget_gate" if "lstm" in scope else f"{scope}.update_gate"][0].mean(-1)
    first = len(words) - 1 if way == "backward" else 0  # which has nothing to forget
    keeps[first] = 2.0
    least = words[int(keeps.argmin())]
    said = page.text(".rec .say")
    assert re.match(rf"Most is (forgotten|replaced) at ‘{re.escape(least)}’", said), said
    assert page.text(".rec .panel h2").endswith(f" at {least}")
    before = {"forward": "t−1", "backward": "t+1"}[way]
    formula = page.text(".rec .panel .equations").replace(" ", "").replace("-", "−")
    assert before in formula, formula
    page.turn(where(two_ways, family, f"recurrent?at={scope}&unit=3&pin=src:2"))
    memory = "cell" if "lstm" in scope else "hidden"
    same(table(page, "Units over the tokens")[2], trace[f"{scope}.{memory}"][0, :, 3][None])
    opened = page.inner.eval_on_selector_all(
        ".rec .panel [data-to]", "all => all.map(el => el.dataset.to)"
    )
    place = {"forward": 1, "backward": 3}[way]
    assert f"{scope}.{memory}[0, {place}, 3]" in opened, opened


def test_tables_of_decoding_and_ripples(studio: Served, page: Page) -> None:
    page.turn(where(studio, "translate-transformer", "decode?step=1"))
    run = run_of(studio, page)
    trace = run.opened.model.trace(run.text)
    shares = trace["head.logits"][0, 0].softmax(-1)
    for ids, _, share in table(page, "The likeliest tokens")[2]:
        assert told(share) == pytest.approx(float(shares[int(ids)]), abs=5.1e-4)
    columns, rows, cells = table(page, "The search tree")
    assert columns[:4] == ["token", "step", "after", "probability"]
    assert rows
    assert {row[0] for row in cells} >= {"1", "2"}
    page.turn(where(studio, "translate-transformer", "whatif?off=decoder.masks.causal"))
    run = run_of(studio, page)
    m = run.opened.key
    other = studio.run(m, TEXT, target=run.target, off=["decoder.masks.causal"])["run"]
    ripple = studio.get(f"/api/diff?a={run.key}&b={other}").json["ripple"]
    side = next(each for each in ripple if each["side"] == "decoder")
    columns, _, cells = table(page, "How far each token moved, decoder")
    assert columns[1:] == list(side["depths"])
    same(cells, torch.tensor(side["values"]).T)


# ---- copying ----


def test_the_copied_line_is_python_for_the_shown_number(studio: Served, page: Page) -> None:
    page.inner.context.grant_permissions(["clipboard-read", "clipboard-write"])
    places = [
        ("translate-transformer", "attention?kind=cross&layer=1&head=1&pin=tgt:2,src:3"),
        ("translate-transformer", "attention?kind=encoder&layer=0&head=mean&pin=src:2,src:1"),
        ("translate-transformer", "attention?kind=cross&moment=scores&pin=tgt:1,src:0"),
        ("translate-transformer", "flow?at=encoder.embedding.lookup&i=2,5"),
        ("translate-transformer", "flow?at=encoder.layers.0.self_attention.scale"),
        ("translate-transformer", f"attention?kind=cross&target={quote('der hund')}&pin=tgt:1"),
        ("translate-transformer", "decode?step=1"),
        ("language-transformer", "decode?step=1"),
        ("tag-lstm", "recurrent?pin=src:2"),
        ("tag-lstm", "recurrent?unit=3&pin=src:2"),
    ]
    for family, address in places:
        page.turn(where(studio, family, address))
        network = run_of(studio, page).opened.model
        shown = page.words("#readout .value")[0]
        press(page, "Shift+C")
        page.inner.wait_for_selector("#readout .notice")
        line = page.inner.evaluate("() => navigator.clipboard.readText()")
        assert page.words("#readout .notice") == [f"copied {line}"]
        assert line.startswith("model.trace(")
        value = float(eval(line, {"model": network}))
        digits = len(shown.partition(".")[2])
        assert told(shown) == pytest.approx(value, abs=0.51 * 10**-digits), line
        press(page, "c")
        page.inner.wait_for_function(
            "line => !document.querySelector('#readout .path').textContent.includes(line)",
            arg=line, timeout=PATIENCE,
        )  # fmt: skip
        exact = float(page.inner.evaluate("() => navigator.clipboard.readText()"))
        assert exact == pytest.approx(value, rel=1e-5, abs=1e-6)


# ---- keys ----


def test_the_keys_have_a_list(studio: Served, page: Page) -> None:
    page.turn(where(studio, "translate-transformer", "flow?"))
    press(page, "?")
    shown = set(page.words("dialog kbd"))
    assert {"/", "c", "d", "f", "i", "l", "m", "n", "o", "p", "t", "[", "]", "?", "Esc",
            "Enter", "Backspace", "Space", "Shift"} <= shown  # fmt: skip
    press(page, "d")  # the page below hears nothing
    assert page.inner.evaluate("() => document.documentElement.dataset.theme") == "light"
    press(page, "Escape")
    page.inner.wait_for_selector("dialog", state="detached")


def test_the_key_of_a_view_that_the_model_lacks_says_why(studio: Served, page: Page) -> None:
    page.turn(where(studio, "translate-transformer", "attention?"))
    before = page.inner.url
    press(page, "3")
    assert "Recurrent: This model has no recurrent part" in page.text("#readout")
    assert page.inner.url == before


def test_keys_go_in_and_out_and_switch_off(studio: Served, page: Page) -> None:
    start = "flow?at=decoder.layers.1.cross_attention.pattern"
    page.turn(where(studio, "translate-transformer", start))
    press(page, "ArrowUp")
    page.inner.wait_for_url("**at=decoder.layers.0.cross_attention.pattern*")
    press(page, "ArrowRight", "ArrowRight")
    page.inner.wait_for_url("**pin=src:1*")
    press(page, "ArrowLeft")
    page.inner.wait_for_url("**pin=src:0*")
    press(page, "]")
    page.inner.wait_for_url("**head=1*")
    page.changed(lambda: press(page, "Enter"))
    assert page.drawn().split(" ")[0] == "attention"
    assert page.words(".panel h2") == ["Head 1"]
    assert "layer 0" in page.words(".panel .kicker")[0]
    press(page, "m")
    page.inner.wait_for_selector('.steps [aria-pressed="true"] >> text=scores')
    page.changed(lambda: press(page, "o"))
    assert "off=decoder.layers.0.cross_attention.head.1" in page.inner.url
    assert page.drawn().split(" ")[0] == "whatif"
    page.inner.wait_for_selector('.headswitch[aria-checked="false"]')
    press(page, "Backspace")
    page.inner.wait_for_selector('.headswitch[aria-checked="false"]', state="detached")
    page.changed(lambda: press(page, "2"))
    page.changed(lambda: press(page, "Backspace"))
    assert page.drawn().split(" ")[0] == "flow"
    assert page.inner.is_visible("aside.panel")
    page.changed(lambda: press(page, "i"))
    assert page.inner.is_hidden("aside.panel")
    page.changed(lambda: press(page, "i"))  # the next test has the same page


# ---- sizes ----

BOXES = """() => {
  const box = el => { const r = el.getBoundingClientRect();
    return [el.className || el.id || el.tagName, r.left, r.top, r.right, r.bottom]; };
  const seen = el => el.checkVisibility({ visibilityProperty: true }) && el.getClientRects().length;
  const all = selector => [...document.querySelectorAll(selector)].filter(seen).map(box);
  return { outer: all('body > *:not(noscript)'), bar: all('.bar > *:not(.unseen, .skip)'),
           view: all('#stage > .mounted > * > *') };
}"""


@pytest.mark.parametrize("lesson", chosen(["", "lesson=attn.7"], "lesson=attn.7"))
def test_a_small_window_has_room_for_all(studio: Served, page: Page, lesson: str) -> None:
    page.inner.set_viewport_size({"width": 1024, "height": 640})
    page.see(where(studio, "translate-transformer", f"flow?{lesson}"))  # anew: nothing was opened
    for view in ("flow", "attention", "decode", "whatif", "lesson"):
        page.turn(where(studio, "translate-transformer", f"{view}?{lesson}"))
        assert page.inner.evaluate("() => document.documentElement.scrollWidth") <= 1024
        for group in page.inner.evaluate(BOXES).values():
            for name, left, top, right, bottom in group:
                assert left >= -1, f"{view}: {name}"
                assert right <= 1025, f"{view}: {name}"
                assert bottom <= 641 or view == "lesson", f"{view}: {name}"  # it scrolls
                for other, a, b, c, d in group:
                    if (other, a, b) != (name, left, top):
                        apart = a >= right - 1 or c <= left + 1 or b >= bottom - 1 or d <= top + 1
                        assert apart, f"{view}: {name} and {other} lie on one another"
    page.turn(where(studio, "translate-transformer", "flow?"))
    assert page.inner.is_hidden("aside.panel")
    press(page, "i")
    page.inner.wait_for_selector("aside.panel", state="visible")
    page.changed(lambda: page.inner.set_viewport_size({"width": 1280, "height": 800}))
    assert page.inner.is_visible("aside.panel")  # the drawer was open; now it has room beside


def test_an_address_can_hide_parts_of_the_page(studio: Served, page: Page) -> None:
    page.turn(where(studio, "translate-transformer", "attention?embed=1&lesson=attn.7"))
    assert page.inner.is_hidden(".bar")
    assert page.inner.is_hidden(".sentence")
    assert page.inner.is_visible("#lesson")
    page.turn(where(studio, "translate-transformer", "attention?hide=tools,views"))
    assert page.inner.is_hidden(".tools")
    assert page.inner.is_hidden(".views")
    assert page.inner.is_visible(".sentence")
