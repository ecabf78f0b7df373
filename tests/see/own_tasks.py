"""Tasks that the package does not know, as a user may write them: a score for a pair of sentences,
and a tagger that labels each token as a word or a symbol.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from translucid.data.batching import pad
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.models import TransformerConfig, build
from translucid.models.base import Network
from translucid.tasks.base import Score, Task
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.choices import Tags
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.in_batches import in_batches
from translucid.tasks.outputs import Outputs, Values
from translucid.tasks.words import Words, of_text, readable

BETWEEN = "|"  # separates the two sentences of a pair in a line of text
TEXTS = ["the dog sees a cat .", "a cat and the bird sleep .", "the old bird sings ."]
PAIR = f"the dog sees a cat . {BETWEEN} a bird sings ."


@dataclass(frozen=True)
class PairItem:
    ids: list[int]
    score: float | None
    line: int = 0


class PairScore(Task[Any, PairItem]):
    """The similarity of two sentences; the loss is half the squared error of one number."""

    name = "pair-score"
    metric, higher_is_better = "error", False

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def encode(self, record: tuple[str, str, float]) -> PairItem:
        return PairItem(self._ids(record[0], record[1]), record[2])

    def read_line(self, line: str, where: str, network: nn.Module) -> PairItem:
        return PairItem(self._ids(*line.partition(BETWEEN)[::2]), None)

    def _ids(self, one: str, two: str) -> list[int]:
        t = self.tokenizer
        return [t.bos_id, *t.encode(one), t.eos_id, *t.encode(two), t.eos_id]

    def sizes(self, item: PairItem) -> tuple[int, ...]:
        return (len(item.ids),)

    def targets(self, item: PairItem) -> int:
        return int(item.score is not None)

    def shorten(self, item: PairItem, max_length: int) -> PairItem:
        return PairItem(item.ids[:max_length], item.score, item.line)

    def collate(self, items: Sequence[PairItem]) -> Batch:
        ids, mask = pad([item.ids for item in items], self.tokenizer.pad_id)
        known = [[] if item.score is None else [item.score] for item in items]
        scores = torch.tensor(known, dtype=torch.float32)
        lines = tuple(item.line for item in items)
        return Batch({"ids": ids, "mask": mask}, scores, scores.numel(), lines)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return 0.5 * (model(**batch.inputs) - batch.targets).square().sum()

    def evaluate(self, model: nn.Module, items: Sequence[PairItem]) -> Score:
        def act(batch: Batch) -> list[float]:
            return (model(**batch.inputs) - batch.targets).abs()[:, 0].tolist()

        errors = in_batches(model, items, self, act)
        return Score({"error": sum(errors) / len(errors)})

    def example(self, text: str, target: str | None = None) -> Example:
        one, _, two = text.partition(BETWEEN)
        item = PairItem(self._ids(one, two), None if target is None else float(target))
        t = self.tokenizer
        start, end = readable(t, [t.bos_id, t.eos_id])
        words = Words((start, *of_text(t, one), end, *of_text(t, two), end))
        return Example(text, self.collate([item]), words, source=TokenInput("ids", t))

    @property
    def outputs(self) -> Outputs:
        return Values()


class CaseTagger(PairScore):
    """For each token of a text: is it a word or a symbol?"""

    name = "case"
    kinds = ("sign", "word")

    def example(self, text: str, target: str | None = None) -> Example:
        t = self.tokenizer
        ids, words = t.encode(text), of_text(t, text)
        right = [IGNORE if target is None else int(word.isalpha()) for word in words]
        batch = Batch({"ids": torch.tensor([ids])}, torch.tensor([right]), len(ids))
        source, starts = TokenInput("ids", t), tuple(enumerate(words))
        return Example(text, batch, Words(words, outputs=self.kinds), source, starts=starts)

    @property
    def outputs(self) -> Outputs:
        return Tags(self.kinds)


def made(kind: str) -> tuple[Any, Network]:
    """A task and a network for it, with weights that are far from their initial values."""
    tokenizer = Tokenizer.train("word", TEXTS)
    task: Any = {"pair": PairScore, "case": CaseTagger}[kind](tokenizer)
    head, outputs = {"pair": ("classify", 1), "case": ("tag", 2)}[kind]
    config = TransformerConfig(
        shape="encoder", head=head, outputs=outputs, vocab=len(tokenizer), d_model=8, heads=2,
        layers=2, d_ff=12, dropout=0.0, activation="gelu", positions="learned", max_length=16,
    )  # fmt: skip
    torch.manual_seed(3)
    network = build(config).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return task, network
