"""C3: stacked linear layers."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.models.mlp import MLP, MLPConfig
from translucid.parts.activations import ActivationName
from translucid.see.pictures import Bars
from translucid_lab.claims.shared.mlp_weights import layers_of
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, clearly, column, decide, ratio_of

DEPTHS = (1, 2, 4)
SAMPLES, WIDE = 64, 16


def _stack(seed: int, quick: bool) -> Data:
    """A curved target: what least squares, linear nets of several depths and a ReLU net leave."""
    torch.manual_seed(seed)
    x = torch.randn(SAMPLES, 2, dtype=torch.float64)
    y = (torch.sin(2 * x[:, :1]) + x[:, :1] * x[:, 1:] + x[:, 1:]).detach()
    steps = 100 if quick else 400
    made = torch.cat([x, torch.ones_like(y)], dim=1)
    # Not lstsq: its last digit changes with where the numbers lie in memory.
    left = y - made @ torch.linalg.solve(made.T @ made, made.T @ y)
    nets = [_fitted("identity", depth, x, y, steps) for depth in DEPTHS]
    return {
        "least_squares": float(left.square().mean()),
        "linear": [_error(net, x, y) for net in nets],
        "relu": _error(_fitted("relu", max(DEPTHS), x, y, steps), x, y),
        "collapse": max(_collapse_error(net, x) for net in nets),
    }


def _fitted(bend: ActivationName, depth: int, x: Tensor, y: Tensor, steps: int) -> MLP:
    net = MLP(MLPConfig(inputs=2, hidden=(WIDE,) * (depth - 1), activation=bend)).double()
    # No step of the library's optimizers: it looks for the end of a line, and asks again and again.
    optimiser = torch.optim.LBFGS(
        net.parameters(), max_iter=steps, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def again() -> Tensor:
        optimiser.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        return loss

    optimiser.step(again)
    return net


@torch.no_grad()
def _error(net: MLP, x: Tensor, y: Tensor) -> float:
    return float((net(x) - y).square().mean())


@torch.no_grad()
def _collapse_error(net: MLP, x: Tensor) -> float:
    """How far the net is from the one affine map that its layers multiply to."""
    weight, bias = collapsed(net)
    return float((net(x) - (x @ weight.T + bias)).abs().max())


def collapsed(net: MLP) -> tuple[Tensor, Tensor]:
    """W = W_n ... W_1, and the bias that goes with it."""
    weight = torch.eye(net.config.inputs, dtype=net.output.linear.weight.dtype)
    bias = torch.zeros(net.config.inputs, dtype=weight.dtype)
    for layer in layers_of(net):
        weight = layer.linear.weight @ weight
        bias = layer.linear.weight @ bias + layer.linear.bias
    return weight, bias


def _judge_stack(data: Sequence[Data]) -> Finding:
    floor = column(data, "least_squares")
    linear = [ratio_of(column(data, "linear", place), floor) for place in range(len(DEPTHS))]
    relu = ratio_of(column(data, "relu"), floor)
    collapse = max(column(data, "collapse"))
    beaten = any(interval.against(0.99) == "below" for interval in linear)
    arrived = all(interval.against(1.01) == "below" for interval in linear)
    summary = ", ".join(f"{depth}: {value}" for depth, value in zip(DEPTHS, linear, strict=True))
    return decide(
        {
            "no linear net does better than least squares": not beaten,
            "each one gets there": True if arrived else None,
            "the target is curved: a ReLU net leaves less than half":
                clearly(relu.against(0.5), "below") or None,
            "every linear net is one affine map": collapse < 1e-9,
        },
        f"error over that of least squares, for linear nets of depth {summary}; with ReLU {relu}; "
        f"linear nets and their collapsed matrix differ by at most {collapse:.1e}",
        {"linear": [interval.mean for interval in linear], "relu": relu.mean, "collapse": collapse},
    )  # fmt: skip


def _draw_stack(data: Sequence[Data]) -> Bars:
    linear = np.mean([run["linear"] for run in data], axis=0)
    ends = [np.mean(column(data, name)) for name in ("least_squares", "relu")]
    return Bars(
        "Linear layers on top of each other: no better than one", "mean squared error",
        ("least squares", *(f"{d} linear layer{'s' if d > 1 else ''}" for d in DEPTHS),
         f"{max(DEPTHS)} layers with ReLU"),
        np.array([ends[0], *linear, ends[1]]),
    )  # fmt: skip


linear_stack = Experiment(
    name="linear-stack",
    title="Linear layers on top of each other",
    varies="the depth of linear nets; ReLU between the layers",
    measures="the error left on a curved target; how far a linear net is from one matrix",
    claims={
        "C3": Rule(
            "Supported if linear nets of every depth end within 1 % of least squares, each equals "
            "the product of its matrices within 1e-9, and a ReLU net of that depth leaves clearly "
            "less than half the error. Refuted if a linear net is clearly more than 1 % better, or "
            "is not that product. What has not been trained to the end stays undecided.",
            _judge_stack,
            label="identity",
        )
    },
    run=_stack,
    draw=_draw_stack,
    seconds=2.5,
    references=("https://arxiv.org/abs/1312.6120", "https://arxiv.org/abs/1802.06509"),
)
