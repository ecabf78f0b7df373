"""A view as a picture, and a session as one file: both stand alone, offline, and show hostile words
as words."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from PIL import Image
from tests.studio.browser import PATIENCE, Page
from tests.studio.readers import SEEN, SVG, Picture, words
from tests.studio.serving import TEXT, Served, model, serving
from tests.studio.trained import recorded as recorded_run
from tests.tiny.dealt import chosen
from typer.testing import CliRunner

from translucid.cli import app
from translucid.core.errors import InputError
from translucid.generate.beam_search import GenerationConfig
from translucid.model import Model
from translucid.studio import saved_session, surveys, terms
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library
from translucid.studio.page_bundle import STATIC
from translucid.studio.run_follower import RunFollower

EVIL = "</script><img src=x onerror=window.hacked=1> <!-- ]]> a cat ."


@pytest.fixture
def page(own_page: Page) -> Page:
    """A new page for each test."""
    return own_page


@pytest.fixture(scope="module")
def library() -> Library:
    return Library({name: brief(name) for name in ("translate-transformer", "translate-lstm")})


def brief(name: str) -> Model:
    """Untrained models do not come to an end: this one stops, so that a page of it is small."""
    held = model(name)
    held.task.search = GenerationConfig(max_length=5)
    return held


@pytest.fixture(scope="module")
def studio() -> Iterator[Served]:
    with serving({"translate-transformer": model("translate-transformer")}) as served:
        yield served


# ---- without a browser ----


def recorded(page: bytes) -> Any:
    found = re.search(
        r'<script type="application/json" id="recorded">(.*?)</script>', page.decode()
    )
    assert found is not None
    return json.loads(found.group(1))


def test_requests_are_recorded_with_their_answers(library: Library) -> None:
    handlers = Handlers(library)
    run = library.run("a", TEXT)
    asked = [
        ["GET", "/api/models", ""],
        ["POST", "/api/runs", json.dumps({"m": "a", "text": TEXT})],
        ["GET", f"/api/runs/{run.key}/steps?positions=1:2&k=3", ""],
        ["GET", "/api/model/none", ""],  # a mistake is no answer
    ]
    body = json.dumps({"address": "#/flow", "asked": asked}).encode()
    reply = handlers.ask("POST", "/api/session", body)
    assert (reply.status, reply.kind) == (200, "text/html")
    found = recorded(reply.body)
    assert found["address"] == "#/flow"
    lessons = [f"/api/runs/{run.key}/lesson/{each}" for each in ("attn", "gates")]
    more = [["GET", path, ""] for path in ("/api/lessons", *lessons)]  # that a page leads to
    answered = [each[:3] for each in found["answers"]]
    opened = [each for each in answered if "/terms?" in each[1]]
    assert answered == [*asked[:3], *more, *opened]
    assert len(opened) > 100
    for method, path, given, status, _, told in found["answers"]:
        assert status == 200
        assert handlers.ask(method, path, given.encode()).body.decode() == told
    assert list(found["points"]) == [run.key]


def test_the_file_has_a_policy_for_its_own_script_only(library: Library) -> None:
    text = saved_session.page({"answers": [], "points": {}}, "#/flow").decode()
    scripts = re.findall(r"<script(?: [^>]*)?>", text)
    assert scripts == ['<script type="application/json" id="recorded">', '<script type="module">']
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.search(r"script-src 'sha256-[\w+/=]{44}';", policy)


@pytest.mark.slow
def test_recorded_data_contains_no_tags(library: Library) -> None:
    handlers = Handlers(library)
    asked = [["POST", "/api/runs", json.dumps({"m": "a", "text": EVIL})]]
    body = json.dumps({"address": f"#/flow?text={EVIL}", "asked": asked}).encode()
    reply = handlers.ask("POST", "/api/session", body)
    text = reply.body.decode()
    data = text[text.index('id="recorded">') + 14 :]
    assert "<" not in data[: data.index("</script>\n<script type")]
    assert json.loads(recorded(reply.body)["answers"][0][-1])["text"] == EVIL


def test_the_file_contains_the_logo() -> None:
    """Drawn as in the tab of the page, whose icon is a file of its own."""
    text = saved_session.page({"answers": [], "points": {}}, "#/flow").decode()
    found = re.search(r"^const MARKUP = (.*);$", text, re.M)
    assert found is not None
    svg = "{http://www.w3.org/2000/svg}"
    drawn = ElementTree.fromstring(json.loads(found.group(1).replace("<\\/", "</")))
    panes = drawn.findall(f".//*[@class='mark']/{svg}svg/{svg}path[@fill-opacity]")
    icon = ElementTree.parse(STATIC / "mark.svg").findall(f"{svg}path")
    assert "".join(pane.attrib["d"] for pane in panes) == icon[0].attrib["d"]


def test_a_survey_is_recorded_only_when_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of it would be asked for the rest for ever."""
    monkeypatch.setattr(surveys, "TEXTS", 6)
    monkeypatch.setattr(surveys, "AT_ONCE", 2)
    body = json.dumps({"address": "#/", "asked": [["GET", "/api/model/a/hardest", ""]]}).encode()

    def in_file(requests: int) -> list[Any]:
        monkeypatch.setattr(saved_session, "REQUESTS", requests)
        handlers = Handlers(Library({"language": model("language-rnn")}))
        return list(recorded(handlers.ask("POST", "/api/session", body).body)["answers"])

    assert in_file(2) == []
    ((_, _, _, _, _, answer),) = in_file(3)
    assert len(json.loads(answer)["texts"]) == json.loads(answer)["of"] == 6


