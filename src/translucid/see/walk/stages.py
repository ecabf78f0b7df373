"""The stages between what goes in and what comes out, each made from the points of one part."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from translucid.see.text_trace import TextTrace
from translucid.see.walk.data import Stage, along, at, ratio
from translucid.see.walk.recurrent_stages import bridge_stage, cell_stage
from translucid.see.walk.stage_parts import (
    Chosen,
    chapter_of,
    layer_of,
    points_of,
    size_rows,
    titled,
    vector_rows,
)
from translucid.see.walk.transformer_stages import attention_stage, feedforward_stage
from translucid.see.walk.worked import worked
from translucid.tasks.outputs import OutputRow, floats

POSITIONS = {
    "encoding": "A layer that sees all tokens at once does not know their order. So each position "
    "has a vector of its own, which is added to the token's.",
    "angles": "A layer that sees all tokens at once does not know their order. So queries and keys "
    "are turned, pair of dimensions by pair of dimensions, the farther the later they stand.",
    "bias": "A layer that sees all tokens at once does not know their order. So the farther away a "
    "token is, the more its score is lowered. The values: what head 0 takes off for the first "
    "token.",
}


def stages_of(reading: TextTrace, names: Sequence[str], chosen: Chosen) -> Iterator[Stage]:
    """In the order of the model, from these names of the trace; without the output head."""
    for name in names:
        scope, _, point = name.rpartition(".")
        part = scope.rpartition(".")[2]
        match part, point:
            case "embedding", "lookup":
                yield _embedding(reading, name)
            case "characters", "output":
                yield _characters(reading, name)
            case "positions", "encoding" | "angles" | "bias":
                yield _positions(reading, name)
            case "self_attention" | "cross_attention" | "alignment", "pattern":
                yield attention_stage(reading, name, names, chosen)
            case "feedforward", "output":
                yield feedforward_stage(reading, name, names, chosen)
            case "lstm" | "gru" | "rnn", "hidden":
                yield cell_stage(reading, name, names, chosen)
            case "bridge", "hidden":
                yield bridge_stage(reading, name)
            case "final_norm", "output" if f"{scope}.normalised" in reading:
                yield _final_norm(reading, name)
            case "standardise", "output":
                yield _numbers(reading, name, "inputs at one scale", STANDARDISED, names, chosen)
            case "dense", "activation" if layer_of(name) is not None:
                title = f"layer {layer_of(name)}"
                yield _numbers(reading, name, title, DENSE, names, chosen)


STANDARDISED = (
    "Each input is measured in deviations from its mean over the training data, so that none "
    "drowns the others."
)
DENSE = (
    "Each value of this layer is a weighted sum of all values before it, sent through an "
    "activation, which lets the network bend."
)


def _embedding(reading: TextTrace, name: str) -> Stage:
    table = reading[name][0]  # (length, d_model)
    sentence = (
        f"From here on a token is a vector of {table.shape[-1]:,} values, learnt in training; "
        "tokens that are used alike have similar ones."
    )
    return Stage("vectors", chapter_of(reading, name), titled(name, "embedding"), sentence,
                 **at(reading, name), rows=vector_rows(table, along(reading, name)))  # fmt: skip


def _characters(reading: TextTrace, name: str) -> Stage:
    words = name.replace("characters.output", "embedding.lookup")
    fractions = ratio(reading[name][0], reading[words][0])
    sentence = (
        "The characters of each word are read as well, so that a word the vocabulary lacks is not "
        "blank. The values: what they add, as a fraction of the length of its own vector."
    )
    return Stage("sizes", chapter_of(reading, name), titled(name, "characters"), sentence,
                 **at(reading, name), rows=size_rows(fractions, along(reading, name)))  # fmt: skip


def _positions(reading: TextTrace, name: str) -> Stage:
    point = name.rpartition(".")[2]
    value = reading[name][0]
    rows: tuple[OutputRow, ...] = ()
    sentence, happened = POSITIONS[point], ""
    match point:
        case "encoding":  # (length, d_model)
            sentence += " The values: how long it is."
            rows = size_rows(torch.linalg.vector_norm(value.float(), dim=-1), along(reading, name))
        case "angles":  # (length, pairs)
            happened = _turned(value)
        case _:  # (heads, queries, keys)
            rows = size_rows(value[0, :, 0], along(reading, name))
    return Stage("sizes", chapter_of(reading, name), titled(name, "positions"), sentence,
                 **at(reading, name), rows=rows, happened=happened)  # fmt: skip


def _turned(angles: Tensor) -> str:
    """Every position turns a pair by the same angle more, so one line says all. (length, pairs)"""
    if len(angles) == 1:
        return "position 0: not turned"
    fastest, *_, slowest = [f"{step:.3g}" for step in floats(angles[1] - angles[0])] * 2
    fastest, slowest = ("" if step == "1" else f"{step} " for step in (fastest, slowest))
    more = f", the slowest by {slowest}p" if fastest != slowest else ""
    return f"position p: the fastest pair is turned by {fastest}p radians{more}"


def _final_norm(reading: TextTrace, name: str) -> Stage:
    sentence = "After all layers, every vector is brought to the same scale."
    lengths = floats(torch.linalg.vector_norm(reading[name][0].float(), dim=-1))
    happened = f"all vectors are now {min(lengths):.2f} to {max(lengths):.2f} long"
    if len(lengths) == 1:
        happened = f"the vector is now {lengths[0]:.2f} long"
    return Stage("sizes", chapter_of(reading, name), titled(name, "final norm"), sentence,
                 **at(reading, name), happened=happened)  # fmt: skip


def _numbers(
    reading: TextTrace, name: str, title: str, sentence: str, names: Sequence[str], chosen: Chosen
) -> Stage:
    """One row of values: a layer of a network without text."""
    values = reading[name][0]
    scope = name.rpartition(".")[0]
    inputs = reading.words.features if scope == "standardise" else ()
    labels = inputs or tuple(map(str, range(len(values))))
    off = int((values == 0).sum())
    happened = (
        f"{len(values) - off} of {len(values)} values are above or below 0, the others exactly 0"
    )
    return Stage(
        "sizes", chapter_of(reading, name), title, sentence, **at(reading, name),
        rows=size_rows(values, labels), worked=worked(reading, name),
        happened=happened if off else "", layer=layer_of(name),
        points=points_of(reading, scope, names, chosen),
    )  # fmt: skip
