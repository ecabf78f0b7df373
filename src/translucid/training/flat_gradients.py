"""The gradients of all parameters side by side in one buffer, which processes sum at once.

DDP sends gradients from within the backward pass, which a CUDA graph cannot hold; these are sent
after it. They stay where they are, as the gradients of a captured step must.
"""

from collections.abc import Sequence

import torch.distributed as dist
from torch import nn

ALIGNED = 64  # values: kernels read several at a time, from places that are multiples of 256 bytes


class FlatGradients:
    """Makes every gradient a view into one buffer. Parameters of one dtype, on one device."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        sizes = [-(-p.numel() // ALIGNED) * ALIGNED for p in parameters]
        self.buffer = parameters[0].new_zeros(sum(sizes))
        for p, part in zip(parameters, self.buffer.split(sizes), strict=True):
            p.grad = part[: p.numel()].view(p.shape)

    def sum(self) -> None:
        """Over all processes, in place. On a GPU the CPU does not wait for it."""
        dist.all_reduce(self.buffer)

    def zero(self) -> None:
        self.buffer.zero_()
