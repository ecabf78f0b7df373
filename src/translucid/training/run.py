"""A recipe, start to finish: read, tokenize, build, train, test, and leave a run folder.

recipe.toml    the resolved recipe        metrics.jsonl, log.txt    what happened
best/          the model with the best validation score        last/    the newest
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from translucid.data.batching import fit, plan_batches
from translucid.errors import ConfigError, InputError, TranslucidError
from translucid.models import Network, build
from translucid.models.mlp import MLP
from translucid.tasks.base import Batch, Score, Task
from translucid.tasks.language import Language
from translucid.tasks.regress import Regress
from translucid.training import bundle
from translucid.training.bundle import Bundle
from translucid.training.examples import (
    Examples,
    check_known_labels,
    labels_of,
    load_examples,
    make_task,
    train_tokenizers,
)
from translucid.training.journal import Journal
from translucid.training.recipe import Recipe, dump, shape_of
from translucid.training.trainer import Watchers, train


def train_recipe(
    recipe: Recipe,
    out: Path,
    *,
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
) -> Bundle:
    """Train as the recipe says, into a new folder, and return the best model."""
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; choose another folder with --out, or remove it")
    journal = Journal(out, recipe.training.steps, quiet)
    try:
        return _train(recipe, out, journal, interrupted)
    except TranslucidError:
        if not (out / "last").exists():  # nothing was trained: leave no folder in the way
            shutil.rmtree(out)
        raise
    finally:
        journal.close()


def _train(recipe: Recipe, out: Path, journal: Journal, interrupted: Callable[[], bool]) -> Bundle:
    device = pick_device(recipe.training.device)
    if recipe.training.optimizer == "muon" and device.type == "cpu":
        raise ConfigError(
            "training.optimizer = 'muon': torch's Muon works in bfloat16 and takes many seconds a "
            "step on a CPU; use adamw, or a GPU"
        )
    torch.manual_seed(recipe.training.seed)
    examples = load_examples(recipe, journal.say)
    tokenizers = train_tokenizers(recipe, examples.train)
    labels = labels_of(recipe.task.kind, examples.train)
    data = recipe.data
    for part, files in ((examples.valid, data.valid), (examples.test, data.test)):
        file = files[0] if files else "held-out examples"
        check_known_labels(recipe.task.kind, part, labels, file)
    task = make_task(
        recipe.task.kind,
        tokenizers,
        labels,
        smoothing=recipe.task.label_smoothing,
        beams=recipe.decoding.beams,
    )
    items = [encode(task, records, recipe, journal.say) for records in _parts(examples)]
    network = build(
        recipe.model_config_for(sizes=_sizes(recipe, task, examples, tokenizers, labels))
    )
    network.to(device)
    _standardise(network, task, items[0])
    (out / "recipe.toml").write_text(dump(recipe), "utf-8")
    journal.say(
        f"{recipe.model['kind']} with {network.parameters_count:,} parameters on {device}, "
        f"seed {recipe.training.seed}"
    )

    def keep(step: int, score: Score, best: bool) -> None:
        journal.evaluated(step, score, best)
        facts = {"step": step, "valid": score.numbers}
        now = Bundle(network, recipe.task.kind, tokenizers, labels, facts)
        for folder in ("best", "last") if best else ("last",):
            bundle.save(now, out / folder, card(now, score))

    watchers = Watchers(journal.progress, keep, interrupted)
    batches = endless(task, items[0], recipe)
    train(network, task, batches, items[1], recipe.training, watchers)

    best = bundle.load(out / "best", str(device))
    if items[2]:
        score = task.evaluate(best.network, items[2])
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in score.numbers.items())
        journal.say("test: " + "  ".join([numbers, *score.notes]))
        (out / "test.json").write_text(
            json.dumps(
                {"test": score.numbers, "notes": score.notes, "examples": len(items[2])}, indent=2
            )
            + "\n",
            "utf-8",
        )
    return best


def _parts(examples: Examples) -> tuple[list[Any], list[Any], list[Any]]:
    return examples.train, examples.valid, examples.test


def encode(
    task: Task[Any, Any], records: Sequence[Any], recipe: Recipe, say: Callable[[str], None]
) -> list[Any]:
    """Items no longer than the recipe allows; what was done to longer ones is said."""
    longest = recipe.data.max_length
    if not records:
        return []
    if isinstance(task, Language):
        return list(task.rows(records, longest))
    items = [task.encode(record) for record in records]
    fitting = fit([task.sizes(item) for item in items], longest, "skip")
    kept = sorted({piece.item for piece in fitting.pieces})
    if len(kept) < len(items):
        say(f"{len(items) - len(kept):,} of {len(items):,} have over {longest} tokens, left out")
    return [items[i] for i in kept]


def endless(task: Task[Any, Any], items: Sequence[Any], recipe: Recipe) -> Iterator[Batch]:
    """Epoch after epoch, each in its own order: a function of seed and epoch alone."""
    sizes = [task.sizes(item) for item in items]
    epoch = 0
    while True:
        plan = plan_batches(
            sizes, recipe.training.batch_tokens, seed=recipe.training.seed, epoch=epoch
        )
        for batch in plan.batches:
            yield task.collate([items[i] for i in batch])
        epoch += 1


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


def card(now: Bundle, score: Score) -> str:
    """The model card."""
    numbers = "\n".join(f"- {name}: {value:.4g}" for name, value in score.numbers.items())
    return (
        f"# {now.task} model\n\nTrained with Translucid for {now.facts['step']:,} steps; "
        f"{now.network.parameters_count:,} parameters.\n\nOn the validation data:\n\n{numbers}\n\n"
        f"```\n{now.network.summary()}\n```\n"
    )
