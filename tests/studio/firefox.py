"""Firefox for tests, through WebDriver BiDi: it opens addresses and runs JavaScript in a page.

Playwright controls only its own builds of Firefox, and the tests use the system's.
"""

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.studio.browser import Page
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, Ping, Request, TextMessage

PATIENCE = 180  # seconds; enough for a busy machine
HOW = "the page's models are also compared in Firefox; get it with `apt-get install firefox-esr`"


class Firefox:
    """What `local_page.ask` needs of a page."""

    def __init__(self, link: socket.socket) -> None:
        self.url, self._number, self._link = "", 0, link
        self._ws = WSConnection(ConnectionType.CLIENT)
        self._send(Request(host=f"127.0.0.1:{link.getpeername()[1]}", target="/session"))
        assert isinstance(next(self._received()), AcceptConnection)
        self.command("session.new", capabilities={})
        (context,) = self.command("browsingContext.getTree")["contexts"]
        self._context = context["context"]

    def command(self, method: str, **params: Any) -> Any:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params}
        self._send(TextMessage(data=json.dumps(asked)))
        text = ""
        for event in self._received():
            if isinstance(event, Ping):
                self._send(event.response())
            elif isinstance(event, TextMessage):
                text += event.data
                if event.message_finished:
                    answer, text = json.loads(text), ""
                    if answer.get("id") == self._number:
                        assert answer["type"] == "success", answer
                        return answer["result"]
        raise ConnectionError(f"Firefox closed the connection during {method}")

    def goto(self, address: str) -> None:
        self.command("browsingContext.navigate", context=self._context, url=address,
                     wait="complete")  # fmt: skip
        self.url = address

    def evaluate(self, function: str, argument: Any) -> Any:
        """Call a JavaScript function that returns a text."""
        ran = self.command(
            "script.callFunction",
            functionDeclaration=f"text => ({function})(JSON.parse(text))",
            arguments=[{"type": "string", "value": json.dumps(argument)}],
            target={"context": self._context},
            awaitPromise=True,
        )
        assert ran["type"] == "success", ran["exceptionDetails"]["text"]
        return ran["result"]["value"]

    def _send(self, event: Event) -> None:
        self._link.sendall(self._ws.send(event))

    def _received(self) -> Iterator[Event]:
        while data := self._link.recv(1 << 16):
            self._ws.receive_data(data)
            yield from self._ws.events()


@pytest.fixture(scope="session")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
    if path is None:
        pytest.skip(HOW)
    folder = tmp_path_factory.mktemp("firefox")
    words = ("--headless", "--no-remote", "--profile", folder, "--remote-debugging-port", "0")
    printed = folder / "printed.txt"
    with printed.open("wb") as out:
        program = subprocess.Popen([path, *words], stdout=out, stderr=subprocess.STDOUT)
    try:
        address = ("127.0.0.1", port_in(printed, program))
        with socket.create_connection(address, timeout=PATIENCE) as link:
            yield Page(cast("Any", Firefox(link)))
    finally:
        program.terminate()
        program.wait(PATIENCE)


def port_in(printed: Path, program: "subprocess.Popen[bytes]") -> int:
    """The port that Firefox prints once it listens."""
    until = time.monotonic() + PATIENCE
    while program.poll() is None and time.monotonic() < until:
        if found := re.search(
            r"listening on ws://127\.0\.0\.1:(\d+)\s", printed.read_text("utf-8")
        ):
            return int(found[1])
        time.sleep(0.05)
    raise RuntimeError(f"Firefox does not listen: {printed.read_text('utf-8')}")
