"""The page in a browser: it draws for every family, keeps its state in the address, and shows
whatever a model says as text. Each view has tests of its own; here are those that all share."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.studio.browser import PATIENCE, Page
from tests.studio.serving import FAMILIES, LINEAR, TEXT, Served, model, serving, text_for
from tests.tiny.dealt import chosen

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.model import Model
from translucid.models import TransformerConfig, build
from translucid.studio.page_bundle import view_names
from translucid.tasks.model_folder import Bundle

pytestmark = pytest.mark.slow

STATIC = Path(__file__).parents[2] / "src" / "translucid" / "studio" / "static"
VIEWS = view_names()
EVIL = ["<img src=x onerror=window.hacked=1>", '"><script>window.hacked=1</script>',
        "'onmouseover='window.hacked=1", "javascript:window.hacked=1", "&lt;b&gt;",
        "</svg><script>window.hacked=1</script>", "\u202egnp.exe", "{{7*7}}"]  # fmt: skip


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({family: model(family) for family in FAMILIES | LINEAR}) as served:
        yield served


def where(studio: Served, family: str, view: str = "flow", **more: str) -> str:
    m = next(m for m, each in studio.library.opened.items() if each.name == family)
    given = {"m": m, "text": text_for(family), **more}
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())
    return f"{studio.address}#/{view}?{asked}"


# ---- without a browser ----


def test_the_page_makes_nodes_and_no_markup() -> None:
    """Text becomes part of the page as text only."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment"
        r"|\beval\(|new Function|setHTMLUnsafe|srcdoc|'text/html'|setTimeout\(['\"`]"
    )
    found = [
        f"{path.relative_to(STATIC)}:{number}: {line.strip()}"
        for path in sorted(STATIC.rglob("*.js"))
        for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1)
        if forbidden.search(line)
    ]
    assert found == []


def test_the_page_names_no_address_elsewhere() -> None:
    names = ("http://www.w3.org/",)  # of namespaces
    found = [
        f"{path.relative_to(STATIC)}: {address}"
        for path in sorted(STATIC.rglob("*.*"))
        if path.suffix in (".js", ".css", ".html", ".svg")
        for address in re.findall(r"(?:https?:)?//[\w.-]+\.\w+/?", path.read_text("utf-8"))
        if not address.startswith(names)
    ]
    assert found == []


def test_the_page_has_no_inline_script_or_style() -> None:
    for path in STATIC.rglob("*.html"):
        text = path.read_text("utf-8")
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text), path


# ---- with one ----


@pytest.mark.parametrize("family", chosen(FAMILIES, "translate-lstm", "regress-mlp"))
def test_the_words_of_the_sentence_are_those_of_the_run(
    studio: Served, leaf: Page, family: str
) -> None:
    drawn = leaf.turn(where(studio, family))
    view, run = drawn.split(" ")
    assert view in VIEWS
    tokens = studio.library.runs[run].as_dict()["tokens"]
    shown = [
        text.strip() for text in leaf.words("#sentence .tokens .word, #sentence .tokens .special")
    ]
    source = [word for word in tokens["source"] if word != "</s>"]
    match FAMILIES[family][0]:
        case "translate":
            assert shown == [*source, *tokens["follows"][:-1]]
        case "language":
            assert shown == tokens["target"]
        case "regress":
            assert shown == text_for(family).split()
        case _:
            assert shown == source
    assert leaf.told() == ""
    assert "/open/" not in leaf.inner.url  # the token does not stay in the address


@pytest.mark.slow
@pytest.mark.parametrize("family", chosen(FAMILIES | LINEAR, "tag-lstm", "tag-linear"))
def test_every_view_opens(studio: Served, leaf: Page, family: str) -> None:
    leaf.turn(where(studio, family))
    offered = leaf.inner.eval_on_selector_all(
        ".views a[href]", "all => all.map(el => el.getAttribute('href'))"
    )
    assert offered
    for href in offered:
        view = href.removeprefix("#/").partition("?")[0]
        if leaf.drawn().split(" ")[0] == view:
            continue
        drawn = leaf.changed(lambda href=href: leaf.inner.click(f'.views a[href="{href}"]'))
        assert drawn.split(" ")[0] == view, leaf.told()
        assert leaf.told() == ""
        assert leaf.words('.views [aria-current="page"]') != []


