"""Fit models to all examples at once: the baseline of a run, which its network must beat."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translucid.core.errors import ConfigError, TranslucidError
from translucid.core.progress import duration
from translucid.data.batching import plan_batches
from translucid.models import LinearScores, ModelConfig, Network, build
from translucid.runs.recipe.examples import Examples, Part, Prepared, prepare
from translucid.runs.recipe.recipe import FITTING, DataConfig, Recipe, parse
from translucid.tasks.base import Score, Task
from translucid.tasks.in_batches import reporting, sizes_of
from translucid.tasks.long_texts import limit_length
from translucid.tasks.model_folder import Bundle, load, task_of
from translucid.tasks.registry import TASKS
from translucid.tasks.score import Baseline, Coverage
from translucid.training.config import TrainingConfig
from translucid.training.state import random_state_kept, seed_generators

MOST_EXAMPLES = 200_000
MOST_SECONDS, FRACTION = 60.0, 0.1  # of all fits: at most, and at most of the time limit
TRIAL, GROWTH = 2_000, 8  # examples of the first fit, which is timed; factor to the next
SAFE = 2  # all examples at once if this many times the expected time is left
BATCH = 16_384  # tokens

Say = Callable[[str], None]
Parts = Mapping[Part, tuple[Sequence[Any], Coverage]]  # items to score, and their number


@dataclass(frozen=True)
class FittedBaseline:
    """A fitted baseline, and the validation and test items as it reads them."""

    bundle: Bundle  # facts: its validation score, and how many examples it was fitted to
    parts: Parts
    say: Say = lambda line: None
    seconds: dict[Part, float] = field(default_factory=dict)  # that computing a score took
    _scores: dict[Part, Score] = field(default_factory=dict)

    @cached_property
    def task(self) -> Task[Any, Any]:
        return task_of(self.bundle)

    @property
    def kind(self) -> str:
        return str(self.bundle.network.config.model_dump()["kind"])

    @property
    def name(self) -> str:
        return _name(self.bundle)

    @property
    def valid(self) -> Baseline:
        """The name of the baseline and its score on the validation data."""
        return Baseline(self.name, Score(self.bundle.facts["valid"]))

    def score(self, part: Part) -> Score:
        """The score on a part of the data, computed once."""
        if part not in self._scores:
            items, coverage = self.parts[part]
            began = time.monotonic()
            with reporting(self.say):
                score = self.task.evaluate(self.bundle.network, items)
            self.seconds[part] = time.monotonic() - began
            self._scores[part] = replace(score, coverage=coverage)
        return self._scores[part]


def _name(bundle: Bundle) -> str:
    fitted, kind = bundle.facts["fitted"], bundle.network.config.model_dump()["kind"]
    part = f" ({fitted['examples']:,} of {fitted['of']:,} examples)"
    return f"{kind} model{part if fitted['examples'] < fitted['of'] else ''}"


def fit(network: Network, task: Task[Any, Any], items: Sequence[Any], seed: int) -> float:
    """Fit a network to all items; return the seconds that it took."""
    began = time.monotonic()
    sizes = sizes_of(task, items)
    budget = max(BATCH, int(sizes.sum(axis=1).max()))
    plan = plan_batches(sizes, budget, seed=seed)
    batches = [task.collate([items[place] for place in chosen]) for chosen in plan.batches]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on busy cores, two threads take ten times as long
    if isinstance(network, LinearScores):
        network.class_weights = getattr(task, "class_weights", ())
    try:
        network.fit([(batch.inputs, batch.targets) for batch in batches])
    finally:
        torch.set_num_threads(threads)
    return time.monotonic() - began


def fitted_to(task: Task[Any, Any], items: Sequence[Any], total: int = 0) -> dict[str, int]:
    """The number of examples that a model was fitted to, and the total, for the model's facts."""
    count = task.count_examples(items)
    return {"examples": count, "of": max(total, count)}


def fit_baseline(
    recipe: Recipe,
    examples: Examples,
    known: Prepared,
    items: Sequence[Any],
    parts: Parts,
    device: torch.device,
    say: Say,
) -> FittedBaseline | None:
    """Fit the baseline of the recipe's task to the training data; None if the task has none or it
    is switched off. Leave all random generators unchanged.

    known, items, parts: the task, training items and held-out items of the run. The baseline uses
    them too, unless it needs a different tokenizer. If there are too many examples, the baseline is
    fitted to a random part of them.
    """
    keys, training = TASKS[recipe.task.kind].traits.baseline, recipe.training
    if not keys or recipe.fitted or not training.baseline:
        if training.keep_baseline:
            raise ConfigError(
                "training.keep_baseline: this run fits no baseline"
                + (
                    "; set training.baseline = true"
                    if keys and not recipe.fitted
                    else "; omit keep_baseline"
                )
            )
        return None
    try:
        with random_state_kept(device):
            seed_generators(training.seed, torch.device("cpu"))
            return _fitted(recipe, examples, known, items, parts, device, say)
    except (TranslucidError, RuntimeError) as error:
        if training.keep_baseline:
            raise
        kind = keys["model"]["kind"]
        say(f"! the {kind} baseline could not be fitted; the run continues without it: {error}")
        return None


