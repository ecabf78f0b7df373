"""How much LoRA adapters change a computation: the length of what each adds, beside the length of
what its frozen layer gives."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from translucid.parts.lora import AdaptedLinear
from translucid.see.terms import wiring
from translucid.see.terms.computation import Computation


@dataclass(frozen=True)
class AdapterNorm:
    """Mean lengths over the tokens that one adapted layer has read."""

    layer: str  # its name in the network
    added: float  # of (alpha / rank) B A x
    frozen: float  # of W x + b

    @property
    def ratio(self) -> float:
        """How many times as long as what was there what is added is."""
        return self.added / max(self.frozen, 1e-30)


def has_adapters(network: nn.Module) -> bool:
    return any(isinstance(part, AdaptedLinear) for part in network.modules())


@torch.no_grad()
def adapter_norms(c: Computation) -> tuple[AdapterNorm, ...]:
    """Of every adapter that a text went through, in the order of the model; nothing where there is
    none. Computed from what the layers read: a projection of the encoder's output is no point."""
    norms = []
    for layer, part in c.network.named_modules():
        if isinstance(part, AdaptedLinear):
            x = _input(c, layer).to(part.base.weight)
            norms.append(AdapterNorm(layer, _length(part.lora(x)), _length(part.base(x))))
    return tuple(norms)


def _input(c: Computation, layer: str) -> Tensor:
    """What a linear layer of a Transformer has read. (batch, length, features)"""
    name = wiring.into_linear(c, layer)
    x = c.points[name]
    return x.transpose(1, 2).flatten(2) if name.endswith(".mixed") else x  # the heads, joined


def _length(vectors: Tensor) -> float:
    return float(torch.linalg.vector_norm(vectors.float(), dim=-1).mean())
