"""The recipe: all that a run was told, as one file.

Sections: task, data, tokenizer, model, training, decoding. Every key has a default or is named when
missing; a key that does not exist is an error with the nearest one that does.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from translucid.data.pipelines import Kind
from translucid.errors import ConfigError, InputError
from translucid.models import ModelConfig
from translucid.models.mlp import MLPConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer import TransformerConfig
from translucid.recipe import Config, key, unknown_key, with_overrides
from translucid.tasks.base import TaskName
from translucid.tasks.tag import SpanDecoding
from translucid.training.config import TrainingConfig

Paths = tuple[str, ...]
Column = int | str | None


class TaskConfig(Config):
    """What the model is for."""

    kind: TaskName = key(..., "what the model is for")
    label_smoothing: float = key(
        0.0, "share of a target's mass that goes to all other classes", ge=0, lt=1
    )


class DataConfig(Config):
    """Where the examples are: the embedded toyland, or files."""

    toyland: int | None = key(None, "make up this many sentences instead of reading files", gt=0)
    folder: str = key("", "where the files are, unless their names begin with /")
    train: Paths = key((), "one file; for translation two, or one table", strict=False)
    valid: Paths = key((), "held out to choose the best model; not set: 5 % of train", strict=False)
    test: Paths = key((), "for one score at the end", strict=False)
    store: str | None = key(None, "folder for token ids on disk, for text larger than memory")
    text_column: Column = key(None, "name or number (from 1) in a table")
    label_column: Column = key(None, "of classification")
    source_column: Column = key(None, "of translation from one table")
    target_column: Column = key(None, "of translation from one table")
    words_column: Column = key(None, "of tagging; not set: 1 in CoNLL files")
    tags_column: Column = key(None, "of tagging; not set: 2 in CoNLL files")
    input_columns: tuple[int | str, ...] = key(
        (), "of regression; not set: all others", strict=False
    )
    output_columns: tuple[int | str, ...] = key(
        (), "of regression; not set: the last", strict=False
    )
    unit: Literal["line", "paragraph", "file"] = key("line", "a text of language modelling")
    keep_empty: bool = key(False, "an empty line is a text too, as benchmarks of words count it")
    max_length: int = key(256, "longest training example, in tokens; row of a language model", gt=1)
    long: Literal["skip", "truncate", "split"] = key("skip", "what happens to longer ones; counted")

    @model_validator(mode="after")
    def _only_lines_are_empty(self) -> "DataConfig":
        if self.keep_empty and self.unit != "line":
            raise ValueError(
                f"keep_empty = true: only a line can be empty, not a {self.unit}; set unit = 'line'"
            )
        return self

    def paths(self, files: Paths) -> Paths:
        """Where the files are."""
        return tuple(str(Path(self.folder, file)) for file in files)


class TokenizerConfig(Config):
    """How text becomes ids."""

    folder: str | None = key(None, "a tokenizer made before; not set: train one")
    kind: Kind = key("bpe", "what a token is")
    vocab: int = key(8000, "most tokens to tell apart; not of char and bytes", gt=0)
    joint: bool = key(True, "one vocabulary for both languages of a translation")


class DecodingConfig(Config):
    """How a model's answers are found."""

    beams: int = key(4, "drafts kept while a translation is written; 1 is greedy", gt=0)
    alpha: float = key(
        1.0, "translations are compared by log-probability / length^alpha; 0: short ones win", ge=0
    )
    spans: SpanDecoding = key(
        "legal", "tags of names: the best whole spans, or each word's best tag by itself"
    )
    context: int = key(
        0,
        "tokens that a language model reads before those it is scored on; 0: each row alone",
        ge=0,
    )

    def search(self) -> dict[str, Any]:
        """What a translator searches with: keys of `Search`."""
        return {"beams": self.beams, "alpha": self.alpha}


