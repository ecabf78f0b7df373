"""One run of a network, with an address for every number in it.

An address is a name and an index: of a point (`head.logits[0, 3, 17]`), of a weight
(`head.linear.weight[17, 4]`), of an input (`ids[0, 3]`). What follows from the outputs and is no
point of the trace has one too: `head.softmax.probabilities[0, 3, 17]`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from translucid.core.catalogue import CATALOGUE
from translucid.core.errors import InputError, UnknownPointError, nearest
from translucid.core.trace import Trace
from translucid.models.base import Network
from translucid.parts.activations import softmax
from translucid.see.terms.expression import Expression, Kind, Number, Operation, Rest, add, times

Index = tuple[int, ...]
SHOWN = 8  # terms of a long sum
_ADDRESS = re.compile(r"\s*([\w.]+)\s*(?:\[([\d,\s]*)\])?\s*")


class Points(Protocol):
    """The points of a run, by name."""

    def __getitem__(self, name: str, /) -> Tensor: ...

    def __contains__(self, name: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class Terms:
    """Many terms of one kind: their values, and how to write one of them."""

    values: Tensor  # (terms,), float64
    at: Callable[[int], Expression]


def written(name: str, index: Index) -> str:
    """An address as people type it."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def read_address(address: str) -> tuple[str, Index]:
    """The name and the index of an address."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InputError(
            f"{address!r} is no address; give a name and whole numbers: head.logits[0, 3, 5]"
        )
    name, places = match[1], (match[2] or "").strip()
    try:
        return name, tuple(int(place) for place in places.split(",")) if places else ()
    except ValueError as error:
        raise InputError(
            f"{address!r}: between the brackets stands one whole number for each axis"
        ) from error


class Computation:
    """What a network computed from its inputs."""

    def __init__(
        self,
        network: Network,
        points: Points,
        inputs: Mapping[str, Tensor | None],
        *,
        targets: Tensor | None = None,
        shown: int = SHOWN,
    ) -> None:
        """inputs: what the network was called with, by name. targets: what it should have said,
        for the loss. shown: how many terms of a long sum stand by themselves."""
        if network.training:
            raise InputError("the network is in training mode; call network.eval() and trace again")
        if shown < 1:
            raise InputError(f"{shown} terms: at least 1 of a sum is shown")
        self.network, self.points, self.targets, self.shown = network, points, targets, shown
        self.inputs = {name: value for name, value in inputs.items() if value is not None}
        self._tensors: dict[str, Tensor] = {}
        self._kinds: dict[str, Kind] = {}
        self._siblings: dict[str, set[str]] = {}

    # ---- by name ----

    def kind(self, name: str) -> Kind:
        """What an address names; raises if there is no such thing."""
        if name not in self._kinds:
            self._kinds[name] = self._kind(name)
        return self._kinds[name]

    def _kind(self, name: str) -> Kind:
        if name in self.points or self._derived(name) is not None:
            return "point"
        if name in self.inputs:
            return "input"
        if isinstance(self._weight(name), Tensor):
            return "parameter"
        if isinstance(self.points, Trace) and name in self.points.met:
            raise UnknownPointError(self.points.missing(name))
        known = [*self.points, *self.inputs, *dict(self.network.named_parameters())]
        close = nearest(name, known)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UnknownPointError(f"{name!r} is no point, no weight and no input of this run{hint}")

    def tensor(self, name: str) -> Tensor:
        """All numbers of this name."""
        if name not in self._tensors:
            self._tensors[name] = self._look_up(name)
        return self._tensors[name]

    def _look_up(self, name: str) -> Tensor:
        if name in self.points:
            return self.points[name].detach()
        derived = self._derived(name)
        if derived is not None:
            return derived()
        if name in self.inputs:
            return self.inputs[name]
        weight = self._weight(name)
        if not isinstance(weight, Tensor):
            self.kind(name)  # says what is wrong
            raise UnknownPointError(f"there is no {name!r}")
        return weight.detach()

    def _weight(self, name: str) -> Any:
        path, _, own = name.rpartition(".")
        try:
            return getattr(self.network.get_submodule(path), own)
        except AttributeError:
            return None

    def _derived(self, name: str) -> Callable[[], Tensor] | None:
        """The softmax of outputs or of pooling scores, which no part computes by itself."""
        scope, _, point = name.rpartition(".")
        if f"softmax.{point}" not in CATALOGUE or not self.softmax_of(scope):
            return None

        def compute() -> Tensor:
            scores, trace = self.tensor(self.softmax_of(scope)).double(), Trace()
            mask = self.inputs.get("mask")
            if scope.endswith("pool_softmax") and mask is not None:
                scores = scores.masked_fill(~mask, -torch.inf)
            trace("probabilities", softmax(scores, trace))
            return trace[point]

        return compute

    def softmax_of(self, scope: str) -> str:
        """Of which point `head.softmax`, `head.pool_softmax` are the softmax; empty: of none."""
        above, _, own = scope.rpartition(".")
        names = {
            "softmax": ("logits", "class_logits", "sum"),
            "pool_softmax": ("pool_scores",),
        }.get(own, ())
        if above.rpartition(".")[2] not in ("head", "ngrams", "ensemble"):
            return ""
        return next((f"{above}.{name}" for name in names if f"{above}.{name}" in self.points), "")

    def siblings(self, scope: str) -> set[str]:
        """The points that a part has in this run, each by its own word."""
        if not self._siblings:
            for name in self.points:
                above, _, point = name.rpartition(".")
                self._siblings.setdefault(above, set()).add(point)
        return self._siblings.get(scope, set())

    def module(self, path: str) -> nn.Module:
        return self.network.get_submodule(path)

    # ---- numbers ----

    def number(self, label: str, name: str, *index: int) -> Number:
        """One number. An axis of size 1 holds what is the same for all."""
        tensor = self.tensor(name)
        index = tuple(
            0 if size == 1 else place for size, place in zip(tensor.shape, index, strict=True)
        )
        return Number(label, float(tensor[index]), self.kind(name), written(name, index))

    def vector(self, label: str, name: str, *index: int | None) -> Terms:
        """The numbers along one axis, that at which the index has None."""
        tensor = self.tensor(name)
        places = [
            place if place is None or size > 1 else 0
            for size, place in zip(tensor.shape, index, strict=True)
        ]
        values = tensor[tuple(slice(None) if place is None else place for place in places)].double()

        def one(i: int) -> Expression:
            place = tuple(i if place is None else place for place in places)
            return Number(label, float(values[i]), self.kind(name), written(name, place))

        return Terms(values, one)

    def zeros(self, label: str, size: int) -> Terms:
        """A vector of nothing: a state before the first token, an output at padding."""
        return Terms(torch.zeros(size, dtype=torch.float64), lambda i: Number(label, 0.0))

    # ---- sums ----

    def total(self, *terms: Terms | Expression) -> Expression:
        """A sum: its largest terms and the rest as one; terms that are given one by one stay."""
        groups = [one for one in terms if isinstance(one, Terms)]
        alone = [one for one in terms if not isinstance(one, Terms)]
        chosen, rest = self._largest(groups, by=torch.abs)
        shown = [*chosen, *alone]
        if len(rest):
            shown.append(Rest(len(rest), float(rest.sum())))
        return add(*shown) if shown else Number("0", 0.0)

    def largest(self, terms: Terms) -> Expression:
        """A maximum: the largest numbers, and the largest of the rest."""
        chosen, rest = self._largest([terms], by=lambda values: values)
        if len(rest):
            chosen.append(Rest(len(rest), float(rest.max())))
        return Operation("max", tuple(chosen))

    def _largest(
        self, groups: list[Terms], by: Callable[[Tensor], Tensor]
    ) -> tuple[list[Expression], Tensor]:
        """Those that are shown, and the values of those that are not."""
        if not groups:
            return [], torch.zeros(0)
        values = torch.cat([group.values.cpu() for group in groups])
        order = by(values).argsort(descending=True, stable=True)
        # One that is left over takes no more room than a line that stands for it.
        shown = len(order) if len(order) <= self.shown + 1 else self.shown
        owners = [(group, i) for group in groups for i in range(len(group.values))]
        chosen = [owners[place] for place in order[:shown].tolist()]
        return [group.at(i) for group, i in chosen], values[order[shown:]]

    def linear(
        self, path: str, row: int, x: Terms, weight: str = "W", bias: str = "b"
    ) -> Expression:
        """One output of a linear layer: W x + b."""
        layer = self.module(path)
        product = dot(self.vector(weight, f"{path}.weight", row, None), x)
        if getattr(layer, "bias", None) is None:
            return self.total(product)
        return self.total(product, self.number(bias, f"{path}.bias", row))


def dot(left: Terms, right: Terms) -> Terms:
    """Two vectors, multiplied entry by entry."""
    return Terms(left.values.cpu() * right.values.cpu(), lambda i: times(left.at(i), right.at(i)))


def joined(*vectors: Terms) -> Terms:
    """Vectors side by side."""
    places = [(vector, i) for vector in vectors for i in range(len(vector.values))]

    def one(i: int) -> Expression:
        vector, place = places[i]
        return vector.at(place)

    return Terms(torch.cat([vector.values for vector in vectors]), one)
