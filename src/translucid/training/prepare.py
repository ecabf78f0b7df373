"""What stands between records and a model: tokenizers, labels, the task, and the sizes that only
the data knows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from translucid.data.tokenizers import Tokenizer
from translucid.decoding.search import Search
from translucid.tasks.base import Task
from translucid.training.examples import (
    Examples,
    Record,
    check_known_labels,
    labels_of,
    make_task,
    train_tokenizers,
)
from translucid.training.recipe import Recipe, shape_of


@dataclass(frozen=True)
class Prepared:
    tokenizers: dict[str, Tokenizer]
    labels: tuple[str, ...]
    task: Task[Any, Any]
    sizes: dict[str, Any]  # of the model: vocabulary, labels, columns


def prepare(
    recipe: Recipe,
    examples: Examples,
    learn_from: Iterable[Record] | None = None,
    made_before: dict[str, Tokenizer] | None = None,
) -> Prepared:
    """All that is learnt from the examples before a model is; tokenizers from `learn_from`, if it
    is given, unless they were made before."""
    data, kind = recipe.data, recipe.task.kind
    tokenizers = made_before
    if tokenizers is None:
        tokenizers = train_tokenizers(recipe, learn_from or examples.train)
    others = ((examples.valid, data.valid), (examples.test, data.test))
    ours = [record for part, files in others if not files for record in part]
    labels = labels_of(kind, [*examples.train, *ours])  # all that is not a test
    for part, files in others:
        if files:
            check_known_labels(kind, part, labels, data.paths(files)[0])
    task = make_task(
        kind,
        tokenizers,
        labels,
        smoothing=recipe.task.label_smoothing,
        search=Search(**recipe.decoding.search()),
        letters=recipe.model.get("letters", 0) > 0,
        spans=recipe.decoding.spans,
        context=recipe.decoding.context,
    )
    return Prepared(tokenizers, labels, task, _sizes(recipe, examples, tokenizers, labels))


def _sizes(
    recipe: Recipe, examples: Examples, tokenizers: dict[str, Tokenizer], labels: Sequence[str]
) -> dict[str, Any]:
    if recipe.task.kind == "regress":
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
