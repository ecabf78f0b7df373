"""Limits of an engine, and the room that they leave."""

from collections.abc import Sequence
from dataclasses import dataclass

from translucid.serving.request import Request


@dataclass(frozen=True)
class Limits:
    """How much an engine does at the same time."""

    rows: int = 64  # texts in the batch; a beam search has beam_size rows, n samples have n
    cache_tokens: int = 262_144  # tokens in the caches of all rows
    queue: int = 256  # requests that wait; more are refused
    text_tokens: int = 16_384  # tokens of one text to classify, tag, embed, fill or score
    # Tokens of prompts and sources that are read between two steps; default: 512, on a GPU 8192.
    prompt_chunk: int | None = None
    prompt_bytes: int = 256 * 2**20  # states after prompts that came before, for reuse
    trace_values: int = 1_000_000  # values in the trace of one request


class Room:
    """Rows and cache tokens of the requests that are admitted. All texts with as many beams share a
    cache that is as long as the longest needs."""

    def __init__(self, limits: Limits, admitted: Sequence[Request]) -> None:
        self.limits = limits
        self.sources: dict[int, int] = {}  # by number of beams
        self.max_length: dict[int, int] = {}
        for request in admitted:
            _add(request, self.sources, self.max_length)

    def take(self, request: Request) -> bool:
        """Admit a request, if the limits allow it."""
        sources, max_length = dict(self.sources), dict(self.max_length)
        _add(request, sources, max_length)
        before = self.sources, self.max_length
        self.sources, self.max_length = sources, max_length
        if self.rows <= self.limits.rows and self.cache_tokens <= self.limits.cache_tokens:
            return True
        self.sources, self.max_length = before
        return False

    @property
    def rows(self) -> int:
        return sum(beams * count for beams, count in self.sources.items())

    @property
    def cache_tokens(self) -> int:
        return sum(beams * count * self.max_length[beams] for beams, count in self.sources.items())


def _add(request: Request, sources: dict[int, int], max_length: dict[int, int]) -> None:
    beams, count, length = request.room
    sources[beams] = sources.get(beams, 0) + count
    if length > max_length.get(beams, 0):
        max_length[beams] = length
