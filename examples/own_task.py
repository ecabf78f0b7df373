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

import translucid as tl
from translucid.core.errors import InputError
from translucid.data.batching import pad
from translucid.data.readers.lines import read_lines
from translucid.data.records import Record
from translucid.tasks.base import in_batches
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.outputs import Values
from translucid.tasks.words import Words, readable


@dataclass(frozen=True)
class Scored(Record):
    """A line of the file. `texts` is what the tokenizer learns from, and what checks count."""

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
        return f"{self.left} ||| {self.right}"  # as people type it


@dataclass(frozen=True)
class Item:
    """A record as token ids."""

    ids: list[int]
    score: float | None  # None where it is asked for
    line: int = 0


@tl.task("alike")
class Alike(tl.Task[Scored, Item]):
    # The number of `evaluate` that chooses the best model.
    metric, higher_is_better = "pearson", True
    # The network: an encoder whose outputs are pooled into one vector, and from that one number.
    shape, head, n_outputs = "encoder", "classify", 1

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

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
        """start left end right end: the first end parts the two."""
        t = self.tokenizer
        return [t.bos_id, *t.encode(left), t.eos_id, *t.encode(right), t.eos_id]

    def sizes(self, item: Item) -> tuple[int, ...]:
        return (len(item.ids),)  # tokens, by which batches are filled

    def targets(self, item: Item) -> int:
        return 1  # one score to learn from

    def shorten(self, item: Item, max_length: int) -> Item:
        return replace(item, ids=[*item.ids[: max_length - 1], self.tokenizer.eos_id])

    def collate(self, items: Sequence[Item]) -> tl.Batch:
        ids, mask = pad([item.ids for item in items], self.tokenizer.pad_id)
        known = [[] if item.score is None else [item.score] for item in items]
        scores = torch.tensor(known, dtype=torch.float32)  # (batch, 1)
        lines = tuple(item.line for item in items)
        return tl.Batch({"ids": ids, "mask": mask}, scores, scores.numel(), lines)

    def loss(self, model: nn.Module, batch: tl.Batch) -> Tensor:
        """A sum: the loop divides by all targets of a step."""
        return 0.5 * (model(**batch.inputs) - batch.targets).square().sum()

    def predict(self, model: nn.Module, items: Sequence[Item]) -> list[float]:
        return in_batches(model, items, self, lambda b: model(**b.inputs)[:, 0].tolist())

    def evaluate(self, model: nn.Module, items: Sequence[Item]) -> tl.Score:
        x = torch.tensor([self.predict(model, items), [item.score for item in items]])
        pearson = torch.corrcoef(x)[0, 1].nan_to_num()  # nan: all answers are the same
        rmse = (x[0] - x[1]).square().mean().sqrt()
        return tl.Score({"pearson": float(pearson), "rmse": float(rmse)})

    def read_line(self, line: str, where: str, network: nn.Module) -> Item:
        """What people type: two sentences with ||| between them, or a TAB as in the file."""
        cells = line.replace("|||", "\t").split("\t")
        if len(cells) < 2:
            raise InputError(f"{where}: write two sentences with ||| between them, not {line!r}")
        return Item(self._ids(cells[0].strip(), cells[1].strip()), None)

    # ---- for trace, explain and the studio ----

    samples = ("the old dog sleeps ||| the old cat sleeps",)
    outputs = Values()  # what comes out are numbers, not classes

    def example(self, text: str, target: str | None = None) -> Example:
        item = self.read_line(text, "the text", None)
        item = replace(item, score=None if target is None else float(target))
        words = Words(readable(self.tokenizer, item.ids))  # what stands at each position
        return Example(text, self.collate([item]), words, TokenInput("ids", self.tokenizer))


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
