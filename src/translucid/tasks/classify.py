"""Classification: one label for a text."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError
from translucid.data.batching import pad_characters, spell
from translucid.data.readers.loading import Loading
from translucid.data.records import Labelled, TableRow
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks import metrics
from translucid.tasks.base import Score, Traits, toy_sentences
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.class_report import ClassReport
from translucid.tasks.example import Example
from translucid.tasks.findings import Finding
from translucid.tasks.in_batches import in_batches
from translucid.tasks.label_scores import LabelReading, reading_of
from translucid.tasks.long_texts import cut_to, text_limit
from translucid.tasks.loss import cross_entropy
from translucid.tasks.options import DataConfig, Resources
from translucid.tasks.outputs import Outputs
from translucid.tasks.registry import task
from translucid.tasks.score import Baseline, one_answer
from translucid.tasks.significance import Sums, of_lines, ratio
from translucid.tasks.text_task import TextTask, linear_baseline
from translucid.tasks.words import of_text

ONE_LABEL = 0.8  # above this frequency of one label, accuracy is misleading
FEW_EXAMPLES = 5  # minimum number per label; with fewer, it is hardly learned


@dataclass(frozen=True, slots=True)
class ClassifyItem:
    ids: list[int]
    label: int  # IGNORE if it is to be predicted
    line: int
    characters: tuple[bytes, ...] = ()  # of the word of each id, if the model reads them


@task
class Classify(TextTask[Labelled, ClassifyItem]):
    """Text classification, scored by accuracy and macro F1, with the most frequent confusions."""

    name = "classify"
    metric = "accuracy"
    higher_is_better = True
    shape, head = "encoder", "classify"
    label_noun = "label"
    models = ("transformer", "recurrent", "linear")
    long = "truncate"
    traits = Traits(
        command="classify",
        row_columns=("text", "label"),
        asks_about=("text",),
        baseline=linear_baseline("word"),
        data_keys=("text_column", "label_column", "missing_labels", "max_length", "long"),
        decoding_keys=(),
        task_keys=("label_smoothing",),
    )

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Labelled]:
        from translucid.data.readers import read  # on demand: only needed to read files

        return read.read_labelled(
            files[0], text=data.text_column, label=data.label_column, rule=data.rule,
            missing=data.missing_labels, loading=loading,
        )  # fmt: skip

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[Labelled]:
        for line, made in toy_sentences(split, count):
            yield Labelled(made.source, made.sentiment, line)

    @classmethod
    def check_data(cls, parts: Mapping[str, Sequence[Labelled]]) -> list[Finding]:
        return [label_balance(parts["train"])]

    @classmethod
    def make(cls, resources: Resources) -> Self:
        return cls(
            resources.tokenizer, resources.labels, smoothing=resources.smoothing,
            max_length=resources.max_length, reading=reading_of(resources.statistics),
            characters=resources.characters,
        )  # fmt: skip

    @property
    def label_names(self) -> Sequence[str]:
        return self.labels

    def check_files(self) -> None:
        self.reading.check_trainable("evaluate")

    def expected_targets(self, records: Sequence[Labelled]) -> tuple[Tensor, str]:
        numbers = [self.labels.index(record.label) for record in records]
        return torch.tensor(numbers), "its text"

    def read_line(self, line: str, where: str, network: nn.Module) -> ClassifyItem:
        return self.item(line)

    def predict(self, model: nn.Module, items: Sequence[ClassifyItem]) -> list[Any]:
        """The most probable label of each text. Imported models may return several labels or scores
        instead; see label_scores.py."""
        rows = self.probabilities(model, items)
        return [
            replace(
                self.reading.answer(self.labels, row),
                empty=item.ids == self.frame([]),
                unknown_tokens=item.ids.count(self.tokenizer.unk_id),
            )
            for row, item in zip(rows, items, strict=True)
        ]

    def answer_text(self, answer: Any) -> str:
        line: str = answer.line()
        return line

    def answer_json(self, line: str, answer: Any) -> dict[str, Any]:
        return {"text": line} | answer.as_dict()

    def predict_columns(
        self, model: nn.Module, questions: Sequence[str], *, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        """The label and its probability as table columns; with `probabilities`, also those of all
        other labels."""
        rows = self.probabilities(model, [self.item(text) for text in questions])
        scores = self.reading.function != "softmax" and not self.reading.several
        if probabilities and scores:
            raise ConfigError("--probabilities: this model returns scores; omit the option")
        columns = []
        for row in rows:
            chosen = self.reading.answer(self.labels, row).columns()
            every = {f"probability_{n}": p for n, p in zip(self.labels, row, strict=True)}
            columns.append(chosen | (every if probabilities else {}))
        return columns

    def followed(self, model: nn.Module, text: str, target: str | None) -> dict[str, float]:
        (row,) = self.probabilities(model, [self.item(text)])
        return dict(zip(self.labels, row, strict=True))

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        smoothing: float = 0.0,
        max_length: int | None = None,
        reading: LabelReading | None = None,
        characters: bool = False,
    ) -> None:
        """max_length: number of tokens to read of each text, if below the model's limit.
        characters: whether the model reads the characters of each word."""
        super().__init__(tokenizer)
        self.characters = characters
        self.labels, self.smoothing, self.max_length = list(labels), smoothing, max_length
        self.reading = reading or LabelReading()
        self._number = {label: i for i, label in enumerate(self.labels)}
        self._spellings: dict[int, bytes] = {}

    def encode(self, record: Labelled) -> ClassifyItem:
        return self.encode_all([record])[0]

    def encode_all(self, records: Sequence[Labelled]) -> list[ClassifyItem]:
        texts = self.tokenizer.encode_batch(record.text for record in records)
        return [
            self._item(record.text, ids, self._number[record.label], record.line)
            for ids, record in zip(texts, records, strict=True)
        ]

    def item(self, text: str, label: int = IGNORE) -> ClassifyItem:
        """Make an item from a text; without `label`, the label is to be predicted."""
        return self._item(text, self.tokenizer.encode(text), label, 0)

    def _item(self, text: str, ids: list[int], label: int, line: int) -> ClassifyItem:
        characters: tuple[bytes, ...] = ()
        if self.characters:
            spelled = [self._spelling(token) for token in ids]
            if self.tokenizer.unk_id in ids:
                places = self.tokenizer.offsets(text)
                spelled = [spell(text[first:last].strip()) for first, last in places]
            around = self.frame.prefix, self.frame.suffix
            before, after = ((b"",) * len(tokens) for tokens in around)
            characters = (*before, *spelled, *after)
        return ClassifyItem(self.frame(ids), label, line, characters)

    def _spelling(self, token: int) -> bytes:
        if token not in self._spellings:
            (piece,) = self.tokenizer.pieces([token])
            self._spellings[token] = spell(piece.strip())
        return self._spellings[token]

    def shorten(self, item: ClassifyItem, max_length: int) -> ClassifyItem:
        short, characters = super().shorten(item, max_length), item.characters
        if not characters:
            return replace(short)
        end = len(self.frame.suffix)
        kept = characters[: len(short.ids) - end] + characters[len(characters) - end :]
        return replace(short, characters=kept)

    def targets(self, item: ClassifyItem) -> int:
        return int(item.label != IGNORE)

    def collate(self, items: Sequence[ClassifyItem]) -> Batch:
        targets = torch.tensor([item.label for item in items])
        inputs, lines = self.padded([item.ids for item in items]), tuple(i.line for i in items)
        if self.characters:
            inputs["characters"] = pad_characters([item.characters for item in items])
        return Batch(inputs, targets, sum(map(self.targets, items)), lines)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        self.reading.check_trainable("training")
        return cross_entropy(model(**batch.inputs), batch.targets, smoothing=self.smoothing)

    def probabilities(self, model: nn.Module, items: Sequence[ClassifyItem]) -> list[list[float]]:
        """The probability or score of every label for each text. Long texts are truncated, as in
        training and evaluation."""

        def act(batch: Batch) -> list[list[float]]:
            rows: list[list[float]] = self.reading.values(model(**batch.inputs).float()).tolist()
            return rows

        return in_batches(model, cut_to(self, items, text_limit(model, self.max_length)), self, act)

    def _read(
        self, model: nn.Module, items: Sequence[ClassifyItem]
    ) -> tuple[list[list[float]], list[float]]:
        """For each item, the probabilities of all labels and the loss of the correct one."""

        def act(batch: Batch) -> list[tuple[list[float], float]]:
            outputs = model(**batch.inputs).float()
            losses = self.outputs.losses(outputs, batch.targets)
            return list(zip(outputs.softmax(dim=-1).tolist(), losses.tolist(), strict=True))

        results = in_batches(model, items, self, act)
        return [row for row, _ in results], [loss for _, loss in results]

    def evaluate(self, model: nn.Module, items: Sequence[ClassifyItem]) -> Score:
        self.reading.check_trainable("evaluate")
        rows, losses = self._read(model, items)
        answers: list[Any] = [self.reading.answer(self.labels, row) for row in rows]
        predicted, gold = [answer.label for answer in answers], [item.label for item in items]
        chosen, wanted = [self._number[p] for p in predicted], [self.labels[n] for n in gold]
        return replace(
            score_of(predicted, losses, wanted),
            warnings=one_answer(predicted, gold, "row"),
            predictions=[self.answer_text(answer) for answer in answers],
            sums=lambda: class_sums([item.line for item in items], predicted, losses, wanted),
            report=ClassReport.of(
                self.labels, gold, chosen, [answer.probability for answer in answers]
            ),
        )

    def baseline(self, train: Sequence[ClassifyItem], held_out: Sequence[ClassifyItem]) -> Baseline:
        return majority(self.labels, [i.label for i in train], [i.label for i in held_out])

    # ---- tracing and the studio ----

    samples = ("The meal was not good.", "The very friendly waiter smiles.")

    def example(self, text: str, target: str | None = None) -> Example:
        """Make an example from a text. target: its label."""
        if target is not None:
            self.reading.check_trainable("a target")
        if target is not None and target not in self.labels:
            raise InputError(f"label {target!r}: the model knows {', '.join(self.labels)}")
        label = IGNORE if target is None else self.labels.index(target)
        item = self.item(text, label)
        return self.labelled_example(text, item, of_text(self.tokenizer, text), self.labels)

    @property
    def outputs(self) -> Outputs:
        return self.reading.outputs(self.labels)


def score_of(predicted: Sequence[str], losses: Sequence[float], gold: Sequence[str]) -> Score:
    """Accuracy, macro F1 and loss, with the most frequent confusions."""
    numbers = {
        "accuracy": metrics.accuracy(predicted, gold),
        "macro_f1": metrics.macro_f1(predicted, gold),
        "loss": sum(losses) / max(len(losses), 1),
    }
    wrong = {
        pair: n for pair, n in metrics.confusion(predicted, gold).items() if pair[0] != pair[1]
    }
    worst = sorted(wrong.items(), key=lambda entry: -entry[1])[:5]
    notes = tuple(f"{n} x {right} predicted as {guess}" for (right, guess), n in worst)
    return Score(numbers, notes)


def class_sums(
    lines: Sequence[int], predicted: Sequence[str], losses: Sequence[float], gold: Sequence[str]
) -> dict[str, Sums]:
    """The metrics of a classifier by name, each as a function of sums over examples."""
    pairs = list(zip(predicted, gold, strict=True))
    labels = {label: place for place, label in enumerate(sorted({*predicted, *gold}))}
    counts = np.zeros((len(pairs), len(labels), 3))  # hits, predicted, gold of each label
    for row, (p, g) in enumerate(pairs):
        counts[row, labels[p]] += (p == g, 1, 0)
        counts[row, labels[g], 2] += 1
    return {
        "accuracy": of_lines(lines, [(float(p == g), 1.0) for p, g in pairs], ratio),
        "macro_f1": of_lines(lines, counts.reshape(len(pairs), -1), metrics.macro_f1_of_counts),
        "loss": of_lines(lines, [(loss, 1.0) for loss in losses], ratio),
    }


def majority(labels: Sequence[str], train: Sequence[int], held_out: Sequence[int]) -> Baseline:
    """The baseline that always predicts the most frequent label of the training data."""
    counts = Counter(train)
    label = labels[counts.most_common(1)[0][0]]
    total = len(train) + len(labels)  # add-one smoothing: no label is impossible
    losses = [-math.log((counts[one] + 1) / total) for one in held_out]
    score = score_of([label] * len(held_out), losses, [labels[one] for one in held_out])
    return Baseline(f"always {label!r}", score)


def label_balance(train: Sequence[Labelled] | Sequence[TableRow]) -> Finding:
    """Check how often each label occurs."""
    counts = Counter(record.label for record in train)
    shown = ", ".join(f"{label} {n:,}" for label, n in counts.most_common(10))
    words = f"{len(counts):,} labels: {shown}" + (", ..." if len(counts) > 10 else "")
    label, most = counts.most_common(1)[0]
    fraction = most / len(train)
    rare = sorted(name for name, n in counts.items() if n < FEW_EXAMPLES)
    if len(counts) == 1:
        words += "; there is only one label: is this the right column (data.label_column)?"
    elif fraction > ONE_LABEL:
        words += (
            f"; always predicting {label} is correct for {fraction:.0%}, so use macro_f1, not "
            "accuracy"
        )
    if rare:
        words += f"; fewer than {FEW_EXAMPLES} examples: {_some(rare)}: merge or remove them"
    return Finding("labels", fraction <= ONE_LABEL and not rare, words)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
