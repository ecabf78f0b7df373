"""Sizes that end within a stated time on this machine, for people who leave them open.

Networks of growing size take a few steps on the run's own batches and are thrown away. The largest
is taken that gets through at least half of the steps that it should have; the steps that fit into
the time are then its steps, so that the learning rate comes down by the end.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from translucid.core.progress import duration
from translucid.models import build
from translucid.runs.batches import Stream
from translucid.runs.pace import evaluation_seconds
from translucid.runs.recipe import automatic_sizes
from translucid.runs.recipe.automatic_sizes import SIZES, Amount, Size
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.recipe.resources import Prepared
from translucid.tasks.base import Task
from translucid.training.distributed import ALONE
from translucid.training.gradients import Gradients
from translucid.training.memory import check_memory
from translucid.training.state import State

SIZE_KEYS = ("d_model", "hidden", "layers", "d_ff")  # set by the user, they are not open
USED = 0.85  # of the time: the rest is for reading, saving and the test
EVALUATIONS, FOR_EVALUATIONS = 10, 0.25  # of a run, and the fraction of its time, at most
ENOUGH = 0.5  # of a size's steps, for which it is worth more than a smaller size
STEPS, SECONDS = 4, 3.0  # that are measured, the first step aside


Picks = dict[str, dict[str, Any]]  # by section and key


@dataclass(frozen=True)
class Fit:
    """A size, and what of its steps fits into the time."""

    size: Size
    picks: Picks
    steps: int  # that it should have
    in_time: int  # that fit
    seconds: float  # of a step
    evaluation: float

    @property
    def fraction(self) -> float:
        return self.in_time / self.steps

    @property
    def words(self) -> str:
        return f"d_model={self.size.d_model} layers={self.size.layers}"

    @property
    def minutes(self) -> int:
        """That all of its steps would take."""
        seconds = self.steps * self.seconds + EVALUATIONS * self.evaluation
        return math.ceil(seconds / 60 / USED)


def is_open(recipe: Recipe) -> bool:
    """Whether there is a time, and sizes to choose."""
    chosen = [key for key in SIZE_KEYS if key in recipe.model]
    if recipe.training.start_from is not None:  # its sizes are those of the source
        return False
    return recipe.training.minutes is not None and recipe.model["kind"] != "mlp" and not chosen


def fit(
    recipe: Recipe, amount: Amount, known: Prepared, items: Sequence[Any], valid: Sequence[Any],
    device: torch.device,
) -> tuple[Picks, list[str]]:  # fmt: skip
    """What to pick for the time, and lines that say what a longer one would bring.

    recipe: as the user gave it. Draws from the random generators; whoever calls seeds them after.
    """
    minutes = recipe.training.minutes
    assert minutes is not None
    budget = 60 * USED * minutes
    # Steps that the user has set are all to be taken.
    enough = 1.0 if "steps" in recipe.training.model_fields_set else ENOUGH
    fits: list[Fit] = []
    for size in _up_to(automatic_sizes.size_for(amount)):
        picks = automatic_sizes.pick(recipe, amount, device.type, size)
        fits.append(_measured(size, recipe, picks, known, items, valid, device, budget))
        if fits[-1].fraction < enough:
            break
    best = [f for f in fits if f.fraction >= enough][-1:] or fits[:1]
    return _with_steps(best[0], budget), _lines(best[0], fits[-1], minutes)


def _up_to(largest: Size) -> list[Size]:
    """Smaller and larger networks for the same data: in batches, epochs and dropout as it asks."""
    shapes = [(64, 2, SIZES[0].learning_rate)]
    shapes += [(s.d_model, s.layers, s.learning_rate) for s in SIZES[: SIZES.index(largest) + 1]]
    return [replace(largest, d_model=d, layers=n, learning_rate=rate) for d, n, rate in shapes]


def _measured(
    size: Size, recipe: Recipe, picks: Picks, known: Prepared, items: Sequence[Any],
    valid: Sequence[Any], device: torch.device, budget: float,
) -> Fit:  # fmt: skip
    sized, _ = automatic_sizes.with_picks(recipe, picks)
    config = sized.model_config_for(sizes=known.sizes)
    check_memory(config, sized.training, device, sized.model)
    network = build(config).to(device)
    seconds = step_seconds(network, sized, known.task, items, device)
    evaluation = evaluation_seconds(known.task, network, valid)
    for_steps = budget - min(EVALUATIONS * evaluation, FOR_EVALUATIONS * budget)
    in_time = max(int(for_steps / seconds), 1)
    return Fit(size, picks, sized.training.steps, in_time, seconds, evaluation)


def step_seconds(
    network: nn.Module, recipe: Recipe, task: Task[Any, Any], items: Sequence[Any],
    device: torch.device,
) -> float:  # fmt: skip
    """How long a step takes, of a network that nobody needs afterwards."""
    training = recipe.training
    state = State(network, training, ALONE)
    batches = Stream(task, items, recipe)
    gradients = Gradients(state.called, task, training, device, ALONE)
    network.train()
    parameters = list(network.parameters())
    taken: list[float] = []
    while len(taken) < STEPS + 1 and (len(taken) < 2 or sum(taken) < SECONDS):
        began = time.monotonic()
        micro = [next(batches) for _ in range(training.accumulate)]
        for place, batch in enumerate(micro, start=1):
            gradients.add(batch, 1 / max(batch.count, 1), last=place == len(micro))
        float(nn.utils.clip_grad_norm_(parameters, training.clip_norm))
        for optimizer in state.optimizers:
            optimizer.step()
        gradients.clear(state.optimizers)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.monotonic() - began)
    return sum(taken[1:]) / len(taken[1:])


def _with_steps(best: Fit, budget: float) -> Picks:
    """As many steps as fit, and as many evaluations as leave time for them."""
    steps = min(best.steps, best.in_time)
    most = int(FOR_EVALUATIONS * budget / max(best.evaluation, 1e-9))
    every = max(steps // min(max(most, 1), EVALUATIONS), 1)
    training = {"steps": steps, "warmup": steps // 20, "evaluate_every": every}
    return best.picks | {"training": best.picks["training"] | training}


def _lines(best: Fit, last: Fit, minutes: float) -> list[str]:
    taken = min(best.steps, best.in_time)
    lines = [
        f"in {minutes:g} minutes here: {best.words}, {duration(best.seconds)} a step, {taken:,} of "
        f"the {best.steps:,} steps that the data asks for"
    ]
    if best.fraction < 1:
        lines.append(f"  --minutes {best.minutes} would do for all of them")
    if last is not best:
        lines.append(f"  --minutes {last.minutes} would do for the next size, {last.words}")
    return lines
