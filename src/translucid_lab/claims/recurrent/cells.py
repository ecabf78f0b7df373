"""Recurrent cells and how they start, and the gradient that reaches each input."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.trace import Trace
from translucid.models import Network
from translucid.models.recurrent import RecurrentEncoder
from translucid.parts.recurrent_cells import CellName
from translucid_lab.claims.shared.sequence_tasks import SYMBOLS, recall, recurrent_net

# A cell, its forget bias, and whether it starts as torch starts it: all weights uniform and small.
# The library itself starts with orthogonal recurrent weights, which keep lengths.
Kind = tuple[CellName, float, bool]

RNN, GRU = "RNN, orthogonal", "GRU, orthogonal"
RNN_UNIFORM, GRU_UNIFORM = "RNN, uniform", "GRU, uniform"
PLAIN: dict[str, Kind] = {
    RNN_UNIFORM: ("rnn", 1.0, True),
    RNN: ("rnn", 1.0, False),
    GRU_UNIFORM: ("gru", 1.0, True),
    GRU: ("gru", 1.0, False),
}
FORGET_BIASES = (0, 1, 3, 5)
LSTMS: dict[str, Kind] = {
    f"LSTM, forget bias {bias}": ("lstm", float(bias), False) for bias in FORGET_BIASES
}
SPAN = 100  # steps
SHOWN = range(0, SPAN, 9)  # in the picture: the first and the last step among them


def made(seed: int, kind: Kind, hidden: int = 32) -> Network:
    cell, forget_bias, uniform = kind
    net = recurrent_net(
        seed, cell, vocab=SYMBOLS, outputs=SYMBOLS, hidden=hidden, forget_bias=forget_bias
    )
    if uniform:
        cast(RecurrentEncoder, net.encoder).recurrent.fused.reset_parameters()
    return net


def reach(net: Network, ids: Tensor, targets: Tensor) -> list[float]:
    """The gradient of the loss at the end with respect to every input, nearest first: log10 of its
    size, against that of the nearest. In float64: float32 calls 1e-46 nothing."""
    trace = Trace("encoder.embedding.lookup")
    logits = net.double()(ids, trace=trace)
    loss = F.cross_entropy(logits, targets, reduction="sum")
    (slopes,) = torch.autograd.grad(loss, trace["encoder.embedding.lookup"])
    sizes = slopes.norm(dim=-1).mean(dim=0).flip(0)  # (length,)
    return [float(value) for value in (sizes / sizes[0]).log10()]


def reach_at_start(seed: int, kind: Kind, rows: int) -> list[float]:
    batch = recall(SPAN)(torch.Generator().manual_seed(seed), rows)
    return reach(made(seed, kind), batch.inputs["ids"], batch.targets)
