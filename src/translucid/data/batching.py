"""Plan batches, and pad them. A plan groups items of similar lengths within a token budget, or
takes the rows of one long text in order.

The plan is a pure function of lengths, budget, seed and epoch, so that a resumed run continues with
the same batches. Shapes: ids and mask (batch, length); the mask is True at tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from translucid.core.errors import ConfigError

Lengths = Sequence[int] | Sequence[tuple[int, ...]] | NDArray[np.int64]
_MASK = (1 << 64) - 1
_LITTLE = 0.02  # fraction of padding up to which the first plan is used
_FEW = 4  # number of batches up to which a set of similar items is not divided further
_FILL = 0.9  # approximate fraction of the budget that is not padding
_OVERHEAD = 0.05  # fixed cost of a batch, as a fraction of the budget


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """The batches of an epoch: for each batch, the indices of its items. tokens: number of tokens
    without padding; slots: number of tokens including padding.

    All batches are views of one array, to save memory.
    """

    batches: list[NDArray[np.int64]]
    tokens: int
    slots: int
    shapes: int  # number of different tensor shapes

    @property
    def padding(self) -> float:
        """The fraction of slots that are padding."""
        return 1 - self.tokens / self.slots if self.slots else 0.0

    def lines(self) -> list[str]:
        shapes = "one shape" if self.shapes == 1 else f"{self.shapes:,} shapes"
        count = len(self.batches)
        return [
            f"{count:,} batch{'es' if count != 1 else ''} of {self.tokens / max(1, count):,.0f} "
            f"tokens, {shapes}, {self.padding:.1%} padding"
        ]


def plan_batches(
    lengths: Lengths,
    budget: int,
    *,
    seed: int = 0,
    epoch: int = 0,
    multiple: int = 1,
    max_items: int | None = None,
    shuffle: bool = True,
) -> BatchPlan:
    """Put every item into exactly one batch, with padded sizes within the budget.

    An item has one length or, if it has several sides such as source and target, one length per
    side. The padded size of a batch is its number of items times the sum of the longest lengths of
    each side. Lengths are rounded up to a `multiple`, so that there are fewer tensor shapes.
    Without `shuffle`, the longest items come first, for decoding.
    """
    if budget < 1 or multiple < 1 or (max_items is not None and max_items < 1):
        raise ConfigError(
            f"budget = {budget}, multiple = {multiple}, max_items = {max_items}: "
            "each must be at least 1"
        )
    sides = np.asarray(lengths, dtype=np.int64)
    if sides.size == 0:
        return BatchPlan([], 0, 0, 0)
    sides = sides.reshape(len(sides), -1)  # (items, sides)
    padded = -(-sides // multiple) * multiple
    _check_fits(padded, budget)
    # Shuffle before sorting, so that items of equal lengths are mixed anew in every epoch.
    items = permutation(len(sides), seed, epoch) if shuffle else np.arange(len(sides))
    most = max_items or len(sides)
    ways = [_cut(items[_serpentine(padded[items])], padded, budget, most)]
    spare = int(_slots_per_batch(ways[0], padded).sum()) / max(1, padded.sum()) - 1
    if sides.shape[1] > 1 and spare > _LITTLE:
        parts = _neighbourhoods(items, padded, budget)
        ways.append([b for part in parts for b in _cut_best(part, padded, budget, most)])
    batches = min(ways, key=lambda way: _cost(way, padded, budget))
    if shuffle:
        batches = [batches[i] for i in permutation(len(batches), seed, epoch, stream=1)]
    return BatchPlan(
        batches,
        tokens=int(sides.sum()),
        slots=int(_slots_per_batch(batches, padded).sum()),
        shapes=len(set(map(tuple, _shapes(batches, padded).tolist()))),
    )


def _check_fits(padded: NDArray[np.int64], budget: int) -> None:
    totals = padded.sum(axis=1)
    worst = int(totals.argmax())
    if totals[worst] > budget:
        raise ConfigError(
            f"budget = {budget} is too small: item {worst} alone has {totals[worst]:,} tokens; "
            "raise the budget or exclude long items (data.max_length)"
        )


def _serpentine(padded: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order of items that are sorted by the length of their last side, longest first, so that
    the first item determines the shape of a batch. Items with the same length are sorted by their
    other sides, alternately ascending and descending, so that lengths change gradually."""
    last = padded[:, -1]
    others = padded[:, :-1].sum(axis=1)
    ranks = np.unique(last, return_inverse=True)[1]
    return np.lexsort((np.where(ranks % 2 == 0, others, -others), -last))


