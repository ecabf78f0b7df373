"""Pictures of trace points. The kind of picture follows from the point's axes in the catalogue.

Only the values that are shown are copied from the GPU.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.see.pictures import Axis, Bars, Grid, Heat, Lines, Numbers, Picture, Scale
from translucid.tasks.words import ALONG_TEXT, Words

MOST = 64  # maximum tokens along a side of a picture, or values of a vector
TILES = 144
HEADS = ("heads", "kv_heads")
RECURRENT = ("rnn", "lstm", "gru", "recurrent")  # parts drawn with time running left to right
UNIT_SCALE = ("pattern", "pool_pattern", "probabilities", "exponentials", "mask", "causal",
              "window", "padding")  # fmt: skip
SIZES = ("variance", "rms", "normaliser", "activated", "loudest")  # never (or hardly ever) negative
AXIS_NAMES = {"length": "tokens", "d_model": "dimensions", "hidden": "units"}
Head = int | Literal["mean"] | None
# Rows of a layer's table, top to bottom; the sums inside the gates are omitted.
STATES_SHOWN = {
    "lstm": ("forget_gate", "input_gate", "output_gate", "candidate", "cell", "hidden"),
    "gru": ("reset_gate", "update_gate", "candidate", "hidden"),
    "rnn": ("hidden",),
}
WRITTEN = 20  # with up to this many tokens, the cells show their numbers


def scale_of(name: str) -> Scale:
    """The colour scale for the values of a point."""
    point = name.rpartition(".")[2]
    if point in UNIT_SCALE or point.endswith("_gate"):
        return "unit"
    return "positive" if point in SIZES else "signed"


def token_axis(name: str, axes: Collection[str] = ALONG_TEXT) -> int | None:
    """The index of the first axis of a point whose name is in `axes`, by default the axis along the
    tokens. None if there is no such axis."""
    return next((place for place, axis in enumerate(describe(name).axes) if axis in axes), None)


@dataclass(frozen=True)
class FigureOptions:
    """Which heads and tokens of trace points to show."""

    words: Words
    head: Head = None
    tokens: tuple[int, int] | None = None  # the first token, and the one after the last
    gold: Sequence[tuple[int, int]] = ()  # (query, key) cells to frame

    def picture(self, values: Mapping[str, Tensor]) -> Picture:
        """Draw one point, or several points of the same shape."""
        self._check(values)
        tiles = [tile for name, value in values.items() for tile in self._tiles(name, value)]
        if len(tiles) == 1:
            return tiles[0]
        heats = tuple(tile for tile in tiles if isinstance(tile, Heat))
        if len(heats) < len(tiles):
            return self._lines_together(tiles)
        note = heats[0].note
        if len(heats) > TILES:
            more = f"{len(heats) - TILES} of {len(heats)} tables are omitted"
            note = f"{note}; {more}" if note else more
        title, short = common([heat.title for heat in heats])
        across = len(heats) // len(values)
        columns = across if len(values) > 1 else min(across, 4)
        most = {scale: _most(heats, scale) for scale in ("positive", "signed")}
        shown = tuple(
            replace(heat, title=name, most=most.get(heat.scale))
            for heat, name in zip(heats[:TILES], short, strict=False)
        )
        return Grid(title, shown, columns, note)

    def _check(self, values: Mapping[str, Tensor]) -> None:
        if self.head not in (None, "mean") and not isinstance(self.head, int):
            raise InputError(
                f'head = {self.head!r}: expected a number or "mean"; omit it for all heads'
            )
        if self.tokens is None:
            return
        numbers = isinstance(self.tokens, tuple) and all(isinstance(n, int) for n in self.tokens)
        if not numbers or len(self.tokens) != 2 or not 0 <= self.tokens[0] < self.tokens[1]:
            raise InputError(
                f"tokens = {self.tokens}: expected the first token and the one after the last, "
                "such as (0, 64)"
            )
        sizes = [
            size
            for name, value in values.items()
            for axis, size in zip(describe(name).axes, value.shape, strict=False)
            if axis in ALONG_TEXT
        ]
        if sizes and self.tokens[0] >= max(sizes):
            raise InputError(f"tokens = {self.tokens}: the text has tokens 0 to {max(sizes) - 1}")

    def _lines_together(self, tiles: Sequence[Picture]) -> Picture:
        lines = [tile for tile in tiles if isinstance(tile, Lines)]
        if len(lines) < len(tiles) or len({line.x for line in lines}) > 1:
            kinds = ", ".join(sorted({type(tile).__name__.lower() for tile in tiles}))
            raise InputError(
                f"these points cannot be drawn in one picture ({kinds}); use a narrower pattern"
            )
        title, short = common([line.title for line in lines])
        drawn = [values for line in lines for values in line.series.values()]
        series = dict(zip(short, drawn, strict=True))
        return Lines(title, lines[0].x, lines[0].y, series, note=lines[0].note)

    def _tiles(self, name: str, value: Tensor) -> list[Heat | Lines | Bars]:
        """Draw one picture per head or, for other points with three axes, per first index."""
        point = describe(name)
        axes = list(point.axes)
        if value.dim() != len(axes):
            axes = [f"axis {number}" for number in range(value.dim())]
        if axes and axes[0] == "batch":
            value, axes = value[0], axes[1:]
        keep = [
            place
            for place, axis in enumerate(axes)
            if value.shape[place] > 1 or axis in (*ALONG_TEXT, *HEADS)
        ]
        value = value.reshape([value.shape[place] for place in keep])
        axes = [axes[place] for place in keep]
        if axes and axes[0] in HEADS:
            value, heads = self._heads(name, value)
            axes = axes[1:]
            return [
                self._flat(name, f"{name}{f' head {head}' if head != '' else ''}", part, axes)
                for head, part in zip(heads, value, strict=True)
            ]
        if len(axes) == 3:
            labels = self.words.along(name, axes[0]) or tuple(map(str, range(value.shape[0])))
            return [
                self._flat(name, f"{name} {label}", part, axes[1:])
                for label, part in zip(labels, value, strict=False)
            ]
        return [self._flat(name, name, value, axes)]

    def _heads(self, name: str, value: Tensor) -> tuple[Tensor, list[int | str]]:
        count = value.shape[0]
        if self.head is None:
            return value, list(range(count)) if count > 1 else [""]
        if self.head == "mean":
            return value.float().mean(0, keepdim=True), ["mean"]
        if not 0 <= self.head < count:
            raise InputError(f"head = {self.head}: {name} has heads 0 to {count - 1}")
        return value[self.head][None], [self.head]

    def _flat(self, name: str, title: str, value: Tensor, axes: list[str]) -> Heat | Lines | Bars:
        """Draw values without a head axis as a table, a line over tokens, or bars."""
        if len(axes) > 2:
            raise InputError(
                f"{name}: a point with {len(axes)} axes ({', '.join(axes)}) cannot be drawn"
            )
        if len(axes) < 2:
            return self._thin(name, title, value, axes)
        notes: list[str] = []
        sides = []
        for place, axis in enumerate(axes):
            value, labels = self._side(name, value, axis, place, notes)
            sides.append(Axis(_axis_name(axis), labels))
        values = numbers(value)
        frames = tuple(self.gold) if axes == ["queries", "keys"] else ()
        heat = Heat(
            title, values, sides[0], sides[1], scale_of(name), frames=frames,
            note="; ".join(notes), address=name,
        )  # fmt: skip
        if name.split(".")[-2] in RECURRENT:
            return replace(heat, values=values.T, rows=heat.columns, columns=heat.rows)
        return heat

    def _thin(self, name: str, title: str, value: Tensor, axes: list[str]) -> Lines | Bars:
        notes: list[str] = []
        if not axes:
            return Bars(title, "", ("",), numbers(value.reshape(1)))
        value, labels = self._side(name, value, axes[0], 0, notes)
        along, note = _axis_name(axes[0]), "; ".join(notes)
        if axes[0] in ALONG_TEXT:
            return Lines(title, Axis(along, labels), describe(name).meaning,
                         {title: numbers(value)}, note=note)  # fmt: skip
        return Bars(title, describe(name).meaning, labels, numbers(value), note)

    def _side(
        self, name: str, value: Tensor, axis: str, place: int, notes: list[str]
    ) -> tuple[Tensor, tuple[str, ...]]:
        """Cut one axis to a readable size and label it; a note says what was omitted."""
        size = value.shape[place]
        labels = self.words.along(name, axis)
        if axis in ALONG_TEXT:
            shorter = self.tokens is not None and self.tokens[0] >= size
            first, last = window(size, None if shorter else self.tokens, notes)
            value = value.narrow(place, first, last - first)
            if len(labels) != size:
                labels = tuple(map(str, range(size))) if size > 1 else ("all",)
            return value, labels[first:last]
        if labels and len(labels) == size and size <= MOST:
            return value, labels
        if size <= MOST:
            return value, tuple(map(str, range(size)))
        pool = -(-size // MOST)
        notes.append(
            f"each cell is the largest of {pool} of {size} values along {axis.replace('_', ' ')}"
        )
        return pooled(value, place, pool), tuple(str(at) for at in range(0, size, pool))


def window(size: int, tokens: tuple[int, int] | None, notes: list[str]) -> tuple[int, int]:
    """The range of tokens to show: the first, and the one after the last. If tokens are omitted,
    add a note to `notes`."""
    if tokens is not None and not 0 <= tokens[0] < min(tokens[1], size):
        raise InputError(
            f"tokens = {tokens}: expected (first, end) with 0 <= first < {size} tokens and "
            "first < end; the end is not included"
        )
    first, last = tokens or (0, size)
    last = min(last, size, first + MOST)
    note = f"tokens {first} to {last - 1} of {size}; tokens=(a, b) shows others"
    if last - first < size and note not in notes:
        notes.append(note)
    return first, last


def numbers(value: Tensor) -> Numbers:
    """Convert values to a NumPy array in double precision, with nan for infinity."""
    array: Numbers = value.detach().to("cpu", torch.float64).numpy().copy()
    array[~np.isfinite(array)] = np.nan
    return array


def pooled(value: Tensor, place: int, size: int) -> Tensor:
    """Pool groups of `size` neighbours along an axis to the value of largest magnitude."""
    value = value.float().movedim(place, -1)
    short = -value.shape[-1] % size
    if short:
        value = torch.nn.functional.pad(value, (0, short))
    groups = value.unflatten(-1, (-1, size))
    most, least = groups.amax(-1), groups.amin(-1)  # faster than argmax
    return torch.where(most >= -least, most, least).movedim(-1, place)


def _axis_name(axis: str) -> str:
    return AXIS_NAMES.get(axis, axis.replace("_", " "))


def _most(heats: Sequence[Heat], scale: str) -> float | None:
    """The largest magnitude in all tables with this kind of scale, so that these tables can share
    one colour scale. None if there is none."""
    sizes = [np.nanmax(np.abs(heat.values)) for heat in heats if heat.scale == scale]
    return float(max(sizes)) or None if sizes else None


def common(titles: Sequence[str]) -> tuple[str, list[str]]:
    """Split titles into their common part and the part specific to each.

    a.layers.0.x head 1, a.layers.1.x head 0 -> a.layers.*.x, each head; layer 0, head 1; ...
    """
    parts = [re.split(r"[. ]", title) for title in titles]
    if len({len(names) for names in parts}) > 1:
        return f"{titles[0]} and {len(titles) - 1} more", list(titles)
    same = [len(set(column)) == 1 for column in zip(*parts, strict=True)]
    whole = ".".join(part if one else "*" for part, one in zip(parts[0], same, strict=True))
    return whole.replace(".head.*", ", each head"), [_own(names, same) for names in parts]


def _own(parts: list[str], same: list[bool]) -> str:
    prefixes = {"layers": "layer ", "head": "head ", "members": "member "}
    return ", ".join(
        prefixes.get(before, "") + part
        for before, part, one in zip(["", *parts], parts, same, strict=False)
        if not one
    )


def gates(trace: Trace, words: Words, pattern: str = "*", *, unit: int | None = None) -> Grid:
    """Draw a table of gates and states by token for each recurrent layer that matches the pattern.

    Without `unit`, gates are averaged over all units, and states are shown as root mean squares.
    """
    scopes = list(
        dict.fromkeys(
            name.rpartition(".")[0]
            for name in trace.names(pattern if "*" in pattern else f"{pattern}.*")
            if name.split(".")[-2] in STATES_SHOWN
        )
    )
    if not scopes:
        raise InputError(
            f"no recurrent layer in this trace matches {pattern!r}; gates belong to layers such as "
            "decoder.recurrent.layers.0.lstm"
        )
    heats = tuple(_gates_of_layer(trace, words, scope, unit) for scope in scopes)
    what = "mean of all units" if unit is None else f"unit {unit}"
    note = heats[0].note
    if unit is None:
        states = "candidate, cell, hidden: root mean square; values above 1 are shown as 1"
        note = "; ".join(filter(None, [states, note]))
    return Grid(f"gates and states, {what}", heats, 1, note)


def _gates_of_layer(trace: Trace, words: Words, scope: str, unit: int | None) -> Heat:
    names = [
        f"{scope}.{point}"
        for point in STATES_SHOWN[scope.rpartition(".")[2]]
        if f"{scope}.{point}" in trace
    ]
    rows = np.stack([_gate_row(trace[name][0, :MOST], name, unit) for name in names])
    read = trace[names[0]].shape[1]
    labels = words.along(names[0], "length")
    symbols = tuple(f"{describe(name).symbol}  {_gate_name(name)}" for name in names)
    note = f"tokens 0 to {MOST - 1} of {read}" if read > MOST else ""
    texts = tuple(tuple(f"{value:.2f}" for value in row) for row in rows)
    return Heat(
        scope, rows, Axis("", symbols), Axis("tokens", labels[:MOST]),
        "unit" if unit is None else "signed", 1.0, note=note, address=f"{scope}.*",
        texts=texts if rows.shape[1] <= WRITTEN else (),
    )  # fmt: skip


def _gate_row(value: torch.Tensor, name: str, unit: int | None) -> np.ndarray:
    if unit is not None:
        if not 0 <= unit < value.shape[1]:
            raise InputError(f"unit = {unit}: {name} has units 0 to {value.shape[1] - 1}")
        return numbers(value[:, unit])
    if name.endswith("_gate"):
        return numbers(value.mean(dim=1))
    return numbers(value.square().mean(dim=1).sqrt())


def _gate_name(name: str) -> str:
    return name.rpartition(".")[2].removesuffix("_gate").replace("_", " ")
