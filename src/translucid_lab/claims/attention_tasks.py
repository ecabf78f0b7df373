"""What the experiments on attention share: train a small net on batches drawn fresh for every step,
ask how often it is right, and look at its attention.
"""

from collections.abc import Callable
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid import NO_TRACE, Trace
from translucid.core import NoTrace
from translucid.models import Network
from translucid.tasks import IGNORE
from translucid_lab import fit

Batch = tuple[Tensor, Tensor]  # ids, and what is wanted: (batch, length) or (batch,)


def train(
    net: Network, draw: Callable[[torch.Generator], Batch], seed: int, *, steps: int, rate: float
) -> Network:
    """Adam on the cross-entropy of as many fresh batches as there are steps."""
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        x, wanted = draw(generator)
        return _loss(net(x), wanted)

    fit(net, loss, steps=steps, learning_rate=rate)
    return net.eval()


def _loss(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=IGNORE)


def right(net: Network, batch: Batch, trace: NoTrace = NO_TRACE) -> float:
    """The fraction of what is asked that the net gets right."""
    x, wanted = batch
    asked = wanted != IGNORE
    return float((answers(net, x, trace) == wanted)[asked].float().mean())


@torch.no_grad()
def answers(net: Network, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
    outputs: Tensor = net(x, trace=trace)
    return outputs.argmax(dim=-1)


@torch.no_grad()
def patterns(net: Network, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
    """Who looks at whom, layer by layer: (batch, heads, queries, keys)."""
    trace = Trace("*.pattern")
    net(x, mask, trace=trace)
    return [trace[name] for name in trace.names("*.pattern")]


def apart(pattern: Tensor) -> float:
    """The mean Jensen-Shannon distance of two heads of (batch, heads, queries, keys): 0 for heads
    that look alike, 1 for heads that never look at the same word."""
    pairs = list(combinations(pattern.transpose(0, 1).double(), 2))
    if not pairs:
        return 0.0
    return float(torch.stack([_shannon(a, b).sqrt().mean() for a, b in pairs]).mean())


def _shannon(a: Tensor, b: Tensor) -> Tensor:
    """The Jensen-Shannon divergence in bits; rounding may take it below 0 by a hair."""
    half = (a + b) / 2
    return (_entropy(half) - (_entropy(a) + _entropy(b)) / 2).clamp(min=0)


def _entropy(p: Tensor) -> Tensor:
    return -(p * p.clamp(min=1e-300).log2()).sum(dim=-1)


ATTENTION = "encoder.layers.0.self_attention"


def silent(net: Network, kind: type[nn.Module]) -> Network:
    """Without the parts of a kind: they add 0 for ever."""
    for part in (module for module in net.modules() if isinstance(module, kind)):
        for weight in part.parameters():
            weight.requires_grad_(False)
            weight.zero_()
    return net
