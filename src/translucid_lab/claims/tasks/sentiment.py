"""C15: a judgment needs the whole sentence.

Shapes: ids (texts, longest), 0 where a text has ended.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from translucid.data.toyland import Sentence, Toyland
from translucid.models import MLPConfig, RecurrentConfig, build
from translucid.see.pictures import Bars
from translucid_lab.claims.shared.toyland_text import numbered
from translucid_lab.claims.tasks.training import token_loss, train_on_rows
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    clearly,
    column,
    decide,
    difference_of,
    has_learned,
    median_of,
)

LABELS = ("positive", "negative")  # of sentences that judge: those that do not show it
READERS = ("whole sentence", "first half", "bag of words")


def _judgments(seed: int, quick: bool) -> Data:
    """Accuracy on new sentences of Toyland, where words alone do not give the sentiment away."""
    train, test, steps = (400, 200, 60) if quick else (4000, 500, 1200)
    texts = [*_judging(seed, "train", train), *_judging(seed, "test", test)]
    ids, words = numbered([text.english for text in texts])
    labels = torch.tensor([LABELS.index(text.sentiment) for text in texts])
    return accuracies(ids, words, labels, train, steps, seed)


def accuracies(
    ids: Tensor, words: int, labels: Tensor, train: int, steps: int, seed: int
) -> dict[str, float]:
    """Of each reader, trained on the first `train` texts, on the others."""
    halves = torch.stack([first_half(row) for row in ids])
    bags = torch.stack([torch.bincount(row, minlength=words)[1:].float() for row in ids])
    measured = {}
    for reader, x in zip(READERS, (ids, halves, bags), strict=True):
        torch.manual_seed(seed)
        net = bag(words - 1) if reader == "bag of words" else classifier(words)
        measured[reader] = accuracy(net, x, labels, train, steps, seed)
    return measured


def _judging(seed: int, split: str, count: int) -> list[Sentence]:
    """As many sentences that are positive or negative."""
    judging = (value for value in Toyland(seed=seed).sentences(split, 10 * count)
             if value.sentiment in LABELS)  # fmt: skip
    return list(islice(judging, count))


def first_half(row: Tensor) -> Tensor:
    kept = row.clone()
    kept[(int((row != 0).sum()) + 1) // 2 :] = 0
    return kept


def classifier(words: int) -> nn.Module:
    return build(RecurrentConfig(
        shape="encoder", head="classify", outputs=len(LABELS), vocab=words, d_model=32, hidden=32,
        cell="lstm", bidirectional=True, dropout=0.0, pooling="attention",
    ))  # fmt: skip


def bag(words: int) -> nn.Module:
    return build(MLPConfig(inputs=words, hidden=(32,), outputs=len(LABELS), activation="relu"))


def accuracy(net: nn.Module, x: Tensor, labels: Tensor, train: int, steps: int, seed: int) -> float:
    def called(rows: Tensor) -> Tensor:
        out: Tensor = net(x[rows], x[rows] != 0) if x.dtype == torch.long else net(x[rows])
        return out

    train_on_rows(net, lambda rows: token_loss(called(rows), labels[rows]), train, steps, seed)
    new = torch.arange(train, len(x))
    with torch.no_grad():
        return float((called(new).argmax(-1) == labels[new]).float().mean())


def _judge_judgments(data: Sequence[Data]) -> Finding:
    whole = column(data, READERS[0])
    improvements = {
        other: difference_of(whole, column(data, other), "rank") for other in READERS[1:]
    }
    sides = {f"better than the {other} by more than 0.1": clearly(gain.against(0.1), "above")
             for other, gain in improvements.items()}  # fmt: skip
    summary = " and ".join(f"the {other} by {gain}" for other, gain in improvements.items())
    return decide(
        sides, f"the whole sentence is right in {median_of(whole)}, ahead of {summary}",
        learned={"judgments of whole sentences": has_learned(whole, 0.8)},
    )  # fmt: skip


def _draw_judgments(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, reader)) for reader in READERS])
    return Bars("Sentiment from the whole sentence, and from less", "accuracy", READERS, values,
                note="new sentences of Toyland, half of them positive")  # fmt: skip


whole_sentence = Experiment(
    name="whole-sentence",
    title="Sentiment from the whole sentence, its first half, and its words without order",
    varies="what is read: the whole sentence, its first half, the counts of its words",
    measures="accuracy on new sentences",
    claims={
        "C15": Rule(
            "Supported if reading the whole sentence is right more often than reading half of it "
            "and than a bag of words, each by clearly more than 0.1; refuted if one of the two "
            "gains is clearly less; not tested unless whole sentences are judged right in 0.8 in "
            "eight of ten seeds.",
            _judge_judgments,
            beyond="Toyland's sentences are made so that single words do not give the sentiment "
            "away: for real reviews a bag of words is nearly as good.",
        )
    },
    run=_judgments,
    draw=_draw_judgments,
    seconds=60.0,
    references=("https://aclanthology.org/D13-1170", "https://aclanthology.org/P12-2018"),
)
