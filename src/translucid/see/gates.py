"""Gates over time: at which word a recurrent layer forgot, wrote and spoke."""

import numpy as np
import torch

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.see.of_points import MOST, numbers
from translucid.see.picture_data import Axis
from translucid.see.pictures import Grid, Heat
from translucid.tasks.words import Words

# What a layer shows of each word, top to bottom; sums before a gate are left out.
SHOWN = {
    "lstm": ("forget_gate", "input_gate", "output_gate", "candidate", "cell", "hidden"),
    "gru": ("reset_gate", "update_gate", "candidate", "hidden"),
    "rnn": ("hidden",),
}
WRITTEN = 20  # words beside which the numbers are written too


def gates(trace: Trace, words: Words, pattern: str = "*", *, unit: int | None = None) -> Grid:
    """A table for each recurrent layer that the pattern matches: gates and states by words.

    Of all units together, a gate is their mean, and a state (which is positive or negative) the
    root of its mean square; or it is what one `unit` shows.
    """
    scopes = list(
        dict.fromkeys(
            name.rpartition(".")[0]
            for name in trace.names(pattern if "*" in pattern else f"{pattern}.*")
            if name.split(".")[-2] in SHOWN
        )
    )
    if not scopes:
        raise InputError(
            f"nothing that matches {pattern!r} in this trace has gates: they belong to recurrent "
            "layers, such as decoder.recurrent.layers.0.lstm"
        )
    heats = tuple(_layer(trace, words, scope, unit) for scope in scopes)
    what = "mean of all units" if unit is None else f"unit {unit}"
    note = heats[0].note
    if unit is None:
        states = "candidate, cell, hidden: root of the mean square; above 1 as 1"
        note = "; ".join(filter(None, [states, note]))
    return Grid(f"gates and states, {what}", heats, 1, note)


def _layer(trace: Trace, words: Words, scope: str, unit: int | None) -> Heat:
    names = [
        f"{scope}.{point}"
        for point in SHOWN[scope.rpartition(".")[2]]
        if f"{scope}.{point}" in trace
    ]
    rows = np.stack([_row(trace[name][0, :MOST], name, unit) for name in names])
    read = trace[names[0]].shape[1]
    labels = words.along(names[0], "length")
    symbols = tuple(f"{describe(name).symbol}  {_short(name)}" for name in names)
    note = f"tokens 0 to {MOST - 1} of {read}" if read > MOST else ""
    texts = tuple(tuple(f"{value:.2f}" for value in row) for row in rows)
    return Heat(
        scope, rows, Axis("", symbols), Axis("tokens", labels[:MOST]),
        "unit" if unit is None else "signed", 1.0, note=note, address=f"{scope}.*",
        texts=texts if rows.shape[1] <= WRITTEN else (),
    )  # fmt: skip


def _row(value: torch.Tensor, name: str, unit: int | None) -> np.ndarray:
    if unit is not None:
        if not 0 <= unit < value.shape[1]:
            raise InputError(f"unit = {unit}: {name} has units 0 to {value.shape[1] - 1}")
        return numbers(value[:, unit])
    if name.endswith("_gate"):
        return numbers(value.mean(dim=1))
    return numbers(value.square().mean(dim=1).sqrt())


def _short(name: str) -> str:
    return name.rpartition(".")[2].removesuffix("_gate").replace("_", " ")
