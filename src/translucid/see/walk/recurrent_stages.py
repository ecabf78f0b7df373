"""The stages of recurrent layers: gates and states, and the bridge from encoder to decoder."""

from collections.abc import Sequence
from typing import Any

import torch

from translucid.core.catalogue import describe
from translucid.see.text_trace import TextTrace
from translucid.see.walk.data import Stage, along, at, ratio
from translucid.see.walk.stage_parts import (
    Chosen,
    chapter_of,
    layer_of,
    points_of,
    size_rows,
    stack_of,
    titled,
    vector_rows,
)
from translucid.tasks.outputs import Cell, OutputRow, floats

CELLS = {
    "lstm": (
        "LSTM",
        "Reads token by token and carries a memory, the cell, along. At each token three gates "
        "stand between 0 (closed) and 1 (open).",
    ),
    "gru": (
        "GRU",
        "Reads token by token and carries a state along. At each token two gates stand between 0 "
        "(closed) and 1 (open).",
    ),
    "rnn": (
        "RNN",
        "Reads token by token and carries a state along. It has no gates: each token and the state "
        "so far make the new state. The values: how far it moved, as a fraction of its length.",
    ),
}
# The gates in the order people ask for them, with what an open one does.
GATES = {
    "lstm": {"forget_gate": "keeps", "input_gate": "writes", "output_gate": "shows"},
    "gru": {"update_gate": "keeps", "reset_gate": "hears"},
}


def cell_stage(reading: TextTrace, name: str, names: Sequence[str], chosen: Chosen) -> Stage:
    scope = name.rpartition(".")[0]
    part = scope.rpartition(".")[2]
    what, sentence = CELLS[part]
    ways = {"forward": ", left to right", "backward": ", right to left"}
    way = ways.get(scope.split(".")[-2], "")
    labels = along(reading, name)
    if part == "rnn":
        parts = at(reading, name) | {"rows": _moved(reading, name, labels)}
    else:
        parts = _gates(reading, scope, GATES[part], labels)
    return Stage(
        "sizes" if part == "rnn" else "gates", chapter_of(reading, name),
        titled(name, what + way), sentence, layer=layer_of(name), **parts,
        points=points_of(reading, scope, names, chosen),
    )  # fmt: skip


def _gates(
    reading: TextTrace, scope: str, gates: dict[str, str], labels: Sequence[str]
) -> dict[str, Any]:
    means = {
        does: floats(reading[f"{scope}.{gate}"][0].float().mean(-1)) for gate, does in gates.items()
    }
    rows = tuple(
        OutputRow(label, tuple(Cell(does, values[place]) for does, values in means.items()))
        for place, label in enumerate(labels)
    )
    happened = _most_open(means, labels, _start(reading, scope, labels))
    meanings = [f"{does}: {describe(f'{scope}.{gate}').meaning}" for gate, does in gates.items()]
    where = at(reading, f"{scope}.{next(iter(gates))}")
    return where | {"rows": rows, "happened": happened, "meaning": "; ".join(meanings)}


def _start(reading: TextTrace, scope: str, labels: Sequence[str]) -> int | None:
    """Which token is read first, where the memory is still empty; after an encoder it is not."""
    if stack_of(scope) == "decoder" and reading.words.source:
        return None
    return len(labels) - 1 if "backward" in scope.split(".") else 0


def _most_open(means: dict[str, list[float]], labels: Sequence[str], start: int | None) -> str:
    """Where most was forgotten, but not where there was nothing to forget; and the like."""
    keeps, other, *_ = means
    places = [place for place in range(len(labels)) if place != start]
    remarks = []
    if places:
        lowest = min(places, key=means[keeps].__getitem__)
        kept = f"{keeps} {means[keeps][lowest]:.2f}"
        if start is not None and means[keeps][start] < means[keeps][lowest]:
            kept += f"; {labels[start]!r} is read first, when there is nothing to forget"
        remarks = [f"at {labels[lowest]!r} most is forgotten ({kept})"]
    highest = max(range(len(labels)), key=means[other].__getitem__)
    remarks.append(f"at {labels[highest]!r} it {other} most ({means[other][highest]:.2f})")
    return "; ".join(remarks)


def _moved(reading: TextTrace, name: str, labels: Sequence[str]) -> tuple[OutputRow, ...]:
    """How far each token moves a state, as a fraction of the state's length after it."""
    states = reading[name][0]  # (length, hidden)
    backward = "backward" in name.split(".")
    start = states.new_zeros(1, states.shape[-1])
    bridge = f"{name.partition('.recurrent.')[0]}.bridge."
    layer = int(name.partition(".layers.")[2].partition(".")[0])
    if f"{bridge}hidden" in reading:
        start = reading[f"{bridge}hidden"]
    elif f"{bridge}copied_hidden" in reading:
        start = reading[f"{bridge}copied_hidden"][:, layer]
    before = torch.cat([states[1:], start]) if backward else torch.cat([start, states[:-1]])
    return size_rows(ratio(states - before, states), labels)


def bridge_stage(reading: TextTrace, name: str) -> Stage:
    sentence = (
        "All that was read is now in one state. The decoder starts from it: a sentence in "
        f"{reading[name].shape[-1]:,} values."
    )
    return Stage("vectors", chapter_of(reading, name), titled(name, "bridge"), sentence,
                 **at(reading, name), rows=vector_rows(reading[name], ("start",)))  # fmt: skip
