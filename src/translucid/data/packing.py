"""Sequence packing: several texts in one row of a batch, with hardly any padding.

For language models, documents are joined and cut into full rows. Pairs and labelled texts are
assigned to rows once, longest first, each to the first row that has room for all of its sides
(first-fit decreasing, Johnson 1973). In every epoch, texts with equal lengths change places and
rows are combined into new batches, which is fast. Token masks contain the number of each token's
text in its row, starting at 1, and 0 at padding: see `parts.masks`.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.data.batching import BatchPlan, permutation

ROW = 64  # tokens in a row, unless a text is longer; attention over up to 64 tokens is cheap
MULTIPLE = 8  # row lengths are multiples of this
CHUNK = 4096  # texts packed together


@dataclass(frozen=True, eq=False)
class PackedPlan(BatchPlan):
    """A batch plan in which each row contains several items."""

    rows: list[list[NDArray[np.int64]]]  # the items of each row, for every batch


class Packing:
    """Assigns items to rows. sizes: number of tokens of each side of each item, (items, sides)."""

    def __init__(self, sizes: NDArray[np.int64], budget: int) -> None:
        """budget: maximum number of tokens in a batch, including padding, summed over all sides."""
        self.lengths = row_lengths(sizes)
        self._sizes = sizes
        chosen = permutation(len(sizes), 0, 0)
        chunks = [chosen[i : i + CHUNK] for i in range(0, len(chosen), CHUNK)]
        self._filled = [row for part in chunks for row in _fill(part, sizes, self.lengths)]
        most = max(1, budget // sum(self.lengths))
        batches = -(-len(self._filled) // most)
        self.rows = -(-len(self._filled) // batches)  # per batch; the last batch is about as full
        self._kinds = np.unique(sizes, axis=0, return_inverse=True)[1].reshape(-1)

    def plan(self, seed: int, epoch: int) -> PackedPlan:
        """Plan the batches of an epoch, in which every item occurs exactly once. The plan depends
        only on sizes, seed and epoch."""
        moved = np.empty(len(self._sizes), np.int64)
        order = permutation(len(self._sizes), seed, epoch)
        moved[np.argsort(self._kinds, kind="stable")] = order[
            np.argsort(self._kinds[order], kind="stable")
        ]
        filled = self._filled
        rows = [moved[filled[i]] for i in permutation(len(filled), seed, epoch, stream=1)]
        batches = [rows[i : i + self.rows] for i in range(0, len(rows), self.rows)]
        return PackedPlan(
            [np.concatenate(batch) for batch in batches],
            tokens=int(self._sizes.sum()),
            slots=len(batches) * self.rows * sum(self.lengths),
            shapes=1,
            rows=batches,
        )


def row_lengths(sizes: NDArray[np.int64]) -> tuple[int, ...]:
    """The row length of each side. The lengths are in proportion to the numbers of tokens of the
    sides."""
    max_lengths, tokens = sizes.max(axis=0), sizes.sum(axis=0)
    wanted = np.maximum(np.ceil(ROW * tokens / tokens.max()).astype(np.int64), max_lengths)
    return tuple((-(-wanted // MULTIPLE) * MULTIPLE).tolist())


def _fill(
    items: NDArray[np.int64], sizes: NDArray[np.int64], lengths: tuple[int, ...]
) -> list[NDArray[np.int64]]:
    """Assign items to rows, first-fit decreasing. The size of an item is that of the side that
    fills the larger fraction of its row."""
    fractions = (sizes[items] / np.array(lengths)).max(axis=1)
    order = items[np.argsort(-fractions, kind="stable")]
    left = np.repeat(np.array(lengths)[:, None], len(items), axis=1)  # (sides, rows)
    rows: list[list[int]] = []
    for item, size in zip(order.tolist(), sizes[order], strict=True):
        fits = (left[:, : len(rows) + 1] >= size[:, None]).all(axis=0)
        row = int(fits.argmax())  # the last of these rows is empty, so one always fits
        if row == len(rows):
            rows.append([])
        rows[row].append(item)
        left[:, row] -= size
    return [np.array(row) for row in rows]


class PackedTexts:
    """Many texts as one array of ids, so that rows are joined without a loop over tokens."""

    def __init__(self, texts: Iterable[Sequence[int]], count: int) -> None:
        lengths = array("q")

        def ids() -> Iterator[int]:
            for text in texts:
                lengths.append(len(text))
                yield from text

        self._ids = np.fromiter(ids(), np.int32)
        self.lengths = np.array(lengths, np.int64)
        assert len(self.lengths) == count
        self._starts = self.lengths.cumsum() - self.lengths

    def join(
        self, rows: Sequence[NDArray[np.int64]], pad_id: int, *, count: int, length: int
    ) -> tuple[Tensor, Tensor]:
        """Concatenate the texts of each row. Return the ids, and the number of each token's text in
        its row, both (count, length). If there are fewer rows than `count`, the others are
        padding."""
        chosen = np.concatenate(rows)
        lengths = self.lengths[chosen]
        per_row = np.array([len(row) for row in rows])
        firsts = per_row.cumsum() - per_row  # index of each row's first text, among the chosen
        before = lengths.cumsum() - lengths  # number of tokens before each text
        before_row = np.repeat(before[firsts], per_row)  # number of tokens before its row
        number = np.arange(len(chosen)) - np.repeat(firsts, per_row) + 1
        place = np.arange(int(lengths.sum())) - np.repeat(before, lengths)  # within its text
        row = np.repeat(np.arange(len(rows)), per_row)
        to = np.repeat(row * length + before - before_row, lengths) + place
        ids = np.full(count * length, pad_id, np.int64)
        texts = np.zeros(count * length, np.int64)
        ids[to] = self._ids[np.repeat(self._starts[chosen], lengths) + place]
        texts[to] = np.repeat(number, lengths)
        shape = (count, length)
        return torch.from_numpy(ids).view(shape), torch.from_numpy(texts).view(shape)


class Packed(NamedTuple):
    """Training rows for a language model. Where the mask is True, `targets[r, i]` is the token that
    follows `inputs[r, i]` in the text."""

    inputs: Tensor  # (rows, length)
    targets: Tensor  # (rows, length)
    mask: Tensor  # (rows, length), False in the padded tail of the last row


def pack(
    documents: Iterable[Sequence[int]], length: int, *, bos: int, eos: int, pad_id: int
) -> Packed:
    """Join all documents, each ended by eos, into one stream, and cut it into full rows.

    The stream begins with bos, so that every token of every document is a target exactly once. The
    last target of a row is the first input of the next. Only the last row is padded.
    """
    if length < 1:
        raise ConfigError(f"length = {length} must be at least 1 token")
    parts = [torch.tensor([*document, eos]) for document in documents]
    if not parts:
        raise InputError("there are no documents to pack")
    stream = torch.cat([torch.tensor([bos]), *parts])
    targets = len(stream) - 1
    rows = -(-targets // length)
    tail = rows * length - targets
    stream = torch.cat([stream, torch.full((tail,), pad_id)])
    mask = torch.arange(rows * length).reshape(rows, length) < targets
    windows = stream.unfold(0, length + 1, length)  # (rows, length + 1), no copy
    return Packed(windows[:, :-1], windows[:, 1:], mask)
