"""The result of a check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Finding:
    """words: what was checked and found, and what to do if it is not ok."""

    name: str
    ok: bool
    words: str
    serious: bool = False  # training or scores would be wrong, not only worse

    @property
    def mark(self) -> str:
        """`+` if ok, `!` for a warning, `-` for an error."""
        return "+" if self.ok else "-" if self.serious else "!"


def spread_out(things: Sequence[Thing], most: int) -> list[Thing]:
    """At most this many, evenly spaced: the beginning of a file may differ from the rest."""
    step = max(-(-len(things) // most), 1)
    return [things[place] for place in range(0, len(things), step)]
