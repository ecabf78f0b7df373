"""Word alignment of a translation: which source words each of its words attends to."""

from collections.abc import Sequence
from typing import Any

import torch

from translucid.models.base import Network
from translucid.see.head_scores import cross_attention, word_tokens
from translucid.tasks.base import Task


def align(
    network: Network, task: Task[Any, Any], source: Sequence[str], target: Sequence[str]
) -> list[list[int]]:
    """For each target word, the indices of the source words that it is aligned with.

    A target word is aligned with the source word that receives most attention from the decoder
    steps that predict its tokens, averaged over all heads and layers. source, target: the words of
    a sentence, which are joined with spaces. A word without tokens is aligned with nothing.
    """
    if not source or not target:
        return [[] for _ in target]
    reading, patterns = cross_attention(network, task, source, target)
    mean = torch.stack([pattern.mean(dim=0) for pattern in patterns]).mean(dim=0)
    example = reading.example
    assert example.source is not None
    assert example.target is not None
    keys = word_tokens(reading, example.source, source)
    steps = word_tokens(reading, example.target, target)
    aligned: list[list[int]] = []
    for places in steps:
        rows = mean[[place - 1 for place in places]]  # each token is predicted by the step before
        weights = {word: float(rows[:, sorted(own)].sum()) for word, own in enumerate(keys) if own}
        aligned.append([max(weights, key=weights.__getitem__)] if places and weights else [])
    return aligned
