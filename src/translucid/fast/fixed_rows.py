"""The rows of a running batch at fixed addresses, whose steps CUDA graphs replay.

Each row has its own slots: token i of its text is in slot i. So a text can take over a row at any
time, without copying the others. A row without a text takes steps too, but nothing reads them. The
plain counterpart is a state of `parts.cache`, which texts join and leave with `join` and `select`.
"""

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.device import staged
from translucid.fast.decode_graphs import capture
from translucid.fast.decode_step import DecodeStep
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel
from translucid.parts.cache import DecoderState, KVCache, Timeline

LEAST_LENGTH = 16  # of prefixes that a graph reads


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
        rows += 1  # a spare one, for texts that fill up a group
        self.newest = torch.zeros(rows, 1, dtype=torch.long, device=model.device)
        self.inputs: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
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
        """Let texts take over rows, each of which may be named once. state: after all their tokens
        but the newest, with one beam. newest: (texts,)."""
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

    def read(self, rows: Sequence[int], prefix: Tensor) -> None:
        """Let texts take over rows, after the model has read their prefixes but the last tokens.
        prefix: (texts, length), on the CPU, left-padded with -1."""
        texts, length = prefix.shape
        columns = power_of_two(length, LEAST_LENGTH)
        shape = (power_of_two(texts), min(columns, self.model.max_length or columns))
        device = self.model.device
        if shape not in self.inputs:
            self.inputs[shape] = (
                torch.zeros(shape[0], dtype=torch.long, device=device),
                torch.zeros(shape, dtype=torch.long, device=device),
            )
        at, inputs = self.inputs[shape]
        spare = [len(self.newest) - 1] * (shape[0] - texts)
        padded = F.pad(prefix, (shape[1] - length, 0, 0, shape[0] - texts), value=-1)
        padded[texts:, -1] = 0
        for part, values in ((at, torch.tensor([*rows, *spare])), (inputs, padded)):
            part.copy_(staged(values, device), non_blocking=True)

        def act() -> None:
            past = inputs[:, :-1]
            state = self.model.start(GenerationInputs(shape[0]), past.shape[1])
            self.model.step(past.clamp(min=0), state, past >= 0)
            self.join(at, state, inputs[:, -1])

        self._replay(("read", shape), act, [self.newest, self._timeline.counts])

    def steps(
        self,
        rows: int,
        count: int,
        kind: Hashable,
        choose: Callable[[Tensor, int], None],
        moving: Sequence[Tensor] = (),
    ) -> None:
        """Take `count` steps of the first rows. choose: gets their logits and the number of the
        step, and writes `newest`; the graph of this `kind` contains it. moving: tensors that it
        changes, besides `newest`."""

        def act() -> None:
            for number in range(count):
                choose(self.lean.step(self.newest[:rows], self._first(rows))[:, -1], number)

        self._replay((rows, count, kind), act, [self.newest, self._timeline.counts, *moving])

    def _replay(self, name: Hashable, act: Callable[[], None], moving: Sequence[Tensor]) -> None:
        if self.model.device.type != "cuda":
            return act()
        if name not in self.graphs:
            self.graphs[name] = capture(act, moving)
        self.graphs[name].replay()

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


def power_of_two(size: int, least: int = 1) -> int:
    """The smallest of least, 2 least, 4 least ... that is not below size."""
    while least < size:
        least *= 2
    return least
