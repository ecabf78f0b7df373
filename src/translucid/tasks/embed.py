"""Text embeddings: one vector for a text, so that texts that mean the same lie close together.

Such models come from other tools (sentence-transformers, BERT without a head). What makes one
vector of a text, such as the mean of its tokens' vectors, is part of the network.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.data.batching import pad
from translucid.data.readers.loading import Loading
from translucid.data.records import Text
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.errors import InputError
from translucid.tasks.base import Score, Task, in_batches
from translucid.tasks.batch import Batch
from translucid.tasks.embedding import Embedding
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.long_texts import cut_to, text_limit
from translucid.tasks.options import DataConfig, Resources
from translucid.tasks.registry import task
from translucid.tasks.words import Words, of_text, readable

MAX_LENGTH = "max_length"  # in the statistics of a model: tokens that it was made for


@dataclass(frozen=True, slots=True)
class EmbedItem:
    ids: list[int]
    line: int = 0


@dataclass(frozen=True)
class Neighbour:
    """A text that is like another: its place among those that were given, and the cosine."""

    place: int
    text: str
    cosine: float


@task
class Embed(Task[Text, EmbedItem]):
    """It has no score: which texts should lie close together is not known from texts alone."""

    name = "embed"
    metric = "cosine"  # of pairs of texts, which no file of this task holds
    higher_is_better = True
    models = ("transformer",)
    shape, head = "encoder", "embed"
    command = "embed"
    asks_about, answer_name = ("text",), "embedding"
    data_keys = ()
    decoding_keys = ()
    samples = ("A man is eating food.", "The girl is carrying a baby.")

    @classmethod
    def read(cls, files: Sequence[str], data: DataConfig, loading: Loading) -> Iterable[Text]:
        _has_no_score()

    @classmethod
    def make(cls, resources: Resources) -> Self:
        max_length = resources.statistics.get(MAX_LENGTH)
        if max_length is not None and type(max_length) is not int:
            raise TypeError(f"{MAX_LENGTH} is {max_length!r:.40}, no whole number")
        return cls(resources.tokenizer, max_length=max_length)

    def __init__(self, tokenizer: Tokenizer, *, max_length: int | None = None) -> None:
        """max_length: tokens of a text that are read, where that is less than the model could."""
        self.tokenizer, self.max_length = tokenizer, max_length
        self.frame = tokenizer.frame(start="bos", end="eos")

    def encode(self, record: Text) -> EmbedItem:
        return EmbedItem(self.encode_text(record.text), record.line)

    def encode_text(self, text: str) -> list[int]:
        return self.frame(self.tokenizer.encode(text))

    def sizes(self, item: EmbedItem) -> tuple[int, ...]:
        return (len(item.ids),)

    def targets(self, item: EmbedItem) -> int:
        return 0

    def shorten(self, item: EmbedItem, max_length: int) -> EmbedItem:
        return replace(item, ids=self.frame.shorten(item.ids, max_length))

    def collate(self, items: Sequence[EmbedItem]) -> Batch:
        ids, mask = pad([item.ids for item in items], self.tokenizer.pad_id)
        nothing = torch.zeros(len(items), 0)
        return Batch({"ids": ids, "mask": mask}, nothing, 0, tuple(item.line for item in items))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        _has_no_score()

    def evaluate(self, model: nn.Module, items: Sequence[EmbedItem]) -> Score:
        _has_no_score()

    # ---- the embeddings ----

    def read_line(self, line: str, where: str, network: nn.Module) -> EmbedItem:
        return EmbedItem(self.encode_text(line))

    def check_question(self, question: Any, where: str, network: nn.Module) -> None:
        """A long text is cut, not refused."""

    def predict(self, model: nn.Module, items: Sequence[EmbedItem]) -> list[Tensor]:
        """The vector of each text, of a long one that of its beginning."""
        short = cut_to(self, items, text_limit(model, self.max_length))
        return in_batches(model, short, self, lambda batch: model(**batch.inputs).float().cpu())

    def embed(self, model: nn.Module, texts: Sequence[str]) -> Tensor:
        """The same of texts. (texts, dimensions)"""
        rows = self.predict_lines(model, texts)
        return torch.stack(rows) if rows else torch.zeros(0, 0)

    def similarity(self, model: nn.Module, one: Sequence[str], other: Sequence[str]) -> Tensor:
        """cos(a, b) = a·b / (|a| |b|) of every two. (one, other)"""
        rows = self.embed(model, [*one, *other])
        rows = F.normalize(rows, dim=-1) if len(rows) else rows
        return rows[: len(one)] @ rows[len(one) :].T

    def answer_text(self, answer: Tensor) -> str:
        return "\t".join(map(str, answer.numpy()))

    def answer_json(self, line: str, answer: Tensor) -> dict[str, Any]:
        return {"text": line, "embedding": short_floats(answer)}

    # ---- what people see ----

    def example(self, text: str, target: str | None = None) -> Example:
        if target is not None:
            raise InputError(
                f"target {target[:40]!r}: an embedding has no right value to compare with; leave "
                "it out, or compare two texts with model.similarity"
            )
        start, end = (
            readable(self.tokenizer, ids) for ids in (self.frame.prefix, self.frame.suffix)
        )
        source = (*start, *of_text(self.tokenizer, text), *end)
        batch = self.collate([EmbedItem(self.encode_text(text))])
        return Example(text, batch, Words(source), source=TokenInput("ids", self.tokenizer))

    @property
    def outputs(self) -> Embedding:
        return Embedding()


def nearest(cosines: Tensor, texts: Sequence[str], k: int) -> list[Neighbour]:
    """The k texts with the largest cosines, largest first; of equal ones the first. (texts,)"""
    order = cosines.argsort(descending=True, stable=True)[:k].tolist()
    return [Neighbour(place, texts[place], float(cosines[place])) for place in order]


def short_floats(vector: Tensor) -> list[float]:
    """With as few digits as give the same float32 again."""
    return [float(str(value)) for value in np.asarray(vector, dtype=np.float32)]


def _has_no_score() -> NoReturn:
    raise InputError(
        "task embed has no score and no loss: which texts should lie close together is not in a "
        "file of texts; compare texts with `translucid embed MODEL FILE --nearest TEXT`, in "
        "Python with model.similarity(texts, others)"
    )
