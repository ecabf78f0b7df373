"""Forecast how long a run takes, from its first steps."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from statistics import median
from typing import Any

import torch
from torch import nn

from translucid.core.progress import duration
from translucid.runs.batches import Stream
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.base import Task
from translucid.training.config import TrainingConfig
from translucid.training.distributed import ALONE
from translucid.training.gradients import Gradients, Update
from translucid.training.loop import FIRST_SAVE
from translucid.training.state import State, StepPlan

FIRST_STEPS, FIRST_SECONDS = 3, 2.0  # minimum to measure, after the first step; or MANY steps
MANY = 20
QUICK = 20.0  # seconds; shorter runs are not forecast
SAMPLE = 1.0  # seconds spent on measuring an evaluation
AIM = 0.98  # fraction of a time limit to use; the rest is for saving
FOR_STEPS = 0.4  # of a time limit: the least for training with its evaluations
NEXT_PLAN = 0.02  # of a time limit: the pause between two changes of the number of steps
SMALL_CHANGE, REPORTED = 0.02, 0.2  # of the steps: too small a change, and one to report
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
        """The step that the run reaches if it continues from step `done` for this many seconds."""
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
        plan: StepPlan | None = None,
        ending: Callable[[float], float] = lambda evaluation: 0.0,
    ) -> None:
        """done: the steps of earlier sessions; spent: their duration in seconds; plan: the
        plan at the start; ending: from the duration of an evaluation to the seconds that the run
        takes after its last step."""
        self._ending = ending
        self._training, self._done, self._spent = training, done, spent
        self._measure, self._say = measure_evaluation, say
        self._seconds: list[float] = []
        self._forecast: Forecast | None = None
        self._plan = StepPlan(training.steps, training.steps) if plan is None else plan
        self._reported = self._plan.end
        self._planned = 0.0  # when `end` was last considered, in seconds since the start
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
        steps, every = self._plan.end, self._every
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
        return known.seconds(step, self._plan.end, self._every)

    @property
    def limit(self) -> float:
        """Seconds after which training stops, so that the last evaluation and the end of the run
        fit into the time limit. At least FOR_STEPS of the time limit is for training, even if the
        set-up or the end of the run takes long."""
        if self._training.minutes is None:
            return math.inf
        whole, rest = 60 * self._training.minutes, self._ending(self._evaluation)
        least = min(self._spent + FOR_STEPS * whole, whole)
        return max(whole - rest - self._evaluation, least)

    @property
    def _every(self) -> int:
        """The number of steps between evaluations."""
        return max(round(self._training.evaluate_every * self._plan.stretch), 1)

    def new_end(self, plan: StepPlan, step: int, seconds: float) -> int | None:
        """The step at which training should end to use its time limit, or None to keep the end.
        seconds: since the start."""
        training, known = self._training, self._forecast
        if training.minutes is None or training.most_steps is None or known is None:
            return None
        limit = 60 * training.minutes
        before, pause = plan.end - step, NEXT_PLAN * limit
        if seconds < self._planned + pause and before * known.step > pause:
            return None
        self._planned = seconds
        # Rounded, since places in the schedule are sums of fractions.
        places = round(plan.steps - plan.at(step), 6)
        evaluations = math.ceil(places / training.evaluate_every)
        end_of_run = self._ending(known.evaluation)
        least = min(self._spent + FOR_STEPS * limit, AIM * limit)
        left = max(AIM * limit - end_of_run, least) - seconds - evaluations * known.evaluation
        rest = max(left / known.step, before / 2)  # a single slow evaluation may mislead
        end = max(min(step + int(rest), training.most_steps), step + 1)
        if abs(end - plan.end) <= SMALL_CHANGE * before:
            return None
        self._plan = plan.ending(end, step)
        if abs(end - self._reported) > REPORTED * self._reported:
            self._say(
                f"{end:,} steps in place of {self._reported:,}: at {duration(known.step)} a step, "
                f"they use the time limit (training.minutes = {training.minutes:g})"
            )
            self._reported = end
        return end

    def _line(self, forecast: Forecast, step: int) -> str:
        training, steps, every = self._training, self._plan.end, self._every
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
                f"; evaluations take {evaluations / whole:.0%} of that time, or at most "
                f"{AIMED_AT:.0%} with training.evaluate_every={_round_up(rarely, steps)}"
            )
        if training.minutes is None or training.most_steps is not None:
            return line
        time_left = 60 * training.minutes - self._spent
        if whole <= time_left:
            return line
        reached = forecast.steps_in(time_left, self._done, steps, every)
        return (
            f"{line}; but training.minutes = {training.minutes:g} ends training at about step "
            f"{reached:,}: set training.steps={reached} so that the learning rate decays in time"
        )


def _round_up(number: float, most: int) -> int:
    """Round up to one digit: 1,234 -> 2,000."""
    unit = 10 ** int(math.log10(max(number, 1)))
    return min(math.ceil(number / unit) * unit, most)


def evaluation_seconds(
    task: Task[Any, Any], network: nn.Module, items: Sequence[Any], sample: float = SAMPLE
) -> float:
    """Estimate the time of an evaluation from as many items as take `sample` seconds."""
    count = min(4, len(items))
    while count:
        chosen = [items[place * len(items) // count] for place in range(count)]
        seconds = _seconds(task, network, chosen)
        if seconds >= sample / 2:  # the first call may also initialize kernels
            seconds = min(seconds, _seconds(task, network, chosen))
        if seconds >= sample / 2 or count == len(items):
            return seconds * len(items) / count
        count = min(4 * count, len(items))
    return 0.0


def _seconds(task: Task[Any, Any], network: nn.Module, items: Sequence[Any]) -> float:
    began = time.monotonic()
    task.evaluate(network, items)
    return time.monotonic() - began


TRIAL_STEPS, TRIAL_SECONDS = 4, 3.0  # measured, without the first step


@dataclass(frozen=True)
class TrialStep:
    loss: float  # per target
    seconds: float


def trial_steps(
    network: nn.Module, recipe: Recipe, task: Task[Any, Any], items: Sequence[Any],
    device: torch.device, rates: Iterable[float],
) -> Iterator[TrialStep]:  # fmt: skip
    """Train a network that will be discarded, one step for each learning rate."""
    training = recipe.training
    state = State(network, training, ALONE)
    batches = Stream(task, items, recipe)
    gradients = Gradients(state.called, task, training, device, ALONE)
    update = Update(state, training, lambda: gradients.clear(state.optimizers))
    network.train()
    for rate in rates:
        began = time.monotonic()
        micro = [next(batches) for _ in range(training.accumulate)]
        targets = max(sum(batch.count for batch in micro), 1)
        loss = sum(
            gradients.add(batch, 1 / targets, last=place == len(micro))
            for place, batch in enumerate(micro, start=1)
        )
        update.take(rate)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        yield TrialStep(float(loss) / targets, time.monotonic() - began)


def step_seconds(
    network: nn.Module, recipe: Recipe, task: Task[Any, Any], items: Sequence[Any],
    device: torch.device, *, steps: int = TRIAL_STEPS, seconds: float = TRIAL_SECONDS,
) -> float:  # fmt: skip
    """The median time of a training step in seconds, measured at learning rate 0. The first step is
    not counted, because steps are slow when their batch shape is new. steps: the number of steps to
    measure after the first. seconds: stop earlier if all steps have taken this long."""
    taken: list[float] = []
    for step in trial_steps(network, recipe, task, items, device, repeat(0.0, steps + 1)):
        taken.append(step.seconds)
        if len(taken) > 1 and sum(taken) >= seconds:
            break
    return median(taken[1:])
