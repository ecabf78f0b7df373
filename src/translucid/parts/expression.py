"""Expressions that describe how a number was computed.

    Number       a value of the run, with its address; a constant has none
    Rest         the terms of a long sum that are not shown, as one value
    Operation    +, ·, /, exp, max, tanh, ... of its arguments
    Terms        the terms of a long sum; their expressions are built only if shown

`evaluate` computes an expression in float64, to compare it with the value of the run.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from translucid.parts.activations import ACTIVATIONS

Kind = Literal["point", "parameter", "input", "constant"]


class _Operand:
    """Base class of expressions: arithmetic on them, such as `a * x + b`, builds larger
    expressions."""

    def __add__(self, other: "Expression") -> "Operation":
        return Operation("+", (self, other))  # type: ignore[arg-type]

    def __sub__(self, other: "Expression") -> "Operation":
        return Operation("-", (self, other))  # type: ignore[arg-type]

    def __mul__(self, other: "Expression") -> "Operation":
        return Operation("·", (self, other))  # type: ignore[arg-type]

    def __truediv__(self, other: "Expression") -> "Operation":
        return Operation("/", (self, other))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Number(_Operand):
    """A value and its address."""

    name: str  # in the catalogue's formula: query, W_Q
    value: float
    kind: Kind = "constant"
    address: str = ""  # name[index]; empty for a constant


@dataclass(frozen=True)
class Rest(_Operand):
    """The terms of a sum or maximum that are not shown."""

    count: int
    value: float


@dataclass(frozen=True)
class Operation(_Operand):
    """An operation and its arguments."""

    name: str
    arguments: tuple["Expression", ...]


Expression = Number | Rest | Operation


@dataclass(frozen=True)
class Terms:
    """Many terms of one kind: their values, and the expression of each."""

    values: Tensor  # (terms,), float64
    at: Callable[[int], Expression]

    def pick(self, places: Iterable[int]) -> "Terms":
        """The terms at these indices, in the order of the indices."""
        chosen = list(places)
        return Terms(self.values[chosen], lambda i: self.at(chosen[i]))


def dot(left: Terms, right: Terms) -> Terms:
    """The elementwise product of two vectors."""
    return Terms(left.values.cpu() * right.values.cpu(), lambda i: left.at(i) * right.at(i))


def joined(*vectors: Terms) -> Terms:
    """Concatenate vectors."""
    places = [(vector, i) for vector in vectors for i in range(len(vector.values))]

    def one(i: int) -> Expression:
        vector, place = places[i]
        return vector.at(place)

    return Terms(torch.cat([vector.values for vector in vectors]), one)


def constant(name: str, value: float) -> Number:
    """A value that depends on neither weights nor inputs, such as a size, a position or an
    exponent."""
    return Number(name, float(value))


def add(*arguments: Expression) -> Expression:
    return arguments[0] if len(arguments) == 1 else Operation("+", arguments)


def times(*arguments: Expression) -> Expression:
    return Operation("·", arguments)


def apply(function: str, *arguments: Expression) -> Expression:
    """Apply a function of `FUNCTIONS`, or an activation, by name."""
    return arguments[0] if function == "identity" else Operation(function, arguments)


def activation(function: Callable[[Tensor], Tensor], x: Expression) -> Expression:
    """Apply an activation to x."""
    return apply(next(name for name, known in ACTIVATIONS.items() if known is function), x)


def evaluate(expression: Expression) -> float:
    """Compute the value of an expression from the values of its leaves."""
    if not isinstance(expression, Operation):
        return expression.value
    values = [evaluate(argument) for argument in expression.arguments]
    if expression.name in FUNCTIONS:
        return float(FUNCTIONS[expression.name](values))
    known = {str(name): function for name, function in ACTIVATIONS.items()}
    return float(known[expression.name](torch.tensor(values[0], dtype=torch.float64)))


def leaves(expression: Expression | None) -> Iterator[Number | Rest]:
    """The numbers that an expression contains, from left to right."""
    if isinstance(expression, Operation):
        for argument in expression.arguments:
            yield from leaves(argument)
    elif expression is not None:
        yield expression


def _divided(values: Sequence[float]) -> float:
    # A query that sees no key has a row of zeros, and its pattern is 0 too.
    return 0.0 if values[1] == 0 else values[0] / values[1]


def _largest(values: Sequence[float]) -> float:
    # The shift of a row without visible keys is 0.
    largest = max(values, default=-math.inf)
    return 0.0 if largest == -math.inf else largest


def _sum(values: Sequence[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


FUNCTIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "+": _sum,
    "·": math.prod,
    "-": lambda values: values[0] - values[1],
    "/": _divided,
    "^": lambda values: values[0] ** values[1],
    "sqrt": lambda values: math.sqrt(values[0]),
    "exp": lambda values: math.exp(values[0]),
    "log": lambda values: math.log(values[0]),
    "sin": lambda values: math.sin(values[0]),
    "cos": lambda values: math.cos(values[0]),
    "abs": lambda values: abs(values[0]),
    "max": _largest,
    "where": lambda values: values[1] if values[0] else -math.inf,
    "table": lambda values: values[0],  # the row that the other arguments select
    "<=": lambda values: values[0] <= values[1],
    "<": lambda values: values[0] < values[1],
    ">": lambda values: values[0] > values[1],
}
