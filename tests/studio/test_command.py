"""`translucid explore`: where it listens, what it prints, how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from tests.forked import TRANSLUCID
from tests.studio.serving import model

from translucid.cli import explore as command
from translucid.core.errors import InputError
from translucid.studio.server import serve

pytestmark = pytest.mark.slow


def addresses_of(port: int) -> set[str]:
    """Where this machine listens on a port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text("utf-8").split("\n")[1:]:
            cells = line.split()
            if cells and cells[3] == "0A":  # listens
                address, _, number = cells[1].rpartition(":")
                if int(number, 16) == port:
                    found.add(address)
    return found


def test_it_listens_on_this_machine_only_and_ends_quietly(tmp_path: Path) -> None:
    model("regress-mlp").save(tmp_path / "small")
    with subprocess.Popen(
        [*TRANSLUCID, "explore", str(tmp_path / "small"), "--no-browser",
         "--device", "cpu"],
        encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.fullmatch(r"studio: (http://127\.0\.0\.1:(\d+)/open/[\w-]{32})\n", said)
            assert found
            with urllib.request.urlopen(found[1], timeout=180) as answer:
                assert answer.status == 200
            if sys.platform == "linux":
                assert addresses_of(int(found[2])) == {"0100007F"}
        finally:
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=180)
    assert rest == ""
    assert "Traceback" not in errors
    assert found[1].rpartition("/")[2] not in errors


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    model("regress-mlp").save(tmp_path / "small")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"port {port} .*omit --port"):
            command.explore([tmp_path / "small"], port=port, browser=False, device="cpu")


def test_too_many_models(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="9 models; the page shows at most 8"):
        command.explore([tmp_path] * 9, port=0, browser=False, device="cpu")


def test_a_browser_is_given_an_address_that_works_once(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    import uvicorn

    model("regress-mlp").save(tmp_path / "small")
    opened: list[str] = []
    done = threading.Event()
    made: list[Any] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: (opened.append(address), done.set()))
    monkeypatch.setattr(
        uvicorn.Server, "run",
        lambda self, sockets: (made.append(self.config.app), [each.close() for each in sockets]),
    )  # fmt: skip
    command.explore([tmp_path / "small"], port=0, browser=True, device="cpu")
    assert done.wait(300)
    printed = capsys.readouterr().out.split()[1]
    assert opened[0] != printed
    assert opened[0].rpartition("/")[2] == made[0].once
    assert printed.rpartition("/")[2] == made[0].token
    assert all(name.startswith(("127.0.0.1:", "localhost:")) for name in made[0].hosts)


def test_the_usual_port_comes_first_then_the_next(monkeypatch: Any, capsys: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    monkeypatch.setattr(serve, "PORT", number)
    first, second, chosen = serve.ready(None), serve.ready(None), serve.ready(0)
    try:
        ports = [each.held.getsockname()[1] for each in (first, second)]
        assert ports[0] == number
        assert number < ports[1] < number + serve.PORTS
        for each, asked in ((first, None), (second, None), (chosen, 0)):
            command.announce(each, asked)
        told = capsys.readouterr()
        assert told.out.splitlines() == [f"studio: {e.address}" for e in (first, second, chosen)]
        assert re.findall(r"port (\d+)", told.err) == [str(number), str(ports[1])]
    finally:
        for each in (first, second, chosen):
            each.held.close()
