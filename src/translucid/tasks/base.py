"""The base class of tasks, which defines the methods that the training loop calls.

A task turns records into items (token ids, once), items into batches (tensors), and a batch into a
loss. The loss is a SUM over targets, and `Batch.count` is the number of targets. The loop divides
by the targets of a whole step, so gradient accumulation and several processes give the same result
as one large batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError
from translucid.data.readers.loading import Columns, Loading
from translucid.data.records import Record as AnyRecord
from translucid.data.tokenizers.special_tokens import Role
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.batch import Batch, PackedItems
from translucid.tasks.example import Example
from translucid.tasks.findings import Finding
from translucid.tasks.in_batches import LazyItems
from translucid.tasks.options import (
    FEATURE_KEYS,
    DataConfig,
    DecodingConfig,
    Long,
    Resources,
    TaskConfig,
    TokenizerConfig,
)
from translucid.tasks.outputs import Outputs
from translucid.tasks.score import LOWER_IS_BETTER, Baseline, Criterion
from translucid.tasks.score import Score as Score
from translucid.tasks.vocabulary import learn, tokenizers_in, unknown_pieces

if TYPE_CHECKING:
    from translucid.data.corpus.token_store import Store
    from translucid.data.toyland import Sentence

Record = TypeVar("Record", bound=AnyRecord)
Item = TypeVar("Item")


@dataclass(frozen=True)
class Traits:
    """Properties of a task that Translucid's commands, recipes and checks use."""

    command: str = "predict"  # the command that uses its models
    max_files: int = 1  # maximum number of files for one part of its data
    row_columns: tuple[str, ...] = ("text",)  # columns of rows passed from Python; none: numbers
    # The columns of a table that may contain the inputs, in order of preference ("text" is
    # data.text_column); none: whole lines are inputs.
    asks_about: tuple[str, ...] = ()
    suggested: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # default settings
    # The recipe keys of the strong baseline that every run trains, by section; none: no baseline.
    baseline: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The keys of the sections data and decoding that affect the scores of this task, and the keys
    # of the section task that it uses.
    data_keys: Collection[str] = (*DataConfig().reading(), *FEATURE_KEYS)
    decoding_keys: Collection[str] = tuple(DecodingConfig.model_fields)
    task_keys: Collection[str] = tuple(k for k in TaskConfig.model_fields if k != "kind")
    # Items are rows of numbers: if there are few, folds choose between network and baseline.
    cross_validated: bool = False
    running_text: bool = False  # held-out texts are joined and cut into rows of one length
    storable: bool = False  # can be trained from a token store on disk
    empty_stays_empty: bool = False  # the correct output for an empty text is empty
    costly_metric: bool = False  # the metric takes far longer to compute than the loss
    loss_by_evaluating: bool = False  # `evaluate` computes only the loss
    loss_of_batch: bool = False  # the loss of an item depends on the others in its batch


