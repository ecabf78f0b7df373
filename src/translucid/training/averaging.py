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
        weight = self.next_weight()
        self.steps += 1
        torch._foreach_lerp_(self._means, self._own, weight)

    def next_weight(self) -> float:
        """1 - d of the next step."""
        steps = self.steps + 1
        return 1 - min(self.decay, steps / (steps + 10))  # a young mean forgets its start

    @torch.no_grad()
    def move(self, weight: Tensor) -> None:
        """The same by a weight that the GPU knows; steps are counted by the caller."""
        apart = torch._foreach_sub(self._own, self._means)
        torch._foreach_mul_(apart, weight)
        torch._foreach_add_(self._means, apart)

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
