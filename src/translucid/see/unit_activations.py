"""One point over many texts: which of them move a unit, a head or a gate most."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.see.of_points import HEADS
from translucid.see.text_trace import TextTrace
from translucid.tasks.words import ALONG_TEXT

BUDGET = 2**26  # bytes of activations that are kept


@dataclass(frozen=True)
class Extreme:
    """A text, and the token at which a unit is largest or smallest in it."""

    value: float
    text: str
    tokens: tuple[str, ...]
    place: int


@dataclass
class Activations:
    """What a point was at each token of many texts; of a head, how long its vector was."""

    point: str
    texts: list[str] = field(default_factory=list)
    tokens: list[tuple[str, ...]] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)  # (tokens, units) of each text

    def add(self, trace: TextTrace) -> None:
        value = by_unit(trace, self.point)
        axis = next(axis for axis in describe(self.point).axes if axis in ALONG_TEXT)
        words = trace.words.along(self.point, axis) or tuple(map(str, range(len(value))))
        self.texts.append(trace.example.text)
        self.tokens.append(words)
        self.values.append(value)

    @property
    def units(self) -> int:
        return self.values[0].shape[1] if self.values else 0

    @property
    def full(self) -> bool:
        """No more are kept: the budget is spent."""
        return sum(value.numel() * value.element_size() for value in self.values) >= BUDGET

    def extremes(self, unit: int, k: int = 5) -> tuple[list[Extreme], list[Extreme]]:
        """The texts with the largest and with the smallest values of a unit, one token of each."""
        if not 0 <= unit < self.units:
            raise InputError(f"unit = {unit}: {self.point} has 0 to {self.units - 1}")
        tops, bottoms = (
            [(n, int(find(table[:, unit]))) for n, table in enumerate(self.values)]
            for find in (torch.argmax, torch.argmin)
        )
        largest = [self._extreme(text, place, unit) for text, place in tops]
        smallest = [self._extreme(text, place, unit) for text, place in bottoms]
        return (
            sorted(largest, key=lambda one: -one.value)[:k],
            sorted(smallest, key=lambda one: one.value)[:k],
        )

    def _extreme(self, text: int, place: int, unit: int) -> Extreme:
        value = float(self.values[text][place, unit])
        return Extreme(value, self.texts[text], self.tokens[text], place)


def by_unit(trace: TextTrace, point: str) -> Tensor:
    """A point of one text, a row for each token; of heads the length. (tokens, units)"""
    axes = describe(point).axes[1:]
    along = [place for place, axis in enumerate(axes) if axis in ALONG_TEXT]
    by_head = [place for place, axis in enumerate(axes) if axis in HEADS]
    if len(along) != 1 or len(axes) != 2 + len(by_head):
        raise InputError(
            f"{point} has no value of each unit at each token (its axes are "
            f"{', '.join(axes) or 'none'}); choose such as *.feedforward.activated, *.mixed for "
            "heads, or *_gate"
        )
    value = trace[point][0].detach().float().cpu()
    if by_head:
        return torch.movedim(value, (along[0], by_head[0]), (0, 1)).norm(dim=-1)
    return value.movedim(along[0], 0)
