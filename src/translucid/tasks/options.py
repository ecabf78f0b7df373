"""The sections of a recipe that a task uses: task, data, tokenizer and decoding."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator, model_validator

from translucid.core.config import Config, key
from translucid.data.readers.dialect import Delimiter
from translucid.data.readers.tables import Format, TableRule
from translucid.data.tokenizers.pipelines import Kind
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.generate.beam_search import GenerationConfig
from translucid.generate.sampling import SamplingConfig
from translucid.tasks.registry import TaskName

TEMPERATURE = 0.05  # of the contrastive loss: 1 / 20, the scale of sentence-transformers
Paths = tuple[str, ...]
Column = int | str | None
SpanDecoding = Literal["legal", "free", "iob1"]
Long = Literal["skip", "truncate", "split"]


class TaskConfig(Config):
    """What the model is for."""

    kind: TaskName = key(..., "what the model is for")
    label_smoothing: float = key(
        0.0,
        "label smoothing: fraction of the target's probability that goes to all classes",
        ge=0,
        lt=1,
    )
    temperature: float = key(
        TEMPERATURE,
        "temperature of the contrastive loss, by which cosines are divided; for embeddings",
        gt=0,
    )


class DataConfig(Config):
    """Where the examples are: the embedded toyland, or files."""

    toyland: int | None = key(
        None, "made-up sentences to train on, instead of files", gt=0, le=10_000_000
    )
    folder: str = key("", "folder of the files, unless their names begin with /")
    train: Paths = key(
        (), "training data: one file; for translation and pairs two, or one table", strict=False
    )
    valid: Paths = key(
        (), "validation data, which chooses the best model; not set: 5 % of train", strict=False
    )
    split: Literal["stratified", "every-nth"] = key(
        "stratified",
        "how valid is split off train: shuffled by label or length, or every n-th",
    )
    split_seed: int | None = key(
        None, "random seed of that split; not set: training.seed", ge=0, lt=2**63
    )
    fold: str | None = key(
        None, "part of train used as valid in cross-validation: 2/5 is the second of five"
    )
    test: Paths = key((), "test data, scored once at the end", strict=False)
    store: str | None = key(None, "token store: folder for ids on disk, for text larger than RAM")
    text_column: Column = key(None, "column of the text in a table: its name, or its number from 1")
    label_column: Column = key(None, "column of the label, for classification")
    missing_labels: Paths = key(
        ("auto",), "labels that mean a missing value, such as NA; auto: common ones", strict=False
    )
    source_column: Column = key(
        None, "column of the source, for translation from one table; of a pair, the first text"
    )
    target_column: Column = key(
        None, "column of the target, for translation from one table; of a pair, the second text"
    )
    score_column: Column = key(
        None, "column of a pair's similarity, -1 to 1; not set: by its name, otherwise all are 1"
    )
    words_column: Column = key(None, "column of the words, for tagging; not set: by the layout")
    tags_column: Column = key(None, "column of the tags, for tagging; not set: by the layout")
    input_columns: tuple[int | str, ...] = key(
        (), "columns of the inputs, for regression; not set: all others", strict=False
    )
    output_columns: tuple[int | str, ...] = key(
        (), "columns of the outputs, for regression; not set: the last", strict=False
    )
    format: Format | None = key(None, "format of the files; not set: by their names")
    delimiter: Delimiter | None = key(None, "delimiter of the cells of CSV; not set: detected")
    header: bool | None = key(None, "the first row of a table has names; not set: detected")
    standardise: bool = key(
        True, "regression: inputs and outputs at mean 0 and deviation 1 of the training data"
    )
    unit: Literal["line", "paragraph", "file"] = key("line", "document of a language model")
    keep_empty: bool = key(False, "count an empty line as a document, as in word-level benchmarks")
    max_length: int = key(
        256, "maximum length of an example in tokens; of a language model, of a row", gt=1
    )
    long: Long | None = key(
        None,
        "longer examples; not set: truncate for classify and embed, split (overlapping windows) "
        "for tag, else skip",
    )

    @model_validator(mode="after")
    def _only_lines_are_empty(self) -> "DataConfig":
        if self.keep_empty and self.unit != "line":
            raise ValueError(
                f"keep_empty = true: only a line can be empty, not a {self.unit}; set unit = 'line'"
            )
        return self

    @field_validator("missing_labels", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("fold")
    @classmethod
    def _is_a_fold(cls, value: str | None) -> str | None:
        if value is None:
            return None
        number, slash, count = value.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal()):
            raise ValueError("must be a part and the number of parts, such as '2/5'")
        if not (int(count) >= 2 and 1 <= int(number) <= int(count)):
            raise ValueError("must be a part from 1 of at least 2 parts, such as '2/5'")
        return value

    @property
    def rule(self) -> TableRule:
        """How tables are read."""
        return TableRule(format=self.format, header=self.header, delimiter=self.delimiter)

    def paths(self, files: Paths) -> Paths:
        """The files with their folder."""
        return tuple(str(Path(self.folder, file)) for file in files)

    def reading(self) -> dict[str, Any]:
        """How examples are read and truncated, without where they are: saved with a model."""
        return self.model_dump(exclude={*PLACES, *WRITTEN})


# Keys of the section data about where examples are, or what is done once before training.
PLACES = (
    "toyland", "folder", "train", "valid", "split", "split_seed", "fold", "test", "store",
    "standardise",
)  # fmt: skip
# Keys about the format of a file, which may differ for another file.
WRITTEN = ("format", "delimiter", "header")


class TokenizerConfig(Config):
    """How text becomes ids."""

    folder: str | None = key(None, "folder of an existing tokenizer; not set: train one")
    kind: Kind = key("bpe", "tokenizer: what a token is")
    vocab_size: int = key(8000, "maximum vocabulary size in tokens; not for char and bytes", gt=0)
    joint: bool = key(True, "joint vocabulary: one for source and target of a translation")
    vocabulary: Literal["keep", "extend", "replace"] = key(
        "keep", "vocabulary of training.start_from: kept, extended by the data's words, or replaced"
    )


class DecodingConfig(Config):
    """Decoding: how a model's answers are found."""

    beam_size: int = key(4, "beam size: prefixes followed side by side; 1 is greedy", gt=0)
    alpha: float = key(
        1.0, "length penalty: compare by log-probability / length^alpha; 0: short ones win", ge=0
    )
    spans: SpanDecoding = key(
        "legal",
        "span decoding: the best sequence in IOB2 or BIOES, whichever the tags are; free: each "
        "word's best tag; iob1: the best sequence in IOB1",
    )
    context: int = key(
        0,
        "context: tokens a language model reads before those it is scored on; 0: none",
        ge=0,
    )
    carry_state: bool | None = key(
        None, "score a recurrent language model on one continuous stream; not set: as in training"
    )

    @model_validator(mode="after")
    def _one_way_to_read_on(self) -> "DecodingConfig":
        if self.carry_state and self.context:
            raise ValueError(
                f"carry_state = true reads everything before a token, so that context = "
                f"{self.context} has no effect; set context = 0"
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
    temperature: float = TEMPERATURE
    characters: bool = False  # the model also reads the characters of each word
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    statistics: Mapping[str, Any] = field(default_factory=dict)  # from `Task.measure`
    # The tokens to which a long text is truncated, or in each of its windows; None: as many as the
    # network can read.
    max_length: int | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The only tokenizer."""
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
        """The sampling settings in that file; None if the model does not sample."""
        settings = self.statistics.get("sampling")
        return SamplingConfig(**settings) if isinstance(settings, Mapping) else None