class Task(ABC, Generic[Record, Item]):
    """A task: how data is read, the loss, the score and the predictions.

    A task of your own needs six methods:

        read      yield the records of a file
        encode    convert one record to an item of token ids
        sizes     return the number of tokens of an item, for batching
        collate   combine items into one `Batch` of padded tensors
        loss      compute the summed loss of a batch
        evaluate  compute a `Score` on held-out items

    and four attributes: `metric`, `higher_is_better`, `shape` and `head`. Everything else has a
    default. Override

        read_line, predict          to support `predict` and `model.predict`
        answer_text, answer_json    to print predictions in a different form
        example, outputs, samples   for `trace`, `explain`, `ablate` and the studio
        baseline                    to compare the model with a simple baseline
        shorten, split              for `data.long` = truncate or split
        measure, make               to store statistics of the training data with the model
        learn_tokenizers            if there is more than one tokenizer, or none

    The other members, and `traits`, are for built-in tasks. Class methods read files and choose
    networks and tokenizers before there is a vocabulary; `make` returns the task object.
    """

    # ---- attributes that every task sets (the first four; `@tl.task("name")` sets the name) ----

    name: ClassVar[str]
    metric: ClassVar[str]  # the metric in Score that selects the best model
    higher_is_better: ClassVar[bool]
    shape: ClassVar[str]  # encoder, decoder or encoder-decoder
    head: ClassVar[str]  # the output head: language, classify or tag
    n_outputs: ClassVar[int | None] = None  # size of the head, if not set by labels
    label_noun: ClassVar[str | None] = None  # such as "label", if records have labels
    models: ClassVar[tuple[str, ...]] = ("transformer", "recurrent")  # the first is the default

    # ---- the six methods that every task has ----

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Record]:
        """Yield the records of a file, or of several files that belong together."""
        raise ConfigError(f"task {cls.name} cannot read files")

    @abstractmethod
    def encode(self, record: Record) -> Item:
        """Turn one record into an item of token ids."""

    @abstractmethod
    def sizes(self, item: Item) -> tuple[int, ...]:
        """The number of tokens in an item, one number per side (source, target)."""

    @abstractmethod
    def collate(self, items: Sequence[Item]) -> Batch:
        """Turn items into one batch of padded tensors."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The summed loss of a batch; the loop divides by the number of targets."""

    @abstractmethod
    def evaluate(self, model: nn.Module, items: Sequence[Item]) -> Score:
        """The score on held-out items; must contain the metric named by `metric`."""

    # ---- override to make predictions ----

    answer_name: ClassVar[str] = "predicted"  # the column for predictions in a table

    def line_form(self, network: nn.Module) -> str:
        """Describe the form of an input line, for messages."""
        return "one text per line"

    def read_line(self, line: str, where: str, network: nn.Module) -> Item:
        """Convert a line of text to an item without a target. where: prefix for error messages."""
        raise ConfigError(
            f"task {self.name} cannot read input lines: it has no method read_line(line, where, "
            "network), which must return an item without a target"
        )

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[Any]:
        """The model's predictions, one per item."""
        raise ConfigError(
            f"task {self.name} makes no predictions: it has no method predict(model, items), which "
            "must return a list with one prediction per item"
        )

    def predict_lines(self, model: nn.Module, lines: Sequence[str]) -> list[Any]:
        """The model's predictions, one per line of text."""
        items = [self.read_line(line, f"text {n}", model) for n, line in enumerate(lines, start=1)]
        return self.predict(model, items)

    def answer_text(self, answer: Any) -> str:
        """Format a prediction as one line of text."""
        return f"{answer:.6g}" if isinstance(answer, float) else str(answer)

    def answer_json(self, line: str, answer: Any) -> dict[str, Any]:
        """The input and its prediction as a dictionary for JSON."""
        return {"text": line, "answer": answer}

    # ---- override for trace, explain, ablate and the studio ----

    samples: tuple[str, ...] = ()  # texts for the studio to begin with

    def example(self, text: str, target: str | None = None) -> Example:
        """Convert a text, and its target if known, to tensors with a label per token."""
        raise InputError(
            f"a model for task {self.name} cannot read text; add to {type(self).__name__} a method "
            "example(text, target) that returns an Example"
        )

    @property
    def outputs(self) -> Outputs:
        """How to interpret the network's outputs: labels, tags, numbers or tokens."""
        raise InputError(
            f"task {self.name} does not define `outputs`, which interprets the network's outputs; "
            f"add to {type(self).__name__} a property `outputs` that returns, for example, "
            "tl.OneLabel(labels) or tl.Values()"
        )

    # ---- override for other data, long examples and baselines ----

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[Record]:
        """Yield generated records, for `data.toyland`."""
        raise ConfigError(
            f"data.toyland: task {cls.name} has no generated examples; set data.train to your files"
        )

    @classmethod
    def learn_tokenizers(
        cls, records: Iterable[Record], options: TokenizerConfig
    ) -> dict[str, Tokenizer]:
        """Train the tokenizers, or load them from `options.folder`; return them by name. By
        default, there is one."""
        if options.folder is not None:
            return tokenizers_in(Path(options.folder))
        return {"tokenizer": learn((text for r in records for text in r.texts), options)}

    @classmethod
    def measure(cls, train: Sequence[Record], data: DataConfig) -> dict[str, Any]:
        """Compute the statistics of the training data that the task needs, as JSON values; they are
        saved with the model."""
        return {}

    @classmethod
    def make(cls, resources: Resources) -> Self:
        """Create the task from its vocabulary. By default, pass the tokenizers to the class."""
        return cls(*resources.tokenizers.values())

    def targets(self, item: Item) -> int:
        """The number of targets of an item; by default, `collate` counts them."""
        return self.collate([item]).count

    def shorten(self, item: Item, max_length: int) -> Item:
        """The first `max_length` tokens of an item. The default is for dataclasses with `ids`."""
        if max(self.sizes(item)) <= max_length:
            return item
        if not is_dataclass(item) or isinstance(item, type) or not hasattr(item, "ids"):
            raise ConfigError(
                f"data.long = 'truncate': task {self.name} has no shorten(item, max_length), which "
                "must return the beginning of an item; add the method, or choose skip"
            )
        return replace(item, ids=item.ids[:max_length])

    def split(self, item: Item, max_length: int) -> list[Item]:
        """Split a long item into parts that each have targets."""
        raise ConfigError(
            f"data.long = 'split': task {self.name} cannot split an example, because half an "
            "example has no target; choose truncate or skip"
        )

    def baseline(self, train: Sequence[Item], held_out: Sequence[Item]) -> Baseline | None:
        """The score of a trivial predictor, such as the majority class; None if there is none."""
        return None

    # ---- for built-in tasks: attributes ----

    traits: ClassVar[Traits] = Traits()
    # The special tokens before and after a text, unless its tokenizer defines them.
    around: ClassVar[tuple[Role | None, Role | None]] = (None, None)
    # How to handle examples longer than data.max_length if data.long is not set.
    long: ClassVar[Long] = "skip"

    # ---- for built-in tasks: checks and inputs ----

    @classmethod
    def check_held_out(cls, train: Sequence[Record], held_out: Sequence[Record], file: str) -> None:
        """Raise an error if the columns of held-out records differ from the training data."""

    @classmethod
    def check_data(cls, parts: Mapping[str, Sequence[Record]]) -> list[Finding]:
        """Run checks that are specific to this task. parts: the records of train and, if given, of
        valid and test."""
        return []

    def check_files(self) -> None:
        """Raise an error if the model's outputs cannot be scored against files."""

    def check_line(self, line: str, where: str, network: nn.Module) -> None:
        """Raise an error if a line is invalid or too long for the model."""
        self.check_item(self.read_line(line, where, network), where, network)

    def check_item(self, item: Item, where: str, network: nn.Module) -> None:
        """Raise an error if the model cannot read an item."""
        context_length = getattr(getattr(network, "config", None), "context_length", None)
        check_length(max(self.sizes(item)), context_length, where)

    def check_question(self, question: Any, where: str, network: nn.Module) -> None:
        """Raise an error if an input from a table is invalid. The input consists of the columns in
        `traits.asks_about`; by default, it is one line of text."""
        self.check_line(question, where, network)

    def unknown_in(self, question: Any) -> list[str]:
        """The parts of a text that are not in the vocabulary and become <unk>."""
        tokenizer = next(iter(self.vocabularies.values()))  # of the input, not of the output
        return unknown_pieces(tokenizer, question, tokenizer.encode(question))

    def remarks(self, question: Any) -> list[str]:
        """Describe how a row of a table differs from the training data, such as unknown
        categories."""
        return []

    @property
    def notes_inputs(self) -> bool:
        """Whether there can be notes on inputs: unknown words or categories, values out of
        range."""
        return bool(self.vocabularies)

    @property
    def prediction_note(self) -> str:
        """A note on how predictions are made, printed before them; empty if there is nothing
        unusual."""
        return ""

    def columns_read(self, columns: Mapping[str, Columns]) -> dict[str, Columns]:
        """The columns of the training data that the model reads, by role."""
        return dict(columns)

    @classmethod
    def restore_statistics(
        cls, statistics: dict[str, Any], inputs: int, columns: Mapping[str, Columns]
    ) -> dict[str, Any]:
        """Convert statistics that an earlier version stored to those that `measure` returns.
        inputs: the number of the network's inputs. columns: those of the training data, by role."""
        return statistics

    def reading_report(self) -> list[str]:
        """Lines on how each column of a table is read, printed before training."""
        return []

    def predict_columns(
        self, model: nn.Module, questions: Sequence[Any], *, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """The predictions of each input as new table columns, by name. questions: the inputs."""
        if probabilities:
            raise ConfigError(f"--probabilities: task {self.name} has none; omit the option")
        answers = self.predict_lines(model, questions)
        return [{self.answer_name: self.answer_text(answer)} for answer in answers]

    def own_target(self, model: nn.Module, text: str) -> str | None:
        """The target to use in a trace if none is given: for translation, the model's own
        output."""
        return None

    def followed(self, model: nn.Module, text: str, target: str | None) -> Any:
        """The prediction for `text`, as JSON values. The studio requests it again and again to
        show how it changes during training."""
        return self.predict_lines(model, [text])[0]

    # ---- for built-in tasks: sizes, items and batches ----

    @classmethod
    def smallest_sizes(cls) -> dict[str, Any]:
        """The smallest possible values of the config keys that depend on the data, such as
        `vocab`."""
        outputs = cls.n_outputs if cls.label_noun is None else 2
        return cls._sizes(8, outputs)

    @classmethod
    def network_sizes(cls, resources: Resources, train: Sequence[Record]) -> dict[str, Any]:
        """The values of the config keys that depend on the data, such as `vocab`."""
        return cls._sizes(len(resources.tokenizer), len(resources.labels) or cls.n_outputs)

    @classmethod
    def _sizes(cls, vocab: int, outputs: int | None) -> dict[str, Any]:
        sizes = {"shape": cls.shape, "head": cls.head, "vocab": vocab}
        return sizes if outputs is None else sizes | {"outputs": outputs}

    @classmethod
    def criterion(cls, metric: str | None = None) -> Criterion:
        """The criterion that selects the best model. metric: the metric to use instead of the
        task's own."""
        if metric is None or metric == cls.metric:
            return Criterion(cls.metric, cls.higher_is_better)
        return Criterion(metric, metric not in LOWER_IS_BETTER)

    def training_items(self, records: Sequence[Record], data: DataConfig) -> list[Item]:
        """Convert records to training items of any length; `limit_length` handles long ones."""
        return self.encode_all(records)

    def count_examples(self, items: Sequence[Item]) -> int:
        """The number of examples that these items come from."""
        return len(items)

    def held_out_items(self, records: Sequence[Record], row: int) -> list[Item]:
        """Convert records to held-out items of any length; `limit_length` handles long ones. row:
        tokens per row, for running text."""
        return self.encode_all(records)

    def rows_of(self, store: "Store", length: int) -> LazyItems[Item]:
        """Items of a token store, read from disk when they are used."""
        raise ConfigError(f"data.store is not available for task {self.name}; omit the key")

    def check_evaluated(self, items: Sequence[Item], context_length: int | None, file: str) -> None:
        """Raise an error if `evaluate` would read items longer than the model allows."""
        for item in items:
            line: int = item.line  # type: ignore[attr-defined]  # every item has one
            check_length(max(self.sizes(item)), context_length, f"{file}:{line}")

    def first_text(self, records: Sequence[Record], items: Sequence[Item]) -> str:
        """The input text of the first example; empty if there is none."""
        return self.text_of(records[0]) if records else ""

    def text_of_row(self, row: Any) -> str:
        """The line of text that a user would type for a row passed from Python."""
        raise InputError(f"{row!r:.60} is not a text; pass a text, as in model.predict")

    def text_of(self, record: Record) -> str:
        """The line of text that a user would type for the input of a record."""
        return record.asked

    def encode_all(self, records: Sequence[Record]) -> list[Item]:
        """Encode many records; override it if a tokenizer is faster on many texts at once."""
        return [self.encode(record) for record in records]

    @property
    def packs(self) -> bool:
        """Whether several items can share a row of a batch."""
        return False

    def packed(self, items: Sequence[Item]) -> PackedItems:
        """Wrap items so that several of them are collated into one row."""
        raise NotImplementedError

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        """The tokenizer of each side of a record."""
        tokenizer = getattr(self, "tokenizer", None)
        return {} if tokenizer is None else {"text": tokenizer}

    @property
    def label_names(self) -> Sequence[str]:
        """The labels that the network predicts, in the order of its outputs; may be empty."""
        return ()

    def expected_targets(self, records: Sequence[Record]) -> tuple[Tensor, str] | None:
        """The targets of a batch, computed directly from the records, and a phrase that describes
        their positions. A check compares these targets with those of `encode` and `collate`. None
        if not supported."""
        return None

    @property
    def units(self) -> Mapping[str, tuple[str, object]]:
        """For each metric that has a unit, such as nats per token: a description of the unit, and a
        value that is equal for two models if their units are equal. Only models with equal units
        can be compared by such a metric."""
        return {}


def toy_sentences(split: str, count: int) -> "Iterator[tuple[int, Sentence]]":
    """Sentences of Toyland, numbered from 1."""
    from translucid.data.toyland import Toyland  # seldom needed: most models are trained on files

    return enumerate(Toyland().sentences(split, count), start=1)


def check_length(tokens: int, context_length: int | None, where: str) -> None:
    """Raise an error if a text has more tokens than the model has learned positions."""
    if context_length is not None and tokens > context_length:
        raise InputError(
            f"{where}: {tokens:,} tokens, but this model has learned {context_length:,} positions; "
            "shorten the text, or train a model with a larger model.max_length or with "
            "model.positions = rotary, sinusoidal or alibi"
        )
