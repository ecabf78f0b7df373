"""The last stages of a walk: what the output head makes of the vectors."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from translucid.models.mlp import MLPConfig
from translucid.see.text_trace import TextTrace
from translucid.see.walk.data import Stage, along, at
from translucid.see.walk.worked import worked
from translucid.tasks.outputs import Cell, OutputRow, floats

CHAPTER = "What comes out"


def answers(reading: TextTrace, names: Sequence[str], top: int) -> tuple[list[Stage], str, str]:
    """The last stages, the answer in words, and a note for the end of the walk."""
    where = at(reading, reading.network.output_point)
    endings, answer = reading.outputs.endings(reading.example, reading.output_values, top)
    stages = [_pooled(reading, name) for name in names if _pools(reading, name)]
    stages += [_ngrams(reading, name) for name in names if name.endswith("ngrams.words")]
    if reading.network.output_point == "perceptron.output":
        return [_summed(reading), _threshold(endings[-1].rows, where)], answer, ""
    stages += [
        Stage(end.kind, CHAPTER, end.title, end.sentence, **where, rows=end.rows, came=end.came,
              happened=end.happened)
        for end in endings
    ]  # fmt: skip
    if isinstance(reading.network.config, MLPConfig):
        stages[-1] = replace(stages[-1], worked=worked(reading, where["address"]))
    return stages, answer, endings[-1].note


def _summed(reading: TextTrace) -> Stage:
    name = "perceptron.sum"
    sentence = "A perceptron weighs its inputs: each times its weight, all added up, plus the bias."
    rows = tuple(OutputRow("z", (Cell("", value),)) for value in floats(reading[name].reshape(-1)))
    return Stage("values", CHAPTER, "the weighted sum", sentence, **at(reading, name), rows=rows,
                 worked=worked(reading, name))  # fmt: skip


def _threshold(rows: tuple[OutputRow, ...], where: dict[str, Any]) -> Stage:
    sentence = "Above 0 the answer is 1, else it is 0: the sum says on which side of a line it is."
    return Stage("values", CHAPTER, "the answer", sentence, **where, rows=rows)


def _pools(reading: TextTrace, name: str) -> bool:
    """One of two: the weights of the tokens, or, where a state is taken, the vector itself."""
    scope, _, point = name.rpartition(".")
    return point == "pool_pattern" or (point == "pooled" and f"{scope}.pool_pattern" not in reading)


def _pooled(reading: TextTrace, name: str) -> Stage:
    value = reading[name][0]
    if name.endswith(".pooled"):  # (d_model,)
        sentence = "The last state has read the whole text: it stands for all of it."
        first = (*(Cell("", number) for number in floats(value[:4])),
                 Cell("length", float(torch.linalg.vector_norm(value.float()))))  # fmt: skip
        return Stage("vectors", CHAPTER, "one vector for the text", sentence, **at(reading, name),
                     rows=(OutputRow("text", first),))  # fmt: skip
    sentence = "One vector is made of all: the mean of the tokens' vectors, with these weights."
    if int((value > 0).sum()) == 1:
        sentence = "One vector is taken for the whole text: that of the token with weight 1."
    return Stage("sizes", CHAPTER, "one vector for the text", sentence, **at(reading, name),
                 rows=_rows(value, along(reading, name)))  # fmt: skip


def _ngrams(reading: TextTrace, name: str) -> Stage:
    scope = name.rpartition(".")[0]
    answer = reading.outputs.answer(reading.example, reading.output_values, None)
    scores = reading[name][0] + reading[f"{scope}.pairs"][0]  # (length, outputs)
    sentence = (
        "Beside the network, each token (and each pair of neighbours) adds to the labels' "
        f"scores directly (n-gram features). The values: what it adds for {answer.name!r}."
    )
    return Stage("sizes", CHAPTER, "n-gram features", sentence, **at(reading, name),
                 rows=_rows(scores[:, answer.choice], along(reading, name)))  # fmt: skip


def _rows(values: Tensor, labels: Sequence[str]) -> tuple[OutputRow, ...]:
    return tuple(
        OutputRow(label, (Cell("", value),))
        for label, value in zip(labels, floats(values), strict=True)
    )
