"""Documents into full rows, for language models: no padding but in the last row, nothing lost."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from translucid.core.errors import ConfigError, InputError


class Packed(NamedTuple):
    """Rows of a language model: `inputs[r, i]` is followed by `targets[r, i]`, if real."""

    inputs: Tensor  # (rows, length)
    targets: Tensor  # (rows, length)
    mask: Tensor  # (rows, length), False in the padded tail of the last row


def pack(
    documents: Iterable[Sequence[int]], length: int, *, bos: int, eos: int, pad_id: int
) -> Packed:
    """All documents, each ended by eos, as one stream cut into full rows.

    The stream begins with bos, so that every token of every document is a target exactly once, and
    an input exactly once but for the last eos. Rows share one token: the last target of a row is
    the first input of the next. Only the last row is padded.
    """
    if length < 1:
        raise ConfigError(f"length = {length}: a row needs at least 1 token")
    parts = [torch.tensor([*document, eos]) for document in documents]
    if not parts:
        raise InputError("there is no document to pack")
    stream = torch.cat([torch.tensor([bos]), *parts])
    targets = len(stream) - 1
    rows = -(-targets // length)
    tail = rows * length - targets
    stream = torch.cat([stream, torch.full((tail,), pad_id)])
    mask = torch.arange(rows * length).reshape(rows, length) < targets
    windows = stream.unfold(0, length + 1, length)  # (rows, length + 1), no copy
    return Packed(windows[:, :-1], windows[:, 1:], mask)
