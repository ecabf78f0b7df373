"""Differences between two runs of a model, by trace point and by token."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.core.trace import Trace, matching
from translucid.see.pictures import Axis, Grid, Heat, Scale
from translucid.see.text_trace import TextTrace
from translucid.see.trace_pictures import numbers, token_axis, window

ROUNDING = 1e-6  # relative difference that can be due to the order of additions
SHOWN = 4  # how many points with different shapes to list
# The values passed between layers: embeddings, then the residual stream or recurrent states.
STREAM = (
    "*embedding.lookup", "*characters.sum", "*positions.output", "*_residual.sum",
    "*final_norm.output", "*.rnn.hidden", "*.lstm.hidden", "*.gru.hidden", "*alignment.output",
)  # fmt: skip


@dataclass(frozen=True)
class PointDifference:
    """How much two runs differ at one trace point."""

    name: str
    most: float  # the largest absolute difference of two values
    relative: float  # ‖a - b‖ / ‖a‖
    cosine: float  # 1: same direction; nan where one of them is 0

    @property
    def differs(self) -> bool:
        """Whether the runs differ by more than rounding error."""
        return not self.relative <= ROUNDING


@dataclass(frozen=True)
class TraceDifference:
    """Two runs, compared at every trace point that has the same shape in both."""

    names: tuple[str, ...]  # the compared points, in model order
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    shapes: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]  # where shapes differ
    a: Trace = field(repr=False)
    b: Trace = field(repr=False)

    @cached_property
    def points(self) -> tuple[PointDifference, ...]:
        return tuple(self.at(name) for name in self.names)

    def at(self, name: str) -> PointDifference:
        """The difference between the runs at a given trace point."""
        a, b = _comparable(self.a[name], self.b[name])
        gap = (a - b).flatten()
        a, b = a.flatten(), b.flatten()
        cosine = float((a @ b / (a.norm() * b.norm())).clamp(-1, 1))
        most = float(gap.abs().max()) if gap.numel() else 0.0
        return PointDifference(name, most, float(_relative(gap.norm(), a.norm())), cosine)

    @cached_property
    def first(self) -> PointDifference | None:
        """The first point, in model order, at which the runs differ."""
        unlike = (name for name in self.names if not _identical(self.a[name], self.b[name]))
        return next((point for point in map(self.at, unlike) if point.differs), None)

    @property
    def widest(self) -> PointDifference | None:
        """The point with the largest relative difference."""
        changed = [point for point in self.points if point.differs]
        return max(changed, key=lambda point: point.relative, default=None)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        first, widest = self.first, self.widest
        if self.shapes:
            every = len(self.points) + len(self.shapes)
            yield (
                f"{len(self.shapes)} of {every} points have different shapes in the two runs and "
                "are not compared; choose texts with the same number of tokens"
            )
        if first is None:
            yield (
                f"no difference at {len(self.points)} points"
                if self.points
                else "no point was compared"
            )
        else:
            yield f"first differs at {first.name}"
            wide = max(len(point.name) for point in self.points)
            yield f"{'point':<{wide}}  {'largest':>9}  {'relative':>9}  {'cosine':>8}"
            for differs, run in groupby(self.points, key=lambda point: point.differs):
                points = list(run)
                if not differs:
                    yield f"  ({len(points)} point{'s'[: len(points) - 1]} the same)"
                    continue
                for point in points:
                    yield (
                        f"{point.name:<{wide}}  {point.most:>9.3g}  {point.relative:>9.3g}  "
                        f"{point.cosine:>8.4f}{_mark(point, first, widest)}"
                    )
        for name, ours, theirs in self.shapes[:SHOWN]:
            yield f"not compared: {name} has shape {ours} in one run and {theirs} in the other"
        if len(self.shapes) > SHOWN:
            yield f"... and {len(self.shapes) - SHOWN} more"
        for names, where in ((self.only_a, "first"), (self.only_b, "second")):
            if names:
                yield f"only in the {where} run: {', '.join(names)}"

    def picture(
        self, pattern: str | Sequence[str] = STREAM, *, tokens: tuple[int, int] | None = None
    ) -> Heat | Grid:
        """A map of how far each token's vector has moved at each depth, relative to its length.

        pattern: the points to show, by default the values passed between layers. tokens: the range
        to show, (first, last + 1). A translation model gets one table per text.
        """
        sides = self.sides(pattern)
        note = "‖a - b‖ / ‖a‖ of each token's vector"
        if self.a[sides[0][0]].shape[0] > 1:
            note += "; only the first text of the batch is shown"

        def rows(names: Sequence[str], start: int, stop: int) -> Tensor:
            return _moved(self.a, self.b, names, start, stop)

        return self.token_maps(sides, "How far each token{} has moved", rows, "positive", note,
                               tokens)  # fmt: skip

    def token_maps(
        self,
        sides: Sequence[Sequence[str]],
        title: str,
        rows: Callable[[Sequence[str], int, int], Tensor],
        scale: Scale,
        note: str,
        tokens: tuple[int, int] | None,
    ) -> Heat | Grid:
        """Draw a table of depths by tokens for each text, all with the same colour scale.

        title: format string with {} for the name of the text. rows: function from the points of a
        text and a token range to the values, (points, tokens).
        """
        heats = []
        for names in sides:
            side, notes = names[0].partition(".")[0], [note]
            start, stop = window(self._side(names[0])[1], tokens, notes)
            heats.append(
                Heat(
                    title.format(f" of the {side}"),
                    numbers(rows(names, start, stop)),
                    Axis("depth", tuple(map(depth, names))),
                    Axis("tokens", self.tokens_along(names[0])[start:stop]),
                    scale,
                    note="; ".join(notes),
                    address=side,
                )
            )
        if len(heats) == 1:
            return heats[0]
        most = max(float(np.nan_to_num(abs(heat.values)).max()) for heat in heats) or None
        one_scale = tuple(replace(heat, title=heat.address, most=most) for heat in heats)
        return Grid(title.format(""), one_scale, len(heats), one_scale[0].note)

    def sides(self, pattern: str | Sequence[str] = STREAM) -> list[list[str]]:
        """The points with a vector for each token, grouped by the text they belong to."""
        globs = (pattern,) if isinstance(pattern, str) else tuple(pattern)
        shown = _along_tokens(self.names, globs)
        if not shown:
            raise InputError(
                "no point has a vector for each token in both runs; choose texts with the same "
                "number of tokens, and keep such points in both traces (looked for "
                f"{', '.join(globs)})"
            )
        return [list(names) for _, names in groupby(sorted(shown, key=self._side), key=self._side)]

    def _side(self, name: str) -> tuple[bool, int]:
        """A sort key for the text that a point belongs to; the encoder's text comes first."""
        return "encoder" not in name.split("."), self.a[name].shape[_along(name) or 0]

    def tokens_along(self, name: str) -> tuple[str, ...]:
        """The token at each position of a point; where the texts differ, both tokens."""
        size = self.a[name].shape[_along(name) or 0]
        axis = describe(name).axes[_along(name) or 0]
        both = [
            trace.words.along(name, axis)
            for trace in (self.a, self.b)
            if isinstance(trace, TextTrace)
        ]
        if not both or any(len(words) != size for words in both):
            return tuple(map(str, range(size)))
        return tuple(" | ".join(dict.fromkeys(here)) for here in zip(*both, strict=True))


