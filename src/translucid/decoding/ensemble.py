"""Several models that decide together: the mean of their probabilities."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from translucid.errors import InputError
from translucid.models.base import Writer
from translucid.models.committee import CommitteeState, mean_log_probs


class Ensemble:
    """Models of one vocabulary, with the `start` and `step` of one."""

    def __init__(self, models: Sequence[Writer]) -> None:
        if not models:
            raise InputError("an ensemble needs at least one model")
        sizes = sorted({model.vocab for model in models})
        if len(sizes) > 1:
            raise InputError(
                f"the models have vocabularies of {', '.join(map(str, sizes))} words; only models "
                "of one vocabulary can decide together"
            )
        self.models = list(models)
        self.vocab = sizes[0]

    @property
    def longest(self) -> int | None:
        return min((m.longest for m in self.models if m.longest is not None), default=None)

    @property
    def device(self) -> torch.device:
        return self.models[0].device

    def start(self, *given: Any, capacity: int) -> CommitteeState:
        return CommitteeState([m.start(*given, capacity=capacity) for m in self.models])

    def step(self, tokens: Tensor, state: CommitteeState, real: Tensor | None = None) -> Tensor:
        """The logarithm of the mean probability (rows, queries, vocab)."""
        each = [
            model.step(tokens, own, real)
            for model, own in zip(self.models, state.states, strict=True)
        ]
        return mean_log_probs(each)
