"""Dropout in compiled layers: its draws are hashes of a value's place and of a seed, which each
part of a network has anew in each pass.

A hash is a dozen operations that torch.compile fuses with what stands around it; its own generator
takes ten times as many for each value, a sixth of a training step on a GPU. The plain twin is
`nn.Dropout`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.fast.swapped_methods import swapped
from translucid.models.transformer import Layer

BITS = 24  # probabilities are multiples of one in 2**BITS


class HashedDropout:
    """Within `used()` the dropout in the layers of a Transformer is drawn like that."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        layers = [part for part in network.modules() if type(part) is Layer]
        parts = (part for layer in layers for part in layer.modules())
        self._parts = [part for part in parts if type(part) is nn.Dropout]
        self._device = device

    @contextmanager
    def used(self) -> Iterator[None]:
        """A pass. Its seeds come from torch's generator of the device."""
        shape = (len(self._parts),)
        seeds = torch.randint(-(2**31), 2**31, shape, dtype=torch.int32, device=self._device)
        for part, seed in zip(self._parts, seeds.unbind(), strict=True):
            vars(part)["seed"] = seed
        try:
            with swapped(self._parts, "forward", _forward):
                yield
        finally:
            for part in self._parts:
                del vars(part)["seed"]


def _forward(part: nn.Dropout, x: Tensor) -> Tensor:
    if not part.training or part.p == 0:
        return x
    if x.numel() >= 2**31:  # more places than there are numbers
        return F.dropout(x, part.p)
    seed: Tensor = vars(part)["seed"]
    return torch.where(kept(x, seed, part.p), x * (1 / (1 - part.p)), 0.0)


def kept(x: Tensor, seed: Tensor, probability: float) -> Tensor:
    """Which values are left, as many as x has."""
    place = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)
    return (hashed(hashed(seed) ^ place) & (2**BITS - 1)) >= round(probability * 2**BITS)


def hashed(x: Tensor) -> Tensor:
    """Every bit of x (int32) moves about half of the bits (constants of C. Wellons, "lowbias32",
    2018). A shift of a negative number brings ones, which are taken away."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x7FEB352D
    x = (x ^ ((x >> 15) & 0x1FFFF)) * (0x846CA68B - 2**32)
    return x ^ ((x >> 16) & 0xFFFF)
