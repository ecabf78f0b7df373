"""What a decoder remembers between steps. The caller owns it; a part never keeps one.

Shapes: a state has `rows` = sources * beams rows; the beams of one source stand in a run. A slot
is a place in the cache, in order of time; a position is a token's place among the real tokens of
its row. They differ where a row was padded.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from translucid.errors import InputError
from translucid.parts import masks


@dataclass(frozen=True)
class Slots:
    """Where the newest tokens go, and how much of the cache is in use."""

    index: Tensor  # (queries,)
    extent: int  # attention reads slots 0 to extent - 1


class KVCache:
    """Keys and values of one attention layer."""

    def __init__(self, rows: int, heads: int, capacity: int, d_head: int, like: Tensor) -> None:
        self.keys = like.new_zeros(rows, heads, capacity, d_head)
        self.values = like.new_zeros(rows, heads, capacity, d_head)

    def append(self, keys: Tensor, values: Tensor, slots: Slots) -> tuple[Tensor, Tensor]:
        """Store the newest positions and return all in use: (rows, heads, extent, d_head)."""
        self.keys.index_copy_(2, slots.index, keys)
        self.values.index_copy_(2, slots.index, values)
        return self.keys[:, :, : slots.extent], self.values[:, :, : slots.extent]

    def reorder(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[rows], self.values[rows]

    def copy(self) -> "KVCache":
        twin = copy(self)
        twin.keys, twin.values = self.keys.clone(), self.values.clone()
        return twin


@dataclass
class RecurrentState:
    """Hidden state, and for an LSTM the cell, of every layer: (layers, rows, hidden)."""

    hidden: Tensor
    cell: Tensor | None = None

    def reorder(self, rows: Tensor) -> None:
        self.hidden = self.hidden[:, rows]
        self.cell = None if self.cell is None else self.cell[:, rows]

    def copy(self) -> "RecurrentState":
        return RecurrentState(self.hidden.clone(), None if self.cell is None else self.cell.clone())


class Timeline:
    """Which slots are taken, and which of them hold real tokens.

    The slot number is kept twice: as a tensor, so that a captured graph can move it on, and as a
    number, so that an eager step reads only the slots in use. `fixed=True` makes every step read
    the whole capacity, which a captured graph needs, since its shapes cannot grow.
    """

    def __init__(self, rows: int, capacity: int, device: torch.device, fixed: bool = False) -> None:
        self.capacity, self.fixed = capacity, fixed
        self.taken = 0
        self.cursor = torch.zeros((), dtype=torch.long, device=device)
        self.real = torch.zeros(rows, capacity, dtype=torch.bool, device=device)
        self.positions = torch.zeros(rows, capacity, dtype=torch.long, device=device)
        self.counts = torch.zeros(rows, dtype=torch.long, device=device)  # real tokens so far

    def advance(self, real: Tensor) -> Slots:
        """Take the next slots for tokens of this mask (rows, queries)."""
        queries = real.shape[1]
        if not self.fixed and self.taken + queries > self.capacity:
            raise InputError(
                f"the state holds {self.capacity} positions and {self.taken} are taken, "
                f"but {queries} more were given; start with a larger capacity"
            )
        index = self.cursor + torch.arange(queries, device=self.cursor.device)
        self.real.index_copy_(1, index, real)
        self.positions.index_copy_(1, index, self.counts[:, None] + masks.positions(real))
        self.counts += real.sum(dim=1)
        self.cursor += queries
        self.taken += queries
        return Slots(index, self.capacity if self.fixed else self.taken)

    def trim(self, length: int) -> None:
        """Forget all slots from `length` on."""
        if not 0 <= length <= self.taken:
            raise InputError(f"cannot trim to {length}: the state holds {self.taken} positions")
        self.taken = length
        self.cursor.fill_(length)
        self.real[:, length:] = False
        self.counts = self.real.sum(dim=1)

    def reorder(self, rows: Tensor) -> None:
        self.real, self.positions = self.real[rows], self.positions[rows]
        self.counts = self.counts[rows]

    def copy(self) -> "Timeline":
        twin = copy(self)
        twin.cursor, twin.counts = self.cursor.clone(), self.counts.clone()
        twin.real, twin.positions = self.real.clone(), self.positions.clone()
        return twin


@dataclass(frozen=True)
class Memory:
    """What the encoder said, ready for the decoder; one row for each source, shared by its
    beams."""

    projected: Sequence[tuple[Tensor, Tensor]] = ()  # keys and values, by layer
    mask: Tensor | None = None  # (sources, keys), True at real tokens
    initial: RecurrentState | None = None  # where a recurrent decoder starts

    def select(self, sources: Tensor) -> "Memory":
        return replace(
            self,
            projected=[(keys[sources], values[sources]) for keys, values in self.projected],
            mask=None if self.mask is None else self.mask[sources],
        )


@dataclass
class DecoderState:
    """All that a decoder remembers: caches or recurrent states, the slots, the memory.

    `length` counts the positions stepped through, padding included.
    """

    layers: Sequence[KVCache | RecurrentState]
    length: int = 0
    timeline: Timeline | None = None  # None for a recurrent decoder, which needs no slots
    memory: Memory | None = None
    beams: int = 1

    def expand(self, beams: int) -> None:
        """Give every row `beams` copies, in a run; the memory stays as it is and is shared."""
        if self.beams != 1:
            raise InputError(f"the state has {self.beams} beams already; start a fresh one")
        rows = torch.arange(self._rows, device=self._device).repeat_interleave(beams)
        self._move(rows)
        self.beams = beams

    def follow(self, parents: Tensor) -> None:
        """Beam j of source i now continues beam parents[i, j] of the same source: (sources, beams).

        Beams never leave their source, so the memory need not move.
        """
        sources = torch.arange(parents.shape[0], device=parents.device)[:, None]
        self._move((sources * self.beams + parents).flatten())

    def reorder(self, rows: Tensor) -> None:
        """Row i now continues what row rows[i] held; rows may repeat or be left out.

        With several beams the rows come in whole runs of one source each; to move beams within
        their source, `follow` is cheaper.
        """
        self._move(rows)
        if self.memory is not None:
            self.memory = self.memory.select(rows[:: self.beams] // self.beams)

    def trim(self, length: int) -> None:
        """Forget every position from `length` on."""
        if self.timeline is None:
            raise InputError(
                "a recurrent state cannot be rewound; copy() it before the step instead"
            )
        self.timeline.trim(length)
        self.length = length

    def copy(self) -> "DecoderState":
        """An independent twin; the memory, which never changes, is shared."""
        timeline = None if self.timeline is None else self.timeline.copy()
        return replace(self, layers=[layer.copy() for layer in self.layers], timeline=timeline)

    def _move(self, rows: Tensor) -> None:
        for layer in self.layers:
            layer.reorder(rows)
        if self.timeline is not None:
            self.timeline.reorder(rows)

    @property
    def _rows(self) -> int:
        first = self.layers[0]
        return first.keys.shape[0] if isinstance(first, KVCache) else first.hidden.shape[1]

    @property
    def _device(self) -> torch.device:
        first = self.layers[0]
        return first.keys.device if isinstance(first, KVCache) else first.hidden.device
