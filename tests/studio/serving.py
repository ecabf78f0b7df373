"""A studio for tests: small untrained models behind a real server on its own port."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from tests.see.small import LABELS, TAGS, pair

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.model import Model
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library
from translucid.studio.run_follower import RunFollower
from translucid.studio.server.app import make_app
from translucid.studio.server.guard import Guard
from translucid.studio.server.serve import OPTIONS
from translucid.studio.tensors import unpacked
from translucid.tasks.model_folder import Bundle

TOKEN = "a-token-of-the-tests"
# A model of each family, by the name that the page shows, with a sentence for it.
FAMILIES: dict[str, tuple[str, str]] = {
    "translate-transformer": ("translate", "transformer"),
    "translate-lstm": ("translate", "lstm"),
    "tag-lstm": ("tag", "lstm"),
    "classify-gru": ("classify", "gru"),
    "classify-transformer": ("classify", "transformer"),
    "language-transformer": ("language", "transformer"),
    "language-rnn": ("language", "rnn"),
    "regress-mlp": ("regress", "mlp"),
}
# Families without layers, which the tests of the page's views do not need.
LINEAR = {"classify-linear": ("classify", "linear"), "tag-linear": ("tag", "linear")}
TEXT = "the dog sees a cat ."


def text_for(family: str) -> str:
    return "0.5 1 -2" if family == "regress-mlp" else TEXT


def model(family: str, **keys: Any) -> Model:
    """An untrained model in float32, as models on disk are."""
    name, kind = (FAMILIES | LINEAR)[family]
    task, network = pair(name, kind, **keys)
    names = {"translate": ("source", "target"), "regress": ()}.get(name, ("tokenizer",))
    tokenizers: dict[str, Tokenizer] = {each: getattr(task, each) for each in names}
    labels = {"classify": LABELS, "tag": TAGS}.get(name, [])
    statistics = {"columns": task.columns.as_json()} if name == "regress" else {}
    return Model(Bundle(network.float(), name, tokenizers, tuple(labels), statistics=statistics))


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def frames(self) -> Any:
        assert self.status == 200, self.body
        return unpacked(self.body)


@dataclass
class Served:
    """A running studio, and methods to send it requests."""

    guard: Guard
    library: Library
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """The address that `translucid explore` prints."""
        return f"http://{self.host}/open/{TOKEN}"

    @property
    def honest(self) -> dict[str, str]:
        """The headers that a browser sends from the studio's own page."""
        return {
            "host": self.host, "origin": f"http://{self.host}",
            "cookie": f"translucid-{self.port}={TOKEN}", "content-type": "application/json",
        }  # fmt: skip

    def ask(
        self, method: str, path: str, headers: Mapping[str, Any] | None = None, body: bytes = b"",
    ) -> Answer:  # fmt: skip
        """Send a request with these headers and no others; a list sends a header several times,
        None omits it."""
        given = {**self.honest, **(headers or {})}
        if body and "transfer-encoding" not in given:
            given.setdefault("content-length", str(len(body)))
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, values in given.items():
                for value in values if isinstance(values, list) else [values]:
                    if value is not None:
                        link.putheader(name, value)
            link.endheaders(body or None)
            answer = link.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            link.close()

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, asked: Any) -> Answer:
        return self.ask("POST", path, body=json.dumps(asked).encode())

    def run(self, m: str, text: str, **more: Any) -> dict[str, Any]:
        answer = self.post("/api/runs", {"m": m, "text": text, **more})
        assert answer.status == 200, answer.body
        return answer.json


def at_hand(handlers: Handlers) -> "Future[Handlers]":
    """The handlers as if their models had just been opened."""
    opened: Future[Handlers] = Future()
    opened.set_result(handlers)
    return opened


def files_kept(guard: Guard) -> Any:
    """Let the tests' browser cache the page's 70 files, because requesting them again takes a
    second."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def kept(message: Any) -> None:
            if message["type"] == "http.response.start":
                old, new = (b"cache-control", b"no-cache"), (b"cache-control", b"max-age=3600")
                message["headers"] = [new if pair == old else pair for pair in message["headers"]]
            await send(message)

        browser = any(b"Chrome" in value for _, value in scope.get("headers", ()))
        await guard(scope, receive, kept if browser else send)

    return app


@contextmanager
def serving(
    models: Mapping[str, Model | None],
    once: str = "",
    followed: Mapping[str, RunFollower] | None = None,
    view: Path | None = None,
) -> Iterator[Served]:
    library = Library(models)
    held = socket.create_server(("127.0.0.1", 0))
    port = held.getsockname()[1]
    hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
    guard = make_app(
        at_hand(Handlers(library, followed)), token=TOKEN, hosts=hosts, once=once, view=view
    )
    options = {**OPTIONS, "log_level": "critical", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(files_kept(guard), **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]}, daemon=True)
    thread.start()
    try:
        yield Served(guard, library, port)
    finally:
        server.should_exit = True
        thread.join(300)
        held.close()
