"""Requests to stop a run: it stops after the current step. What can be repeated, such as an
evaluation, is interrupted at once."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


class StopRequested(BaseException):
    """Raised to interrupt a block; not an Exception, so that no other handler catches it."""


class StopRequest:
    """Whether a stop was requested: set by signal handlers, checked by the training loop."""

    def __init__(self) -> None:
        self.signal: int | None = None  # the first that came
        self._leaves = False

    def __call__(self) -> bool:
        return self.signal is not None

    def ask(self, signal: int) -> None:
        """Request a stop, from a signal handler; within `leaving` this raises."""
        self.signal = signal
        if self._leaves:
            self._leaves = False
            raise StopRequested

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Interrupt the block with StopRequested when a stop is, or has been, requested."""
        if self():
            raise StopRequested
        self._leaves = True
        try:
            yield
        finally:
            self._leaves = False


def leaving(interrupted: Callable[[], bool]) -> AbstractContextManager[None]:
    """`StopRequest.leaving`, if the function is a StopRequest; else no interruption."""
    return interrupted.leaving() if isinstance(interrupted, StopRequest) else nullcontext()