def difference(a: Trace, b: Trace, pattern: str = "*") -> TraceDifference:
    """Compare two traces at every point that both contain and that matches the pattern."""
    ours, theirs = a.names(pattern), b.names(pattern)
    if not ours and not theirs:
        a[pattern]  # raises an error with the nearest names
    fit, shapes = [], []
    for name in ours:
        if name in b:
            one, two = a[name], b[name]
            if one is two or one.shape == two.shape:
                fit.append(name)
            else:
                shapes.append((name, tuple(one.shape), tuple(two.shape)))
    return TraceDifference(
        tuple(fit),
        tuple(name for name in ours if name not in b),
        tuple(name for name in theirs if name not in a),
        tuple(shapes),
        a,
        b,
    )


def _identical(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal bit for bit. This test is cheaper than computing their
    difference."""
    return a is b or (a.dtype == b.dtype and a.device == b.device and torch.equal(a, b))


def _comparable(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Convert both to double precision on one device; entries infinite in both become 0."""
    a, b = a.detach().double(), b.detach().to(a.device).double()
    same = (a == b) & a.isinf()
    return a.masked_fill(same, 0.0), b.masked_fill(same, 0.0)


def _relative(gap: Tensor, size: Tensor) -> Tensor:
    """Divide gap by size, with 0 / 0 = 0."""
    return torch.where(gap == 0, 0.0, gap / size)


@lru_cache(4096)
def _along(name: str) -> int | None:
    """The axis of a point that runs along the tokens of its text, if any."""
    return token_axis(name, ("length", "queries"))


@lru_cache(64)
def _along_tokens(names: tuple[str, ...], globs: tuple[str, ...]) -> tuple[str, ...]:
    """The names that match a glob and have an axis along the tokens."""
    chosen = {name for glob in globs for name in matching(names, glob)}
    return tuple(name for name in names if name in chosen and _along(name))


def _moved(a: Trace, b: Trace, names: Sequence[str], start: int, stop: int) -> Tensor:
    """The relative difference of each token's vector, for the first text of a batch.
    (points, tokens)"""
    rows = torch.zeros(len(names), stop - start, dtype=torch.double)
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, name in enumerate(names):
        if not _identical(a[name], b[name]):  # points before the first change are identical
            alike.setdefault((_along(name) or 0, *a[name].shape), []).append(place)
    for (along, *_), places in alike.items():  # all points with the same shape at once
        one, two = _comparable(
            *(
                torch.stack([trace[names[place]][0] for place in places])
                .narrow(along, start, stop - start)
                .movedim(along, 1)
                .flatten(2)  # (points, tokens, values)
                for trace in (a, b)
            )
        )
        rows[places] = _relative((one - two).norm(dim=2), one.norm(dim=2)).cpu()
    return rows


@lru_cache(4096)
def depth(name: str) -> str:
    """Describe a point's depth in words:

    encoder.layers.0.self_attention_residual.sum -> layer 0, after self-attention
    """
    rest = re.sub(r"^(members\.\d+\.)?(encoder|decoder)\.(recurrent\.)?", "", name)
    layer = re.match(r"layers\.(\d+)\.(.*)", rest)
    if layer is None:
        return {
            "embedding.lookup": "embedding",
            "positions.output": "with positions",
            "characters.sum": "with characters",
            "final_norm.output": "last norm",
            "alignment.output": "after alignment",
            "head.pooled": "pooled",
            "head.embedding": "embedding of the text",
        }.get(rest, rest)
    what = layer[2]
    if what.endswith("_residual.sum"):
        block = what.removesuffix("_residual.sum").replace("_", "-")
        what = "after " + block.replace("feedforward", "feed-forward")
    elif what.endswith(("attention.output", "feedforward.output")):
        what = what.replace("_", "-").replace("feedforward", "feed-forward")
    return f"layer {layer[1]}, {what.replace('.', ' ')}"


def _mark(point: PointDifference, first: PointDifference, widest: PointDifference | None) -> str:
    marks = [
        words
        for which, words in ((first, "first"), (widest, "widest"))
        if which is not None and point.name == which.name
    ]
    return f"  <- {' and '.join(marks)}" if marks else ""
