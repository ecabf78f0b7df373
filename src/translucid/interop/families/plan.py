"""What every reader of foreign models works with: the model as it was found (`ForeignModel` with
its `Options`) and what becomes of it here (`ImportPlan`: a configuration, and rules for the
weights).

`Options` refuses missing keys and wrong types by name and remembers which keys were read, so that
the others can be refused too.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import torch

from translucid.core.errors import ConfigError, InputError, nearest
from translucid.interop.formats.stored import ModelFile, StoredTensor
from translucid.interop.rules import WeightRule, rule
from translucid.models.build import ModelConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig

MISSING = object()
# Of Hugging Face's layout: the description, and the weights where they are in one file.
CONFIG, WEIGHT_FILES = "config.json", ("model.safetensors", "pytorch_model.bin")


class Options:
    """A config.json, or the facts of a header. where: its name, for messages."""

    def __init__(self, values: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self._values, self.where, self._prefix = values, where, prefix
        self._read: set[str] = set()
        self._parts: dict[str, Options] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The value as it is in the file; null counts as missing."""
        self._read.add(self._prefix + name)
        value = self._values.get(self._prefix + name)
        return default if value is None else value

    def whole(self, name: str, default: Any = MISSING) -> int:
        value = self._checked(name, default)
        if type(value) is not int or not 0 < value < 1 << 40:
            self.refuse(name, value, "a whole number above 0")
        return value

    def id(self, name: str, default: int) -> int:
        """The id of a token."""
        return 0 if self.get(name, default) == 0 else self.whole(name, default)

    def number(self, name: str, default: Any = MISSING) -> float:
        value = self._checked(name, default)
        if type(value) not in (int, float) or not 0 < value < 1e30:
            self.refuse(name, value, "a number above 0")
        return float(value)

    def within(
        self, name: str, default: float, least: float, most: float, *, whole: bool = False
    ) -> Any:
        """A number from least to most; a whole one is an int, others are floats."""
        value = self.get(name, default)
        kinds = (int,) if whole else (int, float)
        if type(value) not in kinds or not least <= value <= most:
            kind = "a whole number" if whole else "a number"
            self.refuse(name, value, f"{kind} from {least:g} to {most:g}")
        return value if whole else float(value)

    def flag(self, name: str, default: Any = MISSING) -> bool:
        value = self._checked(name, default)
        if type(value) is not bool:
            self.refuse(name, value, "true or false")
        return bool(value)

    def text(self, name: str, default: Any = MISSING) -> str:
        value = self._checked(name, default)
        if type(value) is not str:
            self.refuse(name, value, "a text")
        return str(value)

    def part(self, name: str) -> "Options":
        """Nested options; empty if there are none."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            self.refuse(name, value, "an object")
        return self._parts.setdefault(name, Options(value, f"{self.where}: {name}"))

    def has(self, name: str) -> bool:
        """Whether the file has a key, even if its value is null."""
        return self._prefix + name in self._values

    def ignore(self, *names: str) -> None:
        """Count keys as read: they do not change what this model computes."""
        self._read.update(self._prefix + name for name in names)

    def same_as(self, names: Mapping[str, str]) -> None:
        """Count second names of keys as read where both have the same value. names: the second
        name, and the key that is read."""
        self.ignore(*(second for second, name in names.items() if self.get(name) is not None
                      and self._values.get(self._prefix + second) == self.get(name)))  # fmt: skip

    def unread(self) -> dict[str, Any]:
        """Keys that have a value and were never asked for; those of a part as `part.key`."""
        unread = {
            key: value
            for key, value in self._values.items()
            if key not in self._read and value is not None
        }
        for name, part in self._parts.items():
            unread |= {f"{name}.{key}": value for key, value in part.unread().items()}
        return unread

    def must_be(self, name: str, allowed: object, meaning: str) -> None:
        """Refuse a value that changes what the model computes and that no option of ours
        expresses."""
        value = self.get(name, allowed)
        if value != allowed:
            raise InputError(
                f"{self.where}: {name} = {str(value)[:100]!r} ({meaning}) cannot be computed here; "
                f"{allowed!r} can"
            )

    def choice(self, name: str, names: Mapping[str, str], default: Any = MISSING) -> str:
        """Translate one of their names into ours."""
        value = self.text(name, default)
        if value not in names:
            self.refuse(name, value, "one of " + ", ".join(names))
        return names[value]

    def _checked(self, name: str, default: Any) -> Any:
        value = self.get(name, default)
        if value is MISSING:
            raise InputError(
                f"{self.where}: {self._prefix}{name} is missing, without which the model cannot be "
                "built; copy the file again, whole"
            )
        return value

    def refuse(self, name: str, value: object, wanted: str) -> NoReturn:
        raise InputError(
            f"{self.where}: {self._prefix}{name} = {str(value)[:100]!r}, but {wanted} is wanted"
        )


ACTIVATIONS = {  # of a plain feed-forward layer, by the names that transformers has for them
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "silu": "silu", "swish": "silu", "tanh": "tanh",
    "quick_gelu": "quick_gelu", "relu2": "relu_squared",
}  # fmt: skip
GATED = {  # of a gated one
    "silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "gelu_new": "geglu_tanh",
    "gelu_pytorch_tanh": "geglu_tanh", "gelu_fast": "geglu_tanh",
}  # fmt: skip


def name_of(activation: str, names: Mapping[str, str]) -> str:
    """The first of their names for one of our activations, or their first name if there is none."""
    return next((theirs for theirs, ours in names.items() if ours == activation), next(iter(names)))


Configured = TypeVar("Configured", TransformerConfig, RecurrentConfig)


@dataclass(frozen=True)
class ImportPlan:
    """Everything needed to open a model, apart from its tensors and tokenizers."""

    family: str  # for people
    task: str
    config: ModelConfig
    rules: list[WeightRule]
    ignored: tuple[str, ...] = ()  # patterns of tensors that hold no weights
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what was done to the weights, a line each
    statistics: Mapping[str, Any] = field(default_factory=dict)  # what its task has to know

    def rows(self, tokenizer: str) -> int:
        """Rows of the embedding table of a tokenizer: "tokenizer", "source" or "target"."""
        assert isinstance(self.config, SequenceConfig)
        target = self.config.target_vocab if tokenizer == "target" else None
        return target or self.config.vocab

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return isinstance(self.config, SequenceConfig) and self.config.target_vocab is None

    @property
    def translates(self) -> bool:
        """Whether the model is an encoder-decoder."""
        return isinstance(self.config, SequenceConfig) and self.config.shape == "encoder-decoder"


class Description(NamedTuple):
    """A model of ours as a family describes it, as closely as it can; reading the description again
    shows whether it is the same model. names: tensors whose presence is part of the description."""

    config: dict[str, Any]  # the contents of config.json, without the special tokens
    names: tuple[str, ...] = ()


# Why a family is not read, where more than work is missing.
MIXTURE, STATE_SPACE = "a mixture of experts", "a state space model"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "dbrx", "olmoe",
         "phimoe", "granitemoe", "switch_transformers", "nllb-moe", "gpt_oss", "llama4"), MIXTURE,
    ),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "jamba", "zamba", "bamba"), STATE_SPACE),
    **dict.fromkeys(("rwkv", "rwkv5", "rwkv6", "rwkv7"), "a linear recurrent network (RWKV)"),
}  # fmt: skip


def check_family(config: Options, key: str, families: Iterable[str]) -> str:
    """The name of the family, under this key; refuses one that is not among the families."""
    name, where, known = config.text(key), config.where, list(families)
    if name in REFUSED:
        raise InputError(f"{where}: {key} = {name!r} is {REFUSED[name]}, which cannot be computed "
                         "here")  # fmt: skip
    if name not in known:
        close = nearest(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(
            f"{where}: {key} = {name[:60]!r} is a family that is not known here; "
            f"{', '.join(known)} are{hint}"
        )
    return name


UNTIED = (
    "the output head and the embedding table differ in the file, so they are kept apart although "
    "tie_word_embeddings is true (transformers 5 does the same; transformers 4 used the table)"
)
TIED = "the output head is the embedding table"


class TiedTables(NamedTuple):
    """What the plan of a model has for its embedding tables and its output head."""

    rules: list[WeightRule]
    ignored: tuple[str, ...]  # copies
    notes: tuple[str, ...]
    tied: bool  # the output head is an embedding table


def shared_tables(tables: Mapping[str, str], head: str, *, shared: bool, tied: bool) -> TiedTables:
    """Tables and head of an encoder-decoder. tables, head: the tensors. shared: one table for both
    sides. tied: the output head is the decoder's table."""
    encoder, decoder = tables["encoder"], tables["decoder"]
    rules, ignored, notes = [rule(encoder, "encoder.embedding.table.weight")], [], []
    if shared:
        ignored.append(re.escape(decoder))
        notes.append("encoder and decoder have one embedding table")
    else:
        rules.append(rule(decoder, "decoder.embedding.table.weight"))
    if tied:
        ignored.append(re.escape(head))
        notes.append("the output head is the decoder's embedding table")
    else:
        rules.append(rule(head, "head.linear.weight"))
    return TiedTables(rules, tuple(ignored), tuple(notes), tied)


