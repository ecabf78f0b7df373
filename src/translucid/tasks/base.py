"""The contract between a task and the loop that trains for it.

A task turns records into items (token ids, once), items into batches (tensors), and a batch into a
loss. The loss is a SUM over targets and `Batch.count` says over how many, so the loop can divide by
the targets of a whole step: accumulation and several processes then train as one large batch does.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError
from translucid.data.readers.loading import Loading, check_labels
from translucid.data.records import Record as AnyRecord
from translucid.data.tokenizers.special_tokens import Frame, Role
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.batch import Batch, PackedItems
from translucid.tasks.example import Example
from translucid.tasks.findings import Finding
from translucid.tasks.in_batches import LazyItems
from translucid.tasks.in_batches import in_batches as in_batches
from translucid.tasks.options import (
    DataConfig,
    DecodingConfig,
    Long,
    Resources,
    TaskConfig,
    TokenizerConfig,
)
from translucid.tasks.outputs import Outputs
from translucid.tasks.score import Baseline, Coverage, Criterion
from translucid.tasks.score import Score as Score
from translucid.tasks.vocabulary import learn, tokenizers_in, unknown_pieces

if TYPE_CHECKING:
    from translucid.data.corpus.token_store import Store

Record = TypeVar("Record", bound=AnyRecord)
Item = TypeVar("Item")


class Task(ABC, Generic[Record, Item]):
    """One task, with the vocabulary and labels it was given.

    The class knows what there is to know before that: how its files are read, which networks fit,
    which tokenizers it needs. `make` gives the object.
    """

    name: ClassVar[str]
    metric: ClassVar[str]  # the number in Score that chooses the best model
    higher_is_better: ClassVar[bool]
    # Of its other numbers, those that are better when lower.
    lower_is_better: ClassVar[Collection[str]] = (
        "loss",
        "perplexity",
        "bits_per_character",
        "rmse",
    )
    models: ClassVar[tuple[str, ...]] = ("transformer", "recurrent")  # the first is the default
    shape: ClassVar[str]  # of a sequence model: encoder, decoder or encoder-decoder
    head: ClassVar[str]  # what is made of its outputs: language, classify or tag
    n_outputs: ClassVar[int | None] = None  # of the head, where labels do not decide
    # The special tokens before and behind a text that is read, where its tokenizer has no say.
    around: ClassVar[tuple[Role | None, Role | None]] = (None, None)
    max_files: ClassVar[int] = 1  # that its data may be spread over
    # Held-out texts are read as one long text, in rows as long as a model reads at once.
    running_text: ClassVar[bool] = False
    # What happens to examples above data.max_length unless data.long says otherwise.
    long: ClassVar[Long] = "skip"
    empty_stays_empty: ClassVar[bool] = False  # its answer to an empty text is empty, and right
    storable: ClassVar[bool] = False  # it can learn from a token store on disk
    label_noun: ClassVar[str | None] = None  # what labels are called, if they are to be told apart
    command: ClassVar[str] = "predict"  # by which a trained model is asked
    # What a row of data holds that a program gives without names of columns; none: numbers.
    row_columns: ClassVar[tuple[str, ...]] = ("text",)
    # What a model is asked about in a table: the first of these columns that it has ("text", say,
    # is data.text_column); none: whole lines.
    asks_about: ClassVar[tuple[str, ...]] = ()
    # Settings that suit the task whatever the data, for users who set none.
    suggested: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    costly_metric: ClassVar[bool] = False  # it takes far longer than the loss
    # The loss of an item depends on the others of its batch, so that batches do not add up.
    loss_of_batch: ClassVar[bool] = False
    # What of the sections data and decoding decides a score; by default all that a model keeps.
    data_keys: ClassVar[Collection[str]] = tuple(DataConfig().reading())
    decoding_keys: ClassVar[Collection[str]] = tuple(DecodingConfig.model_fields)
    # What of the section task it makes use of.
    task_keys: ClassVar[Collection[str]] = tuple(k for k in TaskConfig.model_fields if k != "kind")

    # ---- before there is a vocabulary ----

    @classmethod
    def uses(cls) -> dict[str, Collection[str]]:
        """Of the keys of which not every task makes use, those it does; by section."""
        return {"task": cls.task_keys, "data": cls.data_keys, "decoding": cls.decoding_keys}

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Record]:
        """The records of a file, or of several that belong together."""
        raise ConfigError(f"task {cls.name} reads no files")

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[Record]:
        """Made-up records."""
        raise ConfigError(
            f"data.toyland: there are no made-up examples for task {cls.name}; "
            "give files with data.train"
        )

    @classmethod
    def check_held_out(cls, train: Sequence[Record], held_out: Sequence[Record], file: str) -> None:
        """Refuse held-out records that cannot be of the same kind as the training data."""

    @classmethod
    def check_data(cls, parts: Mapping[str, Sequence[Record]]) -> list[Finding]:
        """Mistakes that only records of this task can have; train is there, others may be."""
        return []

    @classmethod
    def labels_in(cls, records: Iterable[Record]) -> tuple[str, ...]:
        """All labels of the training data, sorted; O first, as taggers have it."""
        if cls.label_noun is None:
            return ()
        labels = {label for record in records for label in record.labels}
        if len(labels) < 2:
            noun = cls.label_noun
            raise InputError(
                f"data.train: every {noun} is {next(iter(labels))!r}: nothing to tell apart; "
                f"give examples of at least two {noun}s"
            )
        return tuple(sorted(labels, key=lambda label: (label != "O", label)))

    @classmethod
    def check_labels(cls, records: Iterable[Record], labels: Sequence[str], file: str) -> None:
        """Refuse held-out labels that training never saw."""
        if cls.label_noun is not None:
            seen = ((record.line, label) for record in records for label in record.labels)
            check_labels(seen, labels, file, cls.label_noun)

    def check_files(self) -> None:
        """Refuse to score files where this model's answers cannot be right or wrong."""

    @classmethod
    def learn_tokenizers(
        cls, records: Iterable[Record], options: TokenizerConfig
    ) -> dict[str, Tokenizer]:
        """By name, all that are needed, or those made before; here one for all texts."""
        if options.folder is not None:
            return tokenizers_in(Path(options.folder))
        return {"tokenizer": learn((text for r in records for text in r.texts), options)}

    @classmethod
    def smallest_sizes(cls) -> dict[str, Any]:
        """The model's keys that task and data decide, as small as any data could have them."""
        outputs = cls.n_outputs if cls.label_noun is None else 2
        return cls._sizes(8, outputs)

    @classmethod
    def network_sizes(cls, resources: Resources, train: Sequence[Record]) -> dict[str, Any]:
        """The same as this data has them."""
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
        return Criterion(metric, metric not in cls.lower_is_better)

    @classmethod
    def measure(cls, train: Sequence[Record], data: DataConfig) -> dict[str, Any]:
        """What else of the training data the task needs; fit for JSON, it goes with the model."""
        return {}

    @classmethod
    def make(cls, resources: Resources) -> Self:
        """The task with its vocabulary; here the class is called with its tokenizers."""
        return cls(*resources.tokenizers.values())

    # ---- from records to items ----

    def training_items(
        self, records: Sequence[Record], data: DataConfig, say: Callable[[str], None]
    ) -> list[Item]:
        """Items no longer than the recipe allows; `say` is told how many were longer."""
        return self.limited(self.encode_all(records), data, "training", say)[0]

    def limited(
        self, whole: Sequence[Item], data: DataConfig, part: str, say: Callable[[str], None]
    ) -> tuple[list[Item], Coverage]:
        """The items of a part of the data, longer ones handled by data.max_length and data.long;
        and how many there were of each."""
        long = data.long or self.long
        if part != "training":
            long = self.long_when_scored(long)
        items: list[Item] = []
        longer: list[Item] = []
        for item in whole:
            if max(self.sizes(item)) <= data.max_length:
                items.append(item)
                continue
            longer.append(item)
            if long == "truncate":
                items.append(self.shorten(item, data.max_length))
            elif long == "split":
                items += self.split(item, data.max_length)
        count = self.count_examples(longer)
        if longer and long != "skip" and data.max_length <= self._special_tokens:
            raise InputError(
                f"data.max_length = {data.max_length}: leaves no room for the text between its "
                f"{self._special_tokens} special tokens; raise it"
            )
        if longer:
            done = {"skip": "left out", "truncate": "truncated", "split": "read in windows"}
            say(
                f"{count:,} of {self.count_examples(whole):,} {part} examples have over "
                f"{data.max_length} tokens: {done[long]} (data.max_length, data.long)"
            )
        if not items and whole:
            raise InputError(
                f"all {count:,} {part} examples have over data.max_length = {data.max_length} "
                'tokens, so none is left; raise it, or set data.long = "truncate"'
            )
        return items, Coverage(
            self.count_examples(items),
            {f"over {data.max_length} tokens": count} if longer and long == "skip" else {},
            truncated=count if long == "truncate" else 0,
            in_windows=count if long == "split" else 0,
            noun="row" if self.running_text else "example",
        )

    @property
    def _special_tokens(self) -> int:
        """Around each text that the task reads."""
        frame = getattr(self, "frame", None)
        return len(frame.prefix) + len(frame.suffix) if isinstance(frame, Frame) else 0

    def long_when_scored(self, long: Long) -> Long:
        """What happens to long examples in evaluation, given what happens in training."""
        return long

    def count_examples(self, items: Sequence[Item]) -> int:
        """How many examples these items come from."""
        return len(items)

    def held_out_items(self, records: Sequence[Record], row: int) -> list[Item]:
        """Every example whole, however long; `limited` comes after. row: tokens that running text
        is cut into."""
        return self.encode_all(records)

    def rows_of(self, store: "Store", length: int) -> LazyItems[Item]:
        """Items from a token store, read when they are asked for."""
        raise ConfigError(f"data.store: not for task {self.name}")

    def as_evaluated(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items as `evaluate` lets a model read them."""
        return items

    def place_of(self, item: Item, file: str) -> str:
        """Where an item stands, for messages."""
        return f"{file}:{item.line}"  # type: ignore[attr-defined]  # every item has a line

    def first_text(self, records: Sequence[Record], items: Sequence[Item]) -> str:
        """The first example as a model is asked for it; empty where there is none."""
        return records[0].asked if records else ""

    # ---- what checks compare with ----

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        """The tokenizer of each side of a record."""
        tokenizer = getattr(self, "tokenizer", None)
        return {} if tokenizer is None else {"text": tokenizer}

    @property
    def label_names(self) -> Sequence[str]:
        """What the outputs of the network stand for, where they are labels."""
        return ()

    def expected_targets(self, records: Sequence[Record]) -> tuple[Tensor, str] | None:
        """The targets of a batch of these records, made in another way than by `encode` and
        `collate`, and in words where each belongs; None: there is no other way."""
        return None

    # ---- one line of text from people, and the answer ----

    def read_line(self, line: str, where: str, network: nn.Module) -> Item:
        """An item without target from what people type; `where` begins the message of a mistake."""
        raise ConfigError(
            f"task {self.name} cannot be asked: it has no read_line(line, where, network), "
            "which must return an item without target"
        )

    def check_line(self, line: str, where: str, network: nn.Module) -> None:
        """Refuse a line that cannot be read, or is longer than the model can read."""
        self.check_item(self.read_line(line, where, network), where, network)

    def check_item(self, item: Item, where: str, network: nn.Module) -> None:
        """Refuse an item that the model cannot read."""
        context_length = getattr(getattr(network, "config", None), "context_length", None)
        check_length(max(self.sizes(item)), context_length, where)

    def check_question(self, question: Any, where: str, network: nn.Module) -> None:
        """Refuse what stands in the columns `asks_about` and cannot be read; by default a text."""
        self.check_line(question, where, network)

    def unknown_in(self, question: Any) -> list[str]:
        """What of a text is read as <unk>, since the vocabulary lacks it."""
        tokenizer = next(iter(self.vocabularies.values()))  # of what is asked
        return unknown_pieces(tokenizer, question, tokenizer.encode(question))

    def predict_columns(
        self, model: nn.Module, questions: Sequence[Any], *, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """The answer to each question as new columns of a table, by name."""
        if probabilities:
            raise ConfigError(f"--probabilities: task {self.name} gives none; leave it out")
        answers = self.predict_lines(model, questions)
        return [{self.answer_name: self.answer_text(answer)} for answer in answers]

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[Any]:
        """The answer to each item."""
        raise ConfigError(
            f"task {self.name} gives no answers: it has no predict(model, items), "
            "which must return a list with one answer for each item"
        )

    def predict_lines(self, model: nn.Module, lines: Sequence[str]) -> list[Any]:
        """The answer to each line."""
        items = [self.read_line(line, f"text {n}", model) for n, line in enumerate(lines, start=1)]
        return self.predict(model, items)

    def answer_text(self, answer: Any) -> str:
        """An answer as one line of text."""
        return f"{answer:.6g}" if isinstance(answer, float) else str(answer)

    def answer_json(self, line: str, answer: Any) -> dict[str, Any]:
        """An answer with what was asked, for JSON."""
        return {"text": line, "answer": answer}

    def own_target(self, model: nn.Module, text: str) -> str | None:
        """What a text is read together with where nothing was given: a translator's own answer."""
        return None

    def followed(self, model: nn.Module, text: str, target: str | None) -> Any:
        """The answer to a text that is asked again and again while a model learns, for JSON."""
        return self.predict_lines(model, [text])[0]

    # ---- training ----

    @abstractmethod
    def encode(self, record: Record) -> Item:
        """Token ids of one record."""

    def encode_all(self, records: Sequence[Record]) -> list[Item]:
        """The same of many, together where a tokenizer is faster so."""
        return [self.encode(record) for record in records]

    @abstractmethod
    def sizes(self, item: Item) -> tuple[int, ...]:
        """How many tokens the item takes on each side, for batching."""

    @abstractmethod
    def targets(self, item: Item) -> int:
        """How many targets of the item count."""

    @abstractmethod
    def shorten(self, item: Item, max_length: int) -> Item:
        """The beginning of an item, no side above `max_length` tokens, ended as items end."""

    def split(self, item: Item, max_length: int) -> list[Item]:
        """The parts of a long item, where each can be learnt from by itself."""
        raise ConfigError(
            f"data.long = 'split': half an example of task {self.name} has no target of its own; "
            "choose truncate or skip"
        )

    @abstractmethod
    def collate(self, items: Sequence[Item]) -> Batch:
        """The items as padded tensors."""

    @property
    def packs(self) -> bool:
        """Can several items share a row of a batch?"""
        return False

    def packed(self, items: Sequence[Item]) -> PackedItems:
        """What makes batches of rows that several of these items share, if they can."""
        raise NotImplementedError

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The summed loss of a batch."""

    @abstractmethod
    def evaluate(self, model: nn.Module, items: Sequence[Item]) -> Score:
        """Scores on held-out items."""

    def baseline(self, train: Sequence[Item], held_out: Sequence[Item]) -> Baseline | None:
        """The score of what needs no model, such as always the majority class; None: there is
        nothing so simple."""
        return None

    @property
    def units(self) -> Mapping[str, tuple[str, object]]:
        """Of the numbers of a score that are in units of this model's own: in words, and what
        makes them the same in two models."""
        return {}

    # ---- what people see ----

    samples: tuple[str, ...] = ()  # texts that a page can begin with
    answer_name: ClassVar[str] = "predicted"  # of an answer among the columns of a table
    loss_by_evaluating: ClassVar[bool] = False  # `evaluate` computes the loss and nothing more

    def example(self, text: str, target: str | None = None) -> Example:
        """One text as the network reads it, with what it should say to it, if that is known."""
        raise InputError(
            f"a model for task {self.name} reads no text; give {type(self).__name__} a method "
            "example(text, target) that returns an Example"
        )

    @property
    def outputs(self) -> Outputs:
        """What the network's last values mean."""
        raise InputError(
            f"nobody knows what the outputs of a model for task {self.name} mean; give "
            f"{type(self).__name__} a property outputs, such as OneLabel(labels) or Values()"
        )


def check_length(tokens: int, context_length: int | None, where: str) -> None:
    """Refuse what is longer than the positions that a model has learned."""
    if context_length is not None and tokens > context_length:
        raise InputError(
            f"{where}: {tokens:,} tokens, but this model has learned {context_length:,} positions; "
            "shorten the text, or train a model with a larger model.max_length or with "
            "model.positions = rotary, sinusoidal or alibi"
        )
