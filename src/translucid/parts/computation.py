"""One run of a network: every number has an address and an expression that explains it.

An address is a name and an index: of a trace point (`head.logits[0, 3, 17]`), a weight
(`head.linear.weight[17, 4]`) or an input (`ids[0, 3]`). The softmax of the outputs, which no part
traces, has addresses too: `head.softmax.probabilities[0, 3, 17]`.

A part explains its own numbers with the method

    def terms(self, at: Scope, point: str, index: Index) -> Expression | None

which returns the number at `index` of one of its trace points as an expression of other numbers.
`at` gives access to the part's points, weights and inputs. The module that contains a part says
what the part reads, with the method

    def feeds(self, part: str, at: Scope) -> str | None

which returns the full name of the point that `part` (a path within the container) reads, or None if
it reads the input of the container.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from translucid.core.catalogue import BACKWARD_SYMBOLS, CATALOGUE, Variant, entry, formula
from translucid.core.errors import InputError, UnknownPointError, nearest
from translucid.core.trace import Trace
from translucid.parts.activations import softmax
from translucid.parts.expression import (
    Expression,
    Kind,
    Number,
    Operation,
    Rest,
    Terms,
    add,
    apply,
    constant,
    dot,
)

Index = tuple[int, ...]
SHOWN = 8  # terms of a long sum
_ADDRESS = re.compile(r"\s*([\w.]+)\s*(?:\[([\d,\s]*)\])?\s*")


class Points(Protocol):
    """The points of a run, by name."""

    def __getitem__(self, name: str, /) -> Tensor: ...

    def __contains__(self, name: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...


@runtime_checkable
class Explained(Protocol):
    """A part that explains its numbers."""

    def terms(self, at: "Scope", point: str, index: Index) -> Expression | None: ...


@runtime_checkable
class Feeding(Protocol):
    """A container that knows what its parts read."""

    def feeds(self, part: str, at: "Scope") -> str | None: ...


def written(name: str, index: Index) -> str:
    """An address as text: name[0, 3]."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def read_address(address: str) -> tuple[str, Index]:
    """The name and the index of an address."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InputError(
            f"{address!r} is not an address; give a name and an index: head.logits[0, 3, 5]"
        )
    name, places = match[1], (match[2] or "").strip()
    try:
        return name, tuple(int(place) for place in places.split(",")) if places else ()
    except ValueError as error:
        raise InputError(
            f"{address!r}: give one whole number for each axis between the brackets"
        ) from error


class Computation:
    """What a network computed from its inputs."""

    def __init__(
        self,
        network: nn.Module,
        points: Points,
        inputs: Mapping[str, Tensor | None],
        *,
        targets: Tensor | None = None,
        shown: int = SHOWN,
    ) -> None:
        """inputs: the network's arguments by name. targets: for the loss. shown: how many terms of
        a long sum are shown individually."""
        if shown < 1:
            raise InputError(f"{shown} terms: show at least 1 term of a sum")
        self.network, self.points, self.targets, self.shown = network, points, targets, shown
        self.inputs = {name: value for name, value in inputs.items() if value is not None}
        self._tensors: dict[str, Tensor] = {}
        self._kinds: dict[str, Kind] = {}
        self._siblings: dict[str, set[str]] = {}

    # ---- by name ----

    def kind(self, name: str) -> Kind:
        """The kind of number with this name; raises if there is none."""
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
        raise UnknownPointError(f"{name!r} is not a point, weight or input of this run{hint}")

    def tensor(self, name: str) -> Tensor:
        """The tensor of this name."""
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
        self.kind(name)  # raises if there is none
        weight: Tensor = self._weight(name)
        return weight.detach()

    def _weight(self, name: str) -> Any:
        path, _, own = name.rpartition(".")
        try:
            return getattr(self.network.get_submodule(path), own)
        except AttributeError:
            return None

    def _derived(self, name: str) -> Callable[[], Tensor] | None:
        """The softmax of outputs or of pooling scores, which no part traces."""
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
        """The point whose softmax `head.softmax` or `head.pool_softmax` is; empty: none."""
        above, _, own = scope.rpartition(".")
        names = {
            "softmax": ("logits", "class_logits", "sum"),
            "pool_softmax": ("pool_scores",),
        }.get(own, ())
        if above.rpartition(".")[2] not in ("head", "ngrams", "ensemble"):
            return ""
        return next((f"{above}.{name}" for name in names if f"{above}.{name}" in self.points), "")

    def siblings(self, scope: str) -> set[str]:
        """The points of a part in this run, by the last component of their names."""
        if not self._siblings:
            for name in self.points:
                above, _, point = name.rpartition(".")
                self._siblings.setdefault(above, set()).add(point)
        return self._siblings.get(scope, set())

    # ---- parts ----

    def module(self, path: str) -> nn.Module:
        return self.network.get_submodule(path)

    def at(self, scope: str) -> "Scope":
        """The run as seen from the part that writes under this scope."""
        return Scope(self, part_of(self.network, scope)[0], scope)

    def terms(self, name: str, index: Index) -> Expression | None:
        """A number of a point as an expression of other numbers; None if its part (for example a
        user's own) does not explain it."""
        scope, _, point = name.rpartition(".")
        at = self.at(scope)
        if self.softmax_of(scope):
            return _derived_terms(at, point, index)
        part = at.module
        return part.terms(at, point, index) if isinstance(part, Explained) else None

    def reads(self, path: str) -> str:
        """The full name of the point that a part reads, from the modules that contain it."""
        names = path.split(".")
        for n in range(len(names) - 1, -1, -1):  # from the nearest container outwards
            at = self.at(".".join(names[:n]))
            container = at.module
            if isinstance(container, Feeding):
                point = container.feeds(".".join(names[n:]), at)
                if point is not None:
                    return point
        raise UnknownPointError(f"no part of this network says what {path!r} reads")

    # ---- numbers ----

    def number(self, label: str, name: str, *index: int) -> Number:
        """One number. An axis of size 1 is broadcast."""
        tensor = self.tensor(name)
        index = tuple(
            0 if size == 1 else place for size, place in zip(tensor.shape, index, strict=True)
        )
        return Number(label, float(tensor[index]), self.kind(name), written(name, index))

    def vector(self, label: str, name: str, *index: int | None) -> Terms:
        """The numbers along the axis where the index is None."""
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
        """A vector of zeros, such as the state before the first token."""
        return Terms(torch.zeros(size, dtype=torch.float64), lambda i: Number(label, 0.0))

    # ---- sums ----

    def total(self, *terms: Terms | Expression) -> Expression:
        """A sum: its largest terms and the rest as one. Single expressions are always shown."""
        groups = [one for one in terms if isinstance(one, Terms)]
        alone = [one for one in terms if not isinstance(one, Terms)]
        chosen, rest = self._largest(groups, by=torch.abs)
        shown = [*chosen, *alone]
        if len(rest):
            shown.append(Rest(len(rest), float(rest.sum())))
        return add(*shown) if shown else Number("0", 0.0)

    def largest(self, terms: Terms) -> Expression:
        """A maximum: the largest numbers and the rest as one."""
        chosen, rest = self._largest([terms], by=lambda values: values)
        if len(rest):
            chosen.append(Rest(len(rest), float(rest.max())))
        return Operation("max", tuple(chosen))

    def _largest(
        self, groups: list[Terms], by: Callable[[Tensor], Tensor]
    ) -> tuple[list[Expression], Tensor]:
        """The terms to show, and the values of the others."""
        if not groups:
            return [], torch.zeros(0)
        values = torch.cat([group.values.cpu() for group in groups])
        order = by(values).argsort(descending=True, stable=True)
        # A single remaining term takes no more space than the line for the rest.
        shown = len(order) if len(order) <= self.shown + 1 else self.shown
        owners = [(group, i) for group in groups for i in range(len(group.values))]
        chosen = [owners[place] for place in order[:shown].tolist()]
        return [group.at(i) for group, i in chosen], values[order[shown:]]


@dataclass(frozen=True)
class Scope:
    """A run as seen from one of its parts."""

    run: Computation
    path: str  # of the part and its weights in the network
    scope: str  # of its points; longer than `path` if one part traces several scopes

    @property
    def module(self) -> nn.Module:
        return self.run.module(self.path)

    @property
    def parent(self) -> "Scope":
        """The container."""
        return self.run.at(self.path.rpartition(".")[0])

    def part(self, name: str) -> "Scope":
        """The run as seen from a submodule."""
        return self.run.at(self.name(name))

    @property
    def stack(self) -> "Scope":
        """The encoder or decoder that contains the part."""
        names = self.path.split(".")
        side = next(n for n, name in enumerate(names) if name in ("encoder", "decoder"))
        return self.run.at(".".join(names[: side + 1]))

    @property
    def encoder(self) -> "Scope":
        """The encoder of the same network."""
        first, *rest = self.path.split(".")
        return self.run.at(f"members.{rest[0]}.encoder" if first == "members" else "encoder")

    # ---- the part's own points and weights ----

    def name(self, point: str) -> str:
        """The full name of one of its points."""
        return _join(self.scope, point)

    def has(self, point: str) -> bool:
        return self.name(point) in self.run.points

    def number(self, point: str, *index: int) -> Number:
        """One number of one of its points."""
        return self.run.number(point, self.name(point), *index)

    def vector(self, point: str, *index: int | None) -> Terms:
        """The numbers of one of its points along the axis where the index is None."""
        return self.run.vector(point, self.name(point), *index)

    def weight(self, label: str, name: str, *index: int) -> Number:
        """One weight, with its label in formulas."""
        return self.run.number(label, _join(self.path, name), *index)

    def weights(self, label: str, name: str, *index: int | None) -> Terms:
        """Weights along the axis where the index is None."""
        return self.run.vector(label, _join(self.path, name), *index)

    def linear(
        self, layer: str, row: int, x: Terms, weight: str = "W", bias: str = "b"
    ) -> Expression:
        """One output of one of its linear layers: W x + b."""
        path = _join(self.path, layer)
        product = dot(self.run.vector(weight, f"{path}.weight", row, None), x)
        if getattr(self.run.module(path), "bias", None) is None:
            return self.run.total(product)
        return self.run.total(product, self.run.number(bias, f"{path}.bias", row))

    def row_of(self, table: str, ids: str, *index: int) -> Expression:
        """A number of the row that an id selects from a table of weights."""
        *place, d = index
        token = self.run.number("ids", ids, *place)
        return apply("table", self.weight("table", table, int(token.value), d), token)

    # ---- what it reads ----

    def input(self, *index: int) -> Number:
        """One number of the part's input."""
        return self.run.number("x", self.run.reads(self.path), *index)

    def inputs(self, *index: int | None) -> Terms:
        """The part's input along the axis where the index is None."""
        return self.run.vector("x", self.run.reads(self.path), *index)

    @property
    def output_name(self) -> str:
        """The full name of the point that holds the part's output (its `output_point`)."""
        return self.name(str(getattr(self.module, "output_point")))  # noqa: B009 (a Module's getattr)

    # ---- tokens ----

    @property
    def ids(self) -> str:
        """The name of the network's input whose ids the part reads."""
        if "source" not in self.run.inputs:
            return "ids"
        return "source" if "encoder" in self.path.split(".") else "target"

    @property
    def mask(self) -> str:
        """The name of the token mask among the inputs; empty: none."""
        name = "mask" if self.ids == "ids" else f"{self.ids}_mask"
        return name if name in self.run.inputs else ""

    def is_token(self, row: int, place: int) -> bool:
        return not self.mask or bool(self.run.tensor(self.mask)[row, place])

    def tokens(self, row: int, vector: Terms) -> Terms:
        """The entries of a vector over the positions of a row, without padding."""
        return vector.pick(n for n in range(len(vector.values)) if self.is_token(row, n))

    def position(self, row: int, place: int) -> int:
        """The position of a token: the number of tokens before it."""
        return max(sum(self.is_token(row, t) for t in range(place + 1)) - 1, 0)

    def token_before(self, row: int, place: int, *, backward: bool = False) -> int | None:
        """The token that a loop reads before this one, if any."""
        length = self.run.tensor(self.ids).shape[1]
        places = range(place + 1, length) if backward else range(place - 1, -1, -1)
        return next((t for t in places if self.is_token(row, t)), None)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def softmax_terms(
    at: Scope, point: str, index: Index, scores: Terms, visible: Terms | None = None
) -> Expression:
    """A number of `activations.softmax` over a row of scores. visible: those not masked."""
    *place, i = index
    match point:
        case "shift":
            return at.run.largest(scores if visible is None else visible)
        case "exponentials":
            return apply("exp", scores.at(i) - at.number("shift", *index))
        case "normaliser":
            return at.run.total(at.vector("exponentials", *place, None))
    return at.number("exponentials", *index) / at.number("normaliser", *index)


def _derived_terms(at: Scope, point: str, index: Index) -> Expression:
    """The softmax of outputs, or of the scores of pooling, where padding is masked."""
    scores = at.run.vector("x", at.run.softmax_of(at.scope), *index[:-1], None)
    if not at.scope.endswith("pool_softmax"):
        return softmax_terms(at, point, index, scores)
    terms = softmax_terms(at, point, index, scores, at.tokens(index[0], scores))
    padding = point == "exponentials" and not at.is_token(*index)
    return constant("t", 0) * terms if padding else terms


def part_of(network: nn.Module, scope: str) -> tuple[str, nn.Module]:
    """The part that traces under a scope, with its path: the innermost module on the way. A
    recurrent stack, for example, traces for its cells."""
    part, path = network, ""
    for name in scope.split("."):
        below = getattr(part, name, None)
        if not isinstance(below, nn.Module):
            break
        part, path = below, _join(path, name)
    return path, part


def variant_of(network: nn.Module, scope: str) -> Variant:
    """The variant of the part that traces under this scope, which selects its formulas."""
    variant = getattr(part_of(network, scope)[1], "variant", None)
    own = variant if isinstance(variant, Variant) else Variant()
    if "backward" in scope.split("."):
        return replace(own, symbols={**own.symbols, **BACKWARD_SYMBOLS})
    return own


def formulas(network: nn.Module, points: Collection[str]) -> dict[str, str]:
    """The right-hand side of each point's formula in LaTeX, for a run with these points."""
    siblings: dict[str, set[str]] = {}
    for name in points:
        scope, _, point = name.rpartition(".")
        siblings.setdefault(scope, set()).add(point)
    variants = {scope: variant_of(network, scope) for scope in siblings}

    def formula_of(name: str) -> str:
        scope = name.rpartition(".")[0]
        own = variants[scope]
        return formula(entry(name), own.symbols, own.absent, siblings[scope] | set(own.words))

    return {name: formula_of(name) for name in points}
