"""Checks before training.

startup      at the start of every run: quick, reports only problems
self_test    all checks, and overfitting one batch; writes nothing
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from translucid.core.errors import TrainingError
from translucid.models import Network, build
from translucid.models.mlp import MLP
from translucid.runs.checks import data as data_checks
from translucid.runs.checks.data import of_labels
from translucid.runs.checks.model import (
    SAMPLE,
    leaking_mask,
    padding_in_loss,
    padding_seen,
    shifted_targets,
    sizes_agree,
    unknown_tokens,
)
from translucid.runs.checks.overfitting import overfit_one_batch
from translucid.runs.fine_tuning.start import Start, open_start
from translucid.runs.fine_tuning.take_over import some
from translucid.runs.recipe import automatic_sizes
from translucid.runs.recipe.baseline import Parts, fit_baseline
from translucid.runs.recipe.examples import Examples, Prepared, Record, load_examples, prepare
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.base import Task
from translucid.tasks.findings import Finding, spread_out
from translucid.tasks.long_texts import limit_length
from translucid.tasks.registry import TASKS
from translucid.training.memory import check_memory
from translucid.training.parameter_groups import freeze, rate_factors
from translucid.training.state import random_state_kept, seed_generators

TEXTS = 2000  # of the training data, to check
UNKNOWN = 0.01  # fraction of unknown tokens to report
TOKENS_PER_WORD = 2.5  # more suggests a vocabulary of another language or domain
# Above this peak learning rate, a model forgets most of what it has learned.
HIGHEST_RATE, HIGHEST_OF_ADAPTERS = 5e-4, 5e-3


def of_start(
    start: Start, known: Prepared, network: Network, train: Sequence[Record], taken: Sequence[str]
) -> list[Finding]:
    """Run the checks for fine-tuning. taken: the names of the weights that were copied."""
    findings = [_vocabulary(start, known, train), _learning_rate(start, network, taken)]
    return findings if not known.labels else [_labels(start, known.labels), *findings]


def _labels(start: Start, labels: Sequence[str]) -> Finding:
    name, theirs = "labels of the start model", start.source.bundle.labels
    if start.source.bundle.task != start.recipe.task.kind:
        return Finding(name, True, "it has another task; the head is initialized randomly")
    if tuple(labels) == tuple(theirs):
        return Finding(name, True, "the same as in the data, in the same order")
    if {*labels} == {*theirs}:
        return Finding(
            name, True, f"the same as in the data, in another order ({some(theirs)}); rows of the "
            "head are reordered",
        )  # fmt: skip
    if len(labels) != len(theirs):
        return Finding(
            name, True, f"different from the data ({some(theirs)}); the head is initialized "
            "randomly",
        )  # fmt: skip
    return Finding(
        name, False, f"as many as in the data, but with other names: {some(theirs)} in the start "
        f"model, {some(labels)} in the data; the head is initialized randomly. If they mean the "
        "same, rename them in the data",
    )  # fmt: skip


def _vocabulary(start: Start, known: Prepared, train: Sequence[Record]) -> Finding:
    name, remedies, words = "vocabulary of the start model", [], []
    for side, tokenizer in known.tokenizers.items():
        texts = [text for record in spread_out(train, TEXTS) for text in record.texts_of(side)]
        unknown = tokenizer.unknown_rate(texts)
        tokens = sum(map(len, tokenizer.encode_batch(texts)))
        per_word = tokens / max(sum(len(text.split()) for text in texts), 1)
        words.append(
            f"{side}: {unknown:.2%} of the training data unknown, {per_word:.2f} tokens a word"
        )
        wordy = tokenizer.unit == "subword" and per_word > TOKENS_PER_WORD
        if unknown > UNKNOWN or wordy:
            remedies.append(side)
    if not remedies or not start.kept:
        return Finding(name, True, "; ".join(words))
    bars = f"more than {UNKNOWN:.0%} unknown, or more than {TOKENS_PER_WORD} tokens a word"
    return Finding(
        name, False, f"{'; '.join(words)}: {bars}; "
        'set tokenizer.vocabulary = "extend" or "replace", or start from a model of this language',
    )  # fmt: skip


def _learning_rate(start: Start, network: Network, taken: Sequence[str]) -> Finding:
    name, training = "learning rate for tuning", start.recipe.training
    adapters = bool(start.recipe.model.get("lora_rank"))
    bar = HIGHEST_OF_ADAPTERS if adapters else HIGHEST_RATE
    factors: dict[str, Any] = rate_factors(network, training)
    frozen = {n for n, p in network.named_parameters() if not p.requires_grad}
    moved = [n for n in factors if ".lora." in n or (n in {*taken} and n not in frozen)]
    if training.optimizer not in ("adamw", "adam") or not moved:
        return Finding(name, True, f"{training.learning_rate:g}; no limit is known for this run")
    highest = training.learning_rate * max(factors[n] for n in moved)
    of = "adapters" if adapters else "copied weights"
    words = f"{highest:g} for {of}"
    if highest <= bar:
        return Finding(name, True, f"{words}, at most {bar:g}")
    return Finding(
        name, False, f"{words}: above {bar:g}, the model forgets most of what it has learned in "
        f"the first steps; set training.learning_rate = {bar / 10:g}, and for a fresh head "
        'training.learning_rates = {"head.*" = 10.0}',
    )  # fmt: skip


RECORDS = 2000  # of the training data, for a self-test
TEXTS_TO_LEARN = 20_000  # for a subword tokenizer, which trains slowly


def startup(
    task: Task[Any, Any],
    network: Network,
    items: Sequence[Any],
    examples: Examples,
    say: Callable[[str], None],
) -> None:
    """Refuse a run with a serious mistake; report other problems."""
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
    """Run all checks for a recipe and its data, on the CPU.

    With `pick`, unset keys are chosen to fit the data, as in training.
    """
    examples = load_examples(recipe, say)
    findings = of_data(recipe, examples)
    if _wrong(findings):
        return findings  # other checks would find the same, more slowly
    if pick:
        picks = automatic_sizes.pick(recipe, automatic_sizes.measure(examples.train), "cpu")
        recipe, _ = automatic_sizes.with_picks(recipe, picks)
    starting = open_start(recipe)
    if starting is not None:
        recipe = starting.recipe
    subwords = recipe.tokenizer.kind in ("bpe", "unigram")  # with few unknown tokens
    few = spread_out(examples.train, TEXTS_TO_LEARN) if subwords else None
    before = None if starting is None else starting.tokenizers(examples.train)
    measured = None if starting is None else starting.statistics
    prepared = prepare(recipe, examples, learn_from=few, made_before=before, statistics=measured)
    task = prepared.task
    if task.vocabularies:
        findings.append(unknown_tokens(task, parts_of(examples)))
    whole = task.training_items(spread_out(examples.train, RECORDS), recipe.data)
    items = limit_length(task, whole, recipe.data, "training", lambda line: None)[0]
    sizes = prepared.sizes if starting is None else starting.sizes(prepared.sizes)
    config = recipe.model_config_for(sizes=sizes)
    seed_generators(recipe.training.seed, torch.device("cpu"))
    few_tokens = recipe.training.model_copy(update={"batch_tokens": 1})
    check_memory(config, few_tokens, torch.device("cpu"), recipe.model)
    network = build(config)
    if starting is not None:
        start = starting.begin(network, prepared, say)
        freeze(network, starting.frozen(start))
        if isinstance(starting, Start):
            findings += of_start(starting, prepared, network, examples.train, start["taken"])
    if isinstance(network, MLP) and network.standardise is not None:
        network.standardise.fit(task.collate(items).inputs["x"])
    findings += of_model(task, network, items, examples.train)
    valid = task.held_out_items(examples.valid, recipe.data.max_length)
    if not _wrong(findings):
        findings += _baselines(recipe, examples, prepared, items, valid)
    if _wrong(findings) or network.fits:  # it is fitted without steps
        return findings
    return [*findings, overfit_one_batch(task, config, items)]


def _baselines(
    recipe: Recipe,
    examples: Examples,
    known: Prepared,
    items: Sequence[Any],
    valid: Sequence[Any],
) -> list[Finding]:
    """Findings with the validation scores of the fitted baseline, if any, and of the trivial one,
    if any. The first of them is the score to beat."""
    few = replace(examples, train=spread_out(examples.train, RECORDS), test=[])
    held = limit_length(known.task, valid, recipe.data, "validation", lambda line: None)
    parts: Parts = {"valid": held}
    device = torch.device("cpu")
    fitted = fit_baseline(recipe, few, known, items, parts, device, lambda line: None)
    trivial = known.task.baseline(items, valid)
    baselines = [] if fitted is None else [fitted.valid]
    baselines += [] if trivial is None else [trivial]
    beaten = "; this is the score to beat"
    return [
        Finding("baseline", True, f"{b.name}: {b.score.line()} on valid{beaten * (place == 0)}")
        for place, b in enumerate(baselines)
    ]


def of_data(recipe: Recipe, examples: Examples) -> list[Finding]:
    """Run the checks on a recipe's data files, without a model."""
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
    """Run the checks on task and model with a few training examples."""
    findings = [sizes_agree(task, network, spread_out(items, SAMPLE))]
    if _wrong(findings):
        return findings  # the model cannot even be called
    if task.vocabularies:
        of_text = [shifted_targets(task, items, records)]
        if not network.fits:  # its outputs do not depend on its inputs before the fit
            of_text.append(leaking_mask(task, network, items))
        findings += [finding for finding in of_text if finding is not None]
        findings += [] if quick or network.fits else [padding_seen(task, network, items)]
    if quick or network.fits or task.traits.loss_of_batch:
        return findings
    return [*findings, padding_in_loss(task, network, items)]


def parts_of(examples: Examples) -> dict[str, Sequence[Record]]:
    """The parts that are not empty, by name."""
    parts = {"train": examples.train, "valid": examples.valid, "test": examples.test}
    return {name: records for name, records in parts.items() if records}


def _wrong(findings: Sequence[Finding]) -> bool:
    return any(finding.serious and not finding.ok for finding in findings)
