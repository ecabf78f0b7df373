"""Mean and spread of each token's vector before and after normalisation."""

import re

import numpy as np
import torch
from torch import Tensor

from translucid.core.catalogue import entry
from translucid.core.errors import InputError
from translucid.models.base import EncoderModel, Network
from translucid.models.ensemble import Ensemble
from translucid.parts.computation import Computation
from translucid.parts.norms import Norm
from translucid.see.pictures import Axis, Grid, Heat, Lines, Numbers, Scale
from translucid.see.text_trace import TextTrace
from translucid.see.trace_pictures import numbers, window

Pair = tuple[Numbers, Numbers]  # before and after, each (words,)


def before_and_after(
    reading: TextTrace, pattern: str | None = None, *, tokens: tuple[int, int] | None = None
) -> Lines | Grid:
    """Draw mean and spread (standard deviation) of each token's vector before and after a norm: a
    line chart for one norm, tables for several.

    pattern: trace points whose norms to show, such as `*.layers.0.*` or `*.final_norm.*`; by
    default all norms of the stack that the output head reads.
    """
    names = _norms(reading, pattern)
    over = {reading.words.along(f"{name}.output", "length") for name in names}
    if len(over) > 1:
        raise InputError(
            "some of these norms process the source and others the target; pass "
            "pattern='encoder.*' or 'decoder.*'"
        )
    words = over.pop()
    notes: list[str] = []
    first, last = window(len(words), tokens, notes)
    statistics = [_statistics(reading, name, first, last) for name in names]
    x = Axis("token", words[first:last])
    if len(names) == 1:
        return _lines(names[0], x, statistics[0], "; ".join(notes))
    return _tables(names, x, statistics, notes)


def _lines(name: str, x: Axis, statistics: tuple[Pair, Pair], note: str) -> Lines:
    (mean_before, mean_after), (spread_before, spread_after) = statistics
    series = {
        "mean before": mean_before,
        "mean after": mean_after,
        "spread before": spread_before,
        "spread after": spread_after,
    }
    title = f"Each token's vector before and after {name}"
    return Lines(title, x, "mean and spread of a vector's values", series, note=note)


def _tables(
    names: list[str], x: Axis, statistics: list[tuple[Pair, Pair]], notes: list[str]
) -> Grid:
    """Draw tables with one row per norm; the values before and after the norms have the same colour
    scale."""
    rows = Axis("norm", tuple(_short(name) for name in names))
    scales: dict[str, Scale] = {"mean": "signed", "spread": "positive"}
    heats: list[Heat] = []
    for place, (what, scale) in enumerate(scales.items()):
        tables = [np.stack([both[place][when] for both in statistics]) for when in (0, 1)]
        most = float(max(np.nanmax(np.abs(table)) for table in tables)) or None
        notes = [*notes, f"the largest absolute {what} is {most or 0:.3g}"]
        heats += [
            Heat(f"{what} {when}", table, rows, x, scale, most)
            for when, table in zip(("before", "after"), tables, strict=True)
        ]
    side = next(part for part in names[0].split(".") if part in ("encoder", "decoder"))
    title = f"Mean and spread of each token's vector, before and after each norm of the {side}"
    return Grid(title, tuple(heats), 2, "; ".join(notes))


def _norms(reading: TextTrace, pattern: str | None) -> list[str]:
    """The norms that match a pattern, in network order."""
    network = reading.network
    named = reading.names(f"*{_side(network)}.*" if pattern is None else pattern)
    scopes = dict.fromkeys(
        name.rpartition(".")[0] for name in named if entry(name).startswith("norm.")
    )
    names = [name for name in scopes if _normalises(network, name)]
    if not names:
        every = [name for name, _ in network.named_modules() if _normalises(network, name)]
        if not every:
            raise InputError("this network has no norms to show")
        raise InputError(
            f"the trace has no norm that matches {pattern or '*'!r}; the network's norms are "
            + ", ".join(f"{name}.*" for name in every)
        )
    return names


def _side(network: Network) -> str:
    """The name of the stack that the output head reads."""
    one = network.networks()[0] if isinstance(network, Ensemble) else network
    return "encoder" if isinstance(one, EncoderModel) else "decoder"


def _normalises(network: Network, name: str) -> bool:
    norm = network.get_submodule(name)
    return isinstance(norm, Norm) and bool(norm.neutral)


def _statistics(reading: TextTrace, name: str, first: int, last: int) -> tuple[Pair, Pair]:
    """Statistics of a norm: (mean before, mean after), (spread before, spread after)."""
    ways = [reading[_input(reading, name)], reading[f"{name}.output"]]
    shown = [_wide(value[0, first:last]) for value in ways]
    before, after = ((numbers(x.mean(dim=-1)), numbers(x.std(dim=-1, correction=0))) for x in shown)
    return (before[0], after[0]), (before[1], after[1])


def _input(reading: TextTrace, name: str) -> str:
    """The trace point that contains the input of a norm: the residual stream before the residual
    connection. Editing the connection's `skip` does not change this point."""
    run = Computation(reading.network, reading, {})
    read = run.reads(name)
    return run.reads(read.removesuffix(".skip")) if read.endswith(".skip") else read


def _wide(value: Tensor) -> Tensor:
    """Convert values to float32; float64 values stay in float64."""
    return value if value.dtype is torch.float64 else value.float()


def _short(name: str) -> str:
    """A norm in words:

    members.1.decoder.layers.0.self_attention_residual.norm -> member 1 layer 0 self attention
    """
    short = re.sub(r"(member|layer)s\.(\d+)\.", r"\1 \2 ", name)
    short = re.sub(r"(encoder|decoder)\.|_residual|[._]norm$", "", short)
    return short.replace("_", " ")
