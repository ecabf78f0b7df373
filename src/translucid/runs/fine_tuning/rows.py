"""Fine-tuning of a network that reads the rows of a table.

The new model keeps the start model's columns, with their kinds, categories, means and deviations,
so a row is the same input for both models.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from translucid.core.errors import ConfigError
from translucid.core.weights import own_tensors
from translucid.models import Network
from translucid.models.mlp import MLPConfig
from translucid.runs.fine_tuning.take_over import digest_of, some
from translucid.runs.recipe.automatic_sizes import with_picks
from translucid.runs.recipe.examples import Prepared, Record
from translucid.runs.recipe.recipe import DECIDED, Recipe
from translucid.tasks.model_folder import Bundle

FREE = ("dropout",)  # no weights depend on it
HEAD = "output."  # how the names of the last layer's weights begin

Say = Callable[[str], None]


@dataclass(frozen=True)
class RowStart:
    """A start model for a task that reads rows, and the recipe with its sizes."""

    path: str
    bundle: Bundle
    recipe: Recipe

    @property
    def statistics(self) -> dict[str, Any]:
        return dict(self.bundle.statistics)

    def tokenizers(self, train: Sequence[Record]) -> None:
        """Return None: rows have no tokenizer."""

    def sizes(self, known: Mapping[str, Any]) -> dict[str, Any]:
        return dict(known)

    @torch.no_grad()
    def begin(self, network: Network, known: Prepared, say: Say) -> dict[str, Any]:
        """Copy the start model's weights into the network and report what was copied; return the
        record that the run saves."""
        source, theirs = self.bundle.network, list(self.bundle.labels)
        same = {*known.labels} == {*theirs}
        order = [theirs.index(label) for label in known.labels] if same else []
        weights = source.state_dict()
        taken, fresh = list[str](), list[str]()
        for name, tensor in own_tensors(network).items():
            if name.startswith(HEAD) and not same:
                fresh.append(name)
                continue
            value = weights[name]
            if name.startswith(HEAD) and theirs:
                value = value[order]
            if value.shape != tensor.shape:
                raise ConfigError(
                    f"training.start_from = {self.path!r}: {name} has shape {[*value.shape]}, but "
                    f"this data needs {[*tensor.shape]}; use the same outputs as the start model"
                )
            tensor.copy_(value)
            taken.append(name)
        digest = digest_of(source)
        notes = ["columns: as in the start model, with its means and categories"]
        if fresh:
            notes.append(f"new: the last layer, since the start model's labels are {some(theirs)}")
        say(
            f"starting from {self.path}: {self.recipe.model['kind']} for task {self.bundle.task}, "
            f"{source.parameters_count:,} parameters, weights {digest[:12]}"
        )
        for line in notes:
            say(f"  {line}")
        return {
            "path": self.path, "task": self.bundle.task, "weights": digest, "sizes": {},
            "taken": taken, "fresh": fresh, "notes": notes,
            "statistics": json.loads(json.dumps(self.statistics)),
        }  # fmt: skip

    def frozen(self, start: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the frozen weights."""
        return self.recipe.training.freeze


def open_row_start(path: str, held: Bundle, recipe: Recipe) -> RowStart:
    """Check that training can start from this model."""
    config = held.network.config
    if not isinstance(config, MLPConfig) or held.task != recipe.task.kind:
        raise ConfigError(
            f"training.start_from = {path!r}: a {config.model_dump()['kind']} model for task "
            f"{held.task}; task {recipe.task.kind} starts from an mlp for task {recipe.task.kind}"
        )
    theirs = {key: value for key, value in config.model_dump().items() if key not in DECIDED}
    wrong = [
        f"model.{key} = {value!r}: the model that training starts from has {theirs.get(key)!r}; "
        "omit the key"
        for key, value in recipe.model.items()
        if key not in FREE and theirs.get(key) != value
    ]
    if wrong:
        raise ConfigError(*wrong)
    of_kind = recipe.model_copy(update={"model": {**recipe.model, "kind": config.kind}})
    picks = {key: value for key, value in theirs.items() if key != "kind"}
    return RowStart(path, held, with_picks(of_kind, {"model": picks})[0])
