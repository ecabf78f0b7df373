"""C66: gradients by layer at the start, with norms and residuals and without."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.parts.norms import NormName
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.deep_net import Deep, mean_square, smooth_target
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, by_case, column, mean_of

DEPTH = 50
SHOWN = range(0, DEPTH, 7)  # places in the picture, the first and the last among them
GAINS = (0.5, 1.0, 2.0)  # times He's start
KINDS: dict[str, tuple[NormName, bool]] = {
    "plain": ("none", False),
    "layer norm": ("layer", False),
    "batch norm": ("batch", False),
    "residual": ("none", True),
    "residual, layer norm": ("layer", True),
    "residual, batch norm": ("batch", True),
}


def _gradients(seed: int, quick: bool) -> Data:
    """The norm of the gradient of what enters each block, in nets of depth 50 that learned nothing
    yet: [gain][block] for every kind. Not of the weights: where a signal shrinks on its way forward
    and the gradient on its way back, their gradients are all alike, and all too small."""
    return {kind: [_by_layer(seed, kind, gain, 32 if quick else 128) for gain in GAINS]
            for kind in KINDS}  # fmt: skip


def _by_layer(seed: int, kind: str, gain: float, width: int) -> list[float]:
    torch.manual_seed(seed)
    norm, residual = KINDS[kind]
    net = Deep(inputs=16, outputs=1, width=width, depth=DEPTH, norm=norm, residual=residual,
               gain=gain).double()  # fmt: skip
    x, y = smooth_target(64, 16, torch.Generator().manual_seed(seed))
    entered: list[Tensor] = []
    for block in net.block_list():
        block.register_forward_pre_hook(lambda part, inputs: entered.append(inputs[0]))
    loss = mean_square(net(x.double()), y.double())
    return [float(gradient.norm()) for gradient in torch.autograd.grad(loss, entered)]


def _orders(data: Sequence[Data], kind: str, gain: int) -> list[float]:
    """Powers of ten between the first block's gradient and the last's."""
    first, last = column(data, kind, gain, 0), column(data, kind, gain, DEPTH - 1)
    return [float(np.log10(a / b)) for a, b in zip(first, last, strict=True)]


def _judge_gradients(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for kind, (norm, _) in KINDS.items():
        intervals = [mean_of(_orders(data, kind, gain)) for gain in range(len(GAINS))]
        parts.append(f"{kind} " + ", ".join(f"{interval.mean:+.2g}" for interval in intervals))
        if norm == "none":
            continue
        flat = [
            interval.against(-1) == "above" and interval.against(1) == "below"
            for interval in intervals
        ]
        steep = [
            interval.against(-1) == "below" or interval.against(1) == "above"
            for interval in intervals
        ]
        cases[kind] = False if any(steep) else True if all(flat) else None
    return by_case(
        cases, f"powers of ten from block {DEPTH} back to block 1, for weights of "
        f"{', '.join(f'{gain:g}' for gain in GAINS)} times He's start: {'; '.join(parts)}",
        "which norm it is, and on whether there are residual connections",
    )  # fmt: skip


def _draw_gradients(data: Sequence[Data]) -> Lines:
    middle = GAINS.index(1.0)
    return Lines(
        f"Gradient by layer in nets of depth {DEPTH}, before training",
        Axis("block", tuple(str(at + 1) for at in SHOWN)), "norm of the gradient there",
        {kind: average(data, kind, middle).numpy()[list(SHOWN)] for kind in KINDS},
        logarithmic=True, note="ReLU, He's start",
    )  # fmt: skip


gradients_by_layer = Experiment(
    name="gradients-by-layer",
    title="Gradient by layer at depth 50, with norms and residuals and without",
    varies="the norm, residual connections, the scale of the first weights",
    measures="the norm of the gradient of what enters every block, before training",
    claims={
        "C66": Rule(
            "Holds for a normalised net if, at every scale of the weights, the gradients at the "
            "first and the last of 50 blocks are within a factor of 10; fails if at one scale "
            "clearly not. Supported if it holds for layer norm and batch norm with and without "
            "residuals, refuted if for none, depends if for some.",
            _judge_gradients,
            label="simulation",
        )
    },
    run=_gradients,
    draw=_draw_gradients,
    seconds=4.0,
    references=("https://arxiv.org/abs/1902.08129",),
)
