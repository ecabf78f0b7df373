"""Find a learning rate by a range test (Smith 2017, https://arxiv.org/abs/1506.01186).

A copy of the network trains a few steps while the learning rate rises from very small to very
large. At first the loss hardly changes, then it falls, and finally training diverges. A tenth of
the rate with the smallest loss is a good peak for a schedule.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from translucid.core.errors import ConfigError
from translucid.runs.forecast import trial_steps
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.setup import set_up
from translucid.see.picture_layout import Axis
from translucid.see.pictures import Lines

LOWEST, HIGHEST, STEPS = 1e-5, 1.0, 100
WINDOW = 11  # losses in a mean; centred, since a mean of earlier losses would lag behind
DIVERGED = 1.5  # stop at this multiple of the smallest loss
BELOW = 10.0  # the found rate is this many times smaller than the one with the smallest loss


@dataclass(frozen=True)
class RateTest:
    """The smoothed loss at each learning rate, until training diverged."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def suggested(self) -> float:
        """The learning rate to train with, rounded to two digits."""
        best = self.rates[int(np.argmin(self.losses))] / BELOW
        return float(f"{best:.1e}")

    def figure(self) -> Lines:
        labels = tuple(f"{rate:.1e}" for rate in self.rates)
        note = (
            f"The loss is smallest at {self.rates[int(np.argmin(self.losses))]:.2g}; a tenth of it "
            f"is {self.suggested:g}."
        )
        series = {"loss": np.array(self.losses)}
        return Lines("Learning rate range test", Axis("learning rate", labels), "loss", series,
                     note=note)  # fmt: skip


def find_rate(recipe: Recipe, say: Callable[[str], None], *, pick: bool = False) -> RateTest:
    """Run the test for a recipe. With `pick`, unset keys are chosen to fit the data, as in
    training."""
    if recipe.fitted:
        raise ConfigError(
            f"--find-rate: model.kind = {recipe.model['kind']} is fitted at once, without a "
            "learning rate; omit the option"
        )
    setup = set_up(recipe, say, pick=pick, fits_baseline=False)
    device = next(setup.network.parameters()).device
    rising = [LOWEST * (HIGHEST / LOWEST) ** (step / (STEPS - 1)) for step in range(STEPS)]
    torch.manual_seed(setup.recipe.training.seed)
    losses: list[float] = []
    for step in trial_steps(setup.network, setup.recipe, setup.task, setup.items, device, rising):
        if not math.isfinite(step.loss):
            break
        losses.append(step.loss)
        if diverged(losses):
            break
    return RateTest(tuple(rising[: len(losses)]), tuple(smoothed(losses)))


def diverged(losses: Sequence[float]) -> bool:
    """Whether the mean of the last losses is far above the smallest mean of as many losses."""
    ends = range(WINDOW, len(losses) + 1)
    means = [sum(losses[end - WINDOW : end]) / WINDOW for end in ends]
    return len(means) > 1 and means[-1] > DIVERGED * min(means)


def smoothed(losses: Sequence[float]) -> list[float]:
    """The mean of each loss and its neighbours, WINDOW in all; fewer at the ends."""
    half = WINDOW // 2
    windows = [losses[max(at - half, 0) : at + half + 1] for at in range(len(losses))]
    return [sum(window) / len(window) for window in windows]
