"""Names and layouts of weights as data: what another tool calls a weight, what it is called here,
and how the one becomes the other, both ways.

A rule joins tensors of theirs, row under row, into one that is cut into tensors of ours; mostly
both are a single tensor. Before that each of theirs goes through steps, all of which can be undone;
of ours, the columns may be what is joined (`Transpose`). A weight that they do not have is a
constant.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from translucid.core.errors import InputError


class LayoutChange(Protocol):
    """A change of layout; `undo(apply(x))` is x. Impossible shapes raise ValueError or
    RuntimeError."""

    def apply(self, x: Tensor) -> Tensor: ...
    def undo(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Transpose:
    """Weights stored as (inputs, outputs)."""

    def apply(self, x: Tensor) -> Tensor:
        return x.t()

    def undo(self, x: Tensor) -> Tensor:
        return x.t()


@dataclass(frozen=True)
class Pairs:
    """Rows of queries or keys, by head: rotary positions turn dimension i with i + d/2 in their
    layout and 2i with 2i + 1 in ours. rotary: how many dimensions of a head turn; not set: all.
    still: how many heads follow that do not turn, the values in a fused projection."""

    heads: int
    rotary: int | None = None
    still: int = 0

    def apply(self, x: Tensor) -> Tensor:
        return self._reorder(x, (2, -1))

    def undo(self, x: Tensor) -> Tensor:
        return self._reorder(x, (-1, 2))

    def copy(self, x: Tensor, target: Tensor) -> None:
        """apply(x) into a target, where all turn: without a tensor between."""
        pairs = target.unflatten(0, (self.heads, -1, 2))
        pairs.copy_(x.unflatten(0, (self.heads, 2, -1)).transpose(1, 2))

    def _reorder(self, x: Tensor, parts: tuple[int, int]) -> Tensor:
        heads = x.unflatten(0, (self.heads + self.still, -1))  # (heads, d_head, ...)
        turning = heads[: self.heads, : self.rotary]
        turned = turning.unflatten(1, parts).transpose(1, 2).flatten(1, 2)
        if self.rotary is not None:
            turned = torch.cat([turned, heads[: self.heads, self.rotary :]], dim=1)
        if self.still:
            turned = torch.cat([turned, heads[self.heads :]])
        return turned.flatten(0, 1)


@dataclass(frozen=True)
class ByHead:
    """Rows that are q|k|v of the first head, then of the second; ours are all q, all k, all v."""

    heads: int

    def apply(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (self.heads, 3, -1)).transpose(0, 1).flatten(0, 2)

    def undo(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (3, self.heads, -1)).transpose(0, 1).flatten(0, 2)


@dataclass(frozen=True)
class Blocks:
    """Equal blocks of rows in another order: the gates of a recurrent cell. order: for each block
    of ours, which of theirs it is."""

    order: tuple[int, ...]

    def apply(self, x: Tensor) -> Tensor:
        return self._reorder(x, self.order)

    def undo(self, x: Tensor) -> Tensor:
        return self._reorder(x, [self.order.index(i) for i in range(len(self.order))])

    def _reorder(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return x.unflatten(0, (len(order), -1))[list(order)].flatten(0, 1)


@dataclass(frozen=True)
class OneRow:
    """A vector stored as a matrix of one row."""

    def apply(self, x: Tensor) -> Tensor:
        return x.squeeze(0)

    def undo(self, x: Tensor) -> Tensor:
        return x.unsqueeze(0)


@dataclass(frozen=True)
class Place:
    """A tensor in a rule. rows: how many it has, after the steps; needed where several join."""

    name: str  # {} stands for the number of a layer
    rows: int | None = None
    steps: tuple[LayoutChange, ...] = ()

    def to_ours(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step.apply(x)
        return x

    def to_theirs(self, x: Tensor) -> Tensor:
        for step in reversed(self.steps):
            x = step.undo(x)
        return x

    def copy(self, x: Tensor, target: Tensor, first: int) -> None:
        """Rows of to_ours(x), from this one on, into a target."""
        match self.steps:
            case (Pairs(rotary=None, still=0) as pairs,) if len(target) == len(x):
                pairs.copy(x, target)
            case _:
                target.copy_(self.to_ours(x).narrow(0, first, len(target)))


Constant = Literal["zeros", "identity"]


@dataclass(frozen=True)
class WeightRule:
    """Their tensors, joined, are our tensors, joined. constant: the value of ours if they have no
    such tensor."""

    theirs: tuple[Place, ...]
    ours: tuple[Place, ...]
    constant: Constant | None = None

    def cuts(self, of_theirs: Sequence[int], of_ours: Sequence[int]) -> Iterator["RowRange"]:
        """Which rows go where. of_theirs, of_ours: rows of the tensors."""
        begin = 0
        for i, rows in enumerate(of_theirs):
            start = 0
            for k, own in enumerate(of_ours):
                first, last = max(begin, start), min(begin + rows, start + own)
                if first < last:
                    yield RowRange(i, first - begin, k, first - start, last - first)
                start += own
            begin += rows


@dataclass(frozen=True)
class RowRange:
    """`rows` rows from `first` of their tensor number `theirs` are those from `place` of ours."""

    theirs: int
    first: int
    ours: int
    place: int
    rows: int


def rule(theirs: str, ours: str, *steps: LayoutChange) -> WeightRule:
    """A rule from one tensor to one."""
    return WeightRule((Place(theirs, steps=steps),), (Place(ours),))


def constant(ours: str, kind: Constant) -> WeightRule:
    """A rule for a weight that they do not have."""
    return WeightRule((), (Place(ours),), kind)


def constant_value(kind: Constant, shape: Sequence[int]) -> Tensor:
    return torch.zeros(*shape) if kind == "zeros" else torch.eye(*shape)


def joined(theirs: Iterable[Place], ours: str) -> WeightRule:
    """A rule from several of their tensors to one of ours."""
    return WeightRule(tuple(theirs), (Place(ours),))


def of_layers(rules: Iterable[WeightRule], layers: int) -> list[WeightRule]:
    """The rules of a layer, repeated for each layer."""

    def numbered(places: tuple[Place, ...], layer: int) -> tuple[Place, ...]:
        return tuple(replace(p, name=p.name.replace("{}", str(layer))) for p in places)

    return [
        replace(one, theirs=numbered(one.theirs, layer), ours=numbered(one.ours, layer))
        for layer in range(layers)
        for one in rules
    ]


def to_theirs(rules: Iterable[WeightRule], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under their names and in their layout."""
    tensors: dict[str, Tensor] = {}
    for one in rules:
        if one.constant is not None:
            (place,) = one.ours
            weight = ours[place.name]
            if not torch.equal(weight, constant_value(one.constant, weight.shape).to(weight)):
                raise InputError(
                    f"{place.name} is not {one.constant}, and they have no such weight; the model "
                    "cannot be written in their layout"
                )
            continue
        whole = torch.cat([place.to_ours(ours[place.name]) for place in one.ours])
        rows = [len(whole)] if len(one.theirs) == 1 else [place.rows or 0 for place in one.theirs]
        for place, part in zip(one.theirs, whole.split(rows), strict=True):
            tensors[place.name] = place.to_theirs(part).contiguous()
    return tensors
