"""The sections of a recipe that a task uses: task, data, tokenizer and decoding."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from translucid.core.config import Config, key
from translucid.data.readers.dialect import Delimiter
from translucid.data.readers.lines import LineRule
from translucid.data.readers.tables import ColumnKind, Decimal, Format, TableRule
from translucid.data.tokenizers.pipelines import Kind
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.sampling import SamplingConfig
from translucid.tasks.registry import TaskName

TEMPERATURE = 0.05  # of the contrastive loss: 1 / 20, as in sentence-transformers
Paths = tuple[str, ...]
Column = int | str | None
SpanDecoding = Literal["legal", "free", "iob1"]
Long = Literal["skip", "truncate", "split"]


class TaskConfig(Config):
    """The section task: what the model is trained for."""

    kind: TaskName = key(..., "task")
    label_smoothing: float = key(
        0.0,
        "label smoothing: probability spread over all classes",
        ge=0,
        lt=1,
    )
    temperature: float = key(
        TEMPERATURE,
        "embed: temperature of the contrastive loss",
        gt=0,
    )
    class_weights: Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None = key(
        None,
        "table: weights of the labels in the loss: balanced, or {yes = 5.0}; default: all 1",
    )


class DataConfig(Config):
    """The section data: files or generated examples, and how to read them."""

    toyland: int | None = key(
        None, "number of generated sentences to train on, instead of files", gt=0, le=10_000_000
    )
    folder: str = key("", "folder of the data files, for relative names")
    train: Paths = key((), "training files: one, or two for source and target", strict=False)
    valid: Paths = key(
        (), "validation files, to choose the best model; default: 5 % of train", strict=False
    )
    split: Literal["stratified", "every-nth"] = key(
        "stratified", "how to split validation data off train: stratified (shuffled), or every n-th"
    )
    split_seed: int | None = key(
        None, "random seed of the split; default: training.seed", ge=0, lt=2**63
    )
    fold: str | None = key(None, "cross-validation fold to validate on: 2/5 is the second of five")
    test: Paths = key((), "test files, scored once at the end", strict=False)
    store: str | None = key(None, "folder for a token store on disk, for text larger than RAM")
    text_column: Column = key(None, "text column: name, or number from 1")
    label_column: Column = key(None, "classify, table: label column")
    missing_labels: Paths = key(
        ("auto",), "labels that mean no label, such as NA; auto: detect them", strict=False
    )
    source_column: Column = key(None, "source column, or first text of a pair, in a table")
    target_column: Column = key(None, "target column, or second text of a pair, in a table")
    score_column: Column = key(
        None,
        "embed: similarity column, -1 to 1; default: detect it; if none, all pairs are positive",
    )
    words_column: Column = key(None, "tag: word column; default: detect it")
    tags_column: Column = key(None, "tag: tag column; default: detect it")
    input_columns: tuple[int | str, ...] = key(
        (), "table, regress: input columns, such as area,rate; default: all others", strict=False
    )
    ignore_columns: tuple[int | str, ...] | None = key(
        None, "table, regress: columns that are no inputs, such as id,name", strict=False
    )
    column_kinds: dict[str, ColumnKind] | None = key(
        None,
        'table, regress: kinds of columns: {zip = "category", day = "date-dmy"}; default: detect '
        "them",
    )
    decimal: Decimal | None = key(
        None, "table, regress: decimal mark in the cells, point or comma; default: detect it"
    )
    output_columns: tuple[int | str, ...] = key(
        (), "regress: output columns; default: the last", strict=False
    )
    format: Format | None = key(None, "file format; default: by file name")
    encoding: str | None = key(None, "text encoding, such as latin-1 or utf-16; default: utf-8")
    delimiter: Delimiter | None = key(None, "CSV delimiter; default: detect it")
    header: bool | None = key(None, "whether the first row is a header; default: detect it")
    standardise: bool = key(True, "table, regress: scale numbers to mean 0, standard deviation 1")
    unit: Literal["line", "paragraph", "file"] = key("line", "language: what counts as a document")
    keep_empty: bool = key(
        False, "language: count empty lines as documents, as word-level benchmarks do"
    )
    max_length: int = key(256, "maximum length of an example or sequence in tokens", gt=1)
    long: Long | None = key(
        None,
        "how to treat longer examples; default: truncate (classify, embed), split (tag), else skip",
    )

    @model_validator(mode="after")
    def _only_lines_are_empty(self) -> "DataConfig":
        if self.keep_empty and self.unit != "line":
            raise ValueError(
                f"keep_empty = true: only a line can be empty, not a {self.unit}; set unit = 'line'"
            )
        return self

    @model_validator(mode="after")
    def _stores_are_utf8(self) -> "DataConfig":
        if self.store is not None and self.encoding not in (None, "utf-8"):
            raise ValueError(
                f"encoding = {self.encoding!r}: a token store (store = {self.store!r}) reads only "
                "utf-8; convert the files with iconv"
            )
        return self

    @field_validator("missing_labels", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("input_columns", "ignore_columns", "output_columns", mode="before")
    @classmethod
    def _as_list(cls, value: object) -> object:
        """Split a text with column names separated by commas."""
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return (value,) if isinstance(value, int) else value

    @field_validator("encoding")
    @classmethod
    def _is_an_encoding(cls, value: str | None) -> str | None:
        try:
            "\n".encode(value or "utf-8")
        except (LookupError, ValueError):  # ValueError: a NUL in the name
            raise ValueError(
                "not a text encoding that Python supports; use one such as "
                "utf-8, latin-1, cp1252 or utf-16"
            ) from None
        return value

    @field_validator("fold")
    @classmethod
    def _is_a_fold(cls, value: str | None) -> str | None:
        if value is None:
            return None
        number, slash, count = value.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal()):
            raise ValueError("must be a fold and the number of folds, such as '2/5'")
        if not (int(count) >= 2 and 1 <= int(number) <= int(count)):
            raise ValueError("must be a fold from 1 to N and N folds, at least 2, such as '2/5'")
        return value

    @property
    def rule(self) -> TableRule:
        """The settings for reading tables."""
        lines = LineRule(encoding=self.encoding or "utf-8")
        return TableRule(self.format, self.header, self.delimiter, lines)

    def paths(self, files: Paths) -> Paths:
        """The paths of the files, relative to data.folder."""
        return tuple(str(Path(self.folder, file)) for file in files)

    def reading(self) -> dict[str, Any]:
        """The keys that say how examples are read and truncated, with their values. Keys that say
        where the data are, or in which file format, are left out. The result is saved with a
        model."""
        return self.model_dump(exclude={*PLACES, *FEATURE_KEYS, *WRITTEN})


# Keys of the section data about the location of examples, or about preparing them for training.
PLACES = (
    "toyland", "folder", "train", "valid", "split", "split_seed", "fold", "test", "store",
    "standardise",
)  # fmt: skip
# Keys about the columns of a table; the model folder has what was learned from them.
FEATURE_KEYS = ("ignore_columns", "column_kinds", "decimal")
# Keys about the format of a file, which may differ from file to file.
WRITTEN = ("format", "encoding", "delimiter", "header")


class TokenizerConfig(Config):
    """The section tokenizer: how text is converted to token ids."""

    folder: str | None = key(None, "folder of a trained tokenizer; default: train one")
    kind: Kind = key("bpe", "token type")
    vocab_size: int = key(8000, "maximum vocabulary size; not for char and bytes", gt=0)
    joint: bool = key(True, "translate: one vocabulary for source and target")
    vocabulary: Literal["keep", "extend", "replace"] = key(
        "keep", "fine-tuning: keep the vocabulary, extend it with new words, or replace it"
    )


class DecodingConfig(Config):
    """The section decoding: how outputs are generated and scored."""

    beam_size: int = key(4, "beam size; 1: greedy search", gt=0)
    alpha: float = key(1.0, "length penalty: score is log-probability / length^alpha", ge=0)
    spans: SpanDecoding = key(
        "legal",
        "tag: legal: best valid tag sequence; iob1: the same for IOB1; free: best tag of each word",
    )
    context: int = key(
        0,
        "language: tokens that the model reads as context before those it scores",
        ge=0,
    )
    carry_state: bool | None = key(
        None, "recurrent language models: score the text as one stream; default: as trained"
    )
    thresholds: dict[str, Annotated[float, Field(ge=0, le=1)]] | None = key(
        None, "table: predict a label if its probability is at least this: {yes = 0.3}"
    )

    @field_validator("thresholds")
    @classmethod
    def _one_label(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        if value is not None and len(value) != 1:
            raise ValueError("set the threshold of one label; the others share the rest")
        return value

    @model_validator(mode="after")
    def _one_way_to_read_on(self) -> "DecodingConfig":
        if self.carry_state and self.context:
            raise ValueError(
                f"carry_state = true reads everything before a token, so context = {self.context} "
                "has no effect; set context = 0"
            )
        return self

    def search(self) -> dict[str, Any]:
        """The keys of `GenerationConfig` for translation models."""
        return {"beam_size": self.beam_size, "alpha": self.alpha}


@dataclass(frozen=True)
class Resources:
    """What `Task.make` receives: the vocabulary, statistics of the data, and options."""

    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    smoothing: float = 0.0
    # The weight of each label in the loss; empty: all 1.
    class_weights: tuple[float, ...] = ()
    temperature: float = TEMPERATURE
    characters: bool = False  # the model also reads the characters of each word
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    statistics: Mapping[str, Any] = field(default_factory=dict)  # from `Task.measure`
    # The number of tokens to which a long text is truncated, or of each of its windows; None: as
    # many as the network can read.
    max_length: int | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of a task that has only one."""
        return self.tokenizers["tokenizer"]

    @property
    def search(self) -> GenerationConfig | None:
        """The settings in an imported model's generation_config.json; None if there are none."""
        settings = self.statistics.get("generation")
        if not isinstance(settings, Mapping):
            return None
        return GenerationConfig(**(dict(settings) | self.decoding.search()))

    @property
    def sampling(self) -> SamplingConfig | None:
        """The sampling settings in an imported model's generation_config.json; None if the model
        does not sample."""
        settings = self.statistics.get("sampling")
        return SamplingConfig(**settings) if isinstance(settings, Mapping) else None
