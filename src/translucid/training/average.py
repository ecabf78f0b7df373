"""A running mean of the weights: steadier than the last step's, for evaluation and use."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


class Average:
    """mean = memory * mean + (1 - memory) * weights, after every step."""

    def __init__(self, model: nn.Module, memory: float) -> None:
        self.memory, self.steps = memory, 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.steps += 1
        memory = min(self.memory, self.steps / (self.steps + 10))  # a young mean forgets its start
        means, weights = zip(
            *((self.weights[name], p) for name, p in model.named_parameters()), strict=True
        )
        torch._foreach_lerp_(means, weights, 1 - memory)

    @contextmanager
    def swapped_in(self, model: nn.Module) -> Iterator[None]:
        """Within the block the model has the mean weights; afterwards its own."""
        self._swap(model)
        try:
            yield
        finally:
            self._swap(model)

    @torch.no_grad()
    def _swap(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            kept = p.clone()
            p.copy_(self.weights[name])
            self.weights[name] = kept.detach()
