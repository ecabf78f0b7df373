"""Show how a number is computed: its value, its formula, and the numbers in it, each with its own
address, down to weights, inputs and constants.

    opened = reading.terms("head.logits[0, 3, 17]")
    print(opened)
    reading.terms(opened.numbers[0].address)
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from translucid.core.catalogue import CATALOGUE, Point, entry, fill
from translucid.core.errors import InputError
from translucid.models.base import Network
from translucid.parts.computation import (
    SHOWN,
    Computation,
    Index,
    Points,
    read_address,
    variant_of,
    written,
)
from translucid.parts.expression import (
    Expression,
    Kind,
    Number,
    Operation,
    Rest,
    apply,
    constant,
    evaluate,
    leaves,
)
from translucid.parts.lora import AdaptedLinear
from translucid.see.render.plain_math import one_line
from translucid.see.text_trace import TextTrace

DIGITS = 6  # significant digits; computing with the shown values reproduces all but the last
WEIGHTS = 40  # networks with up to this many weights have every sum written out
INFIX = {name: f" {name} " for name in ("+", "-", "·", "/", "<=", "<", ">")} | {"^": "^"}
TIGHT = {"<=": 0, "<": 0, ">": 0, "+": 1, "-": 1, "·": 2, "/": 2, "^": 3}


@dataclass(frozen=True)
class OpenedNumber:
    """A number together with the terms it is computed from."""

    address: str
    kind: Kind
    value: float
    symbol: str  # LaTeX
    meaning: str
    formula: str  # LaTeX, the right-hand side; empty for weights and inputs
    symbols: dict[str, str]  # LaTeX of the names in the expression
    expression: Expression | None  # None for weights and inputs
    python: str  # code that returns the number

    @property
    def numbers(self) -> list[Number]:
        """The numbers in the expression that have an address."""
        return [one for one in leaves(self.expression) if isinstance(one, Number) and one.address]

    @property
    def remainder(self) -> float:
        """The value minus the result of its terms, due to rounding or to an edit."""
        if self.expression is None:
            return 0.0
        worked_out = evaluate(self.expression)
        return 0.0 if worked_out == self.value else self.value - worked_out

    def __str__(self) -> str:
        return as_text(self)


def shown(value: float) -> str:
    """Format a number for printing."""
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    return f"{value:.{DIGITS}g}"


def in_numbers(expression: Expression) -> str:
    """Write an expression with its numbers filled in."""
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


def as_text(opened: OpenedNumber) -> str:
    """Format as text: the number, its formula, and a line for each term of its sum."""
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
        lines.append(f"  remainder, not explained by the terms: {shown(opened.remainder)}")
    lines.append(f"  {opened.python}")
    return "\n".join(lines)


def _term(term: Expression) -> str:
    if isinstance(term, Rest):
        return f"{shown(term.value):>12}   the other {term.count} together"
    value = shown(evaluate(term))
    return f"{value:>12}" + (f"   {in_numbers(term)}" if isinstance(term, Operation) else "")


def as_json(opened: OpenedNumber) -> dict[str, Any]:
    """Convert to plain data for JSON. nan and infinities are null; the key `text` shows them."""
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


LOSS = Point("L", ("batch",), "how wrong the model is here, in nats", r"-\log <probabilities>")
MEANINGS: dict[Kind, str] = {
    "parameter": "a weight, set in training",
    "input": "an input of the network",
}


def computation(
    reading: TextTrace, *, points: Points | None = None, shown: int = SHOWN
) -> Computation:
    """The computation that a trace records. points: the values of its trace points, by default
    those in the trace."""
    example, network = reading.example, reading.network
    reading.check_eval()
    targets = example.batch.targets if reading.outputs.probabilities else None
    inputs = example.inputs_for(network)
    return Computation(network, points or reading, inputs, targets=targets, shown=shown)


def terms(c: Computation, address: str) -> OpenedNumber:
    """Look up the number at an address, with its terms."""
    name, index = read_address(address)
    if name == "loss":
        return _loss(c, index)
    kind = c.kind(name)
    value = float(c.tensor(name)[_checked(c, name, index)])
    if kind != "point":
        return OpenedNumber(
            address=written(name, index), kind=kind, value=value,
            symbol=rf"\mathrm{{{name.rpartition('.')[2].replace('_', ' ')}}}",
            meaning=MEANINGS[kind], formula="",
            symbols={}, expression=None, python=_python(c, name, index),
        )  # fmt: skip
    scope = name.rpartition(".")[0]
    part, variant = entry(name).partition(".")[0], variant_of(c.network, scope)
    expression = c.terms(name, index)
    template = CATALOGUE[entry(name)].template(c.siblings(scope) | set(variant.words))
    return OpenedNumber(
        address=written(name, index),
        kind=kind,
        value=value,
        symbol=CATALOGUE[entry(name)].symbol,
        meaning=CATALOGUE[entry(name)].meaning,
        formula=fill(template, part, variant.symbols, variant.absent),
        symbols=_symbols(expression, part, variant.symbols),
        expression=expression,
        python=_python(c, name, index),
    )


def _loss(c: Computation, index: Index) -> OpenedNumber:
    """The loss at a position, -log p(target), with its terms."""
    if c.targets is None:
        raise InputError("loss: this run has no targets, or its outputs have no probabilities")
    if len(index) != c.targets.dim() or any(
        not 0 <= i < size for i, size in zip(index, c.targets.shape, strict=False)
    ):
        raise InputError(f"loss: invalid index; the targets have shape {tuple(c.targets.shape)}")
    target = int(c.targets[index])
    assert isinstance(c.network, Network)
    scope = f"{c.network.output_point.rpartition('.')[0]}.softmax"
    logits = c.tensor(c.softmax_of(scope))
    if not 0 <= target < logits.shape[-1]:
        raise InputError(f"{written('loss', index)}: no target at this position")
    probability = c.number("probabilities", f"{scope}.probabilities", *index, target)
    return OpenedNumber(
        address=written("loss", index), kind="point", value=-math.log(probability.value),
        symbol=LOSS.symbol, meaning=LOSS.meaning, formula=fill(LOSS.formula, "softmax"),
        symbols=_symbols(probability, "softmax"),
        expression=constant('-1', -1) * apply('log', probability),
        python=f'-trace["{c.softmax_of(scope)}"].log_softmax(-1)'
        f"[{', '.join(map(str, (*index, target)))}]",
    )  # fmt: skip


def _checked(c: Computation, name: str, index: Index) -> Index:
    shape = tuple(c.tensor(name).shape)
    if len(index) == len(shape) and all(
        0 <= i < size for i, size in zip(index, shape, strict=True)
    ):
        return index
    asked = f"[{', '.join(map(str, index))}]"
    fault = f"{asked} is out of range" if index else "the address has no index"
    if not shape:
        raise InputError(f"{name} is a single number; omit the index {asked}")
    largest = ", ".join(str(size - 1) for size in shape)
    raise InputError(
        f"{name} has shape {shape}; {fault}; expected one index per axis, at most [{largest}]"
    )


def _symbols(
    expression: Expression | None, part: str, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The LaTeX of each name in an expression. own: symbols specific to this part."""
    names = {one.name for one in leaves(expression) if not isinstance(one, Rest)}
    return {name: fill(f"<{name}>", part, own) for name in sorted(names)}


