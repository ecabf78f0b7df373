"""The built website: its links, requests, widths, weights and accessibility, and the landing page's
live picture, whose numbers are compared with PyTorch."""

import base64
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import pytest
import torch
from tests.in_process import run
from tests.shuffled import SEED
from tests.studio.both_sides import KEYS
from tests.studio.browser import Page, opened
from tests.studio.local_page import demo
from tests.studio.test_access import RULES, violations
from tests.studio.test_site import drawn, walk
from tests.tiny.once import once

import translucid as tl
from translucid.studio.lessons import STATIONS
from translucid.studio.tensors import unpacked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NEEDED = ("sphinx", "myst_parser", "furo", "sphinx_copybutton")
TEXT = "The old teacher who sees the dog does not read the book."
CLOSE = 1e-4
MOST = 1_000_000  # bytes of a page with all that it loads
LANDING = 3_000_000  # with its model
REPORT = "docs/lab/index.html"  # one file with all figures of the lab
STUDIO = "studio/index.html"
WORK = "docs/work.html"
KINDS = [
    "index.html",
    REPORT,
    "docs/README.html",
    "docs/course/01-perceptron.html",
    WORK,
    "docs/reference/api.html",
    "docs/reference/trace.html",
    "examples/own_exercise.py.html",
    "search.html",
]


def build(folder: Path) -> None:
    words = ("sphinx", "-q", "-W", "--keep-going", "-j", "2", "-c", "docs/site")
    ran = subprocess.run(
        [sys.executable, "-m", *words, "-d", str(folder / "doctrees"), ".", str(folder / "site")],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    wrote = run("explore", "--site", str(folder / "site/studio"))
    assert wrote.returncode == 0, wrote.stderr


@pytest.fixture(scope="module")
def site() -> Path:
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"the website needs {', '.join(missing)}; run `make site-tools`")
    return once("website", build) / "site"


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    Files.extensions_map = {**Files.extensions_map, ".js": "text/javascript"}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join(300)
        server.server_close()


def pages(site: Path) -> list[str]:
    """All pages but the studio, which test_site.py tests."""
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return [name for name in names if name != STUDIO]


# ---- files


