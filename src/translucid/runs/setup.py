"""Set up a run from a recipe: examples, tokenizers, items and a network."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from translucid.core.atomic_files import fault
from translucid.core.device import pick_device
from translucid.core.errors import ConfigError, InputError
from translucid.data.batching import BatchPlan
from translucid.data.packing import Packing
from translucid.data.readers.loading import Columns
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import Network, build
from translucid.models.mlp import MLP
from translucid.models.sequence_config import SequenceConfig
from translucid.runs import time_limit
from translucid.runs.batches import epoch_plan, shared_rows
from translucid.runs.checks.data import few_examples_warning
from translucid.runs.checks.startup import startup
from translucid.runs.fine_tuning.start import open_start
from translucid.runs.recipe import automatic_sizes
from translucid.runs.recipe.automatic_sizes import Amount
from translucid.runs.recipe.baseline import FittedBaseline, Parts, fit_baseline, open_baseline
from translucid.runs.recipe.examples import Examples, Part, load_examples, prepare
from translucid.runs.recipe.recipe import DataConfig, Recipe
from translucid.runs.recipe.token_corpus import amount_of, check_storable, read_corpus
from translucid.tasks.base import Task
from translucid.tasks.contract import check_contract, check_encoding, check_metric
from translucid.tasks.long_texts import limit_length
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS
from translucid.tasks.score import Baseline, Coverage
from translucid.tasks.vocabulary import set_word_dropout
from translucid.training import automatic, cuda_graphs, prefetch
from translucid.training.config import TrainingConfig
from translucid.training.memory import check_memory
from translucid.training.parameter_groups import ADAPTER, frozen
from translucid.training.state import seed_generators

Say = Callable[[str], None]
EXAMPLES = 50  # number of validation texts to search for an example
EXAMPLE_LENGTH = 300  # its maximum length in characters


@dataclass(frozen=True)
class Setup:
    """A run before its first step."""

    recipe: Recipe  # resolved
    task: Task[Any, Any]
    network: Network  # on its device, initialized with the seed
    tokenizers: dict[str, Tokenizer]
    labels: tuple[str, ...]
    statistics: dict[str, Any]  # measured by the task
    items: Sequence[Any]  # training items
    valid: Sequence[Any]
    test: Sequence[Any]
    coverage: Mapping[Part, Coverage]  # number of examples in valid and test
    first: str = ""  # the input text of the first validation example
    columns: dict[str, Columns] = field(default_factory=dict)  # of the training data, by role
    example: str = ""  # a validation text of known words, shown first by pages
    start: dict[str, Any] | None = None  # record of the model that training starts from
    packing: Packing | None = None  # how several items share a row
    baseline: FittedBaseline | None = None  # in the main process, unless switched off
    seconds: float = 0.0  # that the set-up took

    @cached_property
    def baselines(self) -> list[Baseline]:
        """The baselines with their scores on the validation data: the fitted one, if any, then the
        trivial one."""
        fitted = [] if self.baseline is None else [self.baseline.valid]
        trivial = self.task.baseline(self.items, self.valid)
        return fitted if trivial is None else [*fitted, trivial]

    @property
    def start_is_trained(self) -> bool:
        """Whether training starts from a model without a new, untrained head."""
        return self.start is not None and all(ADAPTER in name for name in self.start["fresh"])

    def bundle(self, network: Network, facts: dict[str, object]) -> Bundle:
        """A network of this run as a model to save."""
        if self.baselines:
            noted = [{"name": b.name, "valid": b.score.numbers} for b in self.baselines]
            facts = facts | {"baseline": noted[0]}  # the score to beat
            facts |= {"other_baselines": noted[1:]} if noted[1:] else {}
        if self.start is not None:
            keys = ("path", "task", "weights", "notes")
            facts = facts | {"start": {key: self.start[key] for key in keys}}
        if self.example:
            facts = facts | {"example": self.example}  # shown first by pages
        return Bundle(
            network, self.task.name, self.tokenizers, self.labels, facts,
            decoding=self.recipe.decoding.model_dump(),
            data=json.loads(json.dumps(self.recipe.data.reading())),  # as it will be read
            statistics=self.statistics,
            columns=self.columns,
        )  # fmt: skip

    def save_tokenizers(self, folder: Path) -> None:
        for name, tokenizer in self.tokenizers.items():
            tokenizer.save(folder / name)


def set_up(
    recipe: Recipe,
    say: Say,
    *,
    pick: bool = False,
    tokenizers: Path | None = None,
    start: dict[str, Any] | None = None,
    columns: Mapping[str, Columns] | None = None,
    baseline: Path | None = None,
    fits_baseline: bool = True,
    began: float | None = None,
) -> Setup:
    """Read the data and build the model; report sizes and problems before training starts.

    With `pick`, unset keys are chosen to fit the data. When a run is resumed, `tokenizers` is the
    folder of its tokenizers, `start` its record of the start model, `columns` the columns of its
    training data, and `baseline` the folder of its fitted baseline, if any. Without
    `fits_baseline`, no baseline is fitted. `began`: when the command started, by
    `time.monotonic`; default: now.
    """
    began = time.monotonic() if began is None else began
    device = pick_device(recipe.training.device, "training.device")
    if recipe.data.split == "stratified" and recipe.data.split_seed is None:  # resumes keep it
        data = recipe.data.model_copy(update={"split_seed": recipe.training.seed})
        recipe = recipe.model_copy(update={"data": data})
    made_before = _made_before(tokenizers, say) if tokenizers is not None else None
    starting = open_start(recipe) if tokenizers is None else None
    if starting is not None:
        recipe = starting.recipe
    smallest = TASKS[recipe.task.kind].smallest_sizes()
    prefetch.begin(recipe.training, recipe.model_config_for(sizes=smallest), device)
    open_recipe, amount = recipe, Amount(0, 0, 0)
    # Several processes would measure different times and build different models.
    timed = pick and time_limit.is_open(recipe) and os.environ.get("WORLD_SIZE", "1") == "1"
    items: Sequence[Any]
    valid: Sequence[Any]
    held_rows: Sequence[Any] | None = None
    if recipe.data.store is not None:
        check_storable(recipe)
        if pick:
            amount = amount_of(recipe)
            recipe = _pick_sizes(recipe, amount, device, (lambda line: None) if timed else say)
        made_before = made_before if starting is None else starting.tokenizers(())
        known, examples, items, held_rows = read_corpus(recipe, say, made_before)
    else:
        examples = load_examples(recipe, say, columns)
        if pick:
            amount = automatic_sizes.measure(examples.train)
            recipe = _pick_sizes(recipe, amount, device, (lambda line: None) if timed else say)
        made_before = made_before if starting is None else starting.tokenizers(examples.train)
        measured = (start or {}).get("statistics") if starting is None else starting.statistics
        known = prepare(recipe, examples, made_before=made_before, statistics=measured)
        if TASKS.source(known.task.name) is not None:
            check_encoding(known.task, examples.train[0])
        whole = known.task.training_items(examples.train, recipe.data)
        items = limit_length(known.task, whole, recipe.data, "training", say)[0]
    row = recipe.data.max_length
    (valid, valid_coverage), (test, test_coverage) = (
        limit_length(known.task, known.task.held_out_items(part, row), recipe.data, name, say)
        for part, name in ((examples.valid, "validation"), (examples.test, "test"))
    )
    if held_rows is not None:
        valid, valid_coverage = held_rows, replace(valid_coverage, examples=len(held_rows))
    unread = {} if known.task.traits.running_text else examples.unread
    coverage: dict[Part, Coverage] = {
        "valid": valid_coverage.with_unread(unread.get("valid", {})),
        "test": test_coverage.with_unread(unread.get("test", {})),
    }
    parts: Parts = {"valid": (valid, coverage["valid"]), "test": (test, coverage["test"])}
    fitted = None
    if baseline is not None and fault(baseline) is None:
        fitted = open_baseline(baseline, recipe, examples, parts, device, say)
    elif fits_baseline:
        fitted = fit_baseline(recipe, examples, known, items, parts, device, say)
    if timed:
        spent = time.monotonic() - began
        picks, lines = time_limit.fit(open_recipe, amount, known, items, valid, device, spent)
        recipe, words = automatic_sizes.with_picks(open_recipe, picks)
        _say_picks(words, amount, say)
        for line in lines:
            say(line)
    seed_generators(recipe.training.seed, device)
    sizes = known.sizes if starting is None else starting.sizes(known.sizes)
    config = recipe.model_config_for(sizes=sizes | (start["sizes"] if start is not None else {}))
    training = cuda_graphs.decide(recipe.training, config, device, say, task=known.task.name)
    training = automatic.with_packing(training, config, known.task, items)
    training = automatic.with_compilation(training, config, device)
    if training.best_metric is None and known.task.metric != TASKS[known.task.name].metric:
        training = training.model_copy(update={"best_metric": known.task.metric})  # by the data
    recipe = recipe.model_copy(update={"training": training})
    check_memory(config, training, device, recipe.model)
    network = build(config)
    set_word_dropout(network, known.tokenizers)
    if starting is not None:
        start = starting.begin(network, known, say)
        training = training.model_copy(update={"freeze": starting.frozen(start)})
        recipe = recipe.model_copy(update={"training": training})
    _check_positions(network, known.task, recipe.data, valid, test)
    network.to(device)
    if TASKS.source(known.task.name) is not None:
        check_contract(known.task, network, items, valid)
    if isinstance(network, MLP) and network.standardise is not None:
        network.standardise.fit(known.task.collate(items).inputs["x"])
    if training.best_metric is not None:
        check_metric(known.task, network, valid, training.best_metric)
    packed = None if network.fits else shared_rows(known.task, items, recipe)
    plan = None if network.fits else epoch_plan(known.task, items, recipe, 0, packed)
    for line in known.task.reading_report():
        say(f"  {line}")
    _say_about(known.tokenizers, plan, examples, recipe, say)
    if few := few_examples_warning(known.task, valid, recipe.data):
        say(few)
    if tokenizers is None:  # a resumed run was checked when it started
        startup(known.task, network, items, examples, say)
    say(
        f"{recipe.model['kind']} with {network.parameters_count:,} parameters"
        f"{_trained(network, training)} on {device}, seed {training.seed}"
    )
    return Setup(
        recipe, known.task, network, known.tokenizers, known.labels, known.statistics,
        items, valid, test, coverage, known.task.first_text(examples.valid, valid),
        examples.columns, _example(known.task, examples.valid, valid), start, packed,
        fitted, time.monotonic() - began,
    )  # fmt: skip


def _example(task: Task[Any, Any], records: Sequence[Any], items: Sequence[Any]) -> str:
    """The first short text whose words are all in the vocabulary, or an empty string."""
    for start in range(min(len(records), EXAMPLES)):
        text = task.first_text(records[start : start + 1], items)
        if not text.strip() or len(text) > EXAMPLE_LENGTH:
            continue
        try:
            read = task.example(text)
        except InputError:  # a task without examples
            return ""
        sides = [side for side in (read.source, read.target) if side is not None]
        if not any((read.batch.inputs[s.name] == s.tokenizer.unk_id).any() for s in sides):
            return text
    return ""


def _trained(network: Network, training: TrainingConfig) -> str:
    """A phrase with the number of trained weights; empty if no weights are frozen."""
    still = frozen(network, training.freeze)
    if not still:
        return ""
    count = sum(p.numel() for name, p in network.named_parameters() if name not in still)
    return f", {count:,} of them trained ({count / network.parameters_count:.2%}),"


def _pick_sizes(recipe: Recipe, amount: Amount, device: torch.device, say: Say) -> Recipe:
    chosen, picks = automatic_sizes.with_picks(
        recipe, automatic_sizes.pick(recipe, amount, device.type)
    )
    _say_picks(picks, amount, say)
    return chosen


def _say_picks(picks: Sequence[str], amount: Amount, say: Say) -> None:
    if picks:
        examples = f"{amount.examples:,} examples with " if amount.examples else "about "
        say(f"chosen for {examples}{amount.words:,} words:")
        say("  " + " ".join(picks))
        say("  to change a setting, write it at the end of the command")


def _made_before(folder: Path, say: Say) -> dict[str, Tokenizer] | None:
    wrong = fault(folder)
    if wrong is not None:
        say(f"{wrong}; training the tokenizer again")
        return None
    places = sorted(place for place in folder.iterdir() if place.is_dir())
    return {place.name: Tokenizer.load(place) for place in places}


def _check_positions(
    network: Network,
    task: Task[Any, Any],
    data: DataConfig,
    valid: Sequence[Any],
    test: Sequence[Any],
) -> None:
    """Raise an error before training if texts are longer than the learned positions."""
    context_length = (
        network.config.context_length if isinstance(network.config, SequenceConfig) else None
    )
    if context_length is None:
        return
    if data.max_length > context_length:
        raise ConfigError(
            f"data.max_length = {data.max_length} exceeds the learned positions, model.max_length "
            f"= {context_length}; lower the first or raise the second"
        )
    for part, files in ((valid, data.valid), (test, data.test)):
        name = data.paths(files)[0] if files else "held-out examples"
        task.check_evaluated(part, context_length, name)


def _say_about(
    tokenizers: dict[str, Tokenizer],
    plan: BatchPlan | None,
    examples: Examples,
    recipe: Recipe,
    say: Say,
) -> None:
    """Report vocabulary, unknown words and padding."""
    for name, tokenizer in tokenizers.items():
        texts = [text for record in examples.valid for text in record.texts_of(name)]
        texts = [line for text in texts for line in text.split("\n")]  # a text may be a file
        say(
            f"{name}: {tokenizer.kind}, {len(tokenizer):,} tokens; unknown in the validation data: "
            f"{tokenizer.unknown_rate(texts):.2%}"
        )
    for line in [] if plan is None else plan.lines():
        say(f"an epoch: {line}")
    if recipe.training.carry_state and not recipe.decoding.carry_state:
        say(
            "! decoding.carry_state = false: evaluation resets the state at every row, although "
            "training carries it, so scores will be much worse; omit the key unless you want this"
        )
