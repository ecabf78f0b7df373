"""Text embeddings: one vector per text; texts with similar meanings have similar vectors.

The network pools token vectors into one vector. It learns from pairs of texts with the same
meaning, with the other pairs of the batch as negatives, or from pairs with a similarity score,
which the cosine similarity of their vectors should match.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError, InputError
from translucid.data.readers import tables
from translucid.data.readers.loading import Loading
from translucid.data.records import SimilarPair
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks import metrics
from translucid.tasks.base import Score, Traits, toy_sentences
from translucid.tasks.batch import Batch
from translucid.tasks.contrastive import (
    contrastive_loss,
    cosines,
    retrieval,
    score_loss,
    token_counts,
)
from translucid.tasks.example import Example
from translucid.tasks.in_batches import in_batches
from translucid.tasks.long_texts import cut_to, text_limit
from translucid.tasks.options import TEMPERATURE, DataConfig, Resources
from translucid.tasks.outputs import Answer, Cell, Ending, OutputRow, Values, floats
from translucid.tasks.registry import task
from translucid.tasks.score import Baseline
from translucid.tasks.text_task import TextTask
from translucid.tasks.words import of_text

SHOWN = 16  # dimensions in a figure


class EmbeddingOutputs(Values):
    """Outputs that are the dimensions of an embedding, which have no individual meaning."""

    @property
    def lacking(self) -> str:
        return "an embedding has no target value; use saliency or model.similarity"

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        """The dimension `of`; by default, the one with the largest absolute value."""
        if of is None:
            of = int(outputs.abs().argmax())
        number = str(of).removeprefix("dimension ")
        if not number.isdigit() or int(number) >= len(outputs):
            raise InputError(
                f"of = {of!r} is not a dimension of the embedding; it must be between 0 and "
                f"{len(outputs) - 1}"
            )
        return Answer(None, int(number), f"dimension {number}")

    def answers(self, example: Example, outputs: Tensor) -> list[Answer]:
        """The dimensions with the largest absolute values, in the order of the vector."""
        largest = outputs.abs().topk(min(SHOWN, len(outputs))).indices.sort().values
        return [Answer(None, choice, f"dimension {choice}") for choice in largest.tolist()]

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        length = float(outputs.float().norm())
        largest = outputs.abs().topk(min(top, len(outputs))).indices.tolist()
        rows = tuple(
            OutputRow(f"dimension {place}", (Cell("", value, chosen=True),))
            for place, value in zip(largest, floats(outputs[largest]), strict=True)
        )
        sentence = (
            f"The text is now one vector of {len(outputs):,} dimensions. They have no individual "
            "meaning: what counts is the angle to the vectors of other texts. The largest are "
            "shown."
        )
        last = Ending("values", "the embedding of the text", sentence, rows)
        return [last], f"a vector of {len(outputs):,} dimensions, length {length:.3g}"


# Keys of a model's statistics: its maximum text length, and whether it was trained on scores.
MAX_LENGTH, SCORED = "max_length", "scored"


@dataclass(frozen=True, slots=True)
class EmbedItem:
    """A text, or a pair of texts."""

    ids: list[int]
    line: int = 0
    other: list[int] | None = None
    score: float | None = None  # None: the texts have the same meaning


@dataclass(frozen=True)
class Neighbour:
    """A similar text: its index among the given texts, and the cosine similarity."""

    place: int
    text: str
    cosine: float


@task
class Embed(TextTask[SimilarPair, EmbedItem]):
    """Text embeddings, scored by retrieval of each text's partner or, if pairs have similarity
    scores, by the correlation of cosines with these scores."""

    name = "embed"
    metric = "accuracy"
    higher_is_better = True
    shape, head = "encoder", "embed"
    long = "truncate"
    answer_name = "embedding"
    traits = Traits(
        command="embed",
        max_files=2,
        row_columns=("source", "target"),
        asks_about=("text",),
        data_keys=("source_column", "target_column", "score_column", "max_length", "long"),
        decoding_keys=(),
        task_keys=("temperature",),
        loss_by_evaluating=True,
        loss_of_batch=True,
    )
    samples = ("A man is eating food.", "The girl is carrying a baby.")

    @classmethod
    def read(
        cls, files: Sequence[str], data: DataConfig, loading: Loading
    ) -> Iterable[SimilarPair]:
        from translucid.data.readers import read as read_files  # most uses of a model read no files

        if len(files) == 2:
            pairs = read_files.read_parallel(files[0], files[1], loading=loading)
            return (SimilarPair(pair.source, pair.target, None, pair.line) for pair in pairs)
        if (data.format or tables.format_of(files[0], otherwise="text")) == "text":
            raise ConfigError(
                f"{files[0]}: embeddings are learned from pairs of texts, but this file has one "
                "text per line; pass two files whose lines form pairs, or one table whose "
                "extension is its format, such as pairs.tsv"
            )
        return read_files.read_similar(
            files[0], source=data.source_column, target=data.target_column,
            score=data.score_column, rule=data.rule, loading=loading,
        )  # fmt: skip

    @classmethod
    def toyland(cls, split: str, count: int) -> Iterator[SimilarPair]:
        for line, made in toy_sentences(split, count):
            yield SimilarPair(made.source, made.target, None, line)

    @classmethod
    def check_held_out(
        cls, train: Sequence[SimilarPair], held_out: Sequence[SimilarPair], file: str
    ) -> None:
        """Raise an error if only one of training and held-out data has scores."""
        ours, theirs = (records[0].score is not None for records in (train, held_out))
        if ours != theirs:
            having = ["have no scores", "have scores"]
            raise InputError(
                f"{file}: the pairs in this file {having[theirs]}, but the pairs in the training "
                f"data {having[ours]}; use the same columns in both (data.score_column)"
            )

    @classmethod
    def measure(cls, train: Sequence[SimilarPair], data: DataConfig) -> dict[str, Any]:
        return {MAX_LENGTH: data.max_length, SCORED: train[0].score is not None}

    @classmethod
    def make(cls, resources: Resources) -> Self:
        max_length = resources.statistics.get(MAX_LENGTH, resources.max_length)
        if max_length is not None and type(max_length) is not int:
            raise TypeError(f"{MAX_LENGTH} is {max_length!r:.40}, not a whole number")
        made = _ScoredEmbed if resources.statistics.get(SCORED) is True else cls
        task: Any = made(
            resources.tokenizer, max_length=max_length, temperature=resources.temperature
        )
        return task

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: int | None = None,
        temperature: float = TEMPERATURE,
    ) -> None:
        """max_length: number of tokens to read of each text, if below the model's limit."""
        super().__init__(tokenizer)
        self.max_length, self.temperature = max_length, temperature

    def encode(self, record: SimilarPair) -> EmbedItem:
        one, other = (self.encode_text(text) for text in record.texts)
        return EmbedItem(one, record.line, other, record.score)

    def sizes(self, item: EmbedItem) -> tuple[int, ...]:
        """The number of tokens of an item: both texts of a pair are padded to the longer one."""
        texts = _texts(item)
        return (max(map(len, texts)),) * len(texts)

    def targets(self, item: EmbedItem) -> int:
        """The number of targets: in a pair, each text is the other's target."""
        return 0 if item.other is None else 2

    def shorten(self, item: EmbedItem, max_length: int) -> EmbedItem:
        ids, *other = (self.frame.shorten(text, max_length) for text in _texts(item))
        return replace(item, ids=ids, other=other[0] if other else None)

    def collate(self, items: Sequence[EmbedItem]) -> Batch:
        """Make a batch in which the texts of a pair are consecutive rows."""
        inputs = self.padded([text for item in items for text in _texts(item)])
        lines = tuple(item.line for item in items)
        if any(item.other is None for item in items):
            return Batch(inputs, torch.zeros(len(items), 0), 0, lines)
        scores = [1.0 if item.score is None else item.score for item in items]
        targets = torch.tensor(scores).repeat_interleave(2)
        return Batch(inputs, targets, len(targets), lines)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        vectors = model(**batch.inputs)
        return contrastive_loss(vectors, batch.inputs["ids"], batch.targets, self.temperature)

    def evaluate(self, model: nn.Module, items: Sequence[EmbedItem]) -> Score:
        """Score pairs; the loss uses the default temperature, so that runs are comparable."""
        alone = [EmbedItem(text, item.line) for item in items for text in _texts(item)]
        vectors = torch.stack(self.predict(model, alone))
        return self._score(items, [vectors[0::2], vectors[1::2]])

    def baseline(self, train: Sequence[EmbedItem], held_out: Sequence[EmbedItem]) -> Baseline:
        """The baseline: cosine similarity of token counts."""
        start, end = len(self.frame.prefix), len(self.frame.suffix)
        bags = [
            token_counts([text[start : len(text) - end] for text in side], len(self.tokenizer))
            for side in zip(*map(_texts, held_out), strict=True)
        ]
        return Baseline("cosine similarity of token counts", self._score(held_out, bags))

    def _score(self, items: Sequence[EmbedItem], sides: Sequence[Tensor]) -> Score:
        """Score pairs from their vectors. sides: the vectors of all first texts, and of all second
        texts, dense or sparse."""
        unit = [side if side.is_sparse else nn.functional.normalize(side) for side in sides]
        if items[0].score is not None:
            alike = (unit[0] * unit[1]).sum(dim=1)
            made = (alike.to_dense() if alike.is_sparse else alike).tolist()
            return _score_of_scores(made, [item.score or 0.0 for item in items])

        def compare(side: int, places: Tensor) -> Tensor:
            some = unit[side].index_select(0, places)
            return (unit[1 - side] @ (some.to_dense() if some.is_sparse else some).T).T

        partners = retrieval([(item.ids, item.other or ()) for item in items], compare)
        note = f"for each of {2 * len(items):,} texts, the partner is searched among {len(items):,}"
        return Score(partners, (note,))

    # ---- the embeddings ----

    def read_line(self, line: str, where: str, network: nn.Module) -> EmbedItem:
        return EmbedItem(self.encode_text(line))

    def predict(self, model: nn.Module, items: Sequence[EmbedItem]) -> list[Tensor]:
        """The embedding of each text; long texts are truncated."""
        short = cut_to(self, items, text_limit(model, self.max_length))
        return in_batches(model, short, self, lambda batch: model(**batch.inputs).float().cpu())

    def embed(self, model: nn.Module, texts: Sequence[str]) -> Tensor:
        """The embedding of each text: (texts, dimensions)."""
        rows = self.predict_lines(model, texts)
        return torch.stack(rows) if rows else torch.zeros(0, 0)

    def similarity(self, model: nn.Module, one: Sequence[str], other: Sequence[str]) -> Tensor:
        """The cosine similarity of each text of `one` with each text of `other`:
        (texts of one, texts of other)."""
        rows = self.embed(model, [*one, *other])
        return cosines(rows[: len(one)], rows[len(one) :])

    def answer_text(self, answer: Tensor) -> str:
        return "\t".join(map(str, answer.numpy()))

    def answer_json(self, line: str, answer: Tensor) -> dict[str, Any]:
        return {"text": line, "embedding": short_floats(answer)}

    def followed(self, model: nn.Module, text: str, target: str | None) -> list[float]:
        return short_floats(self.predict_lines(model, [text])[0])

    # ---- tracing and the studio ----

    def example(self, text: str, target: str | None = None) -> Example:
        if target is not None:
            raise InputError(
                f"target {target[:40]!r}: an embedding has no target value; omit it, or compare "
                "two texts with model.similarity"
            )
        item = EmbedItem(self.encode_text(text))
        return self.labelled_example(text, item, of_text(self.tokenizer, text))

    @property
    def outputs(self) -> EmbeddingOutputs:
        return EmbeddingOutputs()