class Links(HTMLParser):
    """The links of a page, and the ids that a link to it can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.links += [given[name] for name in ("href", "src") if name in given]


def test_no_link_is_dead(site: Path) -> None:
    assert len(pages(site)) > 80
    assert dead_links(site) == []


def dead_links(site: Path) -> list[str]:
    @cache
    def read(path: Path) -> Links:
        return Links(path.read_text("utf-8"))

    dead = []
    for name in pages(site):
        for link in read((site / name).resolve()).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = site / name
            if parts.path:
                target = target.parent / unquote(parts.path)
            if not target.is_file():
                dead.append(f"{name}: {link}")
            elif target.resolve() in ((site / STUDIO).resolve(), (site / WORK).resolve()):
                continue  # its fragments are addresses of views or exercises, not headings
            elif target.suffix == ".html" and (
                unquote(parts.fragment) not in read(target.resolve()).ids
            ):
                dead.append(f"{name}: {link} (no such heading)")
    return dead


# ---- every page, on a phone


@pytest.fixture(scope="module")
def visited(site: Path, address: str, running: Any) -> dict[str, Any]:
    """By page, its width on a small phone, the files that it loads, and what the console said."""
    with opened(running) as page:
        page.inner.set_viewport_size({"width": 360, "height": 740})
        found = {}
        for name in pages(site):
            page.said.clear()
            page.left.clear()
            page.inner.goto(address + name, wait_until="load")
            width, files = page.inner.evaluate(
                "() => [document.documentElement.scrollWidth,"
                " performance.getEntriesByType('resource').map(each => each.name)]"
            )
            found[name] = {
                "width": width, "said": page.said[:], "left": page.left[:],
                "files": [name, *(urlsplit(file).path[1:] for file in set(files)
                                  if file.startswith(address))],
            }  # fmt: skip
    return found


def test_no_page_requests_another_host(visited: dict[str, Any]) -> None:
    assert {name: each["left"] for name, each in visited.items() if each["left"]} == {}
    assert {name: each["said"] for name, each in visited.items() if each["said"]} == {}


def test_no_page_scrolls_sideways(visited: dict[str, Any]) -> None:
    assert {name: each["width"] for name, each in visited.items() if each["width"] > 360} == {}


def size(site: Path, files: list[str]) -> int:
    return sum((site / unquote(file)).stat().st_size for file in files)


def test_weight_of_pages(site: Path, visited: dict[str, Any]) -> None:
    sizes = {name: size(site, each["files"]) for name, each in visited.items()}
    del sizes["index.html"]
    assert sizes.pop(REPORT) < 2 * MOST
    assert {name: bytes for name, bytes in sizes.items() if bytes > MOST} == {}


# ---- axe-core


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", KINDS)
def test_no_rule_of_accessibility_is_broken(
    address: str, leaf: Page, name: str, theme: str
) -> None:
    leaf.inner.goto(address + name)
    choose(leaf, theme)
    leaf.inner.goto(address + name)
    if name == "index.html":
        answered(leaf, "The dog does not sleep.")
    else:
        leaf.inner.evaluate(FEW)
    assert violations(leaf, RULES) == []


# Keep three elements of each kind, since axe takes 20 seconds for a page of a thousand entries. The
# kind of an element is its tag and classes, and those of the elements around it.
FEW = """() => {
    const found = new Map();
    const keep = (element, around) => {
        const kind = `${around} ${element.tagName}.${element.className}`;
        found.set(kind, (found.get(kind) ?? 0) + 1);
        if (found.get(kind) > 3) element.remove();
        else [...element.children].forEach(each => keep(each, kind));
    };
    keep(document.body, '');
}"""


def choose(page: Page, theme: str) -> None:
    page.inner.evaluate("theme => localStorage.setItem('translucid-theme', theme)", theme)


# ---- the studio

# Ask the page's own provider of answers, which reads only files of the site.
ASK = """async ([method, path, body]) => {
    const { bytes } = await window.ask(method, path, body);
    const all = new Uint8Array(await new Response(bytes).arrayBuffer());
    return btoa(Array.from(all, byte => String.fromCharCode(byte)).join(''));
}"""


def test_200_drawn_numbers_of_the_studio_equal_pytorch(address: str, own_page: Page) -> None:
    """25 numbers of each shipped model: texts, trace points and indices are random."""

    def published(route: Any) -> None:
        text = route.fetch().text()
        route.fulfill(body=f"{text}window.ask = studio.site();", content_type="text/javascript")

    def ask(*question: str) -> bytes:
        return base64.b64decode(own_page.inner.evaluate(ASK, question))

    own_page.inner.context.route("**/studio.js", published)
    own_page.inner.goto(address + STUDIO)
    drawn(own_page)
    seed = os.environ[SEED]
    draw, compared = random.Random(f"numbers {seed}"), 0
    for name, m in KEYS.items():
        text = draw.choice(demo(name).facts["examples"])
        trace = demo(name).trace(text)
        run = json.loads(ask("POST", "/api/runs", json.dumps({"m": m, "text": text})))
        assert [point["at"] for point in run["points"]] == trace.names()
        for at in draw.choices(trace.names(), k=25):
            value = trace[at][0] if trace[at].dim() else trace[at]
            index = [draw.randrange(size) for size in value.shape]
            asked = {"at": at, "index": ",".join(map(str, index)), "as": "f32"}
            ((_, number),) = unpacked(
                ask("GET", f"/api/runs/{run['run']}/tensors?{urlencode(asked)}", "")
            )
            expected = pytest.approx(float(value[tuple(index)]), rel=0, abs=CLOSE)
            assert number.item() == expected, f"{SEED}={seed}: {name}, {text!r}, {asked}"
            compared += 1
    assert compared == 200


def test_every_stop_of_every_station_opens(address: str, own_page: Page) -> None:
    own_page.inner.goto(address + STUDIO)
    drawn(own_page)
    for key, lesson in STATIONS.items():
        for number, stop in enumerate(lesson.stops, 1):
            walk(own_page, f"#/lesson?lesson={key}.{number}")
            told = own_page.inner.locator("#studio .told").all_inner_texts()
            assert not told, (key, number, told)
            assert own_page.inner.locator("#lesson .stop a").all_inner_texts() == [stop.title]
            assert "Not here" not in own_page.inner.locator("#lesson").inner_text()


# ---- links to the studio

# The model and the text in the address of each link, and the text of the example above it.
EXAMPLES = """() => [...document.querySelectorAll('.studio-link a')].map(link => [
    link.href, link.closest('.studio-link').previousElementSibling.textContent])"""
SHOWN = """() => {
    const studio = document.querySelector('#studio > div').shadowRoot;
    return [studio.querySelector('.bar .model select').selectedOptions[0].textContent,
            [...studio.querySelectorAll('#sentence .token')].map(each => each.textContent)];
}"""


def test_links_to_the_studio_open_the_example(site: Path, address: str, own_page: Page) -> None:
    found: dict[str, str] = {}
    for name in pages(site):
        if "studio-link" in (site / name).read_text("utf-8"):
            own_page.inner.goto(address + name)
            found |= own_page.inner.evaluate(EXAMPLES)
    assert len(found) >= 12
    for link, example in found.items():
        model, text = opened_by(own_page, link)
        assert f"demo:{model}" in example
        assert text in example


def opened_by(page: Page, link: str) -> tuple[str, str]:
    """Follow a link to the studio. Returns the name of the model that it opens, and the text."""
    page.inner.goto("about:blank")
    page.inner.goto(link)
    page.wait(
        "() => document.querySelector('#studio > div')?.shadowRoot"
        ".querySelector('.studio').dataset.ready?.startsWith('flow')"
    )
    (text,) = parse_qs(urlsplit(link).fragment.partition("?")[2])["text"]
    shown, tokens = page.inner.evaluate(SHOWN)
    words = tl.load(shown).trace(text).example.words
    source = [word for word in words.source if word != "</s>"]
    read = source or words.target or text.split()
    assert [token.strip() for token in tokens[: len(read)]] == [word.strip() for word in read]
    return shown.removeprefix("demo:"), text


def test_the_landing_page_opens_the_studio_with_the_typed_sentence(landing: Page) -> None:
    answered(landing, "The teacher reads.")
    link = landing.inner.evaluate("document.getElementById('studio').href")
    assert opened_by(landing, link) == ("translate", "The teacher reads.")


# ---- exercises with the reader's numbers


def solved(page: Page, address: str, fragment: str) -> str:
    """The text of the solution that an address opens."""
    page.inner.goto("about:blank")
    page.inner.goto(address + fragment)
    page.wait("document.getElementById('work-text')?.textContent")
    return shown_text(page)


def shown_text(page: Page) -> str:
    text: str = page.inner.evaluate("document.getElementById('work-text').textContent")
    return text


def test_a_typed_matrix_is_solved_at_every_keystroke(address: str, own_page: Page) -> None:
    assert solved(own_page, address, f"{WORK}#attention").startswith("Attention\n")
    own_page.inner.fill("#work-x", "1 0; 0 2; 1 1/2")
    words = ("work", "attention", "--x", "1 0; 0 2; 1 1/2", "--identity")
    assert "identity" not in own_page.text("#work-command")
    own_page.inner.click("#work-options summary")
    own_page.inner.check("#work-identity")
    assert shown_text(own_page) == run(*words).stdout
    assert (
        own_page.text("#work-command")
        == 'translucid work attention --x "1 0; 0 2; 1 1/2" --identity'
    )
    own_page.inner.check("#work-as-formulas")
    assert own_page.inner.evaluate("document.querySelectorAll('#work-formulas math').length") > 5
    assert solved(own_page, "", own_page.inner.evaluate("location.href")) == run(*words).stdout


def test_a_mistake_is_explained(address: str, own_page: Page) -> None:
    solved(own_page, address, f"{WORK}#softmax?x=1+2")
    own_page.inner.fill("#work-x", "1 two")
    printed = run("work", "softmax", "--x", "1 two").stderr
    assert own_page.text("#work-message") in " ".join(printed.split())
    assert not own_page.inner.is_visible("#work-text")
    own_page.inner.fill("#work-x", "1 3")
    assert shown_text(own_page) == run("work", "softmax", "--x", "1 3").stdout


def test_examples_in_the_documentation_open_with_their_numbers(
    address: str, own_page: Page
) -> None:
    own_page.inner.goto(f"{address}docs/get-started/solve-an-exercise.html")
    links = own_page.inner.evaluate(
        "() => [...document.querySelectorAll('.work-link a')].map(link => link.href)"
    )
    assert len(links) == 2
    words = ("work", "attention", "--x", "1 0; 0 1; 1 1", "--identity")
    assert solved(own_page, "", links[0]) == run(*words).stdout


# ---- the landing page


@pytest.fixture
def landing(address: str, own_page: Page) -> Page:
    own_page.inner.goto(address)
    return own_page


def answered(page: Page, text: str) -> None:
    """Type a text, and wait for the numbers that the page computes."""
    page.inner.fill("#text", text)
    page.wait("text => document.documentElement.dataset.answered === text", text)


# The bars of each German word, for each head.
NUMBERS = """() => {
    const bars = id => [...document.querySelectorAll(`#${id} li`)].map(
        each => [each.querySelector('span').textContent, Number(each.querySelector('data').value)]);
    const head = document.getElementById('head');
    return JSON.stringify([...head.options].map((_, i) => {
        head.value = i;
        head.dispatchEvent(new Event('change'));
        return [...document.querySelectorAll('#written button')].map(word => {
            word.click();
            return [bars('weights'), bars('likely'), document.getElementById('python').textContent];
        });
    }));
}"""


def compare(page: Page, text: str) -> None:
    trace = tl.load("demo:translate").trace(text)
    words = trace.example.words
    assert page.words("#source li") == list(words.source)
    assert page.words("#written li") == list(words.follows)
    names = trace.names("decoder.layers.*.cross_attention.pattern")
    heads = torch.cat([trace[name][0] for name in names])
    logits = trace["head.logits"][0].softmax(-1)
    shown = json.loads(page.inner.evaluate(NUMBERS))
    assert len(shown) == len(heads) == 8
    for of_head, weights in zip(shown, heads, strict=True):
        assert len(of_head) == len(words.follows)
        for row, (read, likely, python) in enumerate(of_head):
            best = weights[row].topk(3)
            close([value for _, value in read], best.values)
            for word, value in read:
                values = [weights[row, i] for i, w in enumerate(words.source) if w == word]
                assert min(abs(value - float(each)) for each in values) <= CLOSE
            close([value for _, value in likely], logits[row].topk(3).values)
            program, _, comment = python.rpartition("  # ")
            assert abs(float(comment) - float(best.values[0])) <= CLOSE
    names_of: dict[str, Any] = {}
    loaded, _, shown_value = program.rpartition("\n")
    exec(loaded, names_of)
    assert abs(float(eval(shown_value, names_of)) - float(comment)) <= CLOSE


def close(shown: list[float], expected: torch.Tensor) -> None:
    torch.testing.assert_close(torch.tensor(shown).float(), expected.float(), rtol=0, atol=CLOSE)


def test_numbers_of_a_typed_sentence_equal_pytorch(landing: Page) -> None:
    answered(landing, TEXT)
    compare(landing, TEXT)


def test_first_numbers_need_no_model(site: Path, address: str, own_page: Page) -> None:
    """The page draws numbers that PyTorch computed when the site was built, from 0.3 MB."""
    own_page.expected.append("Failed to load resource")
    own_page.inner.context.route("**/_static/translate/**", lambda route: route.abort())
    own_page.inner.goto(address)
    compare(own_page, "The dog does not sleep.")
    own_page.wait("document.getElementById('message').textContent.includes('not be translated')")
    assert size(site, ["index.html", *loaded(own_page, address)]) < 300_000


def loaded(page: Page, address: str) -> set[str]:
    names = page.inner.evaluate(
        "() => performance.getEntriesByType('resource').map(each => each.name)"
    )
    return {name for each in names if "translate/" not in (name := each.removeprefix(address))}


def test_weight_of_the_landing_page(site: Path, address: str, landing: Page) -> None:
    answered(landing, TEXT)
    names = landing.inner.evaluate(
        "() => performance.getEntriesByType('resource').map(each => each.name)"
    )
    files = {name.removeprefix(address) for name in names}
    assert any(name.endswith(".safetensors") for name in files)
    assert size(site, ["index.html", *files]) < LANDING


@pytest.mark.parametrize("width", [360, 1280, 1920])
def test_the_landing_page_fits(landing: Page, width: int) -> None:
    landing.inner.set_viewport_size({"width": width, "height": 800})
    answered(landing, " ".join([TEXT] * 3))
    assert landing.inner.evaluate("document.documentElement.scrollWidth") <= width


def test_unknown_words_are_reported(landing: Page) -> None:
    answered(landing, "The zorp sleeps.")
    assert "“zorp”" in landing.text("#message")
    assert landing.words("#source .unknown") == ["zorp"]
    answered(landing, "The dog sleeps.")
    assert landing.text("#message") == ""


def test_the_landing_page_by_keyboard(landing: Page) -> None:
    answered(landing, "The dog sleeps.")
    landing.inner.focus("#text")
    seen = []
    for _ in range(40):
        landing.inner.keyboard.press("Tab")
        seen.append(landing.inner.evaluate("document.activeElement.textContent.trim()"))
        if seen[-1] == "Hund":
            assert landing.text("#attends") == "“Hund” attends to"
    assert {"Der", "Hund", "The same number in Python", "Copy", "Build", "Learn", "Study"} <= {
        *seen
    }


def test_commands_are_copied(landing: Page) -> None:
    landing.inner.context.grant_permissions(["clipboard-read", "clipboard-write"])
    landing.inner.click(".commands button >> nth=1")
    landing.wait("document.querySelectorAll('.commands button')[1].textContent === 'Copied'")
    assert landing.inner.evaluate("navigator.clipboard.readText()") == "translucid demo"


def test_the_theme_is_chosen_once(landing: Page, address: str) -> None:
    """For the landing page and the documentation, on either of them."""
    for theme in ("dark", "light"):
        landing.inner.goto(address)
        landing.inner.click("#theme")
        assert landing.inner.evaluate("document.documentElement.dataset.theme") == theme
        landing.inner.goto(f"{address}docs/README.html")
        shown = "dark" if theme == "dark" else "auto"  # the system's theme is light
        assert landing.inner.evaluate("document.body.dataset.theme") == shown
    landing.inner.evaluate("document.body.dataset.theme = 'dark'")  # as Furo's button
    landing.inner.goto(address)
    assert landing.inner.evaluate("document.documentElement.dataset.theme") == "dark"


def test_without_javascript_there_is_a_picture(address: str, running: Any) -> None:
    context = running.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(address)
        assert page.is_visible("h1")
        assert page.is_visible("noscript img")
        assert not page.is_visible("#live")
    finally:
        context.close()
