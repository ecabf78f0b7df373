"""The sections of a recipe that a task reads: what it is for, its data, how text becomes ids, and
how answers are found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from translucid.config import Config, key
from translucid.data.tokenizers.pipelines import Kind
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.registry import TaskName

Paths = tuple[str, ...]
Column = int | str | None
SpanDecoding = Literal["legal", "free"]


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


@dataclass(frozen=True)
class Resources:
    """What a task is made from: all that was learnt from the data before a model is, and the
    options that are its business."""

    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    smoothing: float = 0.0
    characters: bool = False  # the model also reads the characters of each word
    decoding: DecodingConfig = field(default_factory=DecodingConfig)

    @property
    def tokenizer(self) -> Tokenizer:
        """The only one."""
        return self.tokenizers["tokenizer"]
