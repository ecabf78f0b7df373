"""A running mean of the weights: steadier than the last step's, for evaluation and use."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """mean = d * mean + (1 - d) * weights after every step n, d = min(decay, n / (n + 10))."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        # Two lists in the same order; to gather them anew would take as long as to average.
        self._means = list(self.weights.values())
        self._own: list[Tensor] = list(model.parameters())

    @torch.no_grad()
    def update(self) -> None:
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))  # a young mean forgets its start
        torch._foreach_lerp_(self._means, self._own, 1 - decay)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Within the block the model has the mean weights; afterwards its own."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for mean, own in zip(self._means, self._own, strict=True):
            kept = own.clone()
            own.copy_(mean)
            mean.copy_(kept)
