"""The classic silent mistakes, looked for before anyone waits for hours.

startup      at the beginning of every run: quick, and speaks only of what is not well
self_test    everything, and one batch learnt by heart; trains nothing else and writes nothing
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from translucid.core.errors import TrainingError
from translucid.models import Network, build
from translucid.models.mlp import MLP
from translucid.runs.checks import data as data_checks
from translucid.runs.checks.labels import of_labels
from translucid.runs.checks.model import (
    SAMPLE,
    leaking_mask,
    padding_in_loss,
    padding_seen,
    shifted_targets,
)
from translucid.runs.checks.overfitting import overfit_one_batch
from translucid.runs.checks.tuning import of_start
from translucid.runs.checks.vocabulary import sizes_agree, unknown_tokens
from translucid.runs.fine_tuning.start import open_start
from translucid.runs.recipe import automatic_sizes
from translucid.runs.recipe.examples import Examples, Record, load_examples
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.recipe.resources import prepare
from translucid.tasks.base import Task
from translucid.tasks.findings import Finding, spread_out
from translucid.tasks.registry import TASKS
from translucid.training.memory import check_memory
from translucid.training.parameter_groups import freeze
from translucid.training.random_state import random_state_kept, seed_generators

RECORDS = 2000  # of the training data, from which a self-test makes items
TEXTS_TO_LEARN = 20_000  # for a tokenizer of subwords, which learns slowly


def startup(
    task: Task[Any, Any],
    network: Network,
    items: Sequence[Any],
    examples: Examples,
    say: Callable[[str], None],
) -> None:
    """Refuse a run that would learn the wrong thing; say what will make it worse."""
    findings = of_model(task, network, items, examples.train, quick=True)
    for finding in findings:
        if finding.serious and not finding.ok:
            raise TrainingError(f"{finding.name}: {finding.words}")
    parts = parts_of(examples)
    others = [part for part in parts if part != "train"] if "train" in parts else []
    findings += [data_checks.crossed(parts["train"], parts[part], part) for part in others]
    findings += of_labels(type(task), parts)
    if parts and task.vocabularies:
        findings.append(unknown_tokens(task, parts))
    for finding in findings:
        if not finding.ok:
            say(f"{finding.mark} {finding.name}: {finding.words}")


@random_state_kept()
def self_test(recipe: Recipe, say: Callable[[str], None], *, pick: bool = False) -> list[Finding]:
    """All checks for a recipe and its data, on the CPU.

    With `pick`, keys that the recipe does not set fit the data, as in training.
    """
    examples = load_examples(recipe, say)
    findings = of_data(recipe, examples)
    if _wrong(findings):
        return findings  # what is wrong already would be found again, more slowly
    if pick:
        picks = automatic_sizes.pick(recipe, automatic_sizes.measure(examples.train), "cpu")
        recipe, _ = automatic_sizes.with_picks(recipe, picks)
    starting = open_start(recipe)
    if starting is not None:
        recipe = starting.recipe
    subwords = recipe.tokenizer.kind in ("bpe", "unigram")  # which hardly know unknown tokens
    few = spread_out(examples.train, TEXTS_TO_LEARN) if subwords else None
    before = None if starting is None else starting.tokenizers(examples.train)
    prepared = prepare(recipe, examples, learn_from=few, made_before=before)
    task = prepared.task
    if task.vocabularies:
        findings.append(unknown_tokens(task, parts_of(examples)))
    items = task.training_items(spread_out(examples.train, RECORDS), recipe.data, lambda _: None)
    sizes = prepared.sizes if starting is None else starting.sizes(prepared.sizes)
    config = recipe.model_config_for(sizes=sizes)
    seed_generators(recipe.training.seed, torch.device("cpu"))
    few_tokens = recipe.training.model_copy(update={"batch_tokens": 1})
    check_memory(config, few_tokens, torch.device("cpu"), recipe.model)
    network = build(config)
    if starting is not None:
        start = starting.begin(network, prepared, say)
        freeze(network, starting.frozen(start))
        findings += of_start(starting, prepared, network, examples.train, start["taken"])
    if isinstance(network, MLP) and network.standardise is not None:
        network.standardise.fit(task.collate(items).inputs["x"])
    findings += of_model(task, network, items, examples.train)
    valid = task.held_out_items(examples.valid, recipe.data.max_length)
    if (baseline := task.baseline(items, valid)) is not None:
        words = f"{baseline.name}: {baseline.score.line()} on valid: what a model must do better"
        findings.append(Finding("baseline", True, words))
    return findings if _wrong(findings) else [*findings, overfit_one_batch(task, config, items)]


def of_data(recipe: Recipe, examples: Examples) -> list[Finding]:
    """The files of a recipe, without a model."""
    task, data, parts = TASKS[recipe.task.kind], recipe.data, parts_of(examples)
    named = {"valid": data.paths(data.valid), "test": data.paths(data.test)}
    files = {part: paths[0] for part, paths in named.items() if paths}
    return [*data_checks.of_task(task, parts), *of_labels(task, parts, files)]


def of_model(
    task: Task[Any, Any],
    network: Network,
    items: Sequence[Any],
    records: Sequence[Record],
    *,
    quick: bool = False,
) -> list[Finding]:
    """Task and model on a few training examples."""
    findings = [sizes_agree(task, network, spread_out(items, SAMPLE))]
    if _wrong(findings):
        return findings  # the model cannot even be called
    if task.vocabularies:
        of_text = [shifted_targets(task, items, records), leaking_mask(task, network, items)]
        findings += [finding for finding in of_text if finding is not None]
        findings += [] if quick else [padding_seen(task, network, items)]
    if quick or task.loss_of_batch:
        return findings
    return [*findings, padding_in_loss(task, network, items)]


def parts_of(examples: Examples) -> dict[str, Sequence[Record]]:
    """Those parts that are not empty, by name."""
    parts = {"train": examples.train, "valid": examples.valid, "test": examples.test}
    return {name: records for name, records in parts.items() if records}


def _wrong(findings: Sequence[Finding]) -> bool:
    return any(finding.serious and not finding.ok for finding in findings)
