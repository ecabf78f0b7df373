"""A walk through a model as data: stage after stage, each with what it is and what happened there.

The text in the terminal, the page and the JSON are all written from these.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.see.text_trace import TextTrace
from translucid.tasks.outputs import Cell, OutputRow, floats

# What the rows of a stage hold: the number of a token; numbers that go in or come out; the first
# values of a vector and its length; where a token looks; how open its gates are; one number for
# each token; probabilities, best first.
Kind = Literal["tokens", "values", "vectors", "links", "gates", "sizes", "choices"]


NOTHING = "(nothing: it ends at once)"  # an answer without words

# Unicode categories of punctuation, and of signs such as + and $.
SIGNS = ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk")

# What a size along an axis is called.
AXES = {"length": "tokens", "queries": "tokens", "keys": "tokens", "heads": "heads",
        "vocab": "scores", "outputs": "scores"}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """One point of the trace, for those who look closer."""

    address: str
    shape: tuple[int, ...]
    meaning: str


@dataclass(frozen=True)
class Stage:
    """One stop of the walk."""

    kind: Kind
    chapter: str
    title: str
    sentence: str  # for someone who meets this part for the first time
    address: str = ""  # the name in the trace; nothing for what goes in
    shape: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    meaning: str = ""  # as the catalogue has it
    rows: tuple[OutputRow, ...] = ()
    worked: tuple[str, ...] = ()  # the sums with their weights, where those are few
    happened: str = ""  # the most remarkable of the numbers, in words
    added: tuple[Cell, ...] = ()  # of each token: how many times as long as it what is added is
    layer: int | None = None
    heads: int = 0  # of attention
    points: tuple[Seen, ...] = ()  # all there is in this part, where one layer was asked for
    came: bool = False  # of choices: what is marked came next in a text, it was not chosen here


@dataclass(frozen=True)
class Walk:
    """Everything that happened between a text and what the model made of it."""

    task: str
    text: str
    answer: str  # what the model says; for a translator, what it was given to read
    introduction: str
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()  # what was left out
    warning: str = ""  # why the answer may be worth little; it stands beside it


def as_json(walk: Walk) -> dict[str, Any]:
    """For scripts: lists, words and numbers."""
    return asdict(walk)


def at(reading: TextTrace, address: str) -> dict[str, Any]:
    """What the trace and the catalogue know of a point, as a stage has it."""
    point = describe(address)
    shape = tuple(reading[address].shape)
    return {"address": address, "shape": shape, "axes": point.axes, "meaning": point.meaning}


def along(reading: TextTrace, address: str, axis: str = "length") -> tuple[str, ...]:
    """The tokens that stand along a point."""
    return reading.words.along(address, axis)


def quoted(label: str) -> str:
    """A token as it stands; punctuation in quotes, or it would be lost between signs of ours."""
    signs = all(unicodedata.category(letter) in SIGNS for letter in label)
    return repr(label) if signs else label


def shortened(text: str, words: int = 15, characters: int = 120) -> str:
    """The first words of a long text."""
    first = " ".join(text.split()[:words])[:characters].rstrip()
    return text.strip() if first == " ".join(text.split()) else f"{first} …"


def sized(shape: Sequence[int], axes: Sequence[str]) -> str:
    """(1, 4, 7, 7) -> 4 heads × 7 tokens × 7 tokens"""
    named = [(size, axis) for size, axis in zip(shape, axes, strict=True) if axis != "batch"]
    counted = [(size, AXES.get(axis, "values")) for size, axis in named]
    return " × ".join(f"{size:,} {what if size != 1 else what[:-1]}" for size, what in counted)


def strongest(weights: Tensor, labels: Sequence[str], most: int) -> list[tuple[Cell, ...]]:
    """Of each row (rows, labels), the entries with the largest weights."""
    top = weights.float().topk(min(most, weights.shape[-1]))
    return [
        tuple(
            Cell(labels[place], value)
            for value, place in zip(values, places, strict=True)
            if value > 0  # where a mask stands there is no link
        )
        for values, places in zip(floats(top.values), top.indices.tolist(), strict=True)
    ]


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """How long vectors are, as fractions of the length of others. (..., values) -> (...)"""
    norm = torch.linalg.vector_norm
    return norm(part.float(), dim=-1) / norm(whole.float(), dim=-1).clamp(min=1e-30)
