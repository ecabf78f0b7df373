"""A page that runs models itself. It has the package's files, the tests' own models, and the
functions of local_models.js."""

import json
import threading
from collections.abc import Iterator
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.studio.browser import Page

import translucid as tl
from translucid.core.trace import Edit
from translucid.data import shipped_models
from translucid.model import Model

HERE = Path(__file__).parent
PACKAGE = Path(tl.__file__).parent


class Files(SimpleHTTPRequestHandler):
    """The package's files, an empty page, and local_models.js."""

    own: Path  # the folder of the test's own models
    site: Path | None = None  # a site, whose files have the same addresses as there

    def translate_path(self, path: str) -> str:
        if path == "/local_models.js":
            return str(HERE / "local_models.js")
        if path.startswith("/own/"):
            return str(self.own / path.removeprefix("/own/"))
        if self.site is not None and path.startswith(("/answers/", "/models/", "/lessons.js")):
            return str(self.site / path.removeprefix("/"))
        return super().translate_path(path)

    def do_GET(self) -> None:
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b'<!doctype html><link rel="icon" href="data:,">')
        return None

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of such a page."""

    def files(*args: Any) -> Files:
        return Files(*args, directory=str(PACKAGE))

    Files.own = tmp_path_factory.mktemp("models")
    Files.extensions_map = {**Files.extensions_map, ".js": "text/javascript"}
    server = ThreadingHTTPServer(("127.0.0.1", 0), files)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join(300)
        server.server_close()


@cache
def demo(name: str) -> Model:
    return tl.load(shipped_models.BEGIN + name)


def ask(page: Page, address: str, function: str, name: str, *given: Any) -> Any:
    """Call a function of local_models.js with a model: the name of a shipped one, or a path."""
    if page.inner.url != address:
        page.inner.goto(address)
    # Playwright reads long lists slowly, but not long texts.
    answer = page.inner.evaluate(
        "async ([name, given]) =>"
        " JSON.stringify(await (await import('/local_models.js'))[name](...given))",
        [function, [name if "/" in name else f"/data/shipped_models/{name}/best", *given]],
    )
    return json.loads(answer)


def some(*index: int | None, value: float) -> dict[str, Any]:
    """An edit of the values at an index of the leading axes; None: all."""
    return {"index": list(index), "value": value}


def as_edit(change: Any) -> Edit:
    """The edit for Python that local_models.js has from the same description."""
    if isinstance(change, float):
        return change
    if "values" in change:
        return torch.tensor(change["values"]).reshape(change["shape"])
    index = tuple(slice(None) if at is None else at for at in change["index"])

    def edited(value: torch.Tensor) -> torch.Tensor:
        value = value.clone()
        value[index] = change["value"]
        return value

    return edited
