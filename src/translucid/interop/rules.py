"""Weight rules: how tensors of a foreign model correspond to Translucid's, convertible in both
directions. In names, "theirs" are the tensors of the foreign model, "ours" those of Translucid.

A rule concatenates foreign tensors along the rows and splits the result into Translucid's tensors;
usually both are a single tensor. Before that, reversible steps change the layout of each foreign
tensor. Translucid's tensors may be concatenated along the columns (`Transpose`). A weight that the
foreign model does not have is a constant.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

from translucid.core.errors import InputError


class LayoutChange(Protocol):
    """A reversible change of a tensor's layout: `undo(apply(x)) == x`. Impossible shapes raise
    ValueError or RuntimeError."""

    def apply(self, x: Tensor) -> Tensor: ...
    def undo(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Transpose:
    """Transpose a weight that is stored as (inputs, outputs)."""

    def apply(self, x: Tensor) -> Tensor:
        return x.t()

    def undo(self, x: Tensor) -> Tensor:
        return x.t()


@dataclass(frozen=True)
class Pairs:
    """Reorder the rows of queries or keys within each head. Rotary positions pair dimensions i and
    i + d/2 in the foreign layout, and 2i and 2i + 1 in Translucid's. rotary: the number of rotated
    dimensions in a head; None: all. still: how many further heads follow that are not rotated (the
    values in a fused projection)."""

    heads: int
    rotary: int | None = None
    still: int = 0

    def apply(self, x: Tensor) -> Tensor:
        return self._reorder(x, (2, -1))

    def undo(self, x: Tensor) -> Tensor:
        return self._reorder(x, (-1, 2))

    def copy(self, x: Tensor, target: Tensor) -> None:
        """Copy apply(x) into a target without an intermediate tensor. Correct only if all
        dimensions of all heads are rotated."""
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
    """Reorder rows from q, k, v of each head to all q, then all k, then all v."""

    heads: int

    def apply(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (self.heads, 3, -1)).transpose(0, 1).flatten(0, 2)

    def undo(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (3, self.heads, -1)).transpose(0, 1).flatten(0, 2)


@dataclass(frozen=True)
class Blocks:
    """Reorder equal blocks of rows, such as the gates of a recurrent cell. order: the index of the
    foreign block for each of Translucid's."""

    order: tuple[int, ...]

    def apply(self, x: Tensor) -> Tensor:
        return self._reorder(x, self.order)

    def undo(self, x: Tensor) -> Tensor:
        return self._reorder(x, [self.order.index(i) for i in range(len(self.order))])

    def _reorder(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return x.unflatten(0, (len(order), -1))[list(order)].flatten(0, 1)


@dataclass(frozen=True)
class OneRow:
    """Convert a matrix with one row to a vector."""

    def apply(self, x: Tensor) -> Tensor:
        return x.squeeze(0)

    def undo(self, x: Tensor) -> Tensor:
        return x.unsqueeze(0)


@dataclass(frozen=True)
class Place:
    """A tensor in a rule. rows: its number of rows after the layout changes, needed to concatenate
    several tensors."""

    name: str  # with {} for the layer number
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
        """Copy rows of to_ours(x), starting with `first`, into a target."""
        match self.steps:
            case (Pairs(rotary=None, still=0) as pairs,) if len(target) == len(x):
                pairs.copy(x, target)
            case _:
                target.copy_(self.to_ours(x).narrow(0, first, len(target)))


Constant = Literal["zeros", "identity"]


@dataclass(frozen=True)
class WeightRule:
    """States that the foreign tensors, concatenated, equal Translucid's, concatenated. constant:
    the value of Translucid's tensor if the foreign model has no such tensor."""

    theirs: tuple[Place, ...]
    ours: tuple[Place, ...]
    constant: Constant | None = None


def rule(theirs: str, ours: str, *steps: LayoutChange) -> WeightRule:
    """A rule from one foreign tensor to one of Translucid's."""
    return WeightRule((Place(theirs, steps=steps),), (Place(ours),))


def constant(ours: str, kind: Constant) -> WeightRule:
    """A rule for a weight that the foreign model does not have."""
    return WeightRule((), (Place(ours),), kind)


def constant_value(kind: Constant, shape: Sequence[int]) -> Tensor:
    return torch.zeros(*shape) if kind == "zeros" else torch.eye(*shape)


def joined(theirs: Iterable[Place], ours: str) -> WeightRule:
    """A rule from several foreign tensors to one of Translucid's."""
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
    """Convert Translucid's tensors to the foreign names and layouts."""
    tensors: dict[str, Tensor] = {}
    for one in rules:
        if one.constant is not None:
            (place,) = one.ours
            weight = ours[place.name]
            if not torch.equal(weight, constant_value(one.constant, weight.shape).to(weight)):
                raise InputError(
                    f"{place.name} is not {one.constant}, but the target format has no such "
                    "weight; the model cannot be exported to it"
                )
            continue
        whole = torch.cat([place.to_ours(ours[place.name]) for place in one.ours])
        rows = [len(whole)] if len(one.theirs) == 1 else [place.rows or 0 for place in one.theirs]
        for place, part in zip(one.theirs, whole.split(rows), strict=True):
            tensors[place.name] = place.to_theirs(part).contiguous()
    return tensors
