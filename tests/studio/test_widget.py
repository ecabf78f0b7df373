"""Widgets of a notebook: the same answers as the page's over a channel of their own; several on one
page, each with its own state."""

import base64
import builtins
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.studio.browser import PATIENCE, Page
from tests.studio.serving import TEXT, model, serving
from tests.studio.sockets import listening
from tests.studio.trained import recorded

from translucid.core.errors import ConfigError, InputError
from translucid.model import Model, load
from translucid.studio.handlers import Handlers
from translucid.studio.run_follower import RunFollower
from translucid.studio.tensors import unpacked

HOST = "http://127.0.0.1/notebook"


@pytest.fixture
def page(own_page: Page) -> Page:
    """A new page for each test."""
    return own_page


@pytest.fixture(scope="module")
def translator() -> Model:
    return model("translate-transformer")


class Channel:
    """Both ends of a widget's messages, as a notebook has them."""

    def __init__(self, widget: Any) -> None:
        self.widget, self.heard, self.bytes = widget, [], 0
        widget.send = self._sent

    def _sent(self, content: Any, buffers: Any = None) -> None:
        assert json.loads(json.dumps(content)) == content  # as it travels
        self.heard.append((content, [bytes(each) for each in buffers]))

    def ask(self, message: Any) -> tuple[Any, bytes]:
        """Through the door that ipywidgets opens for messages."""
        self.widget._handle_custom_msg(message, [])
        content, (body,) = self.heard.pop()
        self.bytes += len(body)
        return content, body


# ---- without a browser ----


@pytest.mark.slow
def test_the_channel_answers_as_the_server_does(translator: Model) -> None:
    channel = Channel(translator.studio(TEXT, view="attention"))
    with serving({"model": translator}) as served:
        run = served.run("a", TEXT)["run"]
        asked = json.dumps({"m": "a", "text": TEXT})
        here, body = channel.ask(
            {"of": "x", "id": 1, "method": "POST", "path": "/api/runs", "body": asked}
        )
        assert (here["of"], here["id"], here["status"]) == ("x", 1, 200)
        assert json.loads(body)["run"] == run  # named by what was asked
        for path in (
            "/api/models", "/api/model/a", "/api/catalogue", "/api/model/z", "/api/model/a%20b",
            f"/api/runs/{run}/tensors?at=head.logits&as=f32&index=1",
            f"/api/runs/{run}/steps?k=3", f"/api/runs/{run}/steps?tokens=5.6&k=3",
            f"/api/runs/{run}/tensors?at=none", f"/api/runs/{run}/terms?address=head.logits[0,0,0]",
            f"/api/runs/{run}/tensors?at=head.logits&at=decoder.embedding.lookup&pool=4",
            f"/api/runs/{run}/decode?beam_size=2", f"/api/runs/{run}/decode?beam_size=99",
            f"/api/runs/{run}/heads?kind=cross", "/api/nothing",
        ):  # fmt: skip
            here, body = channel.ask({"of": "x", "id": 2, "method": "GET", "path": path})
            there = served.get(path)
            assert here["status"] == there.status, path
            if here["status"] != 404:  # each says so in its own words
                assert body == there.body, path
                assert [here["kind"]] == there.header("content-type"), path


def test_messages_that_are_not_requests_are_ignored(translator: Model) -> None:
    channel = Channel(translator.studio(TEXT))
    for message in ({}, {"of": 1}, [], "x", {"of": "x", "id": 1, "method": 3, "path": "/"}):
        channel.widget._handle_custom_msg(message, [])
    assert channel.heard == []


