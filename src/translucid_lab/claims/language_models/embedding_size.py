"""C89: the size of a word's vector."""

from collections.abc import Sequence

import numpy as np

from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.language_models.next_word import made, new_loss, recurrent, train
from translucid_lab.claims.shared.toyland_text import sentences
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    clearly,
    column,
    decide,
    difference_of,
    mean_of,
)

WIDTHS = (4, 16, 64, 256)


def _widths(seed: int, quick: bool) -> Data:
    """The loss on new text by the size of the vectors, beside that of word counts alone."""
    texts = sentences(seed, 300 if quick else 2000)
    losses = []
    for wide in WIDTHS:
        net = made(recurrent(texts.vocab, wide=wide), seed)
        train(net, texts, 60 if quick else 400, seed)
        losses.append(new_loss(net, texts))
    return {"loss": losses, "counts": texts.counted}


def _judge_widths(data: Sequence[Data]) -> Finding:
    learnt = [difference_of(column(data, "counts"), column(data, "loss", at))
              for at in range(len(WIDTHS))]  # fmt: skip
    worst = min(learnt, key=lambda interval: interval.mean)
    spread = mean_of([max(run["loss"]) - min(run["loss"]) for run in data], "log")
    summary = ", ".join(f"{wide}: {mean_of(column(data, 'loss', at))}"
                     for at, wide in enumerate(WIDTHS))  # fmt: skip
    return decide(
        {
            "every size learns more than word counts say": clearly(worst.against(0.0), "above"),
            "sizes differ by more than 0.1": clearly(spread.against(0.1), "above"),
        },
        f"nats for each new word, by the size of a vector: {summary}",
    )


def _draw_widths(data: Sequence[Data]) -> Lines:
    shown = {
        "GRU": np.mean([run["loss"] for run in data], axis=0),
        "word counts alone": np.full(len(WIDTHS), np.mean(column(data, "counts"))),
    }
    return Lines("Loss on new text, by the size of a word's vector",
                 Axis("numbers for each word", tuple(map(str, WIDTHS))), "nats for each word",
                 shown)  # fmt: skip


vector_sizes = Experiment(
    name="vector-sizes",
    title="The size of a word's vector",
    varies="how many numbers stand for a word",
    measures="the loss on new text, beside that of word counts alone",
    claims={
        "C89": Rule(
            "Supported if a model learns more than word counts at every size, and sizes differ "
            "by clearly more than 0.1 nats; refuted if either clearly fails.",
            _judge_widths,
        )
    },
    run=_widths,
    draw=_draw_widths,
    seconds=25.0,
    references=("https://www.jmlr.org/papers/v3/bengio03a.html",),
)
