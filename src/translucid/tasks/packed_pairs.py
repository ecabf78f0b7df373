"""Pairs to translate: one by one, and several in a row of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from translucid.data.packed_rows import Texts
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.tasks.batch import IGNORE, Batch


@dataclass(frozen=True, slots=True)
class TranslateItem:
    source: list[int]  # with the end token
    target: list[int]  # without start and end
    line: int
    # The target as it is written, of what is scored; None: as its tokens say, which may lack words.
    reference: str | None = field(default=None, compare=False)


class PackedPairs:
    """Rows of several pairs, side by side in source and target, that do not see one another."""

    def __init__(
        self, source: Tokenizer, target: Tokenizer, items: Sequence[TranslateItem]
    ) -> None:
        self._source_pad, self._target_pad, count = source.pad_id, target.pad_id, len(items)
        (start,), self._end = target.start_ids, target.eos_id
        self._source = Texts((item.source for item in items), count)
        self._target = Texts(([start, *item.target] for item in items), count)
        self._lines = np.fromiter((item.line for item in items), np.int64, count)

    def collate(
        self, rows: Sequence[NDArray[np.int64]], count: int, lengths: Sequence[int]
    ) -> Batch:
        source, source_mask = self._source.join(
            rows, self._source_pad, count=count, length=lengths[0]
        )
        target, target_mask = self._target.join(
            rows, self._target_pad, count=count, length=lengths[1]
        )
        inputs = {
            "source": source, "target": target,
            "source_mask": source_mask, "target_mask": target_mask,
        }  # fmt: skip
        lines = tuple(self._lines[np.concatenate(rows)].tolist())
        return Batch(
            inputs, self._targets(target, target_mask), int(target_mask.count_nonzero()), lines
        )

    def _targets(self, target: Tensor, texts: Tensor) -> Tensor:
        """What follows each token: the next one of its text, or the end."""
        next_ids, next_texts = (F.pad(t[:, 1:], (0, 1)) for t in (target, texts))
        following = torch.where(texts == next_texts, next_ids, self._end)
        return torch.where(texts == 0, IGNORE, following)
