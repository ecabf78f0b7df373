"""Training for experiments: one loop, over the library's own optimizers and schedules.

Not the loop of runs (training/trainer.py): that one reads batches of records, seeds every step,
clips, counts, evaluates and saves, which takes longer than a step of the tiny nets here, and it
stops where a loss is no number any more, which some experiments are about.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from translucid.core import TrainingError
from translucid.training import OptimizerName, ScheduleName, make_optimizer, rate

BETAS = (0.9, 0.999)  # Adam's, as Kingma & Ba 2015 have them


class FitStep(NamedTuple):
    """One step, after it was taken; the gradients that it took are still in the parameters."""

    done: int  # steps, with this one
    loss: float  # before it
    norm: float  # of the gradient, before it was clipped; nan where nothing clips


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
    """Move the parameters down the gradient of loss(), which may draw its own batch each time;
    `until` sees every step and may end it. Nothing decays, and descent has no momentum."""
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
    """Rows of the data, drawn with replacement. (rows, ...)"""
    return data[torch.randint(len(data), (rows,), generator=generator)]
