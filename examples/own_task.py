"""A task of your own in one file: how alike are two sentences?

    python examples/own_task.py pairs.tsv                       # writes toy data to learn from
    translucid train examples/own_task.py --train pairs.tsv --out runs/alike
    translucid predict runs/alike pairs.tsv --code examples/own_task.py

Every line of the data is `sentence TAB sentence TAB score`. An encoder reads both sentences, one
after the other, and its only output is the score. Change what you need: another file format is
another `read`, another loss another `loss`.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from translucid import (
    Batch,
    Example,
    InputError,
    Record,
    Score,
    Task,
    Values,
    in_batches,
    pad,
    read_lines,
    task,
)


@dataclass(frozen=True)
class Scored(Record):
    """A line of the file. The tokenizer learns from `texts`."""

    sides = ("left", "right")
    left: str
    right: str
    score: float
    line: int

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def asked(self) -> str:
        return f"{self.left} ||| {self.right}"  # as a user types it


@dataclass(frozen=True)
class Item:
    """A record as token ids."""

    ids: list[int]
    score: float | None  # None if it is to be predicted
    line: int = 0


@task("alike")
class Alike(Task[Scored, Item]):
    metric, higher_is_better = "pearson", True  # a number of `evaluate`: the best model by it
    shape, head, n_outputs = "encoder", "classify", 1  # encoder, pooling, one output

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    # ---- the six methods that a task needs ----

    @classmethod
    def read(cls, files, data, loading) -> Iterator[Scored]:
        loading.file = files[0]
        for line, text in read_lines(files[0], loading=loading):
            cells = (text or "").split("\t")
            if len(cells) != 3:
                raise InputError(f"{files[0]}:{line}: 3 columns are needed, not {len(cells)}")
            loading.records += 1
            yield Scored(cells[0], cells[1], float(cells[2]), line)

    def encode(self, record: Scored) -> Item:
        return Item(self._ids(record.left, record.right), record.score, record.line)

    def _ids(self, left: str, right: str) -> list[int]:
        """`<s> left </s> right </s>`"""
        t = self.tokenizer
        return [t.bos_id, *t.encode(left), t.eos_id, *t.encode(right), t.eos_id]

    def sizes(self, item: Item) -> tuple[int, ...]:
        return (len(item.ids),)

    def collate(self, items: Sequence[Item]) -> Batch:
        ids, mask = pad([item.ids for item in items], self.tokenizer.pad_id)
        known = [[] if item.score is None else [item.score] for item in items]
        scores = torch.tensor(known, dtype=torch.float32)  # (batch, 1)
        lines = tuple(item.line for item in items)
        return Batch({"ids": ids, "mask": mask}, scores, scores.numel(), lines)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum over the batch; the training loop divides by the number of targets."""
        return 0.5 * (model(**batch.inputs) - batch.targets).square().sum()

    def evaluate(self, model: nn.Module, items: Sequence[Item]) -> Score:
        x = torch.tensor([self.predict(model, items), [item.score for item in items]])
        pearson = torch.corrcoef(x)[0, 1].nan_to_num()  # nan if all answers are equal
        rmse = (x[0] - x[1]).square().mean().sqrt()
        return Score({"pearson": float(pearson), "rmse": float(rmse)})

    # ---- for `predict` ----

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[float]:
        return in_batches(model, items, self, lambda b: model(**b.inputs)[:, 0].tolist())

    def read_line(self, line: str, where: str, network: nn.Module) -> Item:
        """Two sentences with ||| between them, or a TAB as in the file."""
        cells = line.replace("|||", "\t").split("\t")
        if len(cells) < 2:
            raise InputError(f"{where}: write two sentences with ||| between them, not {line!r}")
        return Item(self._ids(cells[0].strip(), cells[1].strip()), None)

    # ---- for `trace`, `explain`, `ablate` and the studio ----

    samples = ("the old dog sleeps ||| the old cat sleeps",)
    outputs = Values()  # numbers, not labels

    def example(self, text: str, target: str | None = None) -> Example:
        item = self.read_line(text, "the text", None)
        item = replace(item, score=None if target is None else float(target))
        return Example.of_tokens(text, self.collate([item]), self.tokenizer)


def toy_data(path: str, pairs: int = 3000) -> None:
    """Sentences like `the old dog sleeps`, two by two; the score is the fraction of the words in
    which they agree."""
    slots = ["the a one", "old small happy red", "dog cat child king", "sleeps sings runs waits"]
    generator = random.Random(0)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(pairs):
            words = [[generator.choice(slot.split()) for slot in slots] for _ in range(2)]
            agree = sum(left == right for left, right in zip(*words, strict=True))
            file.write(f"{' '.join(words[0])}\t{' '.join(words[1])}\t{agree / len(slots)}\n")


if __name__ == "__main__":
    toy_data(*sys.argv[1:2])