def alike(where: str, values: Mapping[str, Any]) -> Any:
    """An option that must be the same in encoder and decoder. values: by key."""
    first, *others = values.values()
    if first is None or any(value != first for value in others):
        shown = ", ".join(f"{name} = {str(value)[:40]}" for name, value in values.items())
        raise InputError(f"{where}: {shown}; one value for encoder and decoder is needed")
    return first


@dataclass(frozen=True)
class ForeignModel:
    """A model of another tool: its description, and its tensors, which are not read yet."""

    kind: str  # see kinds.py
    path: Path  # the file, or the folder
    config: Options
    file: ModelFile
    ignored_keys: tuple[str, ...] = ()  # of config.json, which the user knows to be irrelevant

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @classmethod
    def described(cls, config: Mapping[str, Any], where: str, file: ModelFile) -> "ForeignModel":
        """A model that is not stored yet, as a description of it would be read. where: for
        messages."""
        return cls("", Path(), Options(config, where), file)

    @property
    def where(self) -> str:
        """The name of its description, for messages."""
        return self.config.where

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        return self.file.tensors

    def transformer(self, **options: Any) -> TransformerConfig:
        """A configuration of ours; a wrong one is an error that names the file."""
        return configured(TransformerConfig, self.where, options)

    def recurrent(self, **options: Any) -> RecurrentConfig:
        return configured(RecurrentConfig, self.where, options)

    def rows(self, name: str) -> int:
        """How many rows a tensor has that the sizes of the model are read from."""
        if name not in self.tensors or not self.tensors[name].shape:
            raise InputError(f"{self.where}: {name} is missing; copy the file again, whole")
        return self.tensors[name].shape[0]

    def count_layers(self, prefix: str, end: str = ".") -> int:
        """How many layers have tensors. end: what follows a layer's number in their names."""
        pattern = re.compile(re.escape(prefix) + r"(\d+)" + re.escape(end))
        return len({match[1] for name in self.tensors if (match := pattern.match(name))})

    def check_layers(self, layers: int) -> int:
        """Refuse more layers than tensors, before a rule is made for every layer."""
        if layers > len(self.tensors):
            raise InputError(
                f"{self.where}: {layers:,} layers, but the weights hold only "
                f"{len(self.tensors):,} tensors; the configuration is not that of these weights"
            )
        return layers

    def are_equal(self, one: str, other: str) -> bool:
        """Whether two tensors hold the same values, or one of them is not stored."""
        if one not in self.tensors or other not in self.tensors:
            return True
        first, second = self.tensors[one], self.tensors[other]
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            return False
        in_file = first.file is not None and (first.file, first.start)
        return in_file == (second.file, second.start) or torch.equal(first.read(), second.read())

    def check_copy(self, copy: str, table: str) -> None:
        """Refuse a copy of a shared table that is another table."""
        if not self.are_equal(copy, table):
            raise InputError(
                f"{self.where}: {copy} and {table} should be one table, but hold different values; "
                "save the model again with transformers, or set tie_word_embeddings to what it is"
            )

    def output_head(self, head: str, table: str, *, default: bool) -> TiedTables:
        """The output head of a config.json. head, table: the tensors. default: of
        tie_word_embeddings. Copies that differ are two tensors, whatever that key says."""
        declared = self.config.flag("tie_word_embeddings", default)
        if declared and self.are_equal(head, table):
            return TiedTables([], (re.escape(head),), (TIED,), True)
        own = [rule(head, "head.linear.weight")]
        return TiedTables(own, (), (UNTIED,) if declared else (), False)


def configured(kind: type[Configured], where: str, options: Mapping[str, Any]) -> Configured:
    """A configuration of ours, from the options of a file; where: its name."""
    try:
        return kind(**options)
    except ConfigError as error:
        raise InputError(f"{where} describes a model that cannot be built: {error}") from None
