"""The result of a check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Finding:
    """The result of one check. words: what was checked and found, and what to do about it."""

    name: str
    ok: bool
    words: str
    serious: bool = False  # training or scores would be wrong, not just worse

    @property
    def mark(self) -> str:
        """`+` if ok, `!` for a warning, `-` for an error."""
        return "+" if self.ok else "-" if self.serious else "!"


def spread_out(things: Sequence[Thing], most: int) -> list[Thing]:
    """At most `most` evenly spaced elements, since the start of a file may differ from the rest."""
    step = max(-(-len(things) // most), 1)
    return [things[place] for place in range(0, len(things), step)]
