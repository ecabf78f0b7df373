"""Forecast how long a run takes, from its first steps; or choose sizes that fit a time limit.

To choose sizes, networks of growing size train a few steps on the run's batches and are discarded.
The largest one that completes at least half of its intended steps is chosen. `steps` becomes the
number of steps that fit, so that the learning rate schedule ends in time.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from translucid.core.progress import duration
from translucid.models import build
from translucid.runs.batches import Stream
from translucid.runs.recipe import automatic_sizes
from translucid.runs.recipe.automatic_sizes import SIZES, Amount, Size
from translucid.runs.recipe.examples import Prepared
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.base import Task
from translucid.training.config import TrainingConfig
from translucid.training.distributed import ALONE
from translucid.training.gradients import Gradients
from translucid.training.loop import FIRST_SAVE
from translucid.training.memory import check_memory
from translucid.training.state import State

FIRST_STEPS, FIRST_SECONDS = 3, 2.0  # minimum to measure, after the first step; or MANY steps
MANY = 20
QUICK = 20.0  # seconds; shorter runs are not forecast
SAMPLE = 1.0  # seconds spent on measuring an evaluation
TOO_MUCH, AIMED_AT = 0.5, 0.2  # fractions of the time, for evaluations


@dataclass(frozen=True)
class Forecast:
    """Seconds per step, and per evaluation if known."""

    step: float
    evaluation: float = 0.0

    def seconds(self, done: int, steps: int, every: int) -> float:
        """Seconds from step `done` to the end."""
        return (steps - done) * self.step + _evaluations(done, steps, every) * self.evaluation

    def steps_in(self, seconds: float, done: int, steps: int, every: int) -> int:
        """The step reached after this many seconds."""
        for step in range(done, steps, max((steps - done) // 1000, 1)):
            if self.seconds(done, step, every) > seconds:
                return step
        return steps


def _evaluations(done: int, steps: int, every: int) -> int:
    """The number of evaluations after step `done`; the last step is always evaluated."""
    return steps // every - done // every + (steps % every > 0 and steps > done)


class Pace:
    """Measures the steps of a run, and reports once how long it will take."""

    def __init__(
        self,
        training: TrainingConfig,
        done: int,
        spent: float,
        measure_evaluation: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        """done: the first step; spent: seconds of earlier sessions."""
        self._training, self._done, self._spent = training, done, spent
        self._measure, self._say = measure_evaluation, say
        self._seconds: list[float] = []
        self._forecast: Forecast | None = None
        self._evaluation = 0.0  # duration of the last one in this session, in seconds

    def ticked(self, step: int, seconds: float) -> None:
        """Add the time of a step."""
        if self._forecast is not None:  # a moving average, since first steps may be slower
            step_seconds = self._forecast.step + (seconds - self._forecast.step) / MANY
            self._forecast = replace(self._forecast, step=step_seconds)
            return
        self._seconds.append(seconds)
        measured = self._seconds[1:]  # the first step also initializes
        if len(measured) < FIRST_STEPS or (sum(measured) < FIRST_SECONDS and len(measured) < MANY):
            return
        forecast = Forecast(sum(measured) / len(measured), self._evaluation)
        steps, every = self._training.steps, self._training.evaluate_every
        if forecast.seconds(step, steps, every) > QUICK:
            # Measured even after an evaluation, since the first one also initializes kernels.
            forecast = Forecast(forecast.step, self._measure())
            self._say(self._line(forecast, step))
        self._forecast = forecast

    def evaluated(self, seconds: float) -> None:
        """Set the time of an evaluation."""
        self._evaluation = seconds
        if self._forecast is not None:
            self._forecast = replace(self._forecast, evaluation=seconds)

    def left(self, step: int) -> float | None:
        """Seconds to the end of the run, if known."""
        known = self._forecast
        if known is None:
            if not self._seconds:
                return None
            known = Forecast(self._seconds[-1], self._evaluation)
        return known.seconds(step, self._training.steps, self._training.evaluate_every)

    def _line(self, forecast: Forecast, step: int) -> str:
        training = self._training
        steps, every = training.steps, training.evaluate_every
        whole = sum(self._seconds) + forecast.seconds(step, steps, every)
        first = min(training.save_every or every, steps) - self._done % every
        save = min(FIRST_SAVE, forecast.seconds(0, first, every))
        line = (
            f"about {duration(whole)} for {steps - self._done:,} steps: "
            f"{duration(forecast.step)} a step, {_evaluations(self._done, steps, every)} "
            f"evaluations of {duration(forecast.evaluation)}, one every "
            f"{duration(every * forecast.step)}; first checkpoint after {duration(save)}"
        )
        evaluations = _evaluations(step, steps, every) * forecast.evaluation
        if evaluations > TOO_MUCH * whole:
            rarely = (1 - AIMED_AT) / AIMED_AT * forecast.evaluation / forecast.step
            line += (
                f"; evaluations take {evaluations / whole:.0%} of it, and "
                f"{AIMED_AT:.0%} or less with training.evaluate_every={_round_up(rarely, steps)}"
            )
        if training.minutes is None:
            return line
        time_left = 60 * training.minutes - self._spent
        if whole <= time_left:
            return line
        reached = forecast.steps_in(time_left, self._done, steps, every)
        return (
            f"{line}; but training.minutes = {training.minutes:g} ends it at about step "
            f"{reached:,}: set training.steps={reached} so that the learning rate decays in time"
        )


def _round_up(number: float, most: int) -> int:
    """Round up to one digit: 1,234 -> 2,000."""
    unit = 10 ** int(math.log10(max(number, 1)))
    return min(math.ceil(number / unit) * unit, most)


def evaluation_seconds(task: Task[Any, Any], network: nn.Module, items: Sequence[Any]) -> float:
    """Estimate the time of an evaluation from as many items as take a second."""
    count = min(4, len(items))
    while count:
        sample = [items[place * len(items) // count] for place in range(count)]
        seconds = _seconds(task, network, sample)
        if seconds >= SAMPLE / 2:  # the first call may also initialize kernels
            seconds = min(seconds, _seconds(task, network, sample))
        if seconds >= SAMPLE / 2 or count == len(items):
            return seconds * len(items) / count
        count = min(4 * count, len(items))
    return 0.0


def _seconds(task: Task[Any, Any], network: nn.Module, items: Sequence[Any]) -> float:
    began = time.monotonic()
    task.evaluate(network, items)
    return time.monotonic() - began


SIZE_KEYS = ("d_model", "hidden", "layers", "d_ff")  # if the user sets one, none is chosen
USED = 0.85  # fraction of the time; the rest is for reading, saving and the test
EVALUATIONS, FOR_EVALUATIONS = 10, 0.25  # maximum number, and fraction of the time
ENOUGH_STEPS = 0.5  # fraction of the intended steps that makes a larger size worthwhile
TRIAL_STEPS, TRIAL_SECONDS = 4, 3.0  # measured, without the first step


Picks = dict[str, dict[str, Any]]  # by section and key


@dataclass(frozen=True)
class SizeFit:
    """A model size, and how many of its steps fit into the time limit."""

    size: Size
    picks: Picks
    steps: int  # intended
    in_time: int  # that fit
    seconds: float  # per step
    evaluation: float

    @property
    def fraction(self) -> float:
        return self.in_time / self.steps

    @property
    def words(self) -> str:
        return f"d_model={self.size.d_model} layers={self.size.layers}"

    @property
    def minutes(self) -> int:
        """The time limit in minutes that all of its steps need."""
        seconds = self.steps * self.seconds + EVALUATIONS * self.evaluation
        return math.ceil(seconds / 60 / USED)


def is_open(recipe: Recipe) -> bool:
    """Whether there is a time limit, and sizes to choose."""
    chosen = [key for key in SIZE_KEYS if key in recipe.model]
    if recipe.training.start_from is not None or recipe.fitted:  # which has the sizes already
        return False
    return recipe.training.minutes is not None and recipe.model["kind"] != "mlp" and not chosen


def fit(
    recipe: Recipe, amount: Amount, known: Prepared, items: Sequence[Any], valid: Sequence[Any],
    device: torch.device,
) -> tuple[Picks, list[str]]:  # fmt: skip
    """Choose settings that fit the time limit, and describe what a longer limit would allow.

    recipe: as the user gave it. Draws from the random generators; seed them afterwards.
    """
    minutes = recipe.training.minutes
    assert minutes is not None
    budget = 60 * USED * minutes
    # If the user has set the steps, all of them must fit.
    enough = 1.0 if "steps" in recipe.training.model_fields_set else ENOUGH_STEPS
    fits: list[SizeFit] = []
    for size in _up_to(automatic_sizes.size_for(amount)):
        picks = automatic_sizes.pick(recipe, amount, device.type, size)
        fits.append(_measured(size, recipe, picks, known, items, valid, device, budget))
        if fits[-1].fraction < enough:
            break
    best = [f for f in fits if f.fraction >= enough][-1:] or fits[:1]
    return _with_steps(best[0], budget), _lines(best[0], fits[-1], minutes)


def _up_to(largest: Size) -> list[Size]:
    """Candidate networks up to this size, with the batches, epochs and dropout of the largest."""
    shapes = [(64, 2, SIZES[0].learning_rate)]
    shapes += [(s.d_model, s.layers, s.learning_rate) for s in SIZES[: SIZES.index(largest) + 1]]
    return [replace(largest, d_model=d, layers=n, learning_rate=rate) for d, n, rate in shapes]


def _measured(
    size: Size, recipe: Recipe, picks: Picks, known: Prepared, items: Sequence[Any],
    valid: Sequence[Any], device: torch.device, budget: float,
) -> SizeFit:  # fmt: skip
    sized, _ = automatic_sizes.with_picks(recipe, picks)
    config = sized.model_config_for(sizes=known.sizes)
    check_memory(config, sized.training, device, sized.model)
    network = build(config).to(device)
    seconds = step_seconds(network, sized, known.task, items, device)
    evaluation = evaluation_seconds(known.task, network, valid)
    for_steps = budget - min(EVALUATIONS * evaluation, FOR_EVALUATIONS * budget)
    in_time = max(int(for_steps / seconds), 1)
    return SizeFit(size, picks, sized.training.steps, in_time, seconds, evaluation)


def step_seconds(
    network: nn.Module, recipe: Recipe, task: Task[Any, Any], items: Sequence[Any],
    device: torch.device,
) -> float:  # fmt: skip
    """Measure the time of a step, with a network that is discarded."""
    training = recipe.training
    state = State(network, training, ALONE)
    batches = Stream(task, items, recipe)
    gradients = Gradients(state.called, task, training, device, ALONE)
    network.train()
    parameters = list(network.parameters())
    taken: list[float] = []
    while len(taken) < TRIAL_STEPS + 1 and (len(taken) < 2 or sum(taken) < TRIAL_SECONDS):
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


def _with_steps(best: SizeFit, budget: float) -> Picks:
    """The chosen settings with as many steps and evaluations as fit."""
    steps = min(best.steps, best.in_time)
    most = int(FOR_EVALUATIONS * budget / max(best.evaluation, 1e-9))
    every = max(steps // min(max(most, 1), EVALUATIONS), 1)
    training = {"steps": steps, "warmup": steps // 20, "evaluate_every": every}
    return best.picks | {"training": best.picks["training"] | training}


def _lines(best: SizeFit, last: SizeFit, minutes: float) -> list[str]:
    taken = min(best.steps, best.in_time)
    lines = [
        f"in {minutes:g} minutes here: {best.words}, {duration(best.seconds)} a step, {taken:,} of "
        f"the {best.steps:,} steps intended for this data"
    ]
    if best.fraction < 1:
        lines.append(f"  --minutes {best.minutes} would be enough for all of them")
    if last is not best:
        lines.append(f"  --minutes {last.minutes} would be enough for the next size, {last.words}")
    return lines
