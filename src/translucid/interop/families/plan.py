"""Foreign models, which are those of other tools: a model as stored (`ForeignModel` with its
`Options`), and how to build it in Translucid (`ImportPlan`: a configuration, and weight rules).

`Options` reports missing keys and wrong types, and records which keys were read, so that unknown
keys can be rejected.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import torch

from translucid.core.errors import ConfigError, InputError, nearest
from translucid.core.untrusted_files import inside, present
from translucid.interop.formats.stored import ModelFile, StoredTensor
from translucid.interop.rules import WeightRule, rule
from translucid.models.build import ModelConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.sequence_config import SequenceConfig
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.norms import EPSILON

MISSING = object()
# File names in Hugging Face's layout: the configuration, and the weights if in a single file.
CONFIG, WEIGHT_FILES = "config.json", ("model.safetensors", "pytorch_model.bin")


class Options:
    """The options of a foreign model, from a config.json or a file header. where: the name of the
    file, for messages."""

    def __init__(self, values: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self.values, self.where, self._prefix = values, where, prefix
        self._read: set[str] = set()
        self._parts: dict[str, Options] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a key; null counts as missing."""
        self._read.add(self._prefix + name)
        value = self.values.get(self._prefix + name)
        return default if value is None else value

    def whole(self, name: str, default: Any = MISSING) -> int:
        value = self._checked(name, default)
        if type(value) is not int or not 0 < value < 1 << 40:
            self.refuse(name, value, "a whole number above 0")
        return value

    def id(self, name: str, default: int) -> int:
        """A token id, which may be 0."""
        return 0 if self.get(name, default) == 0 else self.whole(name, default)

    def number(self, name: str, default: Any = MISSING) -> float:
        value = self._checked(name, default)
        if type(value) not in (int, float) or not 0 < value < 1e30:
            self.refuse(name, value, "a number above 0")
        return float(value)

    def within(
        self, name: str, default: float, least: float, most: float, *, whole: bool = False
    ) -> Any:
        """A number from least to most: an int if whole, otherwise a float."""
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
            self.refuse(name, value, "a string")
        return str(value)

    def part(self, name: str) -> "Options":
        """The nested options under a key; empty if there are none."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            self.refuse(name, value, "an object")
        return self._parts.setdefault(name, Options(value, f"{self.where}: {name}"))

    def keys(
        self, keys: Mapping[str, str], usual: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Read keys of a TransformerConfig from the file. keys: the name in the file for each of
        Translucid's names. usual: the default for each of Translucid's names."""
        made: dict[str, Any] = {}
        for ours, theirs in keys.items():
            default = (usual or {}).get(ours, MISSING)
            match ours:
                case "norm_eps":
                    made[ours] = self.number(theirs, default)
                case "parallel_residual":
                    made[ours] = self.flag(theirs, default)
                case _:
                    made[ours] = self.whole(theirs, default)
        return made

    def has(self, name: str) -> bool:
        """Whether the file has a key, even if its value is null."""
        return self._prefix + name in self.values

    def ignore(self, *names: str) -> None:
        """Mark keys as read: they do not change the model's output."""
        self._read.update(self._prefix + name for name in names)

    def same_as(self, names: Mapping[str, str]) -> None:
        """Mark each alias as read if it has the same value as the key that it stands for. names:
        for each alias, the key that it stands for."""
        self.ignore(*(second for second, name in names.items() if self.get(name) is not None
                      and self.values.get(self._prefix + second) == self.get(name)))  # fmt: skip

    def unread(self) -> dict[str, Any]:
        """Keys that have a value and were never read; nested ones as `part.key`."""
        unread = {
            key: value
            for key, value in self.values.items()
            if key not in self._read and value is not None
        }
        for name, part in self._parts.items():
            unread |= {f"{name}.{key}": value for key, value in part.unread().items()}
        return unread

    def must_be(self, name: str, allowed: object, meaning: str) -> None:
        """Raise an error unless a key has the allowed value: other values change the model's output
        in a way that Translucid does not support."""
        value = self.get(name, allowed)
        if value != allowed:
            self.unsupported(f"{name} = {str(value)[:100]!r} ({meaning})", repr(allowed))

    def choice(self, name: str, names: Mapping[str, str], default: Any = MISSING) -> str:
        """Translate the value of a key, a name in the file, into Translucid's name."""
        value = self.text(name, default)
        if value not in names:
            self.refuse(name, value, "one of " + ", ".join(names))
        return names[value]

    def _checked(self, name: str, default: Any) -> Any:
        value = self.get(name, default)
        if value is MISSING:
            raise InputError(
                f"{self.where}: {self._prefix}{name} is missing, but the model cannot be built "
                "without it; copy the complete file again"
            )
        return value

    def refuse(self, name: str, value: object, expected: str) -> NoReturn:
        raise InputError(
            f"{self.where}: {self._prefix}{name} = {str(value)[:100]!r}; expected {expected}"
        )

    def unsupported(self, what: str, supported: str = "") -> NoReturn:
        hint = f"; supported: {supported}" if supported else ""
        raise InputError(f"{self.where}: {what} is not supported{hint}")


