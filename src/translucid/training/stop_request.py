"""A run that is asked to stop: after the step that it is in. What can be repeated, such as an
evaluation, is left at once."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


class StopRequested(BaseException):
    """A block was left because the run was asked to stop. No Exception: nobody may swallow it."""


class StopRequest:
    """Whether somebody has asked; made by those who hear signals, asked by those who train."""

    def __init__(self) -> None:
        self.signal: int | None = None  # the first that came
        self._leaves = False

    def __call__(self) -> bool:
        return self.signal is not None

    def ask(self, signal: int) -> None:
        """From the handler of a signal: within `leaving` this does not return."""
        self.signal = signal
        if self._leaves:
            self._leaves = False
            raise StopRequested

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """The block ends with Left when somebody asks, and does not begin if somebody has."""
        if self():
            raise StopRequested
        self._leaves = True
        try:
            yield
        finally:
            self._leaves = False


def leaving(interrupted: Callable[[], bool]) -> AbstractContextManager[None]:
    """For the block of a run that may be stopped by any function."""
    return interrupted.leaving() if isinstance(interrupted, StopRequest) else nullcontext()
