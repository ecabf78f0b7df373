"""Open hostile files one after another, each in its own process, and measure how it ends, how long
it takes and how much memory it uses.
"""

import json
import os
import resource
import select
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 2.0  # limit of processor time, plus one second for every 2 MB of the model
MEMORY = 256 << 20  # limit in bytes, plus 40 times the size of the model
PER_SECOND, TIMES = 2 << 20, 40
LONGEST = 20.0  # kill a process after this processor time, or 6 times this wall-clock time
MOST_MEMORY = 4 << 30  # hard limit in bytes, to protect the machine
BAD = ("traceback", "signal", "over time", "over memory", "unnamed", "wrong")
OUTCOMES = ("refused", "opened", *BAD)


@dataclass
class Table:
    """How the files of one format ended."""

    format: str
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  # of the slowest file
    megabytes: float = 0.0  # of the file with the largest memory
    bad: list[str] = field(default_factory=list)

    def add(self, name: str, end: "Ending") -> None:
        self.counts[end.outcome] += 1
        self.seconds, self.megabytes = (
            max(self.seconds, end.seconds), max(self.megabytes, end.memory / 2**20)
        )  # fmt: skip
        if end.outcome in BAD:
            self.bad.append(f"{end.outcome}: {self.format}: {name}: {end.seconds:.1f} s, "
                            f"{end.memory >> 20} MB: {end.note}"[:400])  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        counts = {name: self.counts[name] for name in OUTCOMES}
        return {"format": self.format, "files": self.counts.total(), **counts,
                "slowest_seconds": round(self.seconds, 2), "megabytes": round(self.megabytes),
                "bad": self.bad}  # fmt: skip


@dataclass(frozen=True)
class Ending:
    outcome: str
    note: str
    seconds: float  # of processor time
    memory: int  # bytes in addition to those at the start of the process


def table_of(tables: list[Table]) -> str:
    lines = ["| format | files | " + " | ".join(OUTCOMES) + " | slowest, s | most, MB |",
             "| --- |" + " ---: |" * (len(OUTCOMES) + 3)]  # fmt: skip
    whole = Table("all")
    for table in tables:
        whole.counts += table.counts
        whole.seconds = max(whole.seconds, table.seconds)
        whole.megabytes = max(whole.megabytes, table.megabytes)
    for table in (*tables, whole):
        counts = " | ".join(f"{table.counts[name]:,}" for name in OUTCOMES)
        lines.append(f"| {table.format} | {table.counts.total():,} | {counts} | "
                     f"{table.seconds:.1f} | {table.megabytes:.0f} |")  # fmt: skip
    return "\n".join(lines)


def size_of(path: Path) -> int:
    """The size in bytes of a file, or of all files of a folder; for sparse files, their size on
    disk."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(min(s.st_size, s.st_blocks * 512) for f in files if (s := f.lstat()))


def opened(
    action: Callable[[Path], None], path: Path, *, must_refuse: bool = False, folder: Path
) -> Ending:
    """How a process that opens a model ends. must_refuse: opening the model without an error is a
    fault."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        os.close(receive)
        _victim(action, path, send)
    os.close(send)
    said, hung = _heard(receive, child)
    os.close(receive)
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    answer = json.loads(said) if said else {"outcome": "signal", "note": "", "began": 0}
    memory = max(0, used.ru_maxrss * 1024 - answer["began"]) if answer["began"] else 0
    outcome, note, size = answer["outcome"], answer["note"], size_of(folder)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        outcome, note = "signal", signal.Signals(number).name
        if hung or number == signal.SIGXCPU:
            outcome = "over time"
    elif note.startswith("MemoryError"):
        outcome = "over memory"
    elif seconds > SECONDS + size / PER_SECOND:
        outcome, note = "over time", f"({outcome}) {note}"
    elif memory > MEMORY + TIMES * size:
        outcome, note = "over memory", f"({outcome}) {note}"
    elif outcome == "refused" and str(folder) not in note:
        outcome = "unnamed"
    elif outcome == "opened" and must_refuse:
        outcome, note = "wrong", "it was opened"
    return Ending(outcome, note, seconds, memory)


def _heard(receive: int, child: int) -> tuple[bytes, bool]:
    """The output of a child process, and whether it was killed because it took too long."""
    said, deadline, hung = b"", time.monotonic() + 6 * LONGEST, False
    while True:
        ready, _, _ = select.select([receive], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(child, signal.SIGKILL)
            hung, deadline = True, time.monotonic() + 60
            continue
        more = os.read(receive, 1 << 16)
        if not more:
            return said, hung
        said += more


def _victim(action: Callable[[Path], None], path: Path, send: int) -> None:
    """Run in the child process: open the model, report how that ended, and exit."""
    from translucid.core.errors import TranslucidError

    pages = [int(n) for n in Path("/proc/self/statm").read_text("utf-8").split()[:2]]
    page = resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(LONGEST), int(LONGEST)))
    resource.setrlimit(resource.RLIMIT_AS, (pages[0] * page + MOST_MEMORY,) * 2)
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silent, number)
    outcome, note = "opened", ""
    try:
        action(path)
    except TranslucidError as error:
        outcome, note = "refused", str(error)
    except ArithmeticError as error:
        outcome, note = "wrong", str(error)
    except BaseException as error:  # any other exception is a fault of Translucid
        outcome, note = "traceback", f"{type(error).__name__}: {error}"
        note = note if not isinstance(error, MemoryError) else f"MemoryError: {error}"
    answer = {"outcome": outcome, "note": ascii(note[:2000]), "began": pages[1] * page}
    os.write(send, json.dumps(answer).encode())
    os._exit(0)
