"""The state of a decoder between steps. The caller owns it; no layer stores one.

A state holds `sources` texts with `beams` beams each: rows = sources * beams, the beams of one
source adjacent. A slot is an index into the cache, in order of time; a position is the index of a
token among the real tokens of its row. They differ with padding and with beams:

    slot    0 1 2   3 4   5 6   7 8      a prompt of 3 tokens, then 3 tokens of each of two beams
    beam 0  x x x   . x   . x   x .      before slot 7, it switched to the prefix of beam 1
    beam 1  x x x   . x   . x   . x

An x marks a slot that the beam sees. All beams of a source share one cache. When a beam continues
another one, only the mask of visible slots changes; no keys or values are copied.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.errors import InputError


@dataclass(frozen=True)
class Slots:
    """The slots in which the newest tokens are stored, and how many slots are in use."""

    index: Tensor  # (beams * queries,)
    extent: int  # attention reads slots 0 to extent - 1


class KVCache:
    """Keys and values of one attention layer, shared by the beams of a source."""

    def __init__(self, sources: int, heads: int, slots: int, d_head: int, like: Tensor) -> None:
        self.keys = like.new_zeros(sources, heads, slots, d_head)
        self.values = like.new_zeros(sources, heads, slots, d_head)

    def append(self, keys: Tensor, values: Tensor, slots: Slots) -> tuple[Tensor, Tensor]:
        """Store the newest keys and values; return all keys and values stored so far, each
        (sources, heads, extent, d_head)."""
        self.keys.index_copy_(2, slots.index, keys)
        self.values.index_copy_(2, slots.index, values)
        return self.keys[:, :, : slots.extent], self.values[:, :, : slots.extent]

    def grow(self, slots: int, taken: int) -> None:
        """Enlarge the cache to `slots` slots, and copy the first `taken` of the old ones."""
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_zeros(*old.shape[:2], slots, old.shape[3])
            new[:, :, :taken] = old[:, :, :taken]
            setattr(self, name, new)

    def select(self, sources: Tensor) -> None:
        self.keys, self.values = self.keys[sources], self.values[sources]

    def join(self, other: "KVCache", taken: tuple[int, int], slots: int) -> None:
        """Append the sources of another cache. taken: how many slots of this and of the other cache
        are in use. slots: how many the result has."""
        sources = self.keys.shape[0]
        for name in ("keys", "values"):
            mine, its = getattr(self, name), getattr(other, name)
            shape = (sources + its.shape[0], its.shape[1], slots, its.shape[3])
            joined = mine.new_empty(shape)
            for part, old, used in (
                (joined[:sources], mine, taken[0]),
                (joined[sources:], its, taken[1]),
            ):
                part[:, :, :used] = old[:, :, :used]
                part[:, :, used:] = 0  # never NaN, since attention multiplies it by 0
            setattr(self, name, joined)

    def keep(self, kept: Tensor, slots: int) -> None:
        """Move the slots kept[i] of source i to the front, and provide `slots` slots. kept:
        (sources, count)."""
        index = kept[:, None, :, None].expand(-1, self.keys.shape[1], -1, self.keys.shape[3])
        for name in ("keys", "values"):
            setattr(self, name, _resized(getattr(self, name).gather(2, index), 2, slots))

    def copy(self) -> "KVCache":
        twin = copy(self)
        twin.keys, twin.values = self.keys.clone(), self.values.clone()
        return twin


@dataclass
class RecurrentState:
    """Hidden state and, for an LSTM, cell state of every layer: (layers, rows, hidden)."""

    hidden: Tensor
    cell: Tensor | None = None
    fed: Tensor | None = None  # (rows, hidden): the last output, for input feeding

    def reorder(self, rows: Tensor) -> None:
        self.hidden = self.hidden[:, rows]
        self.cell = None if self.cell is None else self.cell[:, rows]
        self.fed = None if self.fed is None else self.fed[rows]

    def join(self, other: "RecurrentState") -> None:
        """Append the rows of another state."""
        if self.fed is not None or other.fed is not None:
            mine, its = (
                state.hidden.new_zeros(state.hidden.shape[1:]) if state.fed is None else state.fed
                for state in (self, other)
            )
            self.fed = torch.cat([mine, its])
        self.hidden = torch.cat([self.hidden, other.hidden], dim=1)
        if self.cell is not None and other.cell is not None:
            self.cell = torch.cat([self.cell, other.cell], dim=1)

    def copy(self) -> "RecurrentState":
        cell, fed = (None if part is None else part.clone() for part in (self.cell, self.fed))
        return RecurrentState(self.hidden.clone(), cell, fed)


class Timeline:
    """Tracks which slots are in use, and which of them each beam sees."""

    by_row = False  # whether each row fills its own slots

    def __init__(self, sources: int, capacity: int, device: torch.device) -> None:
        self.capacity = capacity  # positions; each takes one slot per beam
        self.slots, self.taken, self.beams = capacity, 0, 1
        self.seen = torch.zeros(sources, 1, capacity, dtype=torch.bool, device=device)
        self.positions = torch.zeros(sources, capacity, dtype=torch.long, device=device)
        self.counts = torch.zeros(sources, 1, dtype=torch.long, device=device)  # real tokens so far
        self.full = True  # no padding so far
        self.own = torch.zeros(0, 0, dtype=torch.bool)  # which of the newest slots a beam sees

    @property
    def everything_seen(self) -> bool:
        """Whether every row sees every slot in use, so that no mask is needed."""
        return self.beams == 1 and self.full

    @property
    def extent(self) -> int:
        """The number of slots that attention reads."""
        return self.taken

    def take(self, count: int) -> Tensor:
        """Reserve the next `count` slots; return their indices (count,)."""
        if self.taken + count > self.slots:
            room, taken = self.slots // self.beams, self.taken // self.beams
            raise InputError(
                f"the state has room for {room} positions, of which {taken} are in use, but "
                f"{count // self.beams} more were given; start with a larger capacity"
            )
        self.taken += count
        return torch.arange(self.taken - count, self.taken, device=self.seen.device)

    def advance(self, tokens: Tensor, mask: Tensor | None) -> Slots:
        """Reserve slots for new tokens (rows, queries), and return them. mask: True at real
        tokens."""
        queries, beams, device = tokens.shape[1], self.beams, self.seen.device
        block = self.take(queries * beams)
        # Of the new slots, a beam sees its own, except padding. The slots of the beams alternate.
        own = torch.eye(beams, dtype=torch.bool, device=device)[:, None]  # (beams, 1, beams)
        if mask is None:
            new = own.expand(self.seen.shape[0], beams, queries, beams)
            places = self.counts[..., None] + torch.arange(queries, device=device)
            counted: int | Tensor = queries
        else:
            self.full = False
            mask = mask.unflatten(0, (-1, beams))  # (sources, beams, queries)
            new = mask[..., None] & own
            places = self.counts[..., None] + (mask.cumsum(dim=2) - 1).clamp(min=0)
            counted = mask.sum(dim=2)
        self.seen.index_copy_(2, block, new.flatten(2))
        self.positions.index_copy_(1, block, places.transpose(1, 2).flatten(1))
        self.counts += counted
        index = block.unflatten(0, (queries, beams)).T.flatten()  # by beam, then by query
        return Slots(index, self.extent)

    def advance_one(self) -> Tensor:
        """`advance` for one token per row, without padding; returns the slots (beams,)."""
        if self.own.shape[0] != self.beams:
            self.own = torch.eye(self.beams, dtype=torch.bool, device=self.seen.device)
        index = self.take(self.beams)
        self.seen.index_copy_(2, index, self.own.expand(self.seen.shape[0], -1, -1))
        self.positions.index_copy_(1, index, self.counts)
        self.counts += 1
        return index

    def reserve(self, positions: int) -> None:
        """Make room for this many more positions."""
        self.slots = self.taken + positions * self.beams
        self.capacity = max(self.capacity, self.taken // self.beams + positions)
        self.seen = _resized(self.seen, 2, self.slots)
        self.positions = _resized(self.positions, 1, self.slots)

    def expand(self, beams: int) -> None:
        """Split every source into several beams, all of which see the slots so far."""
        more = (self.slots - self.taken) * beams - (self.slots - self.taken)
        self.slots, self.beams = self.slots + more, beams
        self.seen = F.pad(self.seen, (0, more)).repeat(1, beams, 1)
        self.positions = F.pad(self.positions, (0, more))
        self.counts = self.counts.repeat(1, beams)

    def follow(self, parents: Tensor) -> None:
        self.seen.copy_(self.seen.gather(1, parents[..., None].expand_as(self.seen)))
        self.counts.copy_(self.counts.gather(1, parents))

    def trim(self, length: int) -> None:
        """Drop all slots from `length` on."""
        if self.beams > 1:
            raise InputError(
                "a state with several beams cannot be trimmed; copy() the state before the step"
            )
        if not 0 <= length <= self.taken:
            raise InputError(
                f"a state cannot be trimmed to {length} positions, since it has {self.taken}; use "
                f"0 to {self.taken}"
            )
        self.taken = length
        self.seen[:, :, length:] = False
        self.counts = self.seen.sum(dim=2)

    def select(self, sources: Tensor) -> None:
        self.seen, self.positions = self.seen[sources], self.positions[sources]
        self.counts = self.counts[sources]

    def join(self, other: "Timeline") -> None:
        """Append the sources of another timeline. Both keep their slots, and the one with fewer
        slots in use does not see the others."""
        self.full = self.full and other.full and self.taken == other.taken
        unused = max(self.slots - self.taken, other.slots - other.taken)
        self.taken = max(self.taken, other.taken)
        self.slots = self.taken + unused
        self.capacity = max(self.capacity, other.capacity)
        self.seen, self.positions = (
            torch.cat([_resized(part, -1, self.slots) for part in parts])
            for parts in ((self.seen, other.seen), (self.positions, other.positions))
        )
        self.counts = torch.cat([self.counts, other.counts])

    def compact(self) -> Tensor | None:
        """Drop slots that no beam of their source sees, if these are more than half of all slots in
        use. Returns the slots that each source keeps (sources, count), or None."""
        used = self.seen[:, :, : self.taken].any(dim=1)
        counts = used.sum(dim=1)
        most = int(counts.max())
        if 2 * most >= self.taken:
            return None
        kept = used.to(torch.int8).sort(dim=1, descending=True, stable=True).indices[:, :most]
        self.slots += most - self.taken
        self.taken = most
        self.full = bool((counts == most).all())
        seen = self.seen.gather(2, kept[:, None].expand(-1, self.beams, -1))
        self.seen = _resized(seen, 2, self.slots)
        self.positions = _resized(self.positions.gather(1, kept), 1, self.slots)
        return kept

    def copy(self) -> "Timeline":
        twin = copy(self)
        twin.seen, twin.positions = self.seen.clone(), self.positions.clone()
        twin.counts = self.counts.clone()
        return twin


@dataclass(frozen=True)
class EncoderOutput:
    """An encoder's output, projected for the decoder. It has one row per source, and the beams of a
    source share this row."""

    projected: Sequence[tuple[Tensor, Tensor]] = ()  # keys and values, by layer
    mask: Tensor | None = None  # (sources, keys), True at real tokens
    initial: RecurrentState | None = None  # initial state of a recurrent decoder

    def select(self, sources: Tensor) -> "EncoderOutput":
        return replace(
            self,
            projected=[(keys[sources], values[sources]) for keys, values in self.projected],
            mask=None if self.mask is None else self.mask[sources],
        )

    def join(self, other: "EncoderOutput") -> "EncoderOutput":
        """The sources of both, with padding after the shorter ones. Without `initial`, which only
        a new state uses."""
        if not self.projected:
            return EncoderOutput()
        lengths = [one.projected[0][0].shape[-2] for one in (self, other)]
        most = max(lengths)
        mask = None
        if self.mask is not None or other.mask is not None or lengths[0] != lengths[1]:
            mask = torch.cat([_resized(one._whole_mask(), 1, most) for one in (self, other)])
        layers = zip(self.projected, other.projected, strict=True)
        projected = [
            (
                torch.cat([_resized(part[0], -2, most) for part in layer]),
                torch.cat([_resized(part[1], -2, most) for part in layer]),
            )
            for layer in layers
        ]
        return EncoderOutput(projected, mask)

    def _whole_mask(self) -> Tensor:
        """The mask, also if there is no padding."""
        if self.mask is not None:
            return self.mask
        keys = self.projected[0][0]
        return torch.ones(keys.shape[0], keys.shape[-2], dtype=torch.bool, device=keys.device)


@dataclass
class DecoderState:
    """The whole state of a decoder: the caches or recurrent states of its layers, the slots, and
    the encoder's output.

    `length` counts the positions so far, including padding.
    """

    layers: Sequence[KVCache | RecurrentState]
    length: int = 0
    timeline: Timeline | None = None  # None for a recurrent decoder, which needs no slots
    encoder_output: EncoderOutput | None = None
    beams: int = 1

    def expand(self, beams: int) -> None:
        """Split every source into `beams` beams, which share the prompt and the source."""
        if self.beams != 1:
            raise InputError(
                f"the state has {self.beams} beams already, so it cannot be split again; start a "
                "new state"
            )
        self.beams = beams
        if self.timeline is not None:
            self.timeline.expand(beams)
        for layer in self.layers:
            if isinstance(layer, KVCache):
                assert self.timeline is not None, "a cache has a timeline"
                layer.grow(self.timeline.slots, self.timeline.taken)
            else:
                rows = torch.arange(layer.hidden.shape[1], device=layer.hidden.device)
                layer.reorder(rows.repeat_interleave(beams))

    def follow(self, parents: Tensor) -> None:
        """Make beam j of source i continue beam parents[i, j] of the same source.

        parents: (sources, beams). Beams never switch to another source, so neither the encoder's
        output nor caches are copied.
        """
        if self.timeline is not None:
            self.timeline.follow(parents)
        sources = torch.arange(parents.shape[0], device=parents.device)[:, None]
        for layer in self.layers:
            if isinstance(layer, RecurrentState):
                layer.reorder((sources * self.beams + parents).flatten())

    def select(self, sources: Tensor) -> None:
        """Replace source i by source sources[i]; sources may be repeated or omitted."""
        if self.timeline is not None:
            self.timeline.select(sources)
        beams = torch.arange(self.beams, device=sources.device)
        for layer in self.layers:
            if isinstance(layer, KVCache):
                layer.select(sources)
            else:
                layer.reorder((sources[:, None] * self.beams + beams).flatten())
        if self.encoder_output is not None:
            self.encoder_output = self.encoder_output.select(sources)

    def join(self, other: "DecoderState") -> None:
        """Append the sources of another state of the same model, with as many beams. It must not be
        used afterwards."""
        if self.beams != other.beams:
            raise InputError(
                f"a state with {self.beams} beams cannot be joined by one with {other.beams}; call "
                "expand first"
            )
        taken = (0, 0)
        if self.timeline is not None and other.timeline is not None:
            taken = (self.timeline.taken, other.timeline.taken)
            self.timeline.join(other.timeline)
        for mine, its in zip(self.layers, other.layers, strict=True):
            if isinstance(mine, KVCache) and isinstance(its, KVCache):
                assert self.timeline is not None, "a cache has a timeline"
                mine.join(its, taken, self.timeline.slots)
            elif isinstance(mine, RecurrentState) and isinstance(its, RecurrentState):
                mine.join(its)
        if self.encoder_output is not None and other.encoder_output is not None:
            self.encoder_output = self.encoder_output.join(other.encoder_output)
        self.length = max(self.length, other.length)

    def reserve(self, positions: int) -> None:
        """Make room for this many more positions."""
        if self.timeline is None:
            return
        self.timeline.reserve(positions)
        for layer in self.layers:
            if isinstance(layer, KVCache):
                layer.grow(self.timeline.slots, self.timeline.taken)

    @property
    def bytes(self) -> int:
        """The memory of the caches, recurrent states and encoder's output."""
        parts: list[Tensor] = []
        for layer in self.layers:
            parts += [layer.keys, layer.values] if isinstance(layer, KVCache) else [layer.hidden]
        if self.encoder_output is not None:
            parts += [part for pair in self.encoder_output.projected for part in pair]
        return sum(part.nbytes for part in parts)

    def compact(self) -> None:
        """Drop slots that no beam sees, if these are more than half of all slots in use. So a state
        that sources join and leave does not grow without limit."""
        if self.timeline is None or (kept := self.timeline.compact()) is None:
            return
        for layer in self.layers:
            if isinstance(layer, KVCache):
                layer.keep(kept, self.timeline.slots)
        self.length = self.timeline.taken // self.beams

    def reorder(self, rows: Tensor) -> None:
        """Replace row i by row rows[i]; rows may be repeated or omitted. With several beams, all
        rows that replace the beams of one source must be beams of one source."""
        self.select(rows[:: self.beams] // self.beams)
        if self.beams > 1:
            self.follow((rows % self.beams).unflatten(0, (-1, self.beams)))

    def trim(self, length: int) -> None:
        """Drop every position from `length` on."""
        if self.timeline is None:
            raise InputError(
                "a recurrent state cannot be rewound; copy() it before the step instead"
            )
        self.timeline.trim(length)
        self.length = length

    def copy(self) -> "DecoderState":
        """An independent copy; the encoder's output, which never changes, is shared."""
        timeline = None if self.timeline is None else self.timeline.copy()
        return replace(self, layers=[layer.copy() for layer in self.layers], timeline=timeline)


def _resized(part: Tensor, dim: int, size: int) -> Tensor:
    """Append zeros to a dimension, or drop its end."""
    more = size - part.shape[dim]
    if more <= 0:
        return part.narrow(dim, 0, size)
    shape = list(part.shape)
    shape[dim] = more
    return torch.cat([part, part.new_zeros(shape)], dim=dim)