def _python(c: Computation, name: str, index: Index) -> str:
    """Code that gets the number from `trace = model.trace(text)`."""
    at = f"[{', '.join(map(str, index))}]" if index else ""
    if name in c.points:
        return f'trace["{name}"]{at}'
    match c.kind(name):
        case "parameter":
            stored = name in c.network.state_dict()
            weight = f'state_dict()["{name}"]' if stored else f'get_buffer("{name}")'
            path, _, own = name.rpartition(".")
            if isinstance(c.module(path), AdaptedLinear):  # its weight includes the adapter
                weight = f'get_submodule("{path}").{own}'
            return f"trace.network.{weight}{at}"
        case "input":
            return f'trace.example.batch.inputs["{name}"]{at}'
    scope, _, point = name.rpartition(".")
    scores = f'trace["{c.softmax_of(scope)}"]'
    exponentials = f"({scores} - {scores}.amax(-1, keepdim=True)).exp()"
    lines = {
        "shift": f"{scores}.amax(-1, keepdim=True)", "exponentials": exponentials,
        "normaliser": f"{exponentials}.sum(-1, keepdim=True)",
    }  # fmt: skip
    return lines.get(point, f"{scores}.softmax(-1)") + at


# ---- small networks: all sums written out, to check by hand ----


def sums(reading: TextTrace, name: str) -> tuple[str, ...]:
    """The computation of each value of a point, one per line, if the network has at most WEIGHTS
    weights."""
    if reading.network.parameters_count > WEIGHTS:
        return ()
    run = computation(reading, shown=WEIGHTS)
    places = product(*map(range, reading[name].shape))
    lines = ["; ".join(_lines(run, written(name, place))) for place in places]
    return tuple(lines if len(lines) == 1 else (f"{n}: {line}" for n, line in enumerate(lines)))


def _lines(run: Computation, address: str) -> Iterator[str]:
    """Lines that compute a value; the weighted sum inside it comes first."""
    opened = terms(run, address)
    for number in opened.numbers:
        if number.address.partition("[")[0].endswith(".preactivation"):
            yield _line(terms(run, number.address))
    if opened.expression is not None and not isinstance(opened.expression, Number):
        yield _line(opened)


def _line(opened: OpenedNumber) -> str:
    """A computation in one line, such as z = w · x + b = 2 · 1 + 3 · 1 + (-4) = 1."""
    assert opened.expression is not None
    formula = f"{one_line(opened.symbol)} = {one_line(opened.formula)}"
    return f"{formula} = {in_numbers(_as_read(opened.expression))} = {shown(opened.value)}"


def _as_read(expression: Expression) -> Expression:
    """Sort a sum by input, with the bias last, instead of by size."""
    if not isinstance(expression, Operation) or expression.name != "+":
        return expression
    return replace(expression, arguments=tuple(sorted(expression.arguments, key=_place)))


def _place(term: Expression) -> tuple[bool, Index]:
    first = next(one for one in leaves(term) if isinstance(one, Number))
    return isinstance(term, Number), read_address(first.address)[1]
