"""How long a run will take: known from its own first steps, so that knowing it changes nothing."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from translucid.core.progress import duration
from translucid.tasks.base import Task
from translucid.training.config import TrainingConfig
from translucid.training.loop import FIRST_SAVE

STEPS, SECONDS = 3, 2.0  # that are measured at least, the first step aside; or 20 steps
MANY = 20
QUICK = 20.0  # seconds: of a shorter run nobody asks how long it takes
SAMPLE = 1.0  # seconds that are spent on knowing how long an evaluation takes
MUCH, ENOUGH = 0.5, 0.2  # of the time, for evaluations


@dataclass(frozen=True)
class Forecast:
    """Seconds of a step, and of an evaluation where that is known."""

    step: float
    evaluation: float = 0.0

    def seconds(self, done: int, steps: int, every: int) -> float:
        """From step `done` to the end."""
        return (steps - done) * self.step + _evaluations(done, steps, every) * self.evaluation

    def steps_in(self, seconds: float, done: int, steps: int, every: int) -> int:
        """The step that a run stands at after so much time."""
        for step in range(done, steps, max((steps - done) // 1000, 1)):
            if self.seconds(done, step, every) > seconds:
                return step
        return steps


def _evaluations(done: int, steps: int, every: int) -> int:
    """That are due after step `done`, up to the last step, which is always evaluated."""
    return steps // every - done // every + (steps % every > 0 and steps > done)


class Pace:
    """What a run is told after each step, and what it says once it knows how long it will take."""

    def __init__(
        self,
        training: TrainingConfig,
        done: int,
        spent: float,
        measure_evaluation: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        """Begun at step `done`, after so many seconds spent in earlier sessions."""
        self._training, self._done, self._spent = training, done, spent
        self._measure, self._say = measure_evaluation, say
        self._seconds: list[float] = []
        self._forecast: Forecast | None = None
        self._evaluation = 0.0  # seconds of the last one, in this session

    def ticked(self, step: int, seconds: float) -> None:
        """One more step, that took so long."""
        if self._forecast is not None:  # the first steps may have made what later ones use again
            step_seconds = self._forecast.step + (seconds - self._forecast.step) / MANY
            self._forecast = replace(self._forecast, step=step_seconds)
            return
        self._seconds.append(seconds)
        measured = self._seconds[1:]  # the first step makes what the others use again
        if len(measured) < STEPS or (sum(measured) < SECONDS and len(measured) < MANY):
            return
        forecast = Forecast(sum(measured) / len(measured), self._evaluation)
        steps, every = self._training.steps, self._training.evaluate_every
        if forecast.seconds(step, steps, every) > QUICK:
            # Measured even after an evaluation: the first makes kernels that later ones use again.
            forecast = Forecast(forecast.step, self._measure())
            self._say(self._line(forecast, step))
        self._forecast = forecast

    def evaluated(self, seconds: float) -> None:
        """An evaluation, that took so long."""
        self._evaluation = seconds
        if self._forecast is not None:
            self._forecast = replace(self._forecast, evaluation=seconds)

    def left(self, step: int) -> float | None:
        """Seconds to the end of the run, as far as they are known."""
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
            f"{duration(every * forecast.step)}; the first save after {duration(save)}"
        )
        evaluations = _evaluations(step, steps, every) * forecast.evaluation
        if evaluations > MUCH * whole:
            rarely = (1 - ENOUGH) / ENOUGH * forecast.evaluation / forecast.step
            line += (
                f"; evaluations take {evaluations / whole:.0%} of it, and "
                f"{ENOUGH:.0%} or less with training.evaluate_every={_round_up(rarely, steps)}"
            )
        if training.minutes is None:
            return line
        time_left = 60 * training.minutes - self._spent
        if whole <= time_left:
            return line
        reached = forecast.steps_in(time_left, self._done, steps, every)
        return (
            f"{line}; but training.minutes = {training.minutes:g} ends it at about step "
            f"{reached:,}: with training.steps={reached} the learning rate comes down in that time"
        )


def _round_up(number: float, most: int) -> int:
    """To one digit and zeros: 1,234 -> 2,000."""
    unit = 10 ** int(math.log10(max(number, 1)))
    return min(math.ceil(number / unit) * unit, most)


def evaluation_seconds(task: Task[Any, Any], network: nn.Module, items: Sequence[Any]) -> float:
    """About how long an evaluation takes: of as many items as take a second."""
    count = min(4, len(items))
    while count:
        sample = [items[place * len(items) // count] for place in range(count)]
        seconds = _seconds(task, network, sample)
        if seconds >= SAMPLE / 2:  # what the first makes, kernels say, the next uses again
            seconds = min(seconds, _seconds(task, network, sample))
        if seconds >= SAMPLE / 2 or count == len(items):
            return seconds * len(items) / count
        count = min(4 * count, len(items))
    return 0.0


def _seconds(task: Task[Any, Any], network: nn.Module, items: Sequence[Any]) -> float:
    began = time.monotonic()
    task.evaluate(network, items)
    return time.monotonic() - began
