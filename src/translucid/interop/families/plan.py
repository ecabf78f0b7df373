"""What a family makes of a description: a configuration of ours, and rules for the weights; and the
way back, a description of a configuration of ours."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import torch

from translucid.core.errors import ConfigError, InputError
from translucid.interop.families.options import Options
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import Rule
from translucid.models.build import ModelConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer_config import TransformerConfig

Configured = TypeVar("Configured", TransformerConfig, RecurrentConfig)


@dataclass(frozen=True)
class Plan:
    """All that is needed to open a model, but its tensors and tokenizers."""

    family: str  # for people
    task: str
    config: ModelConfig
    rules: list[Rule]
    ignored: tuple[str, ...] = ()  # patterns of tensors that hold no weights
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what was done to the weights, a line each
    statistics: Mapping[str, Any] = field(default_factory=dict)  # what its task has to know


class Description(NamedTuple):
    """What a family says of a model of ours: as near as it can, since whoever wants to know whether
    that is the same model reads it again. names: tensors whose presence tells more."""

    config: dict[str, Any]  # the contents of config.json, without the special tokens
    names: tuple[str, ...] = ()


def transformer(where: str, **options: Any) -> TransformerConfig:
    """A configuration of ours; what cannot be is told of the file that asked for it."""
    return _configured(TransformerConfig, where, options)


def recurrent(where: str, **options: Any) -> RecurrentConfig:
    """The same for a recurrent network."""
    return _configured(RecurrentConfig, where, options)


def _configured(kind: type[Configured], where: str, options: Mapping[str, Any]) -> Configured:
    try:
        return kind(**options)
    except ConfigError as error:
        raise InputError(f"{where} describes a model that cannot be built: {error}") from None


UNTIED = (
    "the output head and the embedding table differ in the file, so they are kept apart although "
    "tie_word_embeddings is true (transformers 5 does the same; transformers 4 used the table)"
)


def is_tied(config: Options, file: ModelFile, head: str, table: str, default: bool) -> bool:
    """Whether the output head is the embedding table. head, table: their tensors. Copies that
    differ are two tensors, whatever tie_word_embeddings says."""
    return config.flag("tie_word_embeddings", default) and are_equal(file, head, table)


def tie_notes(config: Options, tied: bool, default: bool) -> list[str]:
    return [UNTIED] if not tied and config.flag("tie_word_embeddings", default) else []


def are_equal(file: ModelFile, one: str, other: str) -> bool:
    """Whether two tensors hold the same values; one that is not stored is as the other."""
    tensors = [file.tensors.get(name) for name in (one, other)]
    if None in tensors:
        return True
    first, second = (tensor for tensor in tensors if tensor is not None)
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    same_place = first.file is not None and (first.file, first.start) == (second.file, second.start)
    return same_place or torch.equal(first.read(), second.read())


def check_copies(file: ModelFile, copy: str, table: str, where: str) -> None:
    """Refuse a copy of a shared table that is another table."""
    if not are_equal(file, copy, table):
        raise InputError(
            f"{where}: {copy} and {table} should be one table, but hold different values; "
            "save the model again with transformers, or set tie_word_embeddings to what it is"
        )


def count_layers(names: Iterable[str], prefix: str) -> int:
    """How many layers have tensors: the names go on with the number of the layer."""
    pattern = re.compile(re.escape(prefix) + r"(\d+)\.")
    return len({match[1] for name in names if (match := pattern.match(name))})


def rows_of(file: ModelFile, name: str, where: str) -> int:
    """How many rows a tensor has, without which the sizes of a model are not known."""
    if name not in file.tensors or not file.tensors[name].shape:
        raise InputError(f"{where}: {name} is missing; copy the file again, whole")
    return file.tensors[name].shape[0]


def check_layers(layers: int, tensors: int, where: str) -> int:
    """Before a rule is made for every layer."""
    if layers > tensors:
        raise InputError(
            f"{where}: {layers:,} layers, but the weights hold only {tensors:,} tensors; the "
            "configuration is not that of these weights"
        )
    return layers
