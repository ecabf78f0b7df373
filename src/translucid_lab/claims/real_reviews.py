"""C15 on real reviews: does sentiment need the whole sentence?

Shapes: ids (texts, longest), padded with 0.
"""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.real_weights import lines
from translucid_lab.claims.task_shapes import READERS, accuracies
from translucid_lab.claims.toyland_text import numbered
from translucid_lab.engine.intervals import clearly, difference_of, median_of
from translucid_lab.engine.verdict import column, decide, has_learned

COMMON = 4000  # words in the vocabulary
MAX_LENGTH = 30  # words of a review that are read
MARGIN = 0.02


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
    whole = column(data, READERS[0])
    leads = {other: difference_of(whole, column(data, other), "rank") for other in READERS[1:]}
    return decide(
        {f"better than the {other} by more than {MARGIN}": clearly(gain.against(MARGIN), "above")
         for other, gain in leads.items()},
        f"the whole sentence is right in {median_of(whole)}, ahead of "
        + " and ".join(f"the {other} by {gain}" for other, gain in leads.items()),
        learned={"judgments of whole sentences": has_learned(whole, 0.7)},
    )  # fmt: skip


def _draw_reviews(data: Sequence[Data]) -> Bars:
    values = np.array([np.mean(column(data, reader)) for reader in READERS])
    return Bars("Sentiment of real reviews, from the whole sentence and from less", "accuracy",
                READERS, values, note="test reviews of SST-2")  # fmt: skip


reviews = Experiment.described("real-reviews", _reviews, _draw_reviews, {"C15": _judge_reviews})
