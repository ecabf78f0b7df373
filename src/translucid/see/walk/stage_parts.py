"""What every stage of a walk is made of: its title and chapter, its rows, and the points in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.see.text_trace import TextTrace
from translucid.see.walk.data import Seen
from translucid.tasks.outputs import Cell, OutputRow, floats

FIRST = 4  # values of a vector that are shown
LINKS, CLOSER = 2, 3  # of each token, in the walk through all layers and in one layer


@dataclass(frozen=True)
class Chosen:
    """What is to be seen closer."""

    layer: int | None = None
    head: int | None = None
    top: int = 5

    @property
    def links(self) -> int:
        """How many of each token: more, the fewer rows there are."""
        if self.layer is None:
            return LINKS
        return CLOSER if self.head is None else self.top


def stack_of(name: str) -> str:
    """Which of the model's stacks a name belongs to."""
    for stack in ("encoder", "decoder"):
        if stack in name.split("."):
            return stack
    return ""


def chapter_of(reading: TextTrace, name: str) -> str:
    both = bool(reading.words.source and reading.words.target)
    match stack_of(name):
        case "encoder":
            return "Reading the source (encoder)" if both else "Reading (encoder)"
        case "decoder":
            return "Writing the target (decoder)" if both else "Reading (decoder)"
        case _:
            return "Through the network"


def layer_of(name: str) -> int | None:
    parts = name.split(".")
    return int(parts[parts.index("layers") + 1]) if "layers" in parts else None


def titled(name: str, what: str) -> str:
    layer, stack = layer_of(name), stack_of(name)
    where = stack if layer is None else f"{stack} layer {layer}".strip()
    return f"{where}: {what}" if where else what


def vector_rows(table: Tensor, labels: Sequence[str]) -> tuple[OutputRow, ...]:
    lengths = floats(torch.linalg.vector_norm(table.float(), dim=-1))
    return tuple(
        OutputRow(label, (*(Cell("", value) for value in first), Cell("length", length)))
        for label, first, length in zip(labels, floats(table[:, :FIRST]), lengths, strict=True)
    )


def size_rows(values: Tensor, labels: Sequence[str]) -> tuple[OutputRow, ...]:
    return tuple(
        OutputRow(label, (Cell("", value),))
        for label, value in zip(labels, floats(values), strict=True)
    )


def points_of(
    reading: TextTrace, scope: str, names: Sequence[str], chosen: Chosen
) -> tuple[Seen, ...]:
    """All that a part computes, for those who look closer."""
    if chosen.layer is None:
        return ()
    scopes = (f"{scope}.", f"{scope}_residual.")
    return tuple(
        Seen(name, tuple(reading[name].shape), describe(name).meaning)
        for name in names
        if name.startswith(scopes)
    )
