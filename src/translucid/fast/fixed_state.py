"""A decoder state for CUDA graphs, with fixed tensors and shapes.

The plain counterpart is the state of `parts.cache`. Here, the index of the next slot is a tensor,
which the graph itself increments, and every step reads the same number of slots.
"""

from dataclasses import replace

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.parts.cache import DecoderState, KVCache, Timeline


class FixedTimeline(Timeline):
    """A timeline whose tensors keep their addresses. `taken` counts the slots that Python has
    reserved, `cursor` (a tensor) those that the graph has used."""

    def __init__(self, sources: int, capacity: int, device: torch.device) -> None:
        super().__init__(sources, capacity, device)
        self.cursor = torch.zeros((), dtype=torch.long, device=device)
        self.read = capacity  # slots that a step reads
        self.offsets = torch.zeros(0, dtype=torch.long, device=device)

    @property
    def everything_seen(self) -> bool:
        """Always False, since there are unused slots after those in use."""
        return False

    @property
    def extent(self) -> int:
        return self.read

    def take(self, count: int) -> Tensor:
        if len(self.offsets) != count:  # once, not in every replay
            self.offsets = torch.arange(count, device=self.cursor.device)
        block = self.cursor + self.offsets
        self.cursor += count
        self.taken += count
        return block

    def expand(self, beams: int) -> None:
        super().expand(beams)
        self.read = self.slots

    def restart(self, other: Timeline) -> None:
        """Copy the contents of another timeline, which has one beam, into the tensors of this
        one."""
        taken = other.taken
        self.seen.zero_()
        self.seen[:, :, :taken] = other.seen[:, :, :taken]
        self.positions[:, :taken] = other.positions[:, :taken]
        self.counts.copy_(other.counts.expand_as(self.counts))
        self.cursor.fill_(taken)
        self.taken, self.full = taken, other.full

    def trim(self, length: int) -> None:
        super().trim(length)
        self.cursor.fill_(length)

    def join(self, other: Timeline) -> None:
        raise InputError("a state with fixed shapes has no room for more sources; start a new one")

    def compact(self) -> None:
        """Keep all slots, since the shapes are fixed."""

    def copy(self) -> "FixedTimeline":
        twin = super().copy()
        assert isinstance(twin, FixedTimeline)
        twin.cursor = self.cursor.clone()
        return twin


def with_fixed_timeline(state: DecoderState) -> DecoderState:
    """Replace the timeline of a new state by one with fixed shapes. The state of a recurrent
    decoder has fixed shapes already."""
    if state.timeline is None:
        return state
    seen = state.timeline.seen
    return replace(state, timeline=FixedTimeline(seen.shape[0], state.timeline.slots, seen.device))


def restart(state: DecoderState, other: DecoderState) -> None:
    """Copy `other`, the state of a model with one beam, into the tensors of `state`."""
    assert isinstance(state.timeline, FixedTimeline), "not a state in fixed shapes"
    assert other.timeline is not None, "the other state is of a different kind of model"
    taken = other.timeline.taken
    for mine, its in zip(state.layers, other.layers, strict=True):
        if isinstance(mine, KVCache) and isinstance(its, KVCache):
            mine.keys[:, :, :taken] = its.keys[:, :, :taken]
            mine.values[:, :, :taken] = its.values[:, :, :taken]
    state.timeline.restart(other.timeline)
    if state.encoder_output is not None and other.encoder_output is not None:
        for (keys, values), (new_keys, new_values) in zip(
            state.encoder_output.projected, other.encoder_output.projected, strict=True
        ):
            keys.copy_(new_keys)
            values.copy_(new_values)
        if state.encoder_output.mask is not None and other.encoder_output.mask is not None:
            state.encoder_output.mask.copy_(other.encoder_output.mask)
    state.length = other.length
