"""Real reviews: does sentiment need the whole sentence (C15), and do networks with residual
connections skip blocks that they do not need (C62)?

Shapes: ids (texts, longest), padded with 0.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.block_contributions import DEPTHS, NETS, deletion
from translucid_lab.claims.real_weights import lines
from translucid_lab.claims.small_nets import Deep, mean_square
from translucid_lab.claims.task_shapes import READERS, accuracies, needs_whole
from translucid_lab.claims.toyland_text import numbered
from translucid_lab.engine.verdict import column

COMMON = 4000  # words in the vocabulary
MAX_LENGTH = 30  # words of a review that are read


def _reviews(seed: int, quick: bool) -> Data:
    """Accuracy on the test reviews of SST-2; each seed has its own initialisation and its own nine
    tenths of the training reviews."""
    train, test = (_read(name) for name in ("train", "test"))
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed)).tolist()
    kept = [train[at] for at in order[: 600 if quick else 9 * len(train) // 10]]
    texts = [*kept, *(test[:300] if quick else test)]
    ids, words = numbered([text.split()[:MAX_LENGTH] for _, text in texts], COMMON)
    labels = torch.tensor([label for label, _ in texts])
    return accuracies(ids, words, labels, len(kept), 60 if quick else 600, seed)


def _read(split: str) -> list[tuple[int, str]]:
    rows = (line.split("\t", 1) for line in lines(f"data/sst2/{split}.tsv"))
    return [(int(label), text) for label, text in rows]


def _judge_reviews(data: Sequence[Data]) -> Finding:
    return needs_whole(data, 0.02, 0.7)


def _draw_reviews(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, reader)) for reader in READERS])
    return Bars("Sentiment of real reviews, from the whole sentence and from less", "accuracy",
                READERS, values, note="test reviews of SST-2")  # fmt: skip


reviews = Experiment.described("real-reviews", _reviews, _draw_reviews, {"C15": _judge_reviews})


FITTED, WORDS = 256, 500  # reviews to fit; most frequent words, which are counted


def _blocks(seed: int, quick: bool) -> Data:
    """Fit the sentiment of reviews, given how often each frequent word occurs, with networks of 12
    and 36 blocks; then remove one block at a time. Each seed draws its own reviews."""
    rows = _read("train")
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    chosen = [rows[at] for at in order[:FITTED].tolist()]
    ids, words = numbered([text.split() for _, text in chosen], WORDS)
    counts = torch.stack([torch.bincount(row, minlength=words)[1:].float() for row in ids])
    x = (counts - counts.mean(dim=0)) / counts.std()
    y = torch.tensor([[float(label)] for label, _ in chosen])
    y = (y - y.mean()) / y.std()
    steps = 80 if quick else 400
    return {str(depth): {name: _costs(seed, name, depth, steps, x, y) for name in NETS}
            for depth in (DEPTHS[:1] if quick else DEPTHS)}  # fmt: skip


def _costs(
    seed: int, name: str, depth: int, steps: int, x: Tensor, y: Tensor
) -> dict[str, float | list[float]]:
    """The loss of a trained network, and its increase without each block."""
    torch.manual_seed(seed)
    branch = depth**-0.5 if "small" in name else 1.0
    net = Deep(inputs=x.shape[1], outputs=1, width=32, depth=depth, norm="layer",
               residual=name != "plain", branch=branch)  # fmt: skip
    fit(net, lambda: mean_square(net(x), y), steps=steps, learning_rate=2e-3)
    with torch.no_grad():
        whole = float(mean_square(net(x), y))
        less = [float(mean_square(net(x, without=at), y)) for at in range(depth)]
    return {"loss": whole, "cost": [value - whole for value in less]}


blocks = Experiment.described(
    "real-blocks", _blocks, deletion.draw, {"C62": deletion.claims["C62"].judge}
)