def _neighbourhoods(
    items: NDArray[np.int64], padded: NDArray[np.int64], budget: int
) -> list[NDArray[np.int64]]:
    """Divide items into sets in which all sides have similar lengths. A set is halved along the
    side that saves the most padding, until it makes only a few batches. For large batches, this
    gives less padding than sorting."""
    batches = math.ceil(padded[items].sum() / (_FILL * budget))
    if batches <= _FEW:
        return [items]
    halves = []
    for side in range(padded.shape[1]):
        order = items[np.argsort(-padded[items, side], kind="stable")]
        tokens = padded[order].sum(axis=1).cumsum()
        cut = int(np.searchsorted(tokens, tokens[-1] * (batches // 2 / batches)))
        cut = min(max(cut, 1), len(order) - 1)
        halves.append((order[:cut], order[cut:]))
    one, other = min(halves, key=lambda pair: sum(_slots(half, padded) for half in pair))
    return _neighbourhoods(one, padded, budget) + _neighbourhoods(other, padded, budget)


def _cut_best(
    items: NDArray[np.int64], padded: NDArray[np.int64], budget: int, max_items: int
) -> list[NDArray[np.int64]]:
    """Sort items by the length of one side, longest first, and split them into batches. The side
    that gives less padding is used."""
    ways = []
    for side in range(padded.shape[1]):
        rest = padded[items].sum(axis=1) - padded[items, side]
        order = items[np.lexsort((-rest, -padded[items, side]))]
        ways.append(_cut(order, padded, budget, max_items))
    return min(ways, key=lambda way: _cost(way, padded, budget))


def _cut(
    order: NDArray[np.int64], padded: NDArray[np.int64], budget: int, max_items: int
) -> list[NDArray[np.int64]]:
    """Split ordered items into batches, each with as many items as the budget allows."""
    batches = []
    start = 0
    one_side = padded.shape[1] == 1  # then the first item is the longest
    while start < len(order):
        most = min(max_items, budget // max(1, int(padded[order[start]].sum())))
        block = order[start : start + most]
        if one_side:
            batches.append(block)
            start += most
            continue
        rows = np.arange(1, len(block) + 1)
        slots = rows * np.maximum.accumulate(padded[block]).sum(axis=1)
        size = int(np.searchsorted(slots, budget, side="right"))
        batches.append(block[:size])
        start += size
    return batches


def _slots(batch: NDArray[np.int64], padded: NDArray[np.int64]) -> int:
    return len(batch) * int(padded[batch].max(axis=0).sum())


def _shapes(batches: list[NDArray[np.int64]], padded: NDArray[np.int64]) -> NDArray[np.int64]:
    """The shape of each batch: its number of items, and the longest length of each side. Result:
    (batches, 1 + sides)."""
    items = np.array([len(batch) for batch in batches])
    starts = items.cumsum() - items
    max_lengths = np.maximum.reduceat(padded[np.concatenate(batches)], starts)
    return np.column_stack([items, max_lengths])


def _slots_per_batch(
    batches: list[NDArray[np.int64]], padded: NDArray[np.int64]
) -> NDArray[np.int64]:
    shapes = _shapes(batches, padded)
    return shapes[:, 0] * shapes[:, 1:].sum(axis=1)


def _cost(batches: list[NDArray[np.int64]], padded: NDArray[np.int64], budget: int) -> float:
    """The cost of a plan in slots: the slots of all batches, plus a fixed overhead for each
    batch."""
    return sum((_slots_per_batch(batches, padded) + _OVERHEAD * budget).tolist())


def permutation(n: int, seed: int, epoch: int, stream: int = 0) -> NDArray[np.int64]:
    """A random permutation of 0 to n - 1 that is the same with every version of every library,
    because it is sorted by keys from splitmix64 (https://prng.di.unimi.it/splitmix64.c)."""
    start = 0
    for part in (seed, epoch, stream):
        start = int(_mix(np.array([(start + part) & _MASK], dtype=np.uint64))[0])
    keys = _mix(np.uint64(start) + np.arange(n, dtype=np.uint64))
    return np.argsort(keys, kind="stable")


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def pad(
    sequences: Sequence[Sequence[int]], pad_id: int, *, multiple: int = 1
) -> tuple[Tensor, Tensor]:
    """Pad rows on the right. Return the ids and their mask, which is True at tokens; both (batch,
    length)."""
    # Uses numpy, since torch is several times slower at reading lists.
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    max_length = int(lengths.max()) if len(sequences) else 0
    length = -(-max_length // multiple) * multiple
    mask = np.arange(length) < lengths[:, None]
    ids = np.full(mask.shape, pad_id, np.int64)
    ids[mask] = np.fromiter(chain.from_iterable(sequences), np.int64, int(lengths.sum()))
    return torch.from_numpy(ids), torch.from_numpy(mask)


MAX_BYTES = 20  # maximum number of bytes of a word that a model reads


def spell(word: str) -> bytes:
    """The bytes of a word. For a long word, only the bytes at its beginning and its end are
    returned, since they are the most informative."""
    characters = word.encode()
    half = MAX_BYTES // 2
    return characters if len(characters) <= MAX_BYTES else characters[:half] + characters[-half:]


def pad_characters(rows: Sequence[Sequence[bytes]]) -> Tensor:
    """The bytes of words as a padded tensor (batch, length, characters), in which byte b is b + 1
    and 0 is padding."""
    length = max((len(row) for row in rows), default=0)
    width = max((len(word) for row in rows for word in row), default=0)
    padded = np.zeros((len(rows), length, max(width, 1)), dtype=np.int64)
    for row, words in zip(padded, rows, strict=True):
        for place, word in zip(row, words, strict=False):
            place[: len(word)] = np.frombuffer(word, dtype=np.uint8)
            place[: len(word)] += 1
    return torch.from_numpy(padded)


def plan_streams(
    lengths: NDArray[np.int64], budget: int, *, seed: int = 0, epoch: int = 0
) -> BatchPlan:
    """Plan batches of the rows of one long text, such that row i of a batch continues row i of the
    previous batch. Every row of the text occurs exactly once. lengths: (rows, 1), equal except for
    the last row of the text.

    An epoch begins at a random row of the text and wraps around, so that batches differ between
    epochs. If the rows of the text do not divide evenly, the last batches have fewer rows.
    """
    rows, max_length = len(lengths), int(lengths.max())
    streams = max(min(budget // max_length, rows), 1)
    per_stream = -(-rows // streams)
    start = int(permutation(rows, seed, epoch)[0])
    order = (np.arange(rows) + start) % rows
    batches = [order[place::per_stream] for place in range(per_stream)]
    sizes = [(len(batch), int(lengths[batch].max())) for batch in batches]
    return BatchPlan(
        batches,
        tokens=int(lengths.sum()),
        slots=sum(count * length for count, length in sizes),
        shapes=len(set(sizes)),
    )