MODELS: dict[str, type[TransformerConfig] | type[RecurrentConfig] | type[MLPConfig]] = {
    "transformer": TransformerConfig,
    "recurrent": RecurrentConfig,
    "mlp": MLPConfig,
}
FITTING: dict[TaskName, tuple[str, ...]] = {
    "regress": ("mlp",),
    "language": ("transformer", "recurrent"),
    "classify": ("transformer", "recurrent"),
    "tag": ("transformer", "recurrent"),
    "translate": ("transformer", "recurrent"),
}
# What the task and the data decide; a recipe does not say it.
DECIDED = ("shape", "head", "vocab", "target_vocab", "outputs", "inputs")


SECTIONS: dict[str, type[Config]] = {
    "task": TaskConfig,
    "data": DataConfig,
    "tokenizer": TokenizerConfig,
    "training": TrainingConfig,
    "decoding": DecodingConfig,
}  # and "model", whose keys depend on its kind


class Recipe(Config):
    """A whole recipe."""

    task: TaskConfig
    data: DataConfig
    tokenizer: TokenizerConfig
    model: dict[str, Any]  # the keys of the model's own config, less those the data decides
    training: TrainingConfig
    decoding: DecodingConfig

    def model_config_for(self, *, sizes: Mapping[str, Any]) -> ModelConfig:
        """The model's full config: the recipe's keys and the sizes of task and data."""
        options = {key: value for key, value in self.model.items() if key != "kind"}
        return MODELS[self.model["kind"]](**options, **sizes)


def parse(values: Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """A recipe from nested values; all mistakes are reported at once."""
    values = with_overrides(values, overrides)
    mistakes = [
        unknown_key(key, Recipe.model_fields) for key in values if key not in Recipe.model_fields
    ]
    parsed: dict[str, Any] = {}
    for name, config in SECTIONS.items():
        try:
            parsed[name] = config(**values.get(name, {}))
        except ConfigError as error:
            mistakes += [f"{name}.{mistake}" for mistake in error.mistakes]
    model = dict(values.get("model", {}))
    task = parsed["task"].kind if "task" in parsed else None
    mistakes += [f"model.{mistake}" for mistake in _check_model(model, task)]
    if mistakes:
        raise ConfigError(*mistakes)
    return Recipe(model=model, **parsed)


def _check_model(model: dict[str, Any], task: TaskName | None) -> list[str]:
    """Fill in the kind, and try the keys with sizes that any data could have."""
    if task is None:
        return []
    kind = model.setdefault("kind", FITTING[task][0])
    if kind not in FITTING[task]:
        return [f"kind = {kind!r}: task {task} takes {' or '.join(FITTING[task])}"]
    config = MODELS[kind]
    decided = [key for key in model if key in DECIDED]
    if decided:
        return [f"{key}: comes from the task and the data; leave it out" for key in decided]
    try:
        config(
            **{key: value for key, value in model.items() if key != "kind"}, **shape_of(task, kind)
        )
    except ConfigError as error:
        return list(error.mistakes)
    return []


def shape_of(task: TaskName, kind: str) -> dict[str, Any]:
    """The smallest sizes a model for this task can have, with its shape and head."""
    if kind == "mlp":
        return {"inputs": 1, "outputs": 1}
    shapes: dict[TaskName, dict[str, Any]] = {
        "language": {"shape": "decoder", "head": "language", "vocab": 8},
        "classify": {"shape": "encoder", "head": "classify", "vocab": 8, "outputs": 2},
        "tag": {"shape": "encoder", "head": "tag", "vocab": 8, "outputs": 2},
        "translate": {"shape": "encoder-decoder", "head": "language", "vocab": 8},
    }
    return shapes[task]


def read(
    path: str | Path, overrides: Iterable[str] = (), data: Mapping[str, Any] | None = None
) -> Recipe:
    """A recipe from a TOML file; `data` stands in for keys of its data section."""
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no recipe {path}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    for name, section in values.items():
        if not isinstance(section, dict):
            raise InputError(
                f"{path}: {name} = {section!r}: must be a section; write [{name}] and its keys "
                "below"
            )
    if data:
        values["data"] = {**values.get("data", {}), **data}
    return parse(values, overrides)
