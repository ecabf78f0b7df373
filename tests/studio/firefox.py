"""Firefox for tests, driven by WebDriver BiDi, which Firefox itself speaks."""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import Ping, Request, TextMessage

NAMES = ("firefox", "firefox-esr")
HOW = "these tests need Firefox in PATH (or FIREFOX=/path/to/it): `apt-get install firefox-esr`"
PATIENCE = 600  # seconds
LISTENS = re.compile(r"WebDriver BiDi listening on ws://127\.0\.0\.1:(\d+)")


class Firefox:
    """One page, with as much of playwright's interface as `local_page.ask` uses."""

    def __init__(self, port: int) -> None:
        self.url, self._id = "", 0
        self._link = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._socket = WSConnection(ConnectionType.CLIENT)
        self._send(Request(host=f"127.0.0.1:{port}", target="/session"))
        self._texts: list[str] = []
        self._part = ""
        self.call("session.new", capabilities={})
        tree = self.call("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]

    @property
    def inner(self) -> "Firefox":
        return self

    def goto(self, address: str) -> None:
        self.call("browsingContext.navigate", context=self._context, url=address, wait="complete")
        self.url = address

    def evaluate(self, function: str, given: Any = None) -> Any:
        """Call a function of the page that returns a text."""
        answer = self.call(
            "script.evaluate", expression=f"({function})({json.dumps(given)})",
            target={"context": self._context}, awaitPromise=True,
        )  # fmt: skip
        assert answer["type"] == "success", answer["exceptionDetails"]["text"]
        return answer["result"]["value"]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._id += 1
        body = {"id": self._id, "method": method, "params": parameters}
        self._send(TextMessage(data=json.dumps(body)))
        while (answer := json.loads(self._text())).get("id") != self._id:
            pass  # events
        assert answer["type"] == "success", answer
        return answer["result"]

    def _send(self, event: Any) -> None:
        self._link.sendall(self._socket.send(event))

    def _text(self) -> str:
        while not self._texts:
            self._socket.receive_data(self._link.recv(1 << 20) or None)
            for event in self._socket.events():
                if isinstance(event, Ping):
                    self._send(event.response())
                elif isinstance(event, TextMessage):
                    self._part += event.data
                    if event.message_finished:
                        self._texts.append(self._part)
                        self._part = ""
        return self._texts.pop(0)


def firefox() -> str | None:
    named = os.environ.get("FIREFOX")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def fox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """A page of Firefox; the test is skipped if there is none."""
    found = firefox()
    if found is None:
        pytest.skip(HOW)
    folder = tmp_path_factory.mktemp("firefox")
    log = folder / "log"
    command = [found, "--headless", "--no-remote", "--profile", str(folder),
               "--remote-debugging-port", "0", "about:blank"]  # fmt: skip
    with log.open("w") as written:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=written,
            env=os.environ | {"HOME": str(folder)},
        )
    try:
        yield Firefox(_port(process, log))
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _port(process: "subprocess.Popen[bytes]", log: Path) -> int:
    """The port on which Firefox listens, once it does."""
    for _ in range(10 * PATIENCE):
        if found := LISTENS.search(log.read_text("utf-8", "replace")):
            return int(found[1])
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"Firefox did not start: {log.read_text('utf-8', 'replace')}")
