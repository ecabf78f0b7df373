"""A network whose LoRA adapters are merged into their layers, for decoding: the same numbers within
rounding, with one matrix multiplication where there were three. The plain twin is the network."""

from copy import deepcopy
from typing import Any

import torch

from translucid.fast.unchanged import parts_of
from translucid.models.adapters import merge
from translucid.parts.lora import AdaptedLinear


class Merged:
    """A copy of an adapted network, which `refresh` brings up to date; of another, itself."""

    def __init__(self, model: Any) -> None:
        self.model, self._own = model, None
        if any(isinstance(part, AdaptedLinear) for part in parts_of(model)):
            self._own = model
            self.model = deepcopy(model)
            merge(self.model)

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over weights that have been trained since."""
        if self._own is None:
            return
        there = dict(self.model.named_parameters())
        for name, parameter in self._own.named_parameters():
            if name in there:
                there[name].copy_(parameter)
        for name, module in self._own.named_modules():
            if isinstance(module, AdaptedLinear):
                there[f"{name}.weight"].copy_(module.weight)
                if module.bias is not None:
                    there[f"{name}.bias"].copy_(module.bias)
