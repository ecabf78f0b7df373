"""The training loop of the experiments, with the library's optimizers and schedules.

The loop of training runs (training/loop.py) is not used for two reasons. It also seeds every step,
evaluates and saves, which takes longer than a step of these tiny networks. And it stops when the
loss is not finite, which some experiments measure.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from translucid.core import TrainingError
from translucid.training import OptimizerName, ScheduleName, make_optimizer, rate

BETAS = (0.9, 0.999)  # for Adam, as in Kingma & Ba 2015


class FitStep(NamedTuple):
    """A finished step; the parameters still hold its gradients."""

    done: int  # steps, including this one
    loss: float  # before the step
    norm: float  # of the gradient before clipping; NaN without clipping


def fit(
    model: nn.Module,
    loss: Callable[[], Tensor],
    *,
    steps: int,
    learning_rate: float,
    optimizer: OptimizerName = "adam",
    betas: tuple[float, float] = BETAS,
    schedule: ScheduleName = "constant",
    warmup: int = 0,
    cooldown: float = 0.2,
    clip_norm: float | None = None,
    until: Callable[[FitStep], bool] = lambda step: False,
) -> list[FitStep]:
    """Minimise loss(), which may draw a new batch at each call, without weight decay or momentum.
    `until` is called after every step and ends training when it returns True."""
    optimizers = make_optimizer(
        model, optimizer, learning_rate=learning_rate, weight_decay=0.0, momentum=0.0, betas=betas
    )
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    history: list[FitStep] = []
    model.train()
    for step in range(steps):
        fraction = rate(step, schedule, steps=steps, warmup=warmup, cooldown=cooldown)
        for optimizer_ in optimizers:
            optimizer_.zero_grad()
            for group in optimizer_.param_groups:
                group["lr"] = learning_rate * fraction
        value = loss()
        value.backward()
        norm = math.nan
        if clip_norm is not None:
            norm = float(nn.utils.clip_grad_norm_(parameters, clip_norm))
            if not math.isfinite(norm):
                raise TrainingError(
                    f"step {step}: the gradient norm is {norm}; lower the learning rate"
                )
        for optimizer_ in optimizers:
            optimizer_.step()
        history.append(FitStep(step + 1, value.item(), norm))
        if until(history[-1]):
            break
    return history


def random_rows(data: Tensor, rows: int, generator: torch.Generator) -> Tensor:
    """Draw this many random rows of the data, with replacement: (rows, ...)."""
    return data[torch.randint(len(data), (rows,), generator=generator)]
