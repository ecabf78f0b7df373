"""The rows of a running batch at fixed addresses, whose steps CUDA graphs replay.

Each row has its own slots: token i of its text is in slot i. So a text can take over a row at any
time, without copying the others. A row without a text takes steps too, but nothing reads them. The
plain counterpart is a state of `parts.cache`, which texts join and leave with `join` and `select`.
"""

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from translucid.fast.decode_graphs import capture
from translucid.fast.decode_step import DecodeStep
from translucid.models.base import DecoderModel
from translucid.parts.cache import DecoderState, KVCache, Timeline


class RowTimeline(Timeline):
    """A timeline in which each row fills its own slots, without padding."""

    by_row = True

    def __init__(self, rows: int, slots: int, device: torch.device) -> None:
        super().__init__(rows, 0, device)
        self.capacity = self.slots = self.taken = slots
        self.every = torch.arange(slots, device=device)
        self.full = False

    @property
    def seen(self) -> Tensor:
        """The slots in use, (rows, 1, slots)."""
        return self.every < self.counts[..., None]

    @seen.setter
    def seen(self, value: Tensor) -> None:
        """Ignored, since the counts determine it."""

    def advance_one(self) -> Tensor:
        """Reserve a slot per row, and return them: (rows, 1). At the end, a row without a text
        stays in its last slot."""
        index = self.counts.clone()
        self.counts.copy_((self.counts + 1).clamp(max=self.slots - 1))
        return index

    def first(self, rows: int) -> "RowTimeline":
        """The first rows, in the same memory."""
        view = copy(self)
        view.counts = self.counts[:rows]
        return view


class FixedRows:
    """Rows of a decoder-only Transformer. newest: the tokens that it reads next, (rows, 1)."""

    def __init__(self, model: DecoderModel, rows: int, slots: int) -> None:
        self.model, self.lean = model, DecodeStep(model)
        self.newest = torch.zeros(rows, 1, dtype=torch.long, device=model.device)
        self.graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self.state = self._state(rows, slots)

    @staticmethod
    def fits(model: object) -> bool:
        """Whether this model can have such rows, on its device."""
        return isinstance(model, DecoderModel) and model.device.type == "cuda" and (
            DecodeStep.fits(model)
        )  # fmt: skip

    @property
    def slots(self) -> int:
        return self._timeline.slots

    @property
    def _timeline(self) -> RowTimeline:
        assert isinstance(self.state.timeline, RowTimeline)
        return self.state.timeline

    def grow(self, slots: int) -> None:
        """Provide at least this many slots for each row."""
        if slots <= self.slots:
            return
        old = self.state
        self.graphs.clear()
        self.state = self._state(len(self.newest), slots)
        for mine, its in zip(_caches(self.state), _caches(old), strict=True):
            mine.keys[:, :, : its.keys.shape[2]] = its.keys
            mine.values[:, :, : its.keys.shape[2]] = its.values
        assert old.timeline is not None
        self._timeline.counts.copy_(old.timeline.counts)

    def join(self, rows: Tensor, state: DecoderState, newest: Tensor) -> None:
        """Let texts take over rows. state: after all their tokens but the newest, with one beam.
        newest: (texts,)."""
        timeline = state.timeline
        assert timeline is not None
        assert timeline.beams == 1
        used = timeline.seen[:, 0, : timeline.taken]
        if not timeline.full:  # move padding to the end, where no row sees it
            kept = used.to(torch.int8).sort(dim=1, descending=True, stable=True).indices
        for mine, its in zip(_caches(self.state), _caches(state), strict=True):
            for own, other in ((mine.keys, its.keys), (mine.values, its.values)):
                part = other[:, :, : timeline.taken]
                if not timeline.full:
                    part = part.gather(2, kept[:, None, :, None].expand_as(part))
                own[rows, :, : timeline.taken] = part
        self._timeline.counts[rows] = timeline.counts
        self.newest[rows] = newest[:, None]

    def step(
        self,
        rows: int,
        kind: Hashable,
        choose: Callable[[Tensor], None],
        moving: Sequence[Tensor] = (),
    ) -> None:
        """Take a step of the first rows. choose: gets their logits and writes `newest`; the graph
        of this `kind` contains it. moving: tensors that it changes, besides `newest`."""

        def act() -> None:
            choose(self.lean.step(self.newest[:rows], self._first(rows))[:, -1])

        if self.model.device.type != "cuda":
            return act()
        if (rows, kind) not in self.graphs:
            self.graphs[rows, kind] = capture(act, [self.newest, self._timeline.counts, *moving])
        self.graphs[rows, kind].replay()

    def _state(self, rows: int, slots: int) -> DecoderState:
        state = self.model.decoder.start(rows, slots)
        state.timeline = RowTimeline(rows, slots, self.model.device)
        return state

    def _first(self, rows: int) -> DecoderState:
        """The state of the first rows, in the same memory."""
        state = copy(self.state)
        layers: list[Any] = []
        for layer in _caches(self.state):
            view = copy(layer)
            view.keys, view.values = layer.keys[:rows], layer.values[:rows]
            layers.append(view)
        state.layers, state.timeline = layers, self._timeline.first(rows)
        return state


def _caches(state: DecoderState) -> list[KVCache]:
    return [layer for layer in state.layers if isinstance(layer, KVCache)]
