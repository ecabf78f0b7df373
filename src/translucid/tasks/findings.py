"""What a check found: all is well, something worth knowing, or a mistake."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Finding:
    """`words` say what was looked at and what was found, and where it is not ok, what to do."""

    name: str
    ok: bool
    words: str
    serious: bool = False  # what is learnt or measured would be wrong, not only worse

    @property
    def mark(self) -> str:
        """+ is well, ! is worth knowing, - is wrong."""
        return "+" if self.ok else "-" if self.serious else "!"


def spread_out(things: Sequence[Thing], most: int) -> list[Thing]:
    """At most so many of them, from the whole length: a file's beginning may not be like its
    rest."""
    step = max(-(-len(things) // most), 1)
    return [things[place] for place in range(0, len(things), step)]
