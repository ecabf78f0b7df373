"""Cancel a long computation from another thread: the computation calls `check_cancelled` at
regular intervals."""

import threading
from contextvars import ContextVar

# Set when the result is no longer needed.
CANCELLED: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


class Cancelled(Exception):
    """The result is no longer needed."""


def check_cancelled() -> None:
    """Raise Cancelled if the result of this computation is no longer needed."""
    cancelled = CANCELLED.get()
    if cancelled is not None and cancelled.is_set():
        raise Cancelled
