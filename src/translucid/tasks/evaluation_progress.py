"""Who is told how far an evaluation is: whoever asked for it, however deep inside it the examples
are counted."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from translucid.core.progress import Progress

PAUSE = 10.0  # seconds between two lines

_current: ContextVar[Progress | None] = ContextVar("evaluation progress", default=None)


@contextmanager
def reporting(
    say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Whatever is evaluated in here says how far it is, if it takes long."""
    token = _current.set(Progress("examples", live=False, every=PAUSE, say=say, clock=clock))
    try:
        yield
    finally:
        _current.reset(token)


def advance(done: int, total: int) -> None:
    """So many items are done."""
    progress = _current.get()
    if progress is None:
        return
    progress.total = total
    if done == total:  # of one pass; another one may follow
        progress.restart()
    else:
        progress.remark(f"evaluating: {done:,} of {total:,} examples{progress.left(done)}")