def _fitted(
    recipe: Recipe,
    examples: Examples,
    known: Prepared,
    items: Sequence[Any],
    parts: Parts,
    device: torch.device,
    say: Say,
) -> FittedBaseline:
    training, own = recipe.training, baseline_recipe(recipe)
    random, total = np.random.default_rng(training.seed), known.task.count_examples(items)
    if "tokenizer" in TASKS[recipe.task.kind].traits.baseline:
        total = len(examples.train)
        train = list(_some(examples.train, MOST_EXAMPLES, random))
        known = prepare(own, replace(examples, train=train))
        items = known.task.training_items(train, own.data)
        items = limit_length(known.task, items, own.data, "training", _quiet)[0]
        parts = held_out(known.task, own.data, examples)
    config = own.model_config_for(sizes=known.sizes)
    items = _some(items, MOST_EXAMPLES, random)
    network, items, seconds = _fit_in_time(config, known.task, items, training, random, say)
    facts = {"step": 0, "fitted": fitted_to(known.task, items, total)}
    bundle = Bundle(
        network.to(device).eval(), known.task.name, known.tokenizers, known.labels, facts,
        decoding=own.decoding.model_dump(),
        data=json.loads(json.dumps(own.data.reading())),
        statistics=known.statistics,
        columns=examples.columns,
    )  # fmt: skip
    made = FittedBaseline(bundle, parts, say)
    score = made.score("valid")
    say(f"baseline to beat: {made.name}, fitted in {duration(seconds)}; valid: {score.line()}")
    facts |= {"valid": score.numbers, "valid_counts": score.counts()}
    return made


def _fit_in_time(
    config: ModelConfig,
    task: Task[Any, Any],
    items: Sequence[Any],
    training: TrainingConfig,
    random: np.random.Generator,
    say: Say,
) -> tuple[Network, Sequence[Any], float]:
    """Fit a network to larger and larger parts of the items, as long as all fits together are
    expected to end in time. Return the last network, its items, and the seconds that its fit took.

    The limit is in processor time, so that the choice does not depend on other processes."""
    limit = seconds_allowed(training.minutes)
    count = len(items) if len(items) <= 2 * TRIAL else TRIAL
    while True:
        part = _some(items, count, random)
        network, began = build(config), time.thread_time()
        seconds = fit(network, task, part, training.seed)
        used = max(time.thread_time() - began, 1e-3)
        needed, limit = used / count, limit - used
        room = int(limit / needed)
        next_size = len(items) if room >= SAFE * len(items) else GROWTH * count
        most = min(len(items), next_size, room)
        if most <= count:
            return network, part, seconds
        count = most
        if needed * count > 1:
            say(
                f"baseline: fitting a {config.kind} model to {count:,} examples, about "
                f"{duration(needed * count)}"
            )


def seconds_allowed(minutes: float | None) -> float:
    """The maximum time in seconds for fitting a baseline, in a run with this time limit."""
    return MOST_SECONDS if minutes is None else min(MOST_SECONDS, FRACTION * 60 * minutes)


def open_baseline(
    folder: Path, recipe: Recipe, examples: Examples, parts: Parts, device: torch.device, say: Say
) -> FittedBaseline:
    """Load the baseline that an earlier session of the run has fitted. parts: the held-out items of
    the run."""
    bundle = load(folder, str(device))
    if "tokenizer" in TASKS[recipe.task.kind].traits.baseline:
        parts = held_out(task_of(bundle), baseline_recipe(recipe).data, examples)
    return FittedBaseline(bundle, parts, say)


def baseline_recipe(recipe: Recipe) -> Recipe:
    """The recipe of the baseline of a run."""
    values = recipe.model_dump(exclude={"model"}, exclude_unset=True)
    values["decoding"].pop("carry_state", None)  # of a recurrent network
    values["training"] = {key: getattr(recipe.training, key) for key in FITTING}
    own = TASKS[recipe.task.kind].traits.baseline
    tokenizer = {"tokenizer": dict(own["tokenizer"])} if "tokenizer" in own else {}
    merged = {section: values.get(section, {}) | dict(keys) for section, keys in own.items()}
    return parse(values | merged | tokenizer)


def held_out(task: Task[Any, Any], data: DataConfig, examples: Examples) -> Parts:
    """The validation and test items of a task, each set with its coverage (how many
    examples are scored, left out or truncated)."""
    parts: dict[Part, tuple[Sequence[Any], Coverage]] = {}
    read: dict[Part, Sequence[Any]] = {"valid": examples.valid, "test": examples.test}
    for part, records in read.items():
        whole = task.held_out_items(records, data.max_length)
        items, coverage = limit_length(task, whole, data, part, _quiet)
        parts[part] = items, coverage.with_unread(examples.unread.get(part, {}))
    return parts


def _some(items: Sequence[Any], most: int, random: np.random.Generator) -> Sequence[Any]:
    """At most `most` of the items, drawn at random; they stay in the same order."""
    if len(items) <= most:
        return items
    return [items[place] for place in np.sort(random.choice(len(items), most, replace=False))]


def _quiet(line: str) -> None:
    pass