ACTIVATIONS = {  # Translucid's activations of plain feed-forward layers, by transformers' names
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "silu": "silu", "swish": "silu", "tanh": "tanh",
    "quick_gelu": "quick_gelu", "relu2": "relu_squared",
}  # fmt: skip
GATED = {  # the same for gated feed-forward layers
    "silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "gelu_new": "geglu_tanh",
    "gelu_pytorch_tanh": "geglu_tanh", "gelu_fast": "geglu_tanh",
}  # fmt: skip


def name_of(activation: str, names: Mapping[str, str]) -> str:
    """The first foreign name that `names` maps to this activation of Translucid. If there is none,
    the first name in `names`."""
    return next((theirs for theirs, ours in names.items() if ours == activation), next(iter(names)))


def effective(c: TransformerConfig) -> dict[str, Any]:
    """Every key of a configuration; keys that are not set have the value that takes effect."""
    biases = ("qkv_bias", "attention_output_bias", "feedforward_bias")
    values = c.model_dump()
    return values | {
        **{name: c.bias if values[name] is None else values[name] for name in biases},
        "kv_heads": c.kv_heads or c.heads,
        "d_head": c.head_size,
        "d_ff": c.d_ff or 4 * c.d_model,
        "norm_eps": c.norm_eps or EPSILON[c.norm],
        "final_norm": c.has_final_norm,
        "decoder_layers": c.decoder_layers or c.layers,
    }


def described(c: TransformerConfig, keys: Mapping[str, str]) -> dict[str, Any]:
    """The effective values of a configuration under foreign names: the reverse of
    `Options.keys`."""
    values = effective(c)
    return {theirs: values[ours] for ours, theirs in keys.items()}


Configured = TypeVar("Configured", TransformerConfig, RecurrentConfig)


@dataclass(frozen=True)
class ImportPlan:
    """Everything needed to open a model, except its tensors and tokenizers."""

    family: str  # for messages
    task: str
    config: ModelConfig
    rules: list[WeightRule]
    ignored: tuple[str, ...] = ()  # patterns of names of tensors that are not weights
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # one line for each change to the weights
    statistics: Mapping[str, Any] = field(default_factory=dict)  # statistics that its task needs

    def rows(self, tokenizer: str) -> int:
        """The number of rows of the embedding table that belongs to a tokenizer: "tokenizer",
        "source" or "target"."""
        assert isinstance(self.config, SequenceConfig)
        target = self.config.target_vocab if tokenizer == "target" else None
        return target or self.config.vocab

    @property
    def shared(self) -> bool:
        """Whether source and target share one vocabulary."""
        return isinstance(self.config, SequenceConfig) and self.config.target_vocab is None

    @property
    def translates(self) -> bool:
        """Whether the model is an encoder-decoder."""
        return isinstance(self.config, SequenceConfig) and self.config.shape == "encoder-decoder"


class Description(NamedTuple):
    """A Translucid model described in a family's terms, as closely as the family allows. Importing
    the description shows whether the result is the same model. names: tensors whose presence is
    part of the description."""

    config: dict[str, Any]  # the contents of config.json, without the special tokens
    names: tuple[str, ...] = ()


