"""Serving: one thread per model answers the requests of many clients together."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.serving.engine import Engine as Engine
    from translucid.serving.job import Answered as Answered
    from translucid.serving.job import EngineClosed as EngineClosed
    from translucid.serving.job import Event as Event
    from translucid.serving.job import Failed as Failed
    from translucid.serving.job import Finished as Finished
    from translucid.serving.job import Job as Job
    from translucid.serving.job import Piece as Piece
    from translucid.serving.job import PromptRead as PromptRead
    from translucid.serving.job import QueueFull as QueueFull
    from translucid.serving.job import TokenChoice as TokenChoice
    from translucid.serving.job import TooLate as TooLate
    from translucid.serving.limits import Limits as Limits
    from translucid.serving.ticket import Ticket as Ticket

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "engine": ["Engine"],
        "job": [
            "Answered", "EngineClosed", "Event", "Failed", "Finished", "Job", "Piece", "PromptRead",
            "QueueFull", "TokenChoice", "TooLate",
        ],
        "limits": ["Limits"],
        "ticket": ["Ticket"],
    },
)  # fmt: skip
