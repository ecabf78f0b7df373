"""A number and what it is made of: as text for a terminal, and as plain data for a page."""

import math
from dataclasses import dataclass
from typing import Any

from translucid.see.render.plain_math import one_line
from translucid.see.terms.expression import (
    Expression,
    Kind,
    Number,
    Operation,
    Rest,
    evaluate,
    leaves,
)

DIGITS = 6  # significant ones: what is shown works out again to its last digit but one
INFIX = {name: f" {name} " for name in ("+", "-", "·", "/", "<=", "<", ">")} | {"^": "^"}
TIGHT = {"<=": 0, "<": 0, ">": 0, "+": 1, "-": 1, "·": 2, "/": 2, "^": 3}


@dataclass(frozen=True)
class Opened:
    """A number, and what it is made of."""

    address: str
    kind: Kind
    value: float
    symbol: str  # LaTeX
    meaning: str
    formula: str  # LaTeX, the right-hand side; empty at the bottom
    symbols: dict[str, str]  # LaTeX of the names in the expression
    expression: Expression | None  # None: the walk ends here
    python: str  # the line that gives the number

    @property
    def numbers(self) -> list[Number]:
        """The numbers that can be opened in their turn."""
        return [one for one in leaves(self.expression) if isinstance(one, Number) and one.address]

    @property
    def remainder(self) -> float:
        """The value less what its terms give: rounding, or an edit that replaced it."""
        if self.expression is None:
            return 0.0
        worked_out = evaluate(self.expression)
        return 0.0 if worked_out == self.value else self.value - worked_out

    def __str__(self) -> str:
        return as_text(self)


def shown(value: float) -> str:
    """A number as it is printed."""
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    return f"{value:.{DIGITS}g}"


def in_numbers(expression: Expression) -> str:
    """An expression with its numbers in place."""
    return _written(expression, 0)


def _written(expression: Expression, tight: int) -> str:
    if isinstance(expression, Number):
        text = shown(expression.value)
        return f"({text})" if expression.value < 0 and tight else text
    if isinstance(expression, Rest):
        return f"[{expression.count} more: {shown(expression.value)}]"
    name, arguments = expression.name, expression.arguments
    if name not in INFIX:
        return f"{name}({', '.join(_written(one, 0) for one in arguments)})"
    own = TIGHT[name]
    parts = [_written(one, own + (n > 0)) for n, one in enumerate(arguments)]
    text = INFIX[name].join(parts)
    return f"({text})" if own < tight else text


def as_text(opened: Opened) -> str:
    """The number, its formula, and a line for each term of its sum."""
    lines = [f"{opened.address} = {shown(opened.value)}", f"  {opened.meaning}"]
    if opened.formula:
        lines.append(f"  {one_line(opened.symbol)} = {one_line(opened.formula)}")
    expression = opened.expression
    if isinstance(expression, Operation):
        if expression.name == "+" and len(expression.arguments) > 2:
            lines.append(f"  = sum of {len(expression.arguments)} terms")
            lines += [f"    {_term(term)}" for term in expression.arguments]
        else:
            lines.append(f"  = {in_numbers(expression)}")
    known: dict[str, Number] = {number.address: number for number in opened.numbers}
    if known:
        lines.append("  where")
        for address, number in known.items():
            symbol = one_line(opened.symbols.get(number.name, number.name))
            lines.append(f"    {symbol} = {shown(number.value)}   {address}")
    if abs(opened.remainder) > 1e-5 * max(1.0, abs(opened.value)):
        lines.append(f"  what the terms do not give: {shown(opened.remainder)}")
    lines.append(f"  {opened.python}")
    return "\n".join(lines)


def _term(term: Expression) -> str:
    if isinstance(term, Rest):
        return f"{shown(term.value):>12}   the other {term.count} together"
    value = shown(evaluate(term))
    return f"{value:>12}" + (f"   {in_numbers(term)}" if isinstance(term, Operation) else "")


def as_json(opened: Opened) -> dict[str, Any]:
    """All of it as plain data; a number that JSON lacks is null, and stands in its text."""
    return {
        "address": opened.address, "kind": opened.kind, **_number(opened.value),
        "symbol": opened.symbol, "meaning": opened.meaning, "formula": opened.formula,
        "symbols": opened.symbols, "remainder": _number(opened.remainder)["value"],
        "python": opened.python,
        "expression": None if opened.expression is None else _plain(opened.expression),
    }  # fmt: skip


def _number(value: float) -> dict[str, Any]:
    return {"value": value if math.isfinite(value) else None, "text": shown(value)}


def _plain(expression: Expression) -> dict[str, Any]:
    match expression:
        case Number():
            return {
                "name": expression.name, **_number(expression.value), "kind": expression.kind,
                "address": expression.address,
            }  # fmt: skip
        case Rest():
            return {"rest": expression.count, **_number(expression.value)}
        case Operation():
            return {
                "operation": expression.name, **_number(evaluate(expression)),
                "arguments": [_plain(one) for one in expression.arguments],
            }  # fmt: skip
