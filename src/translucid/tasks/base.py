"""The contract between a task and the loop that trains for it.

A task turns records into items (token ids, once), items into batches (tensors), and a batch into a
loss. The loss is a SUM over targets and `Batch.count` says over how many, so the loop can divide by
the targets of a whole step: accumulation and several processes then train as one large batch does.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError
from translucid.data.readers.loading import Loading
from translucid.data.records import Record as AnyRecord
from translucid.data.tokenizers.special_tokens import Role
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.batch import Batch, PackedItems
from translucid.tasks.example import Example
from translucid.tasks.findings import Finding
from translucid.tasks.in_batches import LazyItems
from translucid.tasks.options import (
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
    """What the commands, recipes and checks of the package know about a task."""

    command: str = "predict"  # the command that uses its models
    max_files: int = 1  # files that one part of its data may consist of
    row_columns: tuple[str, ...] = ("text",)  # of rows given from Python; none: rows of numbers
    # The columns of a table that may contain the questions, the first choice first ("text" is
    # data.text_column); none: whole lines are questions.
    asks_about: tuple[str, ...] = ()
    suggested: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # default settings
    # The keys of the sections data and decoding that affect its scores, and those of task it uses.
    data_keys: Collection[str] = tuple(DataConfig().reading())
    decoding_keys: Collection[str] = tuple(DecodingConfig.model_fields)
    task_keys: Collection[str] = tuple(k for k in TaskConfig.model_fields if k != "kind")
    running_text: bool = False  # held-out texts are joined and cut into rows of one length
    storable: bool = False  # it can be trained from a token store on disk
    empty_stays_empty: bool = False  # the right answer to an empty text is empty
    costly_metric: bool = False  # the metric takes far longer to compute than the loss
    loss_by_evaluating: bool = False  # `evaluate` computes the loss and nothing else
    loss_of_batch: bool = False  # the loss of an item depends on the others in its batch


class Task(ABC, Generic[Record, Item]):
    """What a model is trained for: how data is read, the loss, the score and the answers.

    A task of your own needs six methods:

        read      the records of a file
        encode    one record as an item of token ids
        sizes     the number of tokens of an item, for batching
        collate   items as one `Batch` of padded tensors
        loss      the summed loss of a batch
        evaluate  a `Score` on held-out items

    and four attributes: `metric`, `higher_is_better`, `shape` and `head`. Everything else has a
    default. Override

        read_line, predict          so that `predict` and `model.predict` answer
        answer_text, answer_json    to print answers in another form
        example, outputs, samples   for `trace`, `explain`, `ablate` and the studio
        baseline                    so that training compares the model with something simple
        shorten, split              for `data.long` = truncate or split
        measure, make               to keep statistics of the training data with the model
        learn_tokenizers            if there is more than one tokenizer, or none

    The other members, and `traits`, serve the tasks of the package. The class itself reads files
    and chooses networks and tokenizers, before there is a vocabulary; `make` returns the object.
    """

    # ---- attributes that every task sets (the first four; `@tl.task("name")` sets the name) ----

    name: ClassVar[str]
    metric: ClassVar[str]  # the number in Score that chooses the best model
    higher_is_better: ClassVar[bool]
    shape: ClassVar[str]  # of a sequence model: encoder, decoder or encoder-decoder
    head: ClassVar[str]  # the output head: language, classify or tag
    n_outputs: ClassVar[int | None] = None  # outputs of the head, unless labels decide
    label_noun: ClassVar[str | None] = None  # such as "label", if records have labels
    models: ClassVar[tuple[str, ...]] = ("transformer", "recurrent")  # the first is the default

    # ---- the six methods that every task has ----

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Record]:
        """Yield the records of a file, or of several files that belong together."""
        raise ConfigError(f"task {cls.name} reads no files")

    @abstractmethod
    def encode(self, record: Record) -> Item:
        """Turn one record into an item of token ids."""

    @abstractmethod
    def sizes(self, item: Item) -> tuple[int, ...]:
        """The number of tokens of an item, one number for each side (source, target)."""

    @abstractmethod
    def collate(self, items: Sequence[Item]) -> Batch:
        """Turn items into one batch of padded tensors."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The summed loss of a batch; the loop divides by the number of targets."""

    @abstractmethod
    def evaluate(self, model: nn.Module, items: Sequence[Item]) -> Score:
        """The score on held-out items; must contain the number that `metric` names."""

    # ---- override for answers ----

    answer_name: ClassVar[str] = "predicted"  # the column of answers in a table

    def read_line(self, line: str, where: str, network: nn.Module) -> Item:
        """Turn a line of text into an item without target. where: the start of error messages."""
        raise ConfigError(
            f"task {self.name} cannot be asked: it has no read_line(line, where, network), "
            "which must return an item without target"
        )

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[Any]:
        """The answers of the model, one for each item."""
        raise ConfigError(
            f"task {self.name} gives no answers: it has no predict(model, items), "
            "which must return a list with one answer for each item"
        )

    def predict_lines(self, model: nn.Module, lines: Sequence[str]) -> list[Any]:
        """The answers of the model, one for each line of text."""
        items = [self.read_line(line, f"text {n}", model) for n, line in enumerate(lines, start=1)]
        return self.predict(model, items)

    def answer_text(self, answer: Any) -> str:
        """An answer as one line of text."""
        return f"{answer:.6g}" if isinstance(answer, float) else str(answer)

    def answer_json(self, line: str, answer: Any) -> dict[str, Any]:
        """The question and its answer, for JSON."""
        return {"text": line, "answer": answer}

    # ---- override for trace, explain, ablate and the studio ----

    samples: tuple[str, ...] = ()  # texts for the studio to begin with

    def example(self, text: str, target: str | None = None) -> Example:
        """One text, and its target if known, as tensors with a label for each token."""
        raise InputError(
            f"a model for task {self.name} reads no text; give {type(self).__name__} a method "
            "example(text, target) that returns an Example"
        )

    @property
    def outputs(self) -> Outputs:
        """What the network's outputs mean: labels, tags, numbers or tokens."""
        raise InputError(
            f"task {self.name} does not define `outputs`, what the network's last values mean; "
            f"give {type(self).__name__} one, such as tl.OneLabel(labels) or tl.Values()"
        )

    # ---- override for other data, long examples and baselines ----

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[Record]:
        """Yield made-up records, for `data.toyland`."""
        raise ConfigError(
            f"data.toyland: there are no made-up examples for task {cls.name}; "
            "give files with data.train"
        )

    @classmethod
    def learn_tokenizers(
        cls, records: Iterable[Record], options: TokenizerConfig
    ) -> dict[str, Tokenizer]:
        """The tokenizers by name, trained or loaded from `options.folder`; by default one."""
        if options.folder is not None:
            return tokenizers_in(Path(options.folder))
        return {"tokenizer": learn((text for r in records for text in r.texts), options)}

    @classmethod
    def measure(cls, train: Sequence[Record], data: DataConfig) -> dict[str, Any]:
        """Statistics of the training data that the task needs, ready for JSON; saved with the
        model."""
        return {}

    @classmethod
    def make(cls, resources: Resources) -> Self:
        """Create the task from its vocabulary; by default, the tokenizers are the arguments."""
        return cls(*resources.tokenizers.values())

    def targets(self, item: Item) -> int:
        """The number of targets of an item; by default what `collate` counts."""
        return self.collate([item]).count

    def shorten(self, item: Item, max_length: int) -> Item:
        """The first `max_length` tokens of an item; by default for dataclasses with `ids`."""
        if max(self.sizes(item)) <= max_length:
            return item
        if not is_dataclass(item) or isinstance(item, type) or not hasattr(item, "ids"):
            raise ConfigError(
                f"data.long = 'truncate': task {self.name} has no shorten(item, max_length), which "
                "must return the beginning of an item; write it, or choose skip"
            )
        return replace(item, ids=item.ids[:max_length])

    def split(self, item: Item, max_length: int) -> list[Item]:
        """Cut a long item into parts that each have targets."""
        raise ConfigError(
            f"data.long = 'split': half an example of task {self.name} has no target of its own; "
            "choose truncate or skip"
        )

    def baseline(self, train: Sequence[Item], held_out: Sequence[Item]) -> Baseline | None:
        """The score of a trivial predictor, such as the majority class; None if there is none."""
        return None

    # ---- of the package: attributes ----

    traits: ClassVar[Traits] = Traits()
    # The special tokens before and after a text, unless its tokenizer has its own.
    around: ClassVar[tuple[Role | None, Role | None]] = (None, None)
    # What happens to examples above data.max_length if data.long is not set.
    long: ClassVar[Long] = "skip"

    # ---- of the package: checks and questions ----

    @classmethod
    def check_held_out(cls, train: Sequence[Record], held_out: Sequence[Record], file: str) -> None:
        """Refuse held-out records that cannot be of the same kind as the training data."""

    @classmethod
    def check_data(cls, parts: Mapping[str, Sequence[Record]]) -> list[Finding]:
        """Mistakes that only this task can have. parts: train, and valid and test if given."""
        return []

    def check_files(self) -> None:
        """Refuse to score files if the model has no single right answer to compare with."""

    def check_line(self, line: str, where: str, network: nn.Module) -> None:
        """Refuse a line that cannot be read, or is longer than the model can read."""
        self.check_item(self.read_line(line, where, network), where, network)

    def check_item(self, item: Item, where: str, network: nn.Module) -> None:
        """Refuse an item that the model cannot read."""
        context_length = getattr(getattr(network, "config", None), "context_length", None)
        check_length(max(self.sizes(item)), context_length, where)

    def check_question(self, question: Any, where: str, network: nn.Module) -> None:
        """Refuse a value of the columns `asks_about` that cannot be read; by default a text."""
        self.check_line(question, where, network)

    def unknown_in(self, question: Any) -> list[str]:
        """The parts of a text that are not in the vocabulary and are read as <unk>."""
        tokenizer = next(iter(self.vocabularies.values()))  # of the question, not of the answer
        return unknown_pieces(tokenizer, question, tokenizer.encode(question))

    def predict_columns(
        self, model: nn.Module, questions: Sequence[Any], *, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """The answer to each question as new columns of a table, by name."""
        if probabilities:
            raise ConfigError(f"--probabilities: task {self.name} gives none; leave it out")
        answers = self.predict_lines(model, questions)
        return [{self.answer_name: self.answer_text(answer)} for answer in answers]

    def own_target(self, model: nn.Module, text: str) -> str | None:
        """The target that a text is traced with if none is given: a translator's own output."""
        return None

    def followed(self, model: nn.Module, text: str, target: str | None) -> Any:
        """The answer to a text that the studio follows during training, ready for JSON."""
        return self.predict_lines(model, [text])[0]

    # ---- of the package: sizes, items and batches ----

    @classmethod
    def smallest_sizes(cls) -> dict[str, Any]:
        """The model's keys that task and data decide, with the smallest possible values."""
        outputs = cls.n_outputs if cls.label_noun is None else 2
        return cls._sizes(8, outputs)

    @classmethod
    def network_sizes(cls, resources: Resources, train: Sequence[Record]) -> dict[str, Any]:
        """The same keys with their values for this data."""
        return cls._sizes(len(resources.tokenizer), len(resources.labels) or cls.n_outputs)

    @classmethod
    def _sizes(cls, vocab: int, outputs: int | None) -> dict[str, Any]:
        sizes = {"shape": cls.shape, "head": cls.head, "vocab": vocab}
        return sizes if outputs is None else sizes | {"outputs": outputs}

    @classmethod
    def criterion(cls, metric: str | None = None) -> Criterion:
        """What chooses the best model: this metric, by default the task's own."""
        if metric is None or metric == cls.metric:
            return Criterion(cls.metric, cls.higher_is_better)
        return Criterion(metric, metric not in LOWER_IS_BETTER)

    def training_items(self, records: Sequence[Record], data: DataConfig) -> list[Item]:
        """The training items of any length; `limit_length` handles long ones."""
        return self.encode_all(records)

    def count_examples(self, items: Sequence[Item]) -> int:
        """How many examples these items come from."""
        return len(items)

    def held_out_items(self, records: Sequence[Record], row: int) -> list[Item]:
        """The held-out items of any length; `limit_length` handles long ones. row: tokens in each
        row that running text is cut into."""
        return self.encode_all(records)

    def rows_of(self, store: "Store", length: int) -> LazyItems[Item]:
        """Items of a token store, read from disk when they are used."""
        raise ConfigError(f"data.store: not for task {self.name}")

    def check_evaluated(self, items: Sequence[Item], context_length: int | None, file: str) -> None:
        """Refuse held-out items that are longer in `evaluate` than the model can read."""
        for item in items:
            line: int = item.line  # type: ignore[attr-defined]  # every item has one
            check_length(max(self.sizes(item)), context_length, f"{file}:{line}")

    def first_text(self, records: Sequence[Record], items: Sequence[Item]) -> str:
        """The question of the first example; empty if there is none."""
        return records[0].asked if records else ""

    def encode_all(self, records: Sequence[Record]) -> list[Item]:
        """Encode many records; override it if a tokenizer is faster on many texts at once."""
        return [self.encode(record) for record in records]

    @property
    def packs(self) -> bool:
        """Whether several items can share a row of a batch."""
        return False

    def packed(self, items: Sequence[Item]) -> PackedItems:
        """The items, to be collated into rows that several of them share."""
        raise NotImplementedError

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        """The tokenizer of each side of a record."""
        tokenizer = getattr(self, "tokenizer", None)
        return {} if tokenizer is None else {"text": tokenizer}

    @property
    def label_names(self) -> Sequence[str]:
        """The labels of the network's outputs, if they are labels."""
        return ()

    def expected_targets(self, records: Sequence[Record]) -> tuple[Tensor, str] | None:
        """The targets of a batch of these records, computed without `encode` and `collate` as a
        check, and the position of each in words; None if the task has no second way."""
        return None

    @property
    def units(self) -> Mapping[str, tuple[str, object]]:
        """The metrics whose unit depends on the model: the unit in words, and a value that is equal
        in two models if their units are."""
        return {}


def toy_sentences(split: str, count: int) -> "Iterator[tuple[int, Sentence]]":
    """Sentences of Toyland, numbered from 1."""
    from translucid.data.toyland import Toyland  # most models are trained on files

    return enumerate(Toyland().sentences(split, count), start=1)


def check_length(tokens: int, context_length: int | None, where: str) -> None:
    """Refuse a text that is longer than the positions the model has learned."""
    if context_length is not None and tokens > context_length:
        raise InputError(
            f"{where}: {tokens:,} tokens, but this model has learned {context_length:,} positions; "
            "shorten the text, or train a model with a larger model.max_length or with "
            "model.positions = rotary, sinusoidal or alibi"
        )
