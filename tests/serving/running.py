"""A server for tests: shipped and small untrained models on a port of this machine."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import uvicorn
from tests.studio.serving import model as untrained

from translucid.data.tokenizers.chat_template import ChatTemplate
from translucid.model import Model, load
from translucid.serving import Engine, Limits
from translucid.serving.access import Rules
from translucid.serving.app import Server, make_app
from translucid.serving.connections import HttpServer, Refusals, ServingProtocol
from translucid.serving.served import Models, Served
from translucid.serving.server import bind
from translucid.studio.server.serve import OPTIONS

TEMPLATE = (
    "{% for message in messages %}"
    "{{ 'Anna sees' if message.role == 'user' else 'Peter sees' }} {{ message.content }}. "
    "{% endfor %}{% if add_generation_prompt %}The{% endif %}"
)
EVERYONE = Rules()
LIMITS = Limits(rows=16, queue=64)


@cache
def shipped(name: str) -> Model:
    return load(f"demo:{name}")


@dataclass
class Running:
    """A server that answers, with its models and the lines of its log."""

    port: int
    models: Models
    server: Server
    log: list[str] = field(default_factory=list)
    http: HttpServer | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(
        self, path: str, body: Any = None, method: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, content and headers of an answer. body: JSON, or raw bytes."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            verb = method or ("GET" if body is None else "POST")
            connection.request(verb, path, raw, kind | (headers or {}))
            answer = connection.getresponse()
            content = answer.read()
            given = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, _content(content, given), given
        finally:
            connection.close()

    def get(self, path: str, body: Any = None) -> Any:
        """The content of an answer that must succeed."""
        status, content, _ = self.send(path, body)
        assert status == 200, content
        return content


@contextmanager
def running(models: Sequence[Served], rules: Rules = EVERYONE, **options: Any) -> Iterator[Running]:
    held = bind("127.0.0.1", 0)
    by_name = Models(models)
    server = Server(by_name, **options)
    one = Running(held.getsockname()[1], by_name, server)
    app = make_app(server, rules, one.log.append)
    serving = HttpServer(
        uvicorn.Config(app, **OPTIONS | {"http": ServingProtocol, "log_level": "critical"}),
        Refusals(server.load, server.metrics, one.log.append, by_name),
    )
    one.http = serving
    thread = threading.Thread(target=lambda: serving.run(sockets=[held]), daemon=True)
    thread.start()
    while not serving.started:
        time.sleep(0.01)
    try:
        yield one
    finally:
        serving.should_exit = True
        thread.join(30)
        assert by_name.close(drain=False, timeout=60)
        held.close()


def until(true: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def served(name: str, model: Model, **more: Any) -> Served:
    return Served(name, model, Engine(model, LIMITS), **more)


def usual() -> list[Served]:
    """A model for each task: trained ones for text, untrained ones for the others."""
    return [
        served("translate", shipped("translate"), languages=("en", "de")),
        served("generate", shipped("generate")),
        served("chat", shipped("generate-rnn"), template=ChatTemplate(TEMPLATE)),
        served("classify", shipped("classify")),
        served("tag", shipped("tag")),
        served("regress", untrained("regress-mlp")),
    ]


def _content(content: bytes, headers: dict[str, str]) -> Any:
    return json.loads(content) if "json" in headers.get("content-type", "") else content.decode()
