"""Accepted requests: what was asked, whether it still matters, and where its events go."""

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from translucid.core.errors import TranslucidError
from translucid.core.trace import Edit
from translucid.serving.job import Answered, Event, Failed, Finished
from translucid.serving.request import Request

OnEvent = Callable[[Event], None]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Questions:
    """Texts to classify, tag, embed or score together."""

    kind: str
    texts: Sequence[Any]
    targets: Sequence[str] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    trace: Sequence[str] = ()
    edit: Mapping[str, Edit] = field(default_factory=dict)

    @property
    def alike(self) -> Hashable:
        """Equal for questions that can be answered together."""
        if self.trace or self.edit:
            return id(self)
        return repr((self.kind, self.targets is None, sorted(self.options.items())))

    def one_by_one(self) -> "Iterator[Questions]":
        """The same questions for each text alone."""
        for place, text in enumerate(self.texts):
            targets = None if self.targets is None else self.targets[place : place + 1]
            yield replace(self, texts=[text], targets=targets)


class Ticket:
    """A request that was accepted."""

    def __init__(
        self,
        work: "Request | Questions",
        on_event: OnEvent,
        deadline: float | None,
        client: Hashable = None,
    ) -> None:
        """client: equal for requests of the same client; default: it has no others."""
        self.work, self.on_event = work, on_event
        self.client = self if client is None else client
        self.last_turn = 0  # of the engine, in which its texts end at the latest; when admitted
        self.on_end: Callable[[Event], None] = lambda event: None  # of the engine
        self.submitted = time.monotonic()
        self.deadline = None if deadline is None else self.submitted + deadline
        self.cancelled = False
        self.done = False  # whether the last event was delivered

    def cancel(self) -> None:
        """End the request. Its rows are free after at most two steps; the last event contains what
        was generated so far, with the reason "cancelled"."""
        self.cancelled = True

    @property
    def late(self) -> bool:
        """Whether the deadline is over."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def send(self, event: Event) -> None:
        """Deliver an event. For the engine."""
        try:
            self.on_event(event)
        except Exception:  # the client's code; it must not stop the others
            log.exception("on_event raised an exception; the request is cancelled")
            self.cancelled = True
        if isinstance(event, Finished | Answered | Failed):
            self.done = True
            self.on_end(event)


def internal(error: Exception) -> TranslucidError:
    """The error to report to the client. An error that is a fault of the engine is logged."""
    if isinstance(error, TranslucidError):
        return error
    log.error("a request failed", exc_info=error)
    return TranslucidError(f"internal error: {type(error).__name__}: {error}")
