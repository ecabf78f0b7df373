"""Run one attack after another: how each ends, and whether it touches anything outside."""

import hashlib
import os
import resource
import signal
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BAD = ("hung", "escaped", "deleted", "unexpected")
OUTCOMES = ("refused", "harmless", *BAD)
WAITING = 20  # limit of wall-clock time, as a multiple of processor time: the machine may be busy


class Hung(BaseException):
    """The attack used too much processor time, or waited too long."""


@dataclass
class Tally:
    """The outcomes of one kind of attack."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  # of the slowest attack
    bad: list[str] = field(default_factory=list)

    def add(self, name: str, outcome: str, note: str = "", took: float = 0.0) -> None:
        self.counts[outcome] += 1
        self.seconds = max(self.seconds, took)
        if outcome in BAD:
            self.bad.append(f"{outcome}: {name}: {note}"[:300])

    @property
    def tried(self) -> int:
        return sum(self.counts.values())

    def as_json(self) -> dict[str, Any]:
        counts = {name: self.counts[name] for name in OUTCOMES}
        return {"kind": self.kind, "tried": self.tried, **counts,
                "slowest_seconds": round(self.seconds, 2), "bad": self.bad}  # fmt: skip


@contextmanager
def at_most(seconds: float, bytes_more: int) -> Iterator[None]:
    """Limit the processor time of the block, and the memory in addition to what is in use."""

    def stop(number: int, frame: Any) -> None:
        raise Hung

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + bytes_more, limits[1]))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WAITING * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        for number, handler in before.items():
            signal.signal(number, handler)


def attempt(
    action: Callable[[], Any], *, seconds: float = 5.0, bytes_more: int = 2 << 30
) -> tuple[str, str, float]:
    """Run an action; return the outcome as one word, a note on it, and the processor time."""
    from translucid.core.errors import TranslucidError

    began = time.process_time()
    outcome, note = "harmless", ""
    try:
        with at_most(seconds, bytes_more):
            action()
    except TranslucidError as error:
        outcome, note = "refused", str(error)
    except Hung:
        outcome, note = "hung", f"more than {seconds} s of work, or {WAITING} times that of waiting"
    except BaseException as error:  # any other exception is a fault of Translucid
        if isinstance(error, KeyboardInterrupt):
            raise
        outcome, note = "unexpected", f"{type(error).__name__}: {error}"
    return outcome, note, time.process_time() - began


def snapshot(place: Path) -> dict[str, str]:
    """The contents of a folder by name: hashes of files and targets of links. Links and pipes are
    not opened."""
    found = {}
    for folder, folders, files in os.walk(place):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            content = f"{stat.S_IFMT(mode)}"
            if stat.S_ISREG(mode):
                content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            elif stat.S_ISLNK(mode):
                content = os.readlink(path)
            found[os.path.relpath(path, place)] = content
    return found


def harm(before: dict[str, str], after: dict[str, str]) -> str | None:
    """What an attack did to a folder that it must not touch: "deleted", "escaped", or None."""
    if before.keys() - after.keys():
        return "deleted"
    return "escaped" if before != after else None
