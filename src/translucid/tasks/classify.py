"""Classification: one label for a text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from translucid.data.batching import pad
from translucid.data.records import Labelled
from translucid.data.tokenizers import Tokenizer
from translucid.errors import InputError
from translucid.tasks import metrics
from translucid.tasks.base import IGNORE, Batch, Score, Task, TaskName, cross_entropy, in_batches
from translucid.tasks.choices import OneLabel
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.words import Words, of_text, readable


@dataclass(frozen=True, slots=True)
class ClassifyItem:
    ids: list[int]
    label: int  # IGNORE where it is to be predicted
    line: int


class Classify(Task[Labelled, ClassifyItem]):
    """Accuracy, macro F1, and the labels that are taken for one another."""

    name: ClassVar[TaskName] = "classify"
    metric = "accuracy"
    higher_is_better = True

    def __init__(
        self, tokenizer: Tokenizer, labels: Sequence[str], *, smoothing: float = 0.0
    ) -> None:
        self.tokenizer, self.labels, self.smoothing = tokenizer, list(labels), smoothing
        self._number = {label: i for i, label in enumerate(self.labels)}

    def encode(self, record: Labelled) -> ClassifyItem:
        return ClassifyItem(self.encode_text(record.text), self._number[record.label], record.line)

    def encode_text(self, text: str) -> list[int]:
        """Between start and end, so that even an empty text has something to read."""
        return [self.tokenizer.bos_id, *self.tokenizer.encode(text), self.tokenizer.eos_id]

    def sizes(self, item: ClassifyItem) -> tuple[int, ...]:
        return (len(item.ids),)

    def targets(self, item: ClassifyItem) -> int:
        return int(item.label != IGNORE)

    def shorten(self, item: ClassifyItem, longest: int) -> ClassifyItem:
        return replace(item, ids=[*item.ids[: longest - 1], self.tokenizer.eos_id])

    def collate(self, items: Sequence[ClassifyItem]) -> Batch:
        ids, real = pad([item.ids for item in items], self.tokenizer.pad_id)
        targets = torch.tensor([item.label for item in items])
        count = sum(self.targets(item) for item in items)
        return Batch({"ids": ids, "real": real}, targets, count, tuple(i.line for i in items))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(model(**batch.inputs), batch.targets, smoothing=self.smoothing)

    def probabilities(self, model: nn.Module, texts: Sequence[list[int]]) -> list[list[float]]:
        """The probability of every label, for encoded texts, in their order."""
        items = [ClassifyItem(ids, IGNORE, 0) for ids in texts]

        def act(batch: Batch) -> list[list[float]]:
            return model(**batch.inputs).float().softmax(dim=-1).tolist()

        return in_batches(model, items, self, act)

    def evaluate(self, model: nn.Module, items: Sequence[ClassifyItem]) -> Score:
        rows = self.probabilities(model, [item.ids for item in items])
        predicted = [self.labels[max(range(len(row)), key=row.__getitem__)] for row in rows]
        gold = [self.labels[item.label] for item in items]
        numbers = {
            "accuracy": metrics.accuracy(predicted, gold),
            "macro_f1": metrics.macro_f1(predicted, gold),
        }
        wrong = {
            pair: n for pair, n in metrics.confusion(predicted, gold).items() if pair[0] != pair[1]
        }
        worst = sorted(wrong.items(), key=lambda entry: -entry[1])[:5]
        notes = tuple(f"{n} x {right} taken for {said}" for (right, said), n in worst)
        return Score(numbers, notes)

    # ---- what people see ----

    samples = ("The meal was not good.", "The very friendly waiter smiles.")

    def example(self, text: str, target: str | None = None) -> Example:
        """target: the label."""
        if target is not None and target not in self.labels:
            raise InputError(f"label {target!r}: the model knows {', '.join(self.labels)}")
        label = IGNORE if target is None else self.labels.index(target)
        batch = self.collate([ClassifyItem(self.encode_text(text), label, 0)])
        start, end = readable(self.tokenizer, [self.tokenizer.bos_id, self.tokenizer.eos_id])
        source = (start, *of_text(self.tokenizer, text), end)
        words = Words(source, outputs=tuple(self.labels))
        return Example(text, batch, words, source=TokenInput("ids", self.tokenizer))

    @property
    def outputs(self) -> OneLabel:
        return OneLabel(self.labels)

    def count_tokens(self, text: str) -> int:
        return len(self.encode_text(text))