class _ScoredEmbed(Embed):
    """The embedding task for training data with similarity scores."""

    metric = "spearman"
    traits = replace(Embed.traits, loss_of_batch=False)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return score_loss(model(**batch.inputs), batch.targets)


def _texts(item: EmbedItem) -> tuple[list[int], ...]:
    return (item.ids,) if item.other is None else (item.ids, item.other)


def _score_of_scores(made: Sequence[float], gold: Sequence[float]) -> Score:
    errors = [(cosine - score) ** 2 for cosine, score in zip(made, gold, strict=True)]
    numbers = {
        "spearman": metrics.spearman(made, gold),
        "pearson": metrics.pearson(made, gold),
        "loss": sum(errors) / max(len(errors), 1),
    }
    return Score(numbers, (f"cosines of {len(gold):,} pairs compared with their scores",))


def nearest(cosines: Tensor, texts: Sequence[str], k: int) -> list[Neighbour]:
    """The k texts with the largest cosines, largest first; ties keep their order. cosines: one for
    each text, (texts,)."""
    order = cosines.argsort(descending=True, stable=True)[:k].tolist()
    return [Neighbour(place, texts[place], float(cosines[place])) for place in order]


def short_floats(vector: Tensor) -> list[float]:
    """The values with the fewest digits that still give the same float32."""
    return [float(str(value)) for value in np.asarray(vector, dtype=np.float32)]
