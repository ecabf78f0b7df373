"""One forward pass ("run") of a network, in which every number has an address and an expression.

An address is a name and an index: of a trace point (`head.logits[0, 3, 17]`), a weight
(`head.linear.weight[17, 4]`) or an input (`ids[0, 3]`). The softmax of the outputs, which no part
traces, has addresses too: `head.softmax.probabilities[0, 3, 17]`.

A part explains its own numbers with the method

    def terms(self, at: Scope, point: str, index: Index) -> Expression | None

which returns the number at `index` of one of its trace points as an expression in other numbers.
`at` gives access to the part's points, weights and inputs. The module that contains a part defines
what the part reads, with the method

    def feeds(self, part: str, at: Scope) -> str | None

which returns the full name of the point that `part` (a path within the module) reads, or None if
the part reads the input of the module.
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
SHOWN = 8  # number of terms of a long sum that are shown
_ADDRESS = re.compile(r"\s*([\w.]+)\s*(?:\[([\d,\s]*)\])?\s*")


class Points(Protocol):
    """The trace points of a run, by name."""

    def __getitem__(self, name: str, /) -> Tensor: ...

    def __contains__(self, name: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...


@runtime_checkable
class Explained(Protocol):
    """A module that can express its numbers in terms of other numbers."""

    def terms(self, at: "Scope", point: str, index: Index) -> Expression | None: ...


@runtime_checkable
class Feeding(Protocol):
    """A module that knows which trace points its submodules read."""

    def feeds(self, part: str, at: "Scope") -> str | None: ...


def written(name: str, index: Index) -> str:
    """Format an address as text: name[0, 3]."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def read_address(address: str) -> tuple[str, Index]:
    """Parse an address into its name and its index."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InputError(
            f"{address!r} is not an address; use a name and an index: head.logits[0, 3, 5]"
        )
    name, places = match[1], (match[2] or "").strip()
    try:
        return name, tuple(int(place) for place in places.split(",")) if places else ()
    except ValueError as error:
        raise InputError(
            f"{address!r}: the brackets must contain one whole number for each axis"
        ) from error


class Computation:
    """All numbers of one run of a network: trace points, weights and inputs."""

    def __init__(
        self,
        network: nn.Module,
        points: Points,
        inputs: Mapping[str, Tensor | None],
        *,
        targets: Tensor | None = None,
        shown: int = SHOWN,
    ) -> None:
        """inputs: the network's arguments by name. targets: needed only for the loss. shown: number
        of terms of a long sum that are shown individually."""
        if shown < 1:
            raise InputError(f"{shown} terms: at least 1 term of a sum must be shown")
        self.network, self.points, self.targets, self.shown = network, points, targets, shown
        self.inputs = {name: value for name, value in inputs.items() if value is not None}
        self._tensors: dict[str, Tensor] = {}
        self._kinds: dict[str, Kind] = {}
        self._siblings: dict[str, set[str]] = {}

    # ---- by name ----

    def kind(self, name: str) -> Kind:
        """Whether a name is a point, a weight or an input; raises an error if it is none of
        them."""
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
        """The tensor of a point, weight or input, by name."""
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
        """A function that computes a tensor that no part traces: the softmax of the outputs or of
        the pooling scores. None if `name` is neither."""
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
        """The full name of the point from which a softmax is computed, such as the logits for the
        scope `head.softmax` and the pooling scores for `head.pool_softmax`. Empty if the scope is
        not one of these."""
        above, _, own = scope.rpartition(".")
        names = {
            "softmax": ("logits", "class_logits", "sum"),
            "pool_softmax": ("pool_scores",),
        }.get(own, ())
        if above.rpartition(".")[2] not in ("head", "ngrams", "linear", "ensemble"):
            return ""
        return next((f"{above}.{name}" for name in names if f"{above}.{name}" in self.points), "")

    def siblings(self, scope: str) -> set[str]:
        """The points that this run has under a scope, by the last component of their names."""
        if not self._siblings:
            for name in self.points:
                above, _, point = name.rpartition(".")
                self._siblings.setdefault(above, set()).add(point)
        return self._siblings.get(scope, set())

    # ---- parts ----

    def module(self, path: str) -> nn.Module:
        return self.network.get_submodule(path)

    def at(self, scope: str) -> "Scope":
        """A view of the run limited to the part whose trace points have this scope."""
        return Scope(self, part_of(self.network, scope)[0], scope)

    def terms(self, name: str, index: Index) -> Expression | None:
        """The value at one index of a point, as an expression in other numbers; None if its part
        (for example a user's own) does not define `terms`."""
        scope, _, point = name.rpartition(".")
        at = self.at(scope)
        if self.softmax_of(scope):
            return _derived_terms(at, point, index)
        part = at.module
        return part.terms(at, point, index) if isinstance(part, Explained) else None

    def reads(self, path: str) -> str:
        """The full name of the point that the part at `path` reads. The modules that contain the
        part define it, in `feeds`."""
        names = path.split(".")
        for n in range(len(names) - 1, -1, -1):  # from the nearest container outwards
            at = self.at(".".join(names[:n]))
            container = at.module
            if isinstance(container, Feeding):
                point = container.feeds(".".join(names[n:]), at)
                if point is not None:
                    return point
        raise UnknownPointError(
            f"the input of {path!r} is unknown: no part that contains it defines feeds() for it"
        )

    # ---- numbers ----

    def number(self, label: str, name: str, *index: int) -> Number:
        """The value at one index of a tensor. An axis of size 1 is broadcast."""
        tensor = self.tensor(name)
        index = tuple(
            0 if size == 1 else place for size, place in zip(tensor.shape, index, strict=True)
        )
        return Number(label, float(tensor[index]), self.kind(name), written(name, index))

    def vector(self, label: str, name: str, *index: int | None) -> Terms:
        """The values of a tensor along the axis where the index is None."""
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
        """A sum that shows its largest terms and combines the rest into one. Single expressions
        are always shown."""
        groups = [one for one in terms if isinstance(one, Terms)]
        alone = [one for one in terms if not isinstance(one, Terms)]
        chosen, rest = self._largest(groups, by=torch.abs)
        shown = [*chosen, *alone]
        if len(rest):
            shown.append(Rest(len(rest), float(rest.sum())))
        return add(*shown) if shown else Number("0", 0.0)

    def largest(self, terms: Terms) -> Expression:
        """A maximum that shows the largest numbers and combines the rest into one."""
        chosen, rest = self._largest([terms], by=lambda values: values)
        if len(rest):
            chosen.append(Rest(len(rest), float(rest.max())))
        return Operation("max", tuple(chosen))

    def _largest(
        self, groups: list[Terms], by: Callable[[Tensor], Tensor]
    ) -> tuple[list[Expression], Tensor]:
        """Select the terms to show, the largest according to `by`. Return their expressions, and
        the values of the remaining terms."""
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
    """A view of a run limited to one part."""

    run: Computation
    path: str  # path of the part and its weights in the network
    scope: str  # prefix of its trace points; longer than `path` if one part traces several scopes

    @property
    def module(self) -> nn.Module:
        return self.run.module(self.path)

    @property
    def parent(self) -> "Scope":
        """A view of the run limited to the module that contains the part."""
        return self.run.at(self.path.rpartition(".")[0])

    def part(self, name: str) -> "Scope":
        """A view of the run limited to a submodule."""
        return self.run.at(self.name(name))

    @property
    def stack(self) -> "Scope":
        """A view of the run limited to the encoder or decoder that contains the part."""
        names = self.path.split(".")
        side = next(n for n, name in enumerate(names) if name in ("encoder", "decoder"))
        return self.run.at(".".join(names[: side + 1]))

    @property
    def encoder(self) -> "Scope":
        """A view of the run limited to the encoder of the same network."""
        first, *rest = self.path.split(".")
        return self.run.at(f"members.{rest[0]}.encoder" if first == "members" else "encoder")

    # ---- the part's own points and weights ----

    def name(self, point: str) -> str:
        """The full name of one of the part's trace points."""
        return _join(self.scope, point)

    def has(self, point: str) -> bool:
        return self.name(point) in self.run.points

    def number(self, point: str, *index: int) -> Number:
        """The value at one index of one of the part's trace points."""
        return self.run.number(point, self.name(point), *index)

    def vector(self, point: str, *index: int | None) -> Terms:
        """The values of one of the part's trace points along the axis where the index is None."""
        return self.run.vector(point, self.name(point), *index)

    def weight(self, label: str, name: str, *index: int) -> Number:
        """The value at one index of one of the part's weights. label: its name in formulas."""
        return self.run.number(label, _join(self.path, name), *index)

    def weights(self, label: str, name: str, *index: int | None) -> Terms:
        """The values of one of the part's weights along the axis where the index is None."""
        return self.run.vector(label, _join(self.path, name), *index)

    def linear(
        self, layer: str, row: int, x: Terms, weight: str = "W", bias: str = "b"
    ) -> Expression:
        """One output of one of the part's linear layers: W x + b."""
        path = _join(self.path, layer)
        product = dot(self.run.vector(weight, f"{path}.weight", row, None), x)
        if getattr(self.run.module(path), "bias", None) is None:
            return self.run.total(product)
        return self.run.total(product, self.run.number(bias, f"{path}.bias", row))

    def row_of(self, table: str, ids: str, *index: int) -> Expression:
        """One value of the row that an id selects from an embedding table."""
        *place, d = index
        token = self.run.number("ids", ids, *place)
        return apply("table", self.weight("table", table, int(token.value), d), token)

    # ---- the part's input ----

    def input(self, *index: int) -> Number:
        """The value at one index of the part's input."""
        return self.run.number("x", self.run.reads(self.path), *index)

    def inputs(self, *index: int | None) -> Terms:
        """The values of the part's input along the axis where the index is None."""
        return self.run.vector("x", self.run.reads(self.path), *index)

    @property
    def output_name(self) -> str:
        """The full name of the point that holds the part's output (its `output_point`)."""
        return self.name(str(getattr(self.module, "output_point")))  # noqa: B009 (a Module's getattr)

    # ---- tokens ----

    @property
    def ids(self) -> str:
        """The name of the network input that holds the token ids of the part's stack: ids, source
        or target."""
        if "source" not in self.run.inputs:
            return "ids"
        return "source" if "encoder" in self.path.split(".") else "target"

    @property
    def mask(self) -> str:
        """The name of the token mask among the network's inputs; empty if there is none."""
        name = "mask" if self.ids == "ids" else f"{self.ids}_mask"
        return name if name in self.run.inputs else ""

    def is_token(self, row: int, place: int) -> bool:
        return not self.mask or bool(self.run.tensor(self.mask)[row, place])

    def tokens(self, row: int, vector: Terms) -> Terms:
        """Remove the entries at padding from a vector over the positions of a row."""
        return vector.pick(n for n in range(len(vector.values)) if self.is_token(row, n))

    def position(self, row: int, place: int) -> int:
        """The position of a token: the number of real tokens before it."""
        return max(sum(self.is_token(row, t) for t in range(place + 1)) - 1, 0)

    def token_before(self, row: int, place: int, *, backward: bool = False) -> int | None:
        """The index of the token that a recurrent layer reads before the one at `place`; None if
        there is none. Padding is skipped."""
        length = self.run.tensor(self.ids).shape[1]
        places = range(place + 1, length) if backward else range(place - 1, -1, -1)
        return next((t for t in places if self.is_token(row, t)), None)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def softmax_terms(
    at: Scope, point: str, index: Index, scores: Terms, visible: Terms | None = None
) -> Expression:
    """One value traced by `activations.softmax`, as an expression in a row of scores. visible:
    the scores that are not masked."""
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
    """One value of a softmax that no part traces, as an expression: the softmax of the outputs, or
    that of the pooling scores, in which padding is masked."""
    scores = at.run.vector("x", at.run.softmax_of(at.scope), *index[:-1], None)
    if not at.scope.endswith("pool_softmax"):
        return softmax_terms(at, point, index, scores)
    terms = softmax_terms(at, point, index, scores, at.tokens(index[0], scores))
    padding = point == "exponentials" and not at.is_token(*index)
    return constant("t", 0) * terms if padding else terms


def part_of(network: nn.Module, scope: str) -> tuple[str, nn.Module]:
    """The path and the module of the part that traces under a scope: the deepest module whose path
    is the beginning of the scope. For a cell of a recurrent stack, for example, this is the
    stack."""
    part, path = network, ""
    for name in scope.split("."):
        below = getattr(part, name, None)
        if not isinstance(below, nn.Module):
            break
        part, path = below, _join(path, name)
    return path, part


def variant_of(network: nn.Module, scope: str) -> Variant:
    """The variant of the part that traces under this scope. It selects the formulas of the part."""
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
