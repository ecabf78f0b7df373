"""Choose the sizes and settings of a network that fit a time limit.

Networks of growing size train a few steps on the run's batches and are discarded. Within the limit,
the chosen network can read ENOUGH_TOKENS for each weight of its layers, in at least ENOUGH_STEPS
steps; it is the largest one that can. If time is short, batches are smaller, and since few epochs
cannot overfit, dropout is lower and the learning rate higher. `steps` becomes the number of steps
that fit, so that the learning rate schedule ends in time. The constants were fitted to runs on
seven data sets; docs/explanation/results.md has the method and the scores.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from translucid.core.progress import duration
from translucid.models import Network, build
from translucid.runs.forecast import (
    SAMPLE,
    TRIAL_SECONDS,
    TRIAL_STEPS,
    evaluation_seconds,
    step_seconds,
)
from translucid.runs.recipe import automatic_sizes
from translucid.runs.recipe.automatic_sizes import SIZES, Amount, Size
from translucid.runs.recipe.examples import Prepared
from translucid.runs.recipe.recipe import Recipe
from translucid.training.memory import check_memory

SIZE_KEYS = ("d_model", "hidden", "layers", "d_ff")  # if the user sets one, none is chosen
DEFAULT_MINUTES = 15.0  # planned for if the user sets no time limit
USED = 0.9  # fraction of the time; the rest is for saving, the test and slower steps
EVALUATIONS, FOR_EVALUATIONS = 10, 0.15  # maximum number, and fraction of the time
ENOUGH_TOKENS = 1.0  # a larger network is worthwhile if it reads this many for each weight,
ENOUGH_STEPS = 300  # in this many steps
SMALL_BATCH, LARGE_BATCH = 512, 2048  # tokens: measured on a CPU; none smaller is chosen
MANY_STEPS, STEPS_PER_EPOCH = 800, 100  # a larger batch is worthwhile with this many
FEW_EPOCHS = 6  # at most these: no dropout
SOME_EPOCHS, FASTER = 12, 2  # at most these: a learning rate that is higher by this factor
TRIAL_TIME, SAMPLE_TIME = 0.01, 0.005  # of a trial, and of a sample of the evaluation
CHECK_STEPS, CHECK_TIME = 20, 0.03  # to measure the chosen size: steps, and fraction of the time

Picks = dict[str, dict[str, Any]]  # by section and key


@dataclass(frozen=True)
class SizeFit:
    """A model size, and how many of its steps fit into the time limit."""

    size: Size
    words: str  # such as "d_model=64 layers=2"
    picks: Picks
    steps: int  # intended
    in_time: int  # that fit
    seconds: float  # per step
    evaluation: float

    @property
    def taken(self) -> int:
        """The number of steps to train."""
        return min(self.steps, self.in_time)

    @property
    def batch(self) -> int:
        """Tokens per batch."""
        return int(self.picks["training"]["batch_tokens"])

    def minutes(self, steps: int) -> int:
        """The time limit in minutes that this many steps need."""
        seconds = steps * self.seconds + EVALUATIONS * self.evaluation
        return math.ceil(seconds / 60 / USED)


def is_open(recipe: Recipe) -> bool:
    """Whether the recipe leaves sizes or the number of steps open, so that they can be chosen."""
    if recipe.training.start_from is not None:  # which has the sizes already
        return False
    if recipe.model["kind"] not in ("transformer", "recurrent"):
        return False
    return not _sized(recipe) or "steps" not in recipe.training.model_fields_set


def _sized(recipe: Recipe) -> bool:
    """Whether the user has set the size of the network."""
    return any(key in recipe.model for key in SIZE_KEYS)


def fit(
    recipe: Recipe, amount: Amount, known: Prepared, items: Sequence[Any], valid: Sequence[Any],
    device: torch.device, spent: float = 0.0,
) -> tuple[Picks, list[str]]:  # fmt: skip
    """Choose settings that fit the time limit, and describe what a longer limit would allow.

    recipe: as the user gave it. spent: seconds since the command started. Draws from the random
    generators; seed them afterwards.
    """
    minutes = recipe.training.minutes or DEFAULT_MINUTES
    budget = USED * max(60 * minutes - spent, 30 * minutes)
    trial = _Trial(recipe, amount, known, items, valid, device, budget)
    largest = automatic_sizes.size_for(amount)
    smallest, *larger = [largest] if _sized(recipe) else _up_to(largest)
    best = last = trial.fit(smallest)
    for size in larger:
        last = trial.fit(size)
        if last.taken < trial.enough(last):
            break
        best = last
    chosen = trial.check(best)
    return _with_steps(chosen, budget), _lines(trial, chosen, None if last is best else last)


def _up_to(largest: Size) -> list[Size]:
    """Candidate networks up to this size, with the batches, epochs and dropout of the largest."""
    shapes = [(64, 1, SIZES[0].learning_rate), (64, 2, SIZES[0].learning_rate)]
    shapes += [(s.d_model, s.layers, s.learning_rate) for s in SIZES[: SIZES.index(largest) + 1]]
    return [replace(largest, d_model=d, layers=n, learning_rate=rate) for d, n, rate in shapes]


@dataclass(frozen=True)
class _Trial:
    """Measures sizes, and chooses for each the batch size, dropout and learning rate."""

    recipe: Recipe
    amount: Amount
    known: Prepared
    items: Sequence[Any]
    valid: Sequence[Any]
    device: torch.device
    budget: float  # seconds

    @cached_property
    def lengths(self) -> dict[str, Any]:
        """The setting data.max_length, if the user has not set it."""
        return automatic_sizes.pick(self.recipe, self.amount, self.device.type)["data"]

    @property
    def smallest_batch(self) -> int:
        """The smallest batch to choose, large enough for the longest example."""
        max_length = self.lengths.get("max_length", self.recipe.data.max_length)
        return max(SMALL_BATCH, max_length * self.known.task.traits.max_files)

    def enough(self, size: SizeFit) -> int:
        """The number of steps that a size must complete within the time limit. If the user has set
        the number of steps, that is all of them."""
        if self._set("steps"):
            return size.steps
        enough = math.ceil(ENOUGH_TOKENS * size.size.weights / size.batch)
        return min(size.steps, max(enough, ENOUGH_STEPS))

    def fit(self, size: Size) -> SizeFit:
        """Measure a size with two batches and without dropout, and choose its batch size."""
        if self.device.type != "cpu" or self._set("batch_tokens") or self._set("steps"):
            return self._measured(size)
        low, high = self.smallest_batch, max(LARGE_BATCH, 2 * self.smallest_batch)
        first = self._measured(replace(size, batch_tokens=low, dropout=0.0))
        _, second = self._tried(replace(size, batch_tokens=high, dropout=0.0))
        per_token = max((second - first.seconds) / (high - low), first.seconds / low / 100)
        per_step = max(first.seconds - low * per_token, 0.0)

        def fitted(batch: int) -> SizeFit:
            seconds = per_step + batch * per_token
            return self._fitted(replace(size, batch_tokens=batch), seconds, first.evaluation)

        whole = fitted(size.batch_tokens)
        if whole.in_time >= whole.steps:
            return whole
        batch = size.batch_tokens
        while batch // 2 >= low:
            if batch <= self._epoch / STEPS_PER_EPOCH and fitted(batch).in_time >= MANY_STEPS:
                break
            batch //= 2
        return fitted(batch)

    @property
    def _epoch(self) -> float:
        """The approximate number of tokens in an epoch."""
        return max(self.amount.words * automatic_sizes.PIECES_PER_WORD, 1)

    def check(self, chosen: SizeFit) -> SizeFit:
        """If only a few epochs fit, raise the learning rate of the chosen size and switch off its
        dropout. Then measure it again, for longer."""
        size, epochs = chosen.size, chosen.taken * chosen.batch / self._epoch
        if chosen.in_time < chosen.steps and epochs <= SOME_EPOCHS:
            dropout = 0.0 if epochs <= FEW_EPOCHS else size.dropout
            size = replace(size, dropout=dropout, learning_rate=FASTER * size.learning_rate)
        return self._measured(size, CHECK_STEPS, CHECK_TIME * self.budget)

    def _measured(self, size: Size, steps: int = TRIAL_STEPS, seconds: float = 0.0) -> SizeFit:
        network, step = self._tried(size, steps, seconds)
        sample = min(SAMPLE, SAMPLE_TIME * self.budget)
        evaluation = evaluation_seconds(self.known.task, network, self.valid, sample)
        return self._fitted(size, step, evaluation)

    def _tried(
        self, size: Size, steps: int = TRIAL_STEPS, seconds: float = 0.0
    ) -> tuple[Network, float]:
        """A network of this size after a trial, and its seconds per step. seconds: limit of the
        trial; 0: the default."""
        sized, _ = automatic_sizes.with_picks(self.recipe, self._picks(size))
        config = sized.model_config_for(sizes=self.known.sizes)
        check_memory(config, sized.training, self.device, sized.model)
        network = build(config).to(self.device)
        limit = seconds or min(TRIAL_SECONDS, TRIAL_TIME * self.budget)
        step = step_seconds(
            network, sized, self.known.task, self.items, self.device, steps=steps, seconds=limit
        )
        return network, step

    def _fitted(self, size: Size, seconds: float, evaluation: float) -> SizeFit:
        picks = self._picks(size)
        sized, _ = automatic_sizes.with_picks(self.recipe, picks)
        steps = sized.training.steps
        for_steps = self.budget - min(EVALUATIONS * evaluation, FOR_EVALUATIONS * self.budget)
        in_time = max(int(for_steps / seconds), 1)
        words = " ".join(
            f"{key}={sized.model[key]}" for key in ("d_model", "layers") if key in sized.model
        )
        return SizeFit(size, words, picks, steps, in_time, seconds, evaluation)

    def _picks(self, size: Size) -> Picks:
        """The settings for a size. data.max_length is the same for all sizes, because the examples
        are already limited to it."""
        picks = automatic_sizes.pick(self.recipe, self.amount, self.device.type, size)
        return picks | {"data": self.lengths}

    def _set(self, key: str) -> bool:
        return key in self.recipe.training.model_fields_set


def _with_steps(best: SizeFit, budget: float) -> Picks:
    """The chosen settings with as many steps and evaluations as fit."""
    steps = best.taken
    most = int(FOR_EVALUATIONS * budget / max(best.evaluation, 1e-9))
    every = max(steps // min(max(most, 1), EVALUATIONS), 1)
    training = {"steps": steps, "warmup": steps // 20, "evaluate_every": every}
    return best.picks | {"training": best.picks["training"] | training}


def _lines(trial: _Trial, best: SizeFit, larger: SizeFit | None) -> list[str]:
    """Describe the choice, its cost, and what other time limits would allow."""
    minutes, steps = trial.recipe.training.minutes, best.taken
    seconds = steps * best.seconds + EVALUATIONS * best.evaluation
    limit = f"in {minutes:g} minutes here" if minutes else f"about {duration(seconds)} here"
    lines = [
        f"{limit}: {best.words}, {duration(best.seconds)} a step, {steps:,} of the {best.steps:,} "
        "steps intended for this data"
    ]
    if best.in_time < best.steps:
        lines.append(f"  --minutes {best.minutes(best.steps)} would be enough for all of them")
    if larger is not None:
        needed = larger.minutes(trial.enough(larger))
        lines.append(f"  --minutes {needed} would be enough for the next size, {larger.words}")
    if minutes is None and seconds > 60:
        lines.append(f"  --minutes {max(int(seconds / 240), 1)} would choose a shorter run")
    return lines
