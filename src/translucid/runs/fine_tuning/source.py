"""The trained model that training starts from: one of our own, or anything that `tl.load` opens."""

import hashlib
from dataclasses import dataclass
from typing import Any

from torch import nn

from translucid.core.errors import ConfigError, InputError
from translucid.core.weights import own_tensors
from translucid.interop.hub import fetched
from translucid.interop.importing import load
from translucid.models.adapters import merge
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer import TransformerConfig
from translucid.tasks.model_folder import Bundle
from translucid.tasks.registry import TASKS

# Which shape a task's network has when it starts from a network of another.
SHAPES = {
    ("encoder", "encoder"): "encoder",
    ("encoder", "decoder"): "decoder",
    ("encoder", "encoder-decoder"): "encoder",
    ("decoder", "decoder"): "decoder",
    ("encoder-decoder", "encoder-decoder"): "encoder-decoder",
}  # of the task and of the source


@dataclass(frozen=True)
class Source:
    """A trained sequence model, on the CPU."""

    path: str
    bundle: Bundle
    weights: str  # SHA-256 of all its tensors, whatever file they came from

    @property
    def config(self) -> TransformerConfig | RecurrentConfig:
        config = self.bundle.network.config
        assert isinstance(config, TransformerConfig | RecurrentConfig)
        return config

    @property
    def imported(self) -> bool:
        """Whether it came from another tool."""
        return "imported" in self.bundle.facts

    def shape_for(self, task: str) -> str:
        """Of a network for this task that goes on from this one."""
        wanted = TASKS[task].shape
        shape = SHAPES.get((wanted, self.config.shape))
        if shape is None:
            fitting = " or ".join(theirs for ours, theirs in SHAPES if ours == wanted)
            raise ConfigError(
                f"training.start_from = {self.path!r}: task {task} needs a model of shape "
                f"{fitting}, and this is a model of shape {self.config.shape} (task "
                f"{self.bundle.task}); start from another, or train for another task"
            )
        return shape

    def line(self) -> str:
        """What it is, in words."""
        network = self.bundle.network
        return (
            f"starting from {self.path}: {self.config.kind} for task {self.bundle.task}, "
            f"{network.parameters_count:,} parameters, weights {self.weights[:12]}"
        )


def open_source(path: str, task: str) -> Source:
    """The model, which must be one that this task can go on from."""
    place = fetched(path)
    if not place.exists():
        raise InputError(
            f"training.start_from = {path!r}: there is no such run, folder or file; give what "
            "`translucid info` opens"
        )
    held = load(place)
    if not isinstance(held.network.config, SequenceConfig):
        raise ConfigError(
            f"training.start_from = {path!r}: a model for task {held.task}; only models of text "
            "can be gone on from, since the inputs of others are columns of their own table"
        )
    source = Source(path, held, digest_of(held.network))
    merge(held.network)  # what its adapters have learnt is part of it
    source.shape_for(task)
    return source


def digest_of(network: nn.Module) -> str:
    """SHA-256 over names, shapes and values of all tensors."""
    digest = hashlib.sha256()
    for name, tensor in sorted(own_tensors(network).items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def facts_of(source: Source) -> dict[str, Any]:
    """What a run and its models keep of it, fit for JSON."""
    return {"path": source.path, "task": source.bundle.task, "weights": source.weights}
