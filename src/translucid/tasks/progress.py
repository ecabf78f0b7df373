"""How far an evaluation is, said now and then while it lasts."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

PAUSE = 10.0  # seconds between two lines

Say = Callable[[str], None]


@dataclass
class _Report:
    say: Say
    clock: Callable[[], float]
    began: float = 0.0
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.last = self.clock()

    def advance(self, done: int, total: int) -> None:
        now = self.clock()
        if done == total:  # of one pass; another one may follow
            self.began = now
        elif now - self.last >= PAUSE:
            self.last = now
            left = (now - self.began) / done * (total - done)
            self.say(f"evaluating: {done:,} of {total:,} examples, about {left:,.0f} s left")


_current: ContextVar[_Report | None] = ContextVar("evaluation progress", default=None)


@contextmanager
def reporting(say: Say, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Whatever is evaluated in here says how far it is, if it takes long."""
    token = _current.set(_Report(say, clock))
    try:
        yield
    finally:
        _current.reset(token)


def advance(done: int, total: int) -> None:
    """So many items are done."""
    report = _current.get()
    if report is not None:
        report.advance(done, total)
