"""The sums of a small network with their weights in place, for those who work them out by hand."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from translucid.parts.computation import Computation, Index, read_address, written
from translucid.parts.expression import Expression, Number, Operation, leaves
from translucid.see.render.plain_math import one_line
from translucid.see.terms import OpenedNumber, computation, in_numbers, shown, terms
from translucid.see.text_trace import TextTrace

WEIGHTS = 40  # of a network whose every sum is shown


def sums(reading: TextTrace, name: str) -> tuple[str, ...]:
    """A line for each value of a point; none of a network with more weights."""
    if reading.network.parameters_count > WEIGHTS:
        return ()
    run = computation(reading, shown=WEIGHTS)
    places = product(*map(range, reading[name].shape))
    lines = ["; ".join(_lines(run, written(name, place))) for place in places]
    return tuple(lines if len(lines) == 1 else (f"{n}: {line}" for n, line in enumerate(lines)))


def _lines(run: Computation, address: str) -> Iterator[str]:
    """What a value is made of, and before it the weighted sum that it is made of."""
    opened = terms(run, address)
    for number in opened.numbers:
        if number.address.partition("[")[0].endswith(".preactivation"):
            yield _line(terms(run, number.address))
    if opened.expression is not None and not isinstance(opened.expression, Number):
        yield _line(opened)


def _line(opened: OpenedNumber) -> str:
    """z = w · x + b = 2 · 1 + 3 · 1 + (-4) = 1"""
    assert opened.expression is not None
    formula = f"{one_line(opened.symbol)} = {one_line(opened.formula)}"
    return f"{formula} = {in_numbers(_as_read(opened.expression))} = {shown(opened.value)}"


def _as_read(expression: Expression) -> Expression:
    """A sum in the order of its inputs, the bias last, and not by size."""
    if not isinstance(expression, Operation) or expression.name != "+":
        return expression
    return replace(expression, arguments=tuple(sorted(expression.arguments, key=_place)))


def _place(term: Expression) -> tuple[bool, Index]:
    first = next(one for one in leaves(term) if isinstance(one, Number))
    return isinstance(term, Number), read_address(first.address)[1]
