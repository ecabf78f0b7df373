"""Requests to stop a run: it stops after the current step. Work that can be repeated, such as an
evaluation, is interrupted immediately."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


class StopRequested(BaseException):
    """Raised to interrupt a block; not an Exception, so that no other handler catches it."""


class StopRequest:
    """Whether a stop was requested: set by signal handlers, checked by the training loop."""

    def __init__(self) -> None:
        self.signal: int | None = None  # the first signal received
        self._leaves = False

    def __call__(self) -> bool:
        return self.signal is not None

    def ask(self, signal: int) -> None:
        """Request a stop, from a signal handler; within a `leaving` block this raises
        StopRequested."""
        self.signal = signal
        if self._leaves:
            self._leaves = False
            raise StopRequested

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Raise StopRequested within the block as soon as a stop is requested, or at once if it was
        requested before."""
        if self():
            raise StopRequested
        self._leaves = True
        try:
            yield
        finally:
            self._leaves = False


def leaving(interrupted: Callable[[], bool]) -> AbstractContextManager[None]:
    """A context for work that a stop request interrupts at once. Without effect if `interrupted`
    is not a StopRequest."""
    return interrupted.leaving() if isinstance(interrupted, StopRequest) else nullcontext()
