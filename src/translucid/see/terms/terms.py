"""Where a number comes from: its value, its formula, and the numbers that made it, each with an
address of its own, down to weights, tokens and constants.

    opened = reading.terms("head.logits[0, 3, 17]")
    print(opened)
    reading.terms(opened.numbers[0].address)
"""

import math
from collections.abc import Callable, Mapping

from translucid.core.catalogue import CATALOGUE, Point, entry, fill
from translucid.core.errors import InputError
from translucid.models.variants import variant_of
from translucid.parts.lora import AdaptedLinear
from translucid.see.terms import alignment, attention, heads, layers, recurrent, tokens
from translucid.see.terms.computation import (
    SHOWN,
    Computation,
    Index,
    Points,
    read_address,
    written,
)
from translucid.see.terms.expression import (
    Expression,
    Kind,
    Rest,
    apply,
    constant,
    leaves,
    times,
)
from translucid.see.terms.opened import Opened
from translucid.see.text_trace import TextTrace

OPENINGS: dict[str, Callable[[Computation, str, str, Index], Expression | None]] = {
    "embedding": tokens.embedding, "characters": tokens.characters, "segments": tokens.segments,
    "positions": tokens.positions, "masks": tokens.masks,
    "attention": attention.attention, "alignment": alignment.alignment,
    "norm": layers.norm, "residual": layers.residual, "feedforward": layers.feedforward,
    "dense": layers.dense, "standardise": layers.standardise, "perceptron": layers.perceptron,
    "lora": layers.lora,
    "recurrent": recurrent.recurrent, "rnn": recurrent.cell, "lstm": recurrent.cell,
    "gru": recurrent.cell, "bridge": recurrent.bridge, "feeding": recurrent.feeding,
    "head": heads.head, "ngrams": heads.ngrams, "ensemble": heads.ensemble,
    "softmax": heads.softmax,
}  # fmt: skip

LOSS = Point("L", ("batch",), "how wrong the model is here, in nats", r"-\log <probabilities>")
MEANINGS: dict[Kind, str] = {
    "parameter": "a weight: training has set it",
    "input": "an input: what the network was given",
}


def computation(
    reading: TextTrace, *, points: Points | None = None, shown: int = SHOWN
) -> Computation:
    """The run behind a trace of a text; `points`, where another keeps them."""
    example, network = reading.example, reading.network
    targets = example.batch.targets if reading.outputs.probabilities else None
    inputs = example.inputs_for(network)
    return Computation(network, points or reading, inputs, targets=targets, shown=shown)


def terms(c: Computation, address: str) -> Opened:
    """The number at an address, opened."""
    name, index = read_address(address)
    if name == "loss":
        return _loss(c, index)
    kind = c.kind(name)
    value = float(c.tensor(name)[_checked(c, name, index)])
    if kind != "point":
        return Opened(
            address=written(name, index), kind=kind, value=value,
            symbol=rf"\mathrm{{{name.rpartition('.')[2].replace('_', ' ')}}}",
            meaning=MEANINGS[kind], formula="",
            symbols={}, expression=None, python=_python(c, name, index),
        )  # fmt: skip
    scope, _, point = name.rpartition(".")
    part, variant = entry(name).partition(".")[0], variant_of(c.network, scope)
    expression = OPENINGS[part](c, scope, point, index)
    template = CATALOGUE[entry(name)].template(c.siblings(scope) | set(variant.words))
    return Opened(
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


def _loss(c: Computation, index: Index) -> Opened:
    """-log p of the target."""
    if c.targets is None:
        raise InputError("loss: this run has no targets, or no probabilities to take them from")
    if len(index) != c.targets.dim() or any(
        not 0 <= i < size for i, size in zip(index, c.targets.shape, strict=False)
    ):
        raise InputError(f"loss: the targets have the shape {tuple(c.targets.shape)}")
    target = int(c.targets[index])
    scope = f"{c.network.output_point.rpartition('.')[0]}.softmax"
    logits = c.tensor(c.softmax_of(scope))
    if not 0 <= target < logits.shape[-1]:
        raise InputError(f"{written('loss', index)}: there is no target at this place")
    probability = c.number("probabilities", f"{scope}.probabilities", *index, target)
    return Opened(
        address=written("loss", index), kind="point", value=-math.log(probability.value),
        symbol=LOSS.symbol, meaning=LOSS.meaning, formula=fill(LOSS.formula, "softmax"),
        symbols=_symbols(probability, "softmax"),
        expression=times(constant("-1", -1), apply("log", probability)),
        python=f'-trace["{c.softmax_of(scope)}"].log_softmax(-1)'
        f"[{', '.join(map(str, (*index, target)))}]",
    )  # fmt: skip


def _checked(c: Computation, name: str, index: Index) -> Index:
    shape = tuple(c.tensor(name).shape)
    if len(index) == len(shape) and all(
        0 <= i < size for i, size in zip(index, shape, strict=True)
    ):
        return index
    asked = f"[{', '.join(map(str, index))}]" if index else "no index"
    if not shape:
        raise InputError(f"{name} is one number; leave the index {asked} out")
    largest = ", ".join(str(size - 1) for size in shape)
    raise InputError(
        f"{name} has the shape {shape}, and {asked} is not in it; "
        f"give one place for each axis, at most [{largest}]"
    )


def _symbols(
    expression: Expression | None, part: str, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """How each name of an expression is written in a formula. own: of this part alone."""
    names = {one.name for one in leaves(expression) if not isinstance(one, Rest)}
    return {name: fill(f"<{name}>", part, own) for name in sorted(names)}


def _python(c: Computation, name: str, index: Index) -> str:
    """How to get the number from `trace = model.trace(text)`."""
    at = f"[{', '.join(map(str, index))}]" if index else ""
    if name in c.points:
        return f'trace["{name}"]{at}'
    match c.kind(name):
        case "parameter":
            stored = name in c.network.state_dict()
            weight = f'state_dict()["{name}"]' if stored else f'get_buffer("{name}")'
            path, _, own = name.rpartition(".")
            if isinstance(c.module(path), AdaptedLinear):  # which adds its adapter's
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
