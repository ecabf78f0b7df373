"""Hostile requests to the studio, and hostile records in a run folder that it shows."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.hostile_models import MISSING, ODD, broken_text, places, replaced

STEP = {"step": 1, "loss": 1.0, "norm": 2.0, "learning_rate": 0.1, "grad": [1.0, 2.0]}
METRIC = {"step": 1, "valid": {"rmse": 1.0}, "best": True}
PROBE = {"step": 1, "answer": "x", "at": "h", "rows": ["a"], "columns": ["b"], "scale": "unit",
         "note": "", "values": "AACAPw=="}  # fmt: skip
ABOUT = {"format": 1, "probe": "x", "every": 1, "layers": ["a", "b"], "tied": ""}
END = {"step": 2, "end": "finished", "why": "x"}
FILES: dict[str, list[dict[str, Any]]] = {
    "studio/about.json": [ABOUT], "studio/steps.jsonl": [STEP, END], "metrics.jsonl": [METRIC],
    "studio/probes.jsonl": [PROBE],
}  # fmt: skip


def write_history(folder: Path, name: str = "", text: bytes = b"") -> None:
    """Write the records of a training run. name: the file that gets `text` instead of its
    records."""
    (folder / "studio").mkdir(parents=True, exist_ok=True)
    (folder / "recipe.toml").write_text('[task]\nkind = "regress"\n')
    for file, lines in FILES.items():
        good = "".join(json.dumps(line) + "\n" for line in lines).encode()
        (folder / file).write_bytes(text if file == name else good)


def hostile_histories() -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yield a name and a function that writes the run folder, for each hostile record."""
    for file, lines in FILES.items():
        for number, line in enumerate(lines):
            for at in places(line):
                for word, new in (ODD | ({"missing": MISSING} if at else {})).items():
                    changed = json.dumps(replaced(line, at, new)).encode() + b"\n"
                    rest = [json.dumps(other).encode() + b"\n" for other in lines]
                    rest[number] = changed
                    name = f"{file} {number} {'.'.join(map(str, at)) or 'all'} {word}"
                    yield name, partial(write_history, name=file, text=b"".join(rest))
        for word, text in broken_text():
            yield f"{file} {word}", partial(write_history, name=file, text=text + b"\n")
        yield f"{file} pipe", partial(_pipe, file=file)


def _pipe(folder: Path, file: str) -> None:
    write_history(folder)
    (folder / file).unlink()
    os.mkfifo(folder / file)


def ask_all(folder: Path) -> None:
    """Make all requests of the Train view for a run."""
    from translucid.studio.handlers import Handlers
    from translucid.studio.library import Library
    from translucid.studio.run_follower import RunFollower, is_run

    is_run(folder)
    handlers = Handlers(Library({}), {"a": RunFollower(folder, "a")})
    for path in ("about", "history", "probes?step=1", "probes?step=1&as=f32"):
        reply = handlers.ask("GET", f"/api/train/a/{path}")
        if reply.status not in (200, 422):
            raise AssertionError(f"{path}: {reply.status}")


def slow_heads(port: int, count: int) -> list[socket.socket]:
    """Connections whose headers never end: they have sent nothing, or part of a request."""
    links = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(count)]
    for number, link in enumerate(links):
        link.sendall([b"", b"GET / HT", b"GET / HTTP/1.1\r\nx: "][number % 3])
    return links


def closed_within(links: list[socket.socket], seconds: float) -> int:
    """The number of connections that the server closes within this time, while each sends a byte
    every half second."""
    closed: set[int] = set()
    until = time.monotonic() + seconds
    while len(closed) < len(links) and time.monotonic() < until:
        for number, link in enumerate(links):
            if number in closed:
                continue
            link.setblocking(False)
            try:
                while link.recv(4096):
                    pass
                closed.add(number)
            except BlockingIOError:
                try:
                    link.send(b"a" if number % 3 == 2 else b"")
                except OSError:
                    closed.add(number)
            except OSError:
                closed.add(number)
        time.sleep(0.2)
    return len(closed)
