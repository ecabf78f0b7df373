"""What stands between records and a model: tokenizers, labels, the task, and the sizes that only
the data knows."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.runs.recipe.examples import Examples, Record
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.base import Task
from translucid.tasks.options import Resources
from translucid.tasks.registry import TASKS


@dataclass(frozen=True)
class Prepared:
    tokenizers: dict[str, Tokenizer]
    labels: tuple[str, ...]
    task: Task[Any, Any]
    sizes: dict[str, Any]  # of the model: vocabulary, labels, columns
    statistics: dict[str, Any]  # that the task has measured


def prepare(
    recipe: Recipe,
    examples: Examples,
    learn_from: Iterable[Record] | None = None,
    made_before: dict[str, Tokenizer] | None = None,
) -> Prepared:
    """All that is learnt from the examples before a model is; tokenizers from `learn_from`, if it
    is given, unless they were made before."""
    data, task = recipe.data, TASKS[recipe.task.kind]
    tokenizers = made_before
    if tokenizers is None:
        tokenizers = task.learn_tokenizers(learn_from or examples.train, recipe.tokenizer)
    others = ((examples.valid, data.valid), (examples.test, data.test))
    ours = [record for part, files in others if not files for record in part]
    labels = task.labels_in([*examples.train, *ours])  # all that is not a test
    for part, files in others:
        if files:
            task.check_labels(part, labels, data.paths(files)[0])
    resources = Resources(
        tokenizers,
        labels,
        smoothing=recipe.task.label_smoothing,
        temperature=recipe.task.temperature,
        characters=recipe.model.get("characters", 0) > 0,
        decoding=recipe.decoding,
        statistics=task.measure(examples.train, data),
        max_length=None if data.long == "skip" else data.max_length,
    )
    sizes = task.network_sizes(resources, examples.train)
    return Prepared(tokenizers, labels, task.make(resources), sizes, dict(resources.statistics))
