"""Attribution of a logit for the page: contributions of parts, the logit lens, and saliency."""

import math
from typing import Any

from torch import Tensor

from translucid.core.errors import InputError
from translucid.see.contributions import Contribution, contributions
from translucid.see.lens import lens
from translucid.see.reading import Reading
from translucid.see.saliency import Saliency, saliencies, saliency
from translucid.studio.text_runs import Run

# The points that contributions and the lens use.
NEEDED = (
    ".pattern", ".value", "feedforward.output", "norm.variance", "norm.rms", "norm.mean",
    "norm.output", "residual.skip", "feedforward_residual.sum",
)  # fmt: skip
TOGETHER = 256  # maximum tokens per saliency batch, over all positions


def parts(run: Run, position: int, output: int) -> dict[str, Any]:
    """What each part adds to a logit. Together with the remainder and rounding, these values sum
    to the logit. `by_token`: what all heads together contribute from each token that they attend
    to."""
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
    """Which text a head attends to, "source" or "target"; "" for parts that are not heads."""
    if one.head is None:
        return ""
    across = one.part.endswith("cross_attention") or run.example.target is None
    return "source" if across else "target"


def layers(run: Run, position: int) -> dict[str, Any]:
    """The logit lens: the prediction at a position if the model stopped after each layer."""
    if not run.outputs.at_positions:
        raise InputError(
            "the logit lens needs an output at each position, but this model has one per text"
        )
    reading = _reading(run, position)
    count = len(reading.labels)
    if position >= count:
        raise InputError(f"position: must be between 0 and {count - 1}, not {position}")
    heat = lens(reading, 1, tokens=(position, position + 1))
    return {
        "position": position, "after": list(heat.rows.labels),
        "words": [row[0] for row in heat.texts or ()],
        "probabilities": [float(row[0]) for row in heat.values],
        "right": [row for row, _ in heat.frames],
    }  # fmt: skip


def inputs(run: Run, position: int) -> dict[str, Any]:
    """Gradient × input: how much each input token contributes to the output at a position."""
    if run.edit:
        raise InputError("saliency needs the model as trained; switch all parts on again")
    example, read = run.example, _saliency(run, position)
    values = [float(value) for value in read.values]
    sources = len(example.words.source or example.words.features)
    return {
        "position": position, "word": read.answer.name, "value": read.value, "unit": read.unit,
        "source": values[:sources], "target": values[sources:],
        "largest": max(map(abs, values), default=math.nan),
    }  # fmt: skip


def _saliency(run: Run, position: int) -> Saliency:
    """The saliency for a position, computed in one batch with the positions after it."""
    model, example = run.opened.model, run.example
    if not run.outputs.at_positions:
        return saliency(model.network, model.task, example)
    count = len(run.kept.labels)
    if not 0 <= position < count:
        return saliency(model.network, model.task, example, of=position)  # raises an error
    if position not in run.saliency:
        some = max(1, TOGETHER // max(example.tokens, 1))
        start = position // some * some
        near = range(start, min(start + some, count))
        many = saliencies(model.network, model.task, example, near)
        run.saliency |= dict(zip(near, many, strict=True))
    return run.saliency[position]


class _LayerByLayer(Reading):
    """The points of a long text, computed one layer at a time; attention is computed only for one
    query and expanded to the full shape."""

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
