"""To whom a logit of a run is owed, for the page: to parts, layer by layer, and to its inputs."""

import math
from typing import Any

from torch import Tensor

from translucid.core.errors import InputError
from translucid.see.contributions import Contribution, contributions
from translucid.see.lens import lens
from translucid.see.reading import Reading
from translucid.see.saliency import Saliency, saliencies, saliency
from translucid.studio.text_runs import Run

# What contributions and the lens read of a trace.
NEEDED = (
    ".pattern", ".value", "feedforward.output", "norm.variance", "norm.rms", "norm.mean",
    "norm.output", "residual.skip", "feedforward_residual.sum",
)  # fmt: skip
TOGETHER = 256  # tokens that are read at once for saliency, all positions together


def parts(run: Run, position: int, output: int) -> dict[str, Any]:
    """What each part adds to a logit; the values, the remainder and the rounding add up to it. And
    the same by token: what all heads together hand over from each token that they look at."""
    reading = _reading(run, position)
    contributed = contributions(reading, position, output)
    by_token: dict[str, list[float]] = {}
    for one in contributed.parts:
        side = _looked_at(run, one)
        if side:
            before = by_token.get(side, [0.0] * len(one.by_token))
            by_token[side] = [a + b for a, b in zip(before, one.by_token, strict=True)]
    return {
        "position": position, "output": output, "logit": contributed.logit,
        "word": reading.names_at(position, [output])[0],
        "parts": [
            {"part": one.part, "head": one.head, "value": one.value} for one in contributed.parts
        ],
        "by_token": by_token,
        "remainder": contributed.remainder, "rounding": contributed.rounding,
    }  # fmt: skip


def _looked_at(run: Run, one: Contribution) -> str:
    """The text whose tokens a head hands over; a part that is no head has none."""
    if one.head is None:
        return ""
    across = one.part.endswith("cross_attention") or run.example.target is None
    return "source" if across else "target"


def layers(run: Run, position: int) -> dict[str, Any]:
    """What the model would say at a position if it stopped after each layer."""
    if not run.outputs.at_positions:
        raise InputError("the lens of a position: this model says one thing of a whole text")
    reading = _reading(run, position)
    count = len(reading.labels)
    if position >= count:
        raise InputError(f"position: there are 0 to {count - 1}, not {position}")
    heat = lens(reading, 1, tokens=(position, position + 1))
    return {
        "position": position, "after": list(heat.rows.labels),
        "words": [row[0] for row in heat.texts or ()],
        "probabilities": [float(row[0]) for row in heat.values],
        "right": [row for row, _ in heat.frames],
    }  # fmt: skip


def inputs(run: Run, position: int) -> dict[str, Any]:
    """Gradient × input: how much each token that was read counted for what stands at a position."""
    if run.edit:
        raise InputError("saliency is that of the model as trained: switch all parts on again")
    example, read = run.example, _saliency(run, position)
    values = [float(value) for value in read.values]
    sources = len(example.words.source or example.words.features)
    return {
        "position": position, "word": read.answer.name, "value": read.value, "unit": read.unit,
        "source": values[:sources], "target": values[sources:],
        "largest": max(map(abs, values), default=math.nan),
    }  # fmt: skip


def _saliency(run: Run, position: int) -> Saliency:
    """That of a position; its neighbours are asked for next and cost little beside it."""
    model, example = run.opened.model, run.example
    if not run.outputs.at_positions:
        return saliency(model.network, model.task, example)
    count = len(run.kept.labels)
    if not 0 <= position < count:
        return saliency(model.network, model.task, example, of=position)  # says what is wrong
    if position not in run.saliency:
        some = max(1, TOGETHER // max(example.tokens, 1))
        start = position // some * some
        near = range(start, min(start + some, count))
        many = saliencies(model.network, model.task, example, near)
        run.saliency |= dict(zip(near, many, strict=True))
    return run.saliency[position]


class _LayerByLayer(Reading):
    """The points of a long text, which has room for those of one layer at a time; of the weights
    of attention only those of one query, whom all others look like."""

    def __init__(self, run: Run, query: int) -> None:
        model = run.opened.model
        super().__init__(model.network, model.task, run.example, keep=[])
        self.run, self.query = run, range(query, query + 1)

    def __getitem__(self, name: str) -> Tensor:
        shape, attended = self.run.shapes.get(name, ()), self.run.attended(name)
        if attended is None or self.query.stop > shape[2]:
            return self.run[name]
        own = name.rpartition(".")[2]
        return attended.points([own], range(shape[1]), self.query)[own].expand(shape)


def _reading(run: Run, position: int) -> Reading:
    if run.whole:
        return run.kept
    if run.by_kernel:
        return _LayerByLayer(run, position)
    names = [name for name in run.shapes if name.endswith(NEEDED) or name == run.output_point]
    return run.reading(names)