def test_an_internal_error_is_reported(translator: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Channel(translator.studio(TEXT))

    def broken(*given: Any) -> Any:
        raise RuntimeError("a wheel came off")

    monkeypatch.setattr(Handlers, "ask", broken)
    head, body = channel.ask({"of": "x", "id": 1, "method": "GET", "path": "/api/models"})
    assert head["status"] == 500
    assert "a wheel came off" in json.loads(body)["error"]


def test_widgets_of_one_model_share_its_runs(translator: Model) -> None:
    one, two = translator.studio(TEXT), translator.studio("a cat .", view="decode")
    assert one.handlers is two.handlers
    assert (
        translator.studio(TEXT, view="compare", compare_with=[translator]).handlers
        is not one.handlers
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"view": "flows"}, "view 'flows': expected one of flow, attention"),
        ({"height": 10}, "300 to 4000 pixels, not 10"),
        ({"view": "compare"}, r"needs a second model: compare_with=\[other\]"),
        ({"view": "train"}, r"view 'train' needs .*run folder: tl.load\("),
    ],
)
def test_invalid_widget_arguments_are_refused(translator: Model, keys: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        translator.studio(TEXT, **keys)


def test_without_the_extra(translator: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    before = builtins.__import__

    def without(name: str, *given: Any) -> Any:
        if name == "anywidget":
            raise ModuleNotFoundError("No module named 'anywidget'", name="anywidget")
        return before(name, *given)

    monkeypatch.delitem(sys.modules, "translucid.studio.widget", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"anywidget.*pip install .*\[notebook\]"):
        translator.studio(TEXT)


@pytest.fixture(scope="module")
def learnt() -> Model:
    """Read from the folder of its run, which was recorded."""
    return load(recorded())


def test_a_training_over_the_channel_is_the_sockets(learnt: Model) -> None:
    channel = Channel(learnt.studio(view="train"))
    assert learnt.folder is not None
    with serving({}, followed={"a": RunFollower(learnt.folder, "small")}) as served:
        with listening(served, "/api/train/a") as ear:
            about, whole = ear.hear(), ear.hear()
        asked = {"of": "x", "id": 1, "method": "GET", "path": "/api/train/a/about"}
        assert json.loads(channel.ask(asked)[1]) == about
        found = unpacked(channel.ask({**asked, "path": "/api/train/a/history"})[1])
        assert repr(found) == repr(whole)
    assert json.loads(channel.ask({**asked, "path": "/api/model/a"})[1])["trains"]
    assert channel.ask({**asked, "path": "/api/train/b/history"})[0]["status"] == 422


# ---- in a browser, with the Python object at the other end ----

NOTEBOOK = """<!doctype html><html lang="en"><head><title>Notebook</title>
<style>.panel, .word, button { color: rgb(255, 0, 0); } h2 { font-size: 99px; }</style></head>
<body><h2 class="word">Theirs</h2><div id="w0"></div><div id="w1"></div>
<script type="module">
import widget from './widget.js';
function standIn(number, state) {
  const heard = {};
  return {
    get: key => state[key], set: (key, value) => { state[key] = value; }, save_changes() {},
    on: (kind, f) => { (heard[kind] ??= []).push(f); }, off() {},
    send: async message => {
      const [head, body] = await window.asked(number, message);
      const bytes = Uint8Array.from(atob(body), letter => letter.charCodeAt(0));
      for (const f of heard['msg:custom']) f(head, [new DataView(bytes.buffer)]);
    },
    go(address) { state.address = address; for (const f of heard['change:address'] ?? []) f(); },
  };
}
window.models = window.states.map((state, i) => standIn(i, state));
window.models.forEach((model, i) => widget.render({ model, el: document.getElementById(`w${i}`) }));
</script></body></html>"""


class Notebook:
    def __init__(self, page: Page, *widgets: Any, body: str = "<body>") -> None:
        self.page, self.channels = page, [Channel(widget) for widget in widgets]
        inner = page.inner
        inner.expose_function("asked", self._asked)
        states = [{"address": each.address, "height": each.height} for each in widgets]
        script = f"<script>window.states = {json.dumps(states)};</script>"
        html = NOTEBOOK.replace("<body>", f"{body}{script}")
        kinds = {
            "/notebook": ("text/html", html),
            "/widget.js": ("text/javascript", widgets[0]._esm),
        }

        def answer(each: Any) -> None:
            kind, text = kinds[each.request.url.removeprefix("http://127.0.0.1")]
            each.fulfill(body=text, content_type=kind)

        for path in kinds:
            inner.route(f"http://127.0.0.1{path}", answer)
        inner.goto(HOST)
        for number in range(len(widgets)):
            self.ready(number)

    def _asked(self, number: int, message: Any) -> Any:
        head, body = self.channels[number].ask(message)
        return [head, base64.b64encode(body).decode()]

    def root(self, number: int) -> Any:
        return self.page.inner.locator(f"#w{number} .studio")

    def ready(self, number: int, view: str = "") -> str:
        self.page.inner.wait_for_function(
            """([number, view]) => document.querySelector(`#w${number} > div`)?.shadowRoot
               .querySelector('.studio')?.dataset.ready?.startsWith(view)""",
            arg=[number, view], timeout=PATIENCE,
        )  # fmt: skip
        return self.root(number).get_attribute("data-ready")

    def readout(self, number: int) -> tuple[str, float]:
        foot = self.root(number).locator(".readout")
        value = foot.locator(".value").inner_text().replace("−", "-")
        return foot.locator(".path").inner_text(), float(value)


@pytest.fixture
def notebook(page: Page, translator: Model) -> Notebook:
    return Notebook(
        page, translator.studio(TEXT, view="attention"),
        translator.studio("a cat .", view="decode", height=500),
    )  # fmt: skip


@pytest.mark.slow
def test_two_widgets_keep_their_own_state(notebook: Notebook, translator: Model) -> None:
    inner = notebook.page.inner
    assert notebook.ready(0).startswith("attention ")
    assert notebook.ready(1).startswith("decode ")
    name, value = notebook.readout(0)
    at, index = re.fullmatch(r"([\w.]+)\[([\d, ]+)\]", name).groups()  # type: ignore[union-attr]
    place = tuple(int(i) for i in index.split(","))
    assert value == pytest.approx(float(translator.trace(TEXT)[at][0][place]), abs=5e-4)
    assert inner.evaluate("location.hash") == ""  # the notebook's own address is left alone

    notebook.root(0).locator(".sentence .token").first.click()  # pinned here
    assert "pin=src:0" in inner.evaluate("window.models[0].get('address')")
    assert "pin" not in inner.evaluate("window.models[1].get('address')")
    assert notebook.root(0).locator(".token.pinned").count() == 1
    assert notebook.root(1).locator(".lit").count() == 0
    inner.evaluate(
        "window.models[1].go('#/decode?hide=bar&text=a+cat+.&beam_size=2')"
    )  # drawn anew
    notebook.root(1).locator('.pick [aria-pressed="true"]:text-is("2")').wait_for()
    assert notebook.root(1).locator(".token.pinned").count() == 0
    before = notebook.root(1).inner_text()
    inner.emulate_media(color_scheme="dark")  # a light notebook on a dark system: they are light
    inner.keyboard.press("d")  # dark: a key goes to the widget that has the focus
    inner.wait_for_function("() => window.models[0].get('address').includes('theme=dark')")
    assert notebook.root(1).get_attribute("data-theme") == "light"
    inner.keyboard.press("1")
    assert notebook.ready(0, "flow").startswith("flow ")
    assert notebook.ready(1).startswith("decode ")
    assert notebook.root(1).inner_text() == before
    assert all(0 < channel.bytes < 1_000_000 for channel in notebook.channels)


@pytest.mark.slow
def test_in_a_dark_notebook_the_page_is_dark(page: Page, translator: Model) -> None:
    widget = translator.studio(TEXT, view="attention")
    notebook = Notebook(page, widget, body='<body data-jp-theme-light="false">')
    assert notebook.root(0).get_attribute("data-theme") == "dark"
    assert page.inner.evaluate("() => window.models[0].get('address')") == widget.address


@pytest.mark.slow
def test_a_lesson_and_a_training_in_a_notebook(page: Page, learnt: Model) -> None:
    both = [learnt.studio("The dog sleeps.", view=view) for view in ("train", "lesson")]
    notebook = Notebook(page, *both)
    assert notebook.ready(0).startswith("train ")
    assert learnt.folder is not None
    steps = [
        json.loads(line)
        for line in (learnt.folder / "studio/steps.jsonl").read_text("utf-8").splitlines()
    ]
    last = next(each for each in reversed(steps) if "loss" in each)
    said = notebook.root(0).locator(".training .say").inner_text()
    assert said == f"Finished after step {last['step']} of 12"
    shown = notebook.root(0).locator(".curve .aside").first.text_content()
    assert float(shown) == pytest.approx(last["loss"], rel=5e-3)  # as it is printed
    notebook.root(0).locator(".curve svg").first.focus()
    page.inner.keyboard.press("t")  # the same as a table
    row = notebook.root(0).locator("table.datatable tbody tr").last
    assert [row.locator("th").inner_text(), row.locator("td").first.inner_text()] == [
        str(last["step"]), str(shown).strip()
    ]  # fmt: skip
    page.inner.keyboard.press("Escape")
    assert notebook.ready(1).startswith("lesson ")
    notebook.root(1).get_by_role("link", name="Begin").or_(
        notebook.root(1).get_by_role("button", name="Begin")
    ).first.click()
    page.inner.wait_for_function("() => window.models[1].get('address').includes('lesson=')")
    assert notebook.ready(0).startswith("train ")


@pytest.mark.slow
def test_python_leads_and_links_stay_inside(notebook: Notebook) -> None:
    inner = notebook.page.inner
    inner.evaluate("window.models[1].go('#/flow?hide=bar&text=a+dog+.')")
    assert notebook.ready(1, "flow").startswith("flow ")
    link = notebook.root(1).locator('.panel a[href^="#/attention"]').first
    link.click()
    assert notebook.ready(1, "attention").startswith("attention ")
    assert inner.evaluate("window.models[1].get('address')").startswith("#/attention")
    assert inner.evaluate("location.hash") == ""
    assert notebook.ready(0).startswith("attention ")


@pytest.mark.slow
def test_styles_stay_inside_and_outside(notebook: Notebook) -> None:
    inner = notebook.page.inner
    theirs = inner.eval_on_selector("body > h2", "el => getComputedStyle(el).fontSize")
    assert theirs == "99px"
    red = "el => getComputedStyle(el).color"
    assert inner.eval_on_selector("body > h2", red) == "rgb(255, 0, 0)"
    assert notebook.root(0).locator(".panel").evaluate(red) != "rgb(255, 0, 0)"
    assert inner.evaluate("getComputedStyle(document.body).display") == "block"
    assert notebook.root(1).evaluate("el => el.clientHeight") == 500


@pytest.mark.slow
def test_a_real_kernel_shows_widgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    model("translate-transformer").save(tmp_path / "model")
    book = nbformat.v4.new_notebook()
    book.cells = [
        nbformat.v4.new_code_cell(text)
        for text in (
            "import translucid as tl\nmodel = tl.load('model')",
            f"model.studio({TEXT!r}, view='attention')",
            f"model.studio({TEXT!r}, view='decode', height=400)",
        )
    ]
    client = NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    kind = "application/vnd.jupyter.widget-view+json"
    shown = [cell.outputs[0].data[kind]["model_id"] for cell in book.cells[1:]]
    states = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    first, second = (states[each]["state"] for each in shown)
    assert first["address"].startswith("#/attention?")
    assert second["height"] == 400
    assert first["_esm"] == second["_esm"]


def test_its_code_is_small(translator: Model) -> None:
    assert len(translator.studio(TEXT)._esm) < 670_000  # with Practice and the glossary
