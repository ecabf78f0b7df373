"""The same run on both sides: in a page that computes it itself, and on the studio's server."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.studio.browser import Page
from tests.studio.local_page import Files, ask, demo
from tests.studio.serving import Answer
from tests.studio.test_local_text import compare
from tests.tiny.once import once

from translucid.data import shipped_models
from translucid.studio import site
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library, followed_runs
from translucid.studio.surveys import Surveys

KEYS = dict(zip((name.removeprefix("demo:") for name in shipped_models.names()), "abcdefgh",
                strict=True))  # fmt: skip
OFF = {
    "translate": ["encoder.layers.0.self_attention.head.2@50", "decoder.masks.causal"],
    "translate-lstm": ["decoder.alignment", "encoder.recurrent.layers.0.forward"],
    "generate": ["decoder.layers.1.self_attention.head.1", "decoder.scale", "decoder.positions"],
    "generate-rnn": [],  # without its only layer, all outputs are equal
    "tag": ["encoder.recurrent.layers.0.forward.lstm.forget_gate=1"],
    "classify": ["encoder.recurrent.layers.0.lstm.input_gate=0"],
    "regress": ["layers.0"],
    "perceptron": [],
}


def opened() -> Handlers:
    names = shipped_models.names()
    library = Library({name: demo(name.removeprefix("demo:")) for name in names})
    handlers = Handlers(library, followed_runs([shipped_models.find(n) for n in names], names))
    handlers.surveys = Surveys(2)
    return handlers


@pytest.fixture(scope="module")
def server() -> Handlers:
    return opened()


@pytest.fixture(scope="module")
def built() -> Path:
    return once("site", lambda folder: site.write(opened(), folder))


@pytest.fixture
def here(leaf: Page, local: str, built: Path) -> Iterator[Any]:
    """Answers of the page to several questions at once."""
    Files.site = built

    def answers(*questions: tuple[str, str, str]) -> list[Answer]:
        found = ask(leaf, local, "answered", "", questions)
        return [
            Answer(status, [], text.encode() if "json" in kind else base64.b64decode(text))
            for status, kind, text in found
        ]

    yield answers
    Files.site = None


def there(server: Handlers, method: str, path: str, body: str = "") -> Answer:
    reply = server.ask(method, path, body.encode())
    return Answer(reply.status, [], reply.body)


def question(name: str, text: str, **more: Any) -> tuple[str, str, str]:
    return "POST", "/api/runs", json.dumps({"m": KEYS[name], "text": text, **more})


class Both:
    """The same run on both sides, and the same requests about it."""

    def __init__(self, here: Any, server: Handlers) -> None:
        self.here, self.server = here, server

    def run(self, name: str, text: str, **more: Any) -> list[dict[str, Any]]:
        """The run of the page and that of the server."""
        asked = question(name, text, **more)
        (one,), two = self.here(asked), there(self.server, *asked)
        assert (one.status, two.status) == (200, 200), (one.body, two.body)
        return [one.json, two.json]

    def ask(self, runs: list[list[dict[str, Any]]], *paths: str) -> Iterator[tuple[str, Any, Any]]:
        """Answers to requests in which {0} is the key of the first run."""
        keys = [[pair[side]["run"] for pair in runs] for side in (0, 1)]
        found = self.here(*(("GET", path.format(*keys[0]), "") for path in paths))
        for path, one in zip(paths, found, strict=True):
            two = there(self.server, "GET", path.format(*keys[1]))
            assert one.status == two.status, (path, one.body[:300], two.body[:300])
            yield path, one, two

    def compare(self, runs: list[list[dict[str, Any]]], *paths: str) -> None:
        for path, one, two in self.ask(runs, *paths):
            assert one.status == 200, (path, one.body)
            compare(plain(one.json), plain(two.json), path)


@pytest.fixture
def both(here: Any, server: Handlers) -> Both:
    return Both(here, server)


def plain(answer: Any) -> Any:
    """Without what must differ: keys of runs and times; and what the page does not read."""
    if not isinstance(answer, dict):
        return answer
    for key in ("run", "ms", "a", "b"):
        answer.pop(key, None)
    if "tree" in answer:
        kept = ("beam_size", "n_best", "alpha")
        answer["tree"]["search"] = {key: answer["tree"]["search"][key] for key in kept}
        answer["tree"]["nodes"][0]["label"] = ""
    return answer