def test_the_sentence_is_changed_with_the_keyboard(studio: Served, leaf: Page) -> None:
    before = leaf.turn(where(studio, "translate-transformer"))
    keyboard = leaf.inner.keyboard
    keyboard.press("/")
    keyboard.type("a cat and the bird")
    after = leaf.changed(lambda: keyboard.press("Enter"))
    assert after != before
    run = studio.library.runs[after.split(" ")[1]]
    assert run.text == "a cat and the bird"
    assert leaf.words("#sentence .tokens .word")[:5] == ["a", "cat", "and", "the", "bird"]
    assert "text=a+cat+and+the+bird" in leaf.inner.url
    keyboard.press("/")
    keyboard.type("never mind")
    keyboard.press("Escape")
    leaf.inner.wait_for_selector("#sentence .tokens")
    assert leaf.drawn() == after


def test_the_theme_is_in_the_address(studio: Served, leaf: Page) -> None:
    leaf.turn(where(studio, "classify-gru"))
    theme = "document.documentElement.dataset.theme"
    assert leaf.inner.evaluate(theme) == "light"
    leaf.changed(lambda: leaf.inner.keyboard.press("d"))
    assert leaf.inner.evaluate(theme) == "dark"
    assert "theme=dark" in leaf.inner.url
    leaf.changed(leaf.inner.reload)
    assert leaf.inner.evaluate(theme) == "dark"
    leaf.changed(lambda: leaf.inner.keyboard.press("d"))
    assert leaf.inner.evaluate(theme) == "light"


def test_the_system_is_followed_until_somebody_chooses(studio: Served, page: Page) -> None:
    theme = "document.documentElement.dataset.theme"
    inner, address = page.inner, where(studio, "classify-gru")
    inner.emulate_media(color_scheme="dark")
    page.see(address)
    assert inner.evaluate(theme) == "dark"
    page.changed(lambda: inner.emulate_media(color_scheme="light"))  # while one looks
    assert inner.evaluate(theme) == "light"
    page.changed(lambda: inner.keyboard.press("d"))
    page.see(address)  # kept, where the address says nothing
    assert (inner.evaluate(theme), "theme=" in inner.url) == ("dark", False)
    page.turn(f"{address}&theme=light")  # of the one who sent the link
    assert inner.evaluate(theme) == "light"
    page.turn(address)
    page.changed(lambda: inner.keyboard.press("d"))  # what the system has: nothing is kept
    page.turn(address)
    page.changed(lambda: inner.emulate_media(color_scheme="dark"))
    assert inner.evaluate(theme) == "dark"


def test_pins_are_in_the_address(studio: Served, leaf: Page) -> None:
    leaf.turn(where(studio, "translate-transformer"))
    leaf.inner.click("#sentence .tokens >> nth=0 >> :scope > * >> nth=2")
    leaf.inner.mouse.move(5, 795)
    assert "pin=src:2" in leaf.inner.url
    assert len(leaf.words("#sentence .pinned")) == 1
    kept = leaf.words("#sentence .pinned")
    leaf.changed(leaf.inner.reload)
    assert leaf.words("#sentence .pinned") == kept
    leaf.inner.keyboard.press("Escape")
    assert "pin=" not in leaf.inner.url
    assert leaf.words("#sentence .pinned") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "view",  # of the others tests/studio/test_layout.py sees more
    [
        pytest.param(view, marks=() if view in ("train", "lesson") else pytest.mark.thorough)
        for view in VIEWS
    ],
)
def test_addresses_come_back(studio: Served, leaf: Page, view: str) -> None:
    """An address that is opened stays as it is, and shows the same again."""
    text = 'ä "quoted" & a=b #1 100% <i>?'
    given = where(studio, "translate-transformer", view, text=text, theme="dark", pin="src:1")
    drawn = leaf.turn(given)
    assert studio.library.runs[drawn.split(" ")[1]].text == text
    address = leaf.inner.url
    again = leaf.inner.context.new_page()
    again.goto(address)
    again.wait_for_function("() => document.documentElement.dataset.ready", timeout=PATIENCE)
    assert again.evaluate("document.documentElement.dataset.ready") == drawn
    assert again.url == address
    again.close()


def test_back_goes_back(studio: Served, leaf: Page) -> None:
    first = leaf.turn(where(studio, "tag-lstm"))
    leaf.inner.keyboard.press("/")
    leaf.inner.keyboard.type("a cat")
    second = leaf.changed(lambda: leaf.inner.keyboard.press("Enter"))
    assert first != second
    assert leaf.changed(leaf.inner.go_back) == first


def test_a_model_is_chosen_from_the_list(studio: Served, leaf: Page) -> None:
    leaf.turn(f"{studio.address}#/flow?text={quote(TEXT)}")
    drawn = leaf.changed(lambda: leaf.inner.select_option(".model select", label="tag-lstm"))
    assert studio.library.runs[drawn.split(" ")[1]].opened.name == "tag-lstm"


