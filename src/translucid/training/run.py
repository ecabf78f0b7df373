"""A recipe, start to finish: read, tokenize, build, train, test, and leave a run folder.

recipe.toml    the resolved recipe, every key explained
metrics.jsonl, log.txt    what happened        test.json    the score at the end
best/          the model with the best validation score        last/    the newest
checkpoints/   further good ones, on request        tensorboard/    curves, on request
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from translucid.errors import ConfigError, InputError, TranslucidError
from translucid.models import Network, build
from translucid.models.mlp import MLP
from translucid.tasks.base import Score, Task
from translucid.tasks.regress import Regress
from translucid.training import bundle, sizing
from translucid.training.annotate import dump
from translucid.training.bundle import Bundle
from translucid.training.examples import (
    Examples,
    check_known_labels,
    labels_of,
    load_examples,
    make_task,
    texts_of,
    train_tokenizers,
)
from translucid.training.items import endless, epoch_plan, held_out_items, training_items
from translucid.training.journal import Journal
from translucid.training.keeper import Keeper
from translucid.training.recipe import Recipe, shape_of
from translucid.training.trainer import Watchers, train


def train_recipe(
    recipe: Recipe,
    out: Path,
    *,
    pick: bool = False,
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
) -> Bundle:
    """Train as the recipe says, into a new folder, and return the best model.

    With `pick`, keys that the recipe does not set are chosen to fit the data, and said.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose a folder with --out")
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; choose another folder with --out, or remove it")
    training = recipe.training
    journal = Journal(out, training.steps, quiet=quiet, tensorboard=training.tensorboard)
    try:
        return _train(recipe, out, journal, pick, interrupted)
    except TranslucidError:
        if not (out / "last").exists():  # nothing was trained: leave no folder in the way
            shutil.rmtree(out)
        raise
    finally:
        journal.close()


def _train(
    recipe: Recipe, out: Path, journal: Journal, pick: bool, interrupted: Callable[[], bool]
) -> Bundle:
    device = pick_device(recipe.training.device)
    if recipe.training.optimizer == "muon" and device.type == "cpu":
        raise ConfigError(
            "training.optimizer = 'muon': torch's Muon works in bfloat16 and takes many seconds a "
            "step on a CPU; use adamw, or a GPU"
        )
    torch.manual_seed(recipe.training.seed)
    examples = load_examples(recipe, journal.say)
    if pick:
        recipe = _pick_sizes(recipe, examples, device, journal)
    tokenizers = train_tokenizers(recipe, examples.train)
    data = recipe.data
    others = ((examples.valid, data.valid), (examples.test, data.test))
    ours = [record for part, files in others if not files for record in part]
    labels = labels_of(recipe.task.kind, [*examples.train, *ours])  # all that is not a test
    for part, files in others:
        if files:
            check_known_labels(recipe.task.kind, part, labels, data.paths(files)[0])
    task = make_task(
        recipe.task.kind,
        tokenizers,
        labels,
        smoothing=recipe.task.label_smoothing,
        beams=recipe.decoding.beams,
    )
    items = training_items(task, examples.train, data, journal.say)
    valid, test = (held_out_items(task, part, data) for part in (examples.valid, examples.test))
    _say_about(task, tokenizers, items, examples, recipe, journal)
    network = build(
        recipe.model_config_for(sizes=_sizes(recipe, task, examples, tokenizers, labels))
    )
    network.to(device)
    _standardise(network, task, items)
    (out / "recipe.toml").write_text(dump(recipe), "utf-8")
    journal.say(
        f"{recipe.model['kind']} with {network.parameters_count:,} parameters on {device}, "
        f"seed {recipe.training.seed}"
    )
    keeper = Keeper(out, task, recipe.training.keep_best)

    def keep(step: int, score: Score, best: bool) -> None:
        journal.evaluated(step, score, best)
        facts = {"step": step, "valid": score.numbers}
        keeper.keep(Bundle(network, recipe.task.kind, tokenizers, labels, facts), score, best)

    watchers = Watchers(journal.progress, keep, interrupted, journal.say)
    train(network, task, endless(task, items, recipe), valid, recipe.training, watchers)
    if recipe.training.average_best:
        keeper.try_average(valid, device, journal.say)

    best = bundle.load(out / "best", str(device))
    if test:
        score = task.evaluate(best.network, test)
        journal.say("test: " + "  ".join([score.line(), *score.notes]))
        result = {"test": score.numbers, "notes": score.notes, "examples": len(test)}
        (out / "test.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return best


def _pick_sizes(
    recipe: Recipe, examples: Examples, device: torch.device, journal: Journal
) -> Recipe:
    amount = sizing.measure(examples.train)
    chosen, said = sizing.with_picks(recipe, sizing.pick(recipe, amount, device.type))
    journal.expect(chosen.training.steps)
    if said:
        journal.say(f"picked for {amount.examples:,} examples with {amount.words:,} words:")
        journal.say("  " + " ".join(said))
        journal.say("  change any of them by writing it at the end of the command")
    return chosen


def _say_about(
    task: Task[Any, Any],
    tokenizers: dict[str, Any],
    items: Sequence[Any],
    examples: Examples,
    recipe: Recipe,
    journal: Journal,
) -> None:
    """What people want to know before they wait: vocabulary, unknown words, padding."""
    for name, tokenizer in tokenizers.items():
        texts = [text for record in examples.valid for text in texts_of(record)]
        if name in ("source", "target"):
            texts = texts[name == "target" :: 2]
        journal.say(
            f"{name}: {tokenizer.kind}, {len(tokenizer):,} tokens; unknown in the validation data: "
            f"{tokenizer.unknown_rate(texts):.2%}"
        )
    for line in epoch_plan(task, items, recipe, 0).lines():
        journal.say(f"an epoch: {line}")


def _sizes(
    recipe: Recipe,
    task: Task[Any, Any],
    examples: Examples,
    tokenizers: dict[str, Any],
    labels: Sequence[str],
) -> dict[str, Any]:
    """What only the data knows: vocabulary, labels, columns."""
    if isinstance(task, Regress):
        first = examples.train[0]
        return {"inputs": len(first.inputs), "outputs": len(first.targets)}
    sizes = shape_of(recipe.task.kind, recipe.model["kind"])
    if "tokenizer" in tokenizers:
        sizes["vocab"] = len(tokenizers["tokenizer"])
    else:
        sizes["vocab"], sizes["target_vocab"] = (len(tokenizers[n]) for n in ("source", "target"))
    if labels:
        sizes["outputs"] = len(labels)
    return sizes


def _standardise(network: Network, task: Task[Any, Any], items: Sequence[Any]) -> None:
    """Measure the inputs of a regression, where the model asks for it."""
    if isinstance(network, MLP) and network.standardise is not None:
        network.standardise.fit(task.collate(items).inputs["x"])


def pick_device(wanted: str) -> torch.device:
    """auto: a CUDA GPU if there is one, else the CPU."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.zeros((), device=wanted).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"training.device = {wanted!r}: {error}; try auto or cpu") from None
