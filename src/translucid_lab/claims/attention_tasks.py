"""Functions shared by the experiments on attention: training on random batches, accuracy, and
attention patterns."""

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

Batch = tuple[Tensor, Tensor]  # ids and targets: (batch, length) or (batch,)


def train(
    net: Network, draw: Callable[[torch.Generator], Batch], seed: int, *, steps: int, rate: float
) -> Network:
    """Train with Adam on the cross-entropy of a new batch at every step."""
    generator = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        x, wanted = draw(generator)
        return _loss(net(x), wanted)

    fit(net, loss, steps=steps, learning_rate=rate)
    return net.eval()


def _loss(logits: Tensor, wanted: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=IGNORE)


def right(net: Network, batch: Batch, trace: NoTrace = NO_TRACE) -> float:
    """Accuracy over the targets that are not IGNORE."""
    x, wanted = batch
    asked = wanted != IGNORE
    return float((answers(net, x, trace) == wanted)[asked].float().mean())


@torch.no_grad()
def answers(net: Network, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
    outputs: Tensor = net(x, trace=trace)
    return outputs.argmax(dim=-1)


@torch.no_grad()
def patterns(net: Network, x: Tensor, mask: Tensor | None = None) -> list[Tensor]:
    """Attention patterns by layer: (batch, heads, queries, keys)."""
    trace = Trace("*.pattern")
    net(x, mask, trace=trace)
    return [trace[name] for name in trace.names("*.pattern")]


def apart(pattern: Tensor) -> float:
    """Mean Jensen-Shannon distance between two heads of a pattern, (batch, heads, queries, keys): 0
    if they attend alike, 1 if they never attend to the same word."""
    pairs = list(combinations(pattern.transpose(0, 1).double(), 2))
    if not pairs:
        return 0.0
    return float(torch.stack([_shannon(a, b).sqrt().mean() for a, b in pairs]).mean())


def _shannon(a: Tensor, b: Tensor) -> Tensor:
    """Jensen-Shannon divergence in bits, without negative rounding errors."""
    half = (a + b) / 2
    return (_entropy(half) - (_entropy(a) + _entropy(b)) / 2).clamp(min=0)


def _entropy(p: Tensor) -> Tensor:
    return -(p * p.clamp(min=1e-300).log2()).sum(dim=-1)


def swap_first_two(x: Tensor) -> Tensor:
    """Exchange the first two positions of x: (batch, heads, positions, d_head)."""
    return x[:, :, [1, 0, *range(2, x.shape[2])]]


ATTENTION = "encoder.layers.0.self_attention"


def silent(net: Network, kind: type[nn.Module]) -> Network:
    """Switch off all parts of a kind: set their weights to 0 and do not train them. Returns the
    network."""
    for part in (module for module in net.modules() if isinstance(module, kind)):
        for weight in part.parameters():
            weight.requires_grad_(False)
            weight.zero_()
    return net
