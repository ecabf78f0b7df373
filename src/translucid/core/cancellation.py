"""Cancel a long computation from another thread: it calls `check_cancelled` now and then."""

import threading
from contextvars import ContextVar

# Set when nobody waits for the result any more.
CANCELLED: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


class Cancelled(Exception):
    """Nobody waits for the result any more."""


def check_cancelled() -> None:
    cancelled = CANCELLED.get()
    if cancelled is not None and cancelled.is_set():
        raise Cancelled