def test_the_budget_is_kept(library: Library) -> None:
    handlers, budget = Handlers(library), 20_000
    run = library.run("a", TEXT)
    paths = ("/api/models", "/api/catalogue", f"/api/runs/{run.key}/steps?k=3")
    questions = [saved_session.Question("GET", path) for path in paths]
    found = saved_session.recording(library, handlers.recorded, questions, budget)
    assert [each[1] for each in found["answers"]] == [questions[0].path, questions[2].path]
    assert sum(len(each[-1]) for each in found["answers"]) <= budget


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([], "address and asked"),
        ({"address": "#/", "asked": [], "more": 1}, "keys address and asked only"),
        ({"address": "#/", "asked": [["GET", "/api/models"]]}, r"\[method, path, body\]"),
        ({"address": "#/", "asked": [["POST", "/api/session?x", "{}"]]}, "method, path, body"),
        ({"address": "#/", "asked": [["GET", "/", ""]] * 5001}, "5,001 .* 5,000"),
    ],
)
def test_invalid_sessions_are_refused(asked: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        saved_session.read_questions(asked)


def test_the_command_refuses_before_it_writes(tmp_path: Path) -> None:
    model("translate-transformer").save(tmp_path / "m")
    for given, said in (
        (["--text", "a cat ."], "--text needs --save"),
        (["--save", str(tmp_path / "no" / "x.html"), "--text", " "], "text is empty"),
    ):
        done = CliRunner().invoke(app, ["explore", str(tmp_path / "m"), *given])
        assert done.exit_code != 0
        assert said in str(done.exception) + done.output


# ---- with one ----

ROOT = "document.querySelector('#studio > div').shadowRoot.querySelector('.studio')"


def walk(page: Page, view: str, **more: str) -> Any:
    """To a view of a saved session."""
    given = "&".join(f"{name}={quote(value)}" for name, value in more.items())
    page.inner.evaluate(f"() => delete {ROOT}.dataset.ready")
    page.inner.evaluate("to => { location.hash = to; }", f"#/{view}?{given}")
    page.inner.wait_for_function(f"() => {ROOT}.dataset.ready", timeout=PATIENCE)
    assert page.inner.evaluate(f"() => {ROOT}.dataset.ready").startswith(f"{view} ")
    return page.inner.locator("#studio .studio")


def open_file(page: Page, file: Path) -> None:
    page.inner.on(
        "request",
        lambda each: page.left.append(each.url) if each.url.startswith("http") else None,
    )
    page.inner.context.set_offline(True)
    page.inner.goto(file.as_uri())
    page.inner.wait_for_function(f"() => {ROOT}?.dataset.ready", timeout=PATIENCE)


def shown(root: Any) -> tuple[str, float]:
    foot = root.locator(".readout")
    return foot.locator(".path").inner_text(), float(
        foot.locator(".value").inner_text().replace("−", "-")
    )


@pytest.mark.slow
def test_a_whole_text_in_one_file(
    page: Page, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every view of two models, with nobody to ask; numbers are those of the trace."""
    # More of the same takes long: one switch, and of the terms those of the patterns.
    monkeypatch.setattr(saved_session, "SWITCHES", 1)
    monkeypatch.setattr(terms, "CARRIED", 120)
    monkeypatch.setattr(surveys, "TEXTS", 4)
    followed = {"a": RunFollower(recorded_run(), "small")}
    handlers, file = Handlers(library, followed), tmp_path / "session.html"
    file.write_bytes(handlers.saved(EVIL, f"#/flow?text={quote(EVIL)}"))
    open_file(page, file)
    for view in ("attention", "decode", "whatif", "compare", "lesson", "train", "flow"):
        root = walk(page, view, text=EVIL)
        assert root.locator(".told").count() == 0, view
        assert "not recorded" not in root.inner_text(), view
        if view == "train":
            root.locator(".film canvas").first.wait_for()
            assert "Finished" in root.locator(".training .say").inner_text()
    root = walk(page, "data", text=EVIL)
    root.locator(".texts .edit").wait_for(state="detached")
    assert "no reference answers" in root.locator(".texts").inner_text()
    root.locator(".moved .quiet").wait_for()
    assert "not recorded in this file" in root.locator(".moved").inner_text()
    assert root.locator(".mark svg path").first.bounding_box()["width"] > 10  # the logo is drawn
    walk(page, "recurrent", text=EVIL, m="b")
    held = library.opened["a"].model
    key = next(iter(held.trace(EVIL).names("encoder.*.pattern")))
    for layer, head in ((1, 1), (1, 2)):  # also where nobody looked before
        root = walk(page, "attention", text=EVIL, kind="encoder", layer=str(layer), head=str(head))
        name, value = shown(root)
        at, index = re.fullmatch(r"([\w.]+)\[([\d, ]+)\]", name).groups()  # type: ignore[union-attr]
        place = tuple(int(i) for i in index.split(","))
        assert value == pytest.approx(float(held.trace(EVIL)[at][0][place]), abs=5e-4), key
        # Its terms are in the file, those of other cells are not, and the page says so.
        run, address = library.run("a", EVIL).key, f"{at}[0, {index}]"
        path = f"/api/runs/{run}/terms?address={quote(address)}"
        opened = json.loads(handlers.ask("GET", path).body)["expression"]["arguments"]
        buttons = root.locator(".sum .number")
        assert buttons.all_inner_texts() == [one["text"].replace("-", "−") for one in opened]
        buttons.first.click()
        root.locator(".sum .crumbs").wait_for()
        assert root.locator(".sum .missing").count() == 0
        page.inner.mouse.move(1, 1)
        root = walk(page, "attention", text=EVIL, kind="encoder", layer=str(layer), head=str(head),
                    pin="src:3,src:2")  # fmt: skip
        missing = root.locator(".sum .missing").inner_text()
        assert f'trace.terms("{at}[0, {place[0]}, 3, 2]")' in missing
        assert float(root.locator(".sum .strong td.n").inner_text()) == pytest.approx(
            float(held.trace(EVIL)[at][0, place[0], 3, 2]), rel=1e-6
        )
    root = walk(page, "decode", text=EVIL)  # a word that is forced is not: the tree stays
    root.locator(".force").nth(2).dispatch_event("click")
    root.locator(".told").wait_for()
    assert "not recorded in this file" in root.locator(".told").inner_text()
    assert root.locator(".treebox").count() == 1
    root.locator(".sentence .rewrite").click()  # another text is not in the file
    root.locator(".sentence input").fill("the dog .")
    page.inner.keyboard.press("Enter")
    page.inner.wait_for_function(f"() => {ROOT}.querySelector('.told')", timeout=PATIENCE)
    assert "not recorded in this file" in root.locator(".told").inner_text()
    assert root.locator(".treebox").count() == 1
    page.inner.set_viewport_size({"width": 360, "height": 780})  # a page, not a smaller box
    page.inner.wait_for_function(f"() => {ROOT}.clientWidth <= 360", timeout=PATIENCE)
    size = f"getComputedStyle({ROOT}).fontSize"
    assert page.inner.evaluate(f"() => {size}") == "16px"
    page.inner.set_viewport_size({"width": 3840, "height": 2160})  # as large as the page itself
    page.inner.wait_for_function(f"() => {size} === '40px'", timeout=PATIENCE)
    page.inner.set_viewport_size({"width": 360, "height": 780})
    page.inner.wait_for_function(f"() => {ROOT}.clientWidth <= 360", timeout=PATIENCE)
    root = walk(page, "train", text=EVIL)
    root.locator(".training .row > *").first.wait_for()
    assert min(box.bounding_box()["width"] for box in root.locator(".training .row > *").all()) > 99


@pytest.mark.slow
def test_a_key_saves_the_session(page: Page, studio: Served, tmp_path: Path) -> None:
    page.see(f"{studio.address}#/attention?text={quote(EVIL)}")
    page.changed(lambda: page.inner.keyboard.press("4"))
    with page.inner.expect_download() as download:
        page.inner.keyboard.press("x")
    download.value.save_as(tmp_path / "s.html")
    page.inner.emulate_media(color_scheme="dark")
    open_file(page, tmp_path / "s.html")
    assert page.inner.evaluate(f"() => {ROOT}.dataset.ready").startswith("decode ")
    assert page.inner.evaluate(f"() => {ROOT}.dataset.theme") == "dark"  # as who opens it has it
    page.inner.keyboard.press("?")  # without a click before
    assert page.inner.evaluate(f"() => {ROOT}.querySelector('dialog[open]') !== null")
    page.inner.keyboard.press("Escape")
    assert walk(page, "attention", text=EVIL).locator(".told").count() == 0
    root = walk(page, "flow", text=EVIL)  # nobody was there: its tensors are, the next words not
    assert "hacked" in root.locator(".sentence").inner_text()


@pytest.mark.slow
@pytest.mark.parametrize("view", chosen(["flow", "decode"], "decode"))
def test_a_view_as_svg_and_png(view: str, page: Page, studio: Served, tmp_path: Path) -> None:
    page.see(f"{studio.address}#/{view}?text={quote(EVIL)}&theme=dark")
    live = page.inner.evaluate(SEEN)
    with page.inner.expect_download() as download:
        page.inner.keyboard.press("s")
    download.value.save_as(tmp_path / "v.svg")
    page.ready()
    assert page.inner.evaluate("document.documentElement.dataset.theme") == "dark"  # as it was
    picture = Picture(tmp_path / "v.svg")
    picture.check_plain()
    told = "".join(picture.texts(caption=True))
    assert told.startswith(f"translate-transformer · {EVIL} · #/{view}?")
    ground = picture.root.find(f"{SVG}rect")
    assert ground is not None
    assert ground.get("fill") == "#f6f8f7"  # for paper

    page.inner.locator(".tools .saver > button").click()
    with page.inner.expect_download() as download:
        page.inner.get_by_role("button", name="This view as PNG").click()
    download.value.save_as(tmp_path / "v.png")
    size = (tmp_path / "v.png").read_bytes()
    width, height = (int.from_bytes(size[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (2 * picture.size[0], 2 * picture.size[1])
    assert len(Image.open(tmp_path / "v.png").convert("RGB").getcolors(1 << 24) or ()) > 50

    page.ready()
    page.inner.goto((tmp_path / "v.svg").as_uri())
    assert "hacked" in page.inner.evaluate("document.documentElement.textContent")
    # What a column is too narrow for ends in … on the page, by the fonts of this machine, and here.
    cut = [piece[:-1] for piece in picture.texts() if len(piece) > 1 and piece.endswith("…")]
    missing = words(live) - words(picture.texts())
    assert not [word for word in missing if not any(word.startswith(part) for part in cut)]
