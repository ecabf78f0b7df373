"""Dropout of large tensors on a CPU: what is hidden is drawn in 16 bits a value, by numpy.

torch draws on one core, 13 ns a value, which is a fifth of the processor time of a small
Transformer's training step on one core and a third of its time on two. The plain twin is
`nn.Dropout`, which small tensors keep.
"""

from contextlib import AbstractContextManager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.fast.swapped_methods import swapped

LARGE = 2**18  # values from which on it is worth a generator of its own
STEPS = 2**16  # probabilities are multiples of one in so many


class LargeDropout:
    """Within `used()` the dropout of a network's large tensors is drawn like that."""

    def __init__(self, network: nn.Module) -> None:
        self._parts = [part for part in network.modules() if type(part) is nn.Dropout]

    def used(self) -> AbstractContextManager[None]:
        return swapped(self._parts, "forward", _forward)


def _forward(part: nn.Dropout, x: Tensor) -> Tensor:
    if not part.training or x.numel() < LARGE or not 0 < part.p < 1:
        return F.dropout(x, part.p, part.training)
    return x * noise(x.shape, part.p, x.dtype)


def noise(shape: torch.Size, probability: float, dtype: torch.dtype) -> Tensor:
    """0 with this probability, else what keeps the mean: a function of torch's generator."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-shape.numel() // 4))
    bits = torch.from_numpy(words.view(np.int16)[: shape.numel()]).view(shape)
    hidden = round(probability * STEPS)
    return (bits >= hidden - STEPS // 2).to(dtype).mul_(STEPS / (STEPS - hidden))