@pytest.mark.slow
def test_wrong_addresses_do_no_harm(studio: Served, leaf: Page) -> None:
    for wrong in ("#/none", "#/flow?m=zz", "#/../x", "#/flow?pin=src:999,x:y", "#/__proto__",
                  "#/flow?theme=%3Cimg%3E", "#/constructor", "#/flow?pin=%22%3E%3Cscript%3E",
                  "#/flow?lesson=none"):  # fmt: skip
        drawn = leaf.turn(f"{studio.address}{wrong}")
        assert drawn.split(" ")[0] in VIEWS
        assert leaf.told().startswith("Ignored in this link: "), wrong


def test_a_link_on_another_page_opens_the_studio(studio: Served, page: Page) -> None:
    """As when the address that was printed is clicked on in a notebook."""
    with serving({}) as elsewhere:
        page.see(elsewhere.address.replace("127.0.0.1", "localhost"))
        page.inner.evaluate("address => { location.href = address; }", where(studio, "tag-lstm"))
        page.inner.wait_for_url("**/#/flow*")
        assert page.ready("error").split(" ")[0] in VIEWS
    page.said.clear()


def test_another_page_learns_nothing(studio: Served, page: Page) -> None:
    """A page of another port on this machine, with the cookie in the browser."""
    page.see(where(studio, "tag-lstm"))
    with serving({}) as elsewhere:
        page.see(elsewhere.address)
        page.said.clear()
        ask = """async address => {
            const read = mode => fetch(address, {credentials: 'include', mode})
                .then(() => 'read', () => 'no');
            return [await read('cors'), await read('no-cors')];
        }"""
        assert page.inner.evaluate(ask, f"http://{studio.host}/api/models") == ["no", "no"]
    page.said.clear()


# ---- hostile words ----


@pytest.fixture(scope="module")
def hostile() -> Iterator[Served]:
    """Models whose vocabulary, labels and name are markup."""
    words = Tokenizer.train("space", [" ".join(each.replace(" ", "_") for each in EVIL)] * 3)
    sizes: dict[str, Any] = {"d_model": 8, "heads": 2, "layers": 1, "d_ff": 8, "dropout": 0.0}
    sizes["vocab"] = len(words)

    def made(task: Any, names: tuple[str, ...], **keys: Any) -> Model:
        network = build(TransformerConfig(**sizes, **keys)).eval()
        return Model(Bundle(network, task, dict.fromkeys(names, words), tuple(EVIL[:3])))

    models = {
        EVIL[0]: made("classify", ("tokenizer",), shape="encoder", head="classify", outputs=3),
        EVIL[1]: made("tag", ("tokenizer",), shape="encoder", head="tag", outputs=3),
        EVIL[2]: made("language", ("tokenizer",), shape="decoder", head="language"),
        EVIL[5]: made("translate", ("source", "target"), shape="encoder-decoder",
                      head="language", target_vocab=len(words)),
    }  # fmt: skip
    with serving(models) as served:
        yield served


@pytest.mark.slow
@pytest.mark.parametrize("m", chosen("abcd", "d"))
def test_hostile_words_are_shown_as_text(hostile: Served, leaf: Page, m: str) -> None:
    text = " ".join(each.replace(" ", "_") for each in EVIL)
    target = f"&target={quote(text, safe='')}" if m == "d" else ""
    leaf.turn(f"{hostile.address}#/flow?m={m}&text={quote(text, safe='')}{target}")
    assert leaf.told() == ""
    for href in leaf.inner.eval_on_selector_all(
        ".views a[href]", "all => all.map(el => el.getAttribute('href'))"
    ):
        leaf.inner.evaluate("delete document.documentElement.dataset.ready")
        leaf.inner.evaluate("href => { location.hash = ''; location.hash = href; }", href)
        leaf.ready()
        assert leaf.told() == ""
        leaf.inner.eval_on_selector_all(
            "#sentence .tokens > *",
            "all => all.forEach(el => el.dispatchEvent(new MouseEvent('mouseenter')))",
        )
        assert leaf.inner.evaluate(
            "[...document.querySelectorAll('script, img, iframe')].map(e => e.getAttribute('src'))"
        ) == [None, "/static/js/main.js"], "the first script is part of the page"
        assert leaf.inner.evaluate("window.hacked ?? null") is None
    shown = leaf.inner.evaluate("document.body.textContent")
    assert EVIL[0].replace(" ", "_") in shown
    assert hostile.library.opened[m].name in shown


def test_hostile_messages_are_shown_as_text(hostile: Served, page: Page) -> None:
    page.expected.append("422")
    drawn = page.see(f"{hostile.address}#/flow?m=a&text=x&target={quote(EVIL[4] + EVIL[0])}")
    assert drawn == "error"
    assert EVIL[0] in page.told()


# ---- the command ----