# Families with parts that Translucid does not support.
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
    """The value of this key, which must be the name of one of the families."""
    name, known = config.text(key), list(families)
    if name in REFUSED:
        config.unsupported(f"{key} = {name!r}, {REFUSED[name]},")
    if name not in known:
        close = nearest(name, known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        config.unsupported(f"the family {key} = {name[:60]!r}", ", ".join(known) + hint)
    return name


UNTIED = (
    "the output head and the embedding table differ in the file, so they are not tied, although "
    "tie_word_embeddings is true (transformers 5 does the same; transformers 4 used the table)"
)
TIED = "the output head is the embedding table"


class TiedTables(NamedTuple):
    """The part of a plan about embedding tables and the output head."""

    rules: list[WeightRule]
    ignored: tuple[str, ...]  # copies
    notes: tuple[str, ...]
    tied: bool  # the output head is an embedding table


def shared_tables(tables: Mapping[str, str], head: str, *, shared: bool, tied: bool) -> TiedTables:
    """Tables and head of an encoder-decoder. tables, head: names of tensors. shared: encoder and
    decoder have one table. tied: the output head is the decoder's table."""
    encoder, decoder = tables["encoder"], tables["decoder"]
    rules, ignored, notes = [rule(encoder, "encoder.embedding.table.weight")], [], []
    if shared:
        ignored.append(re.escape(decoder))
        notes.append("encoder and decoder share one embedding table")
    else:
        rules.append(rule(decoder, "decoder.embedding.table.weight"))
    if tied:
        ignored.append(re.escape(head))
        notes.append("the output head is the decoder's embedding table")
    else:
        rules.append(rule(head, "head.linear.weight"))
    return TiedTables(rules, tuple(ignored), tuple(notes), tied)


def alike(where: str, values: Mapping[str, Any]) -> Any:
    """The value of an option that must be the same in encoder and decoder. values: the option's
    values, by key."""
    first, *others = values.values()
    if first is None or any(value != first for value in others):
        shown = ", ".join(f"{name} = {str(value)[:40]}" for name, value in values.items())
        raise InputError(f"{where}: {shown}; encoder and decoder must have the same value")
    return first


@dataclass(frozen=True)
class Origin:
    """A model at a path, with the content that was read to identify the tool that wrote it."""

    path: Path  # the file, or the folder
    kind: str | None = None  # see kinds.py; None: a Translucid model, or unknown
    config: Mapping[str, Any] = field(default_factory=dict)  # Hugging Face's config.json
    checkpoint: ModelFile | None = None


@dataclass(frozen=True)
class ForeignModel:
    """A model made with another tool: its description, and its tensors, which are not read yet."""

    kind: str
    path: Path
    config: Options
    file: ModelFile
    ignored_keys: tuple[str, ...] = ()  # keys of config.json to ignore, at the user's request

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    def find(self, name: str) -> Path | None:
        """The path of a file in the model's folder; None if it does not exist."""
        there = present(self.folder / name)
        return inside(self.folder, name, str(self.path)) if there else None

    def need(self, name: str, remedy: str) -> Path:
        """The path of a file in the model's folder; raises an error if it does not exist."""
        path = self.find(name)
        if path is None:
            raise InputError(f"{self.folder / name} is missing; {remedy}")
        return path

    @classmethod
    def described(cls, config: Mapping[str, Any], where: str, file: ModelFile) -> "ForeignModel":
        """A foreign model with this description that is not stored on disk. where: its name in
        messages."""
        return cls("", Path(), Options(config, where), file)

    @property
    def where(self) -> str:
        """The name of the file with the model's description, for messages."""
        return self.config.where

    @property
    def tensors(self) -> Mapping[str, StoredTensor]:
        return self.file.tensors

    def transformer(self, **options: Any) -> TransformerConfig:
        """A Translucid configuration with these options; errors name the file."""
        made = configured(TransformerConfig, self.where, options)
        for layers in (made.layers, made.decoder_layers or 0):
            if layers > len(self.tensors):  # before a rule is made for every layer
                raise InputError(
                    f"{self.where} describes {layers:,} layers, but there are only "
                    f"{len(self.tensors):,} tensors; use the configuration that belongs to these "
                    "weights"
                )
        return made

    def recurrent(self, **options: Any) -> RecurrentConfig:
        return configured(RecurrentConfig, self.where, options)

    def rows(self, name: str) -> int:
        """The number of rows of a tensor."""
        if name not in self.tensors or not self.tensors[name].shape:
            raise InputError(f"{self.where}: {name} is missing; copy the complete file again")
        return self.tensors[name].shape[0]

    def count_layers(self, prefix: str, end: str = ".") -> int:
        """The number of layers that have tensors. end: the text after the layer number in tensor
        names."""
        pattern = re.compile(re.escape(prefix) + r"(\d+)" + re.escape(end))
        return len({match[1] for name in self.tensors if (match := pattern.match(name))})

    def are_equal(self, one: str, other: str) -> bool:
        """Whether two tensors have the same values. Also true if one of them is not stored."""
        if one not in self.tensors or other not in self.tensors:
            return True
        first, second = self.tensors[one], self.tensors[other]
        if (first.shape, first.dtype) != (second.shape, second.dtype):
            return False
        in_file = first.file is not None and (first.file, first.start)
        return in_file == (second.file, second.start) or torch.equal(first.read(), second.read())

    def check_copy(self, copy: str, table: str) -> None:
        """Raise an error if the copy of a shared table has different values."""
        if not self.are_equal(copy, table):
            raise InputError(
                f"{self.where}: {copy} and {table} should be one table, but have different values; "
                "save the model again with transformers, or correct tie_word_embeddings"
            )

    def output_head(self, head: str, table: str, *, default: bool) -> TiedTables:
        """Decide whether the output head is tied to the embedding table. head, table: names of
        tensors. default: the default of tie_word_embeddings. If the tensors differ, they are not
        tied, regardless of that key."""
        declared = self.config.flag("tie_word_embeddings", default)
        if declared and self.are_equal(head, table):
            return TiedTables([], (re.escape(head),), (TIED,), True)
        own = [rule(head, "head.linear.weight")]
        return TiedTables(own, (), (UNTIED,) if declared else (), False)


def configured(kind: type[Configured], where: str, options: Mapping[str, Any]) -> Configured:
    """A Translucid configuration made from the options of a file. where: the file's name."""
    try:
        return kind(**options)
    except ConfigError as error:
        raise InputError(f"{where} describes a model that cannot be built: {error}") from None
