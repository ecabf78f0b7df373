"""The rows of a running batch at fixed addresses, whose steps CUDA graphs replay.

Each row has its own slots: token i of its text is in slot i. So a text can take over a row at any
time, without copying the others. A row without a text takes steps too, but nothing reads them. The
plain counterpart is a state of `parts.cache`, which texts join and leave with `join` and `select`.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
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


@dataclass
class Past:
    """What a model has read of some texts, without padding. caches: (keys and values of all layers,
    texts, heads, slots, d_head). counts: tokens of each text, (texts, 1)."""

    caches: Tensor
    counts: Tensor

    @classmethod
    def of(cls, state: DecoderState) -> "Past":
        """state: with one beam."""
        timeline = state.timeline
        assert timeline is not None
        assert timeline.beams == 1
        parts = (part for layer in _caches(state) for part in (layer.keys, layer.values))
        caches = torch.stack([part[:, :, : timeline.taken] for part in parts])
        if not timeline.full:  # move padding to the end, where no row sees it
            used = timeline.seen[:, 0, : timeline.taken]
            kept = used.to(torch.int8).sort(dim=1, descending=True, stable=True).indices
            caches = caches.gather(3, kept[None, :, None, :, None].expand_as(caches))
        return cls(caches, timeline.counts)


@dataclass
class Prefixes:
    """The tensors with which graphs read prefixes of one shape."""

    inputs: Tensor
    rows: Tensor  # part of the inputs: (texts,)
    tokens: Tensor  # part of the inputs: left-padded with -1, (texts, length)
    past: Past | None = None
    free: "torch.cuda.Event | None" = None  # after which the tensors may change


class FixedRows:
    """Rows of a decoder-only Transformer. newest: the tokens that it reads next, (rows, 1)."""

    def __init__(self, model: DecoderModel, rows: int, slots: int) -> None:
        self.model, self.lean = model, DecodeStep(model)
        rows += 1  # a spare one, for texts that fill up a group
        self.newest = torch.zeros(rows, 1, dtype=torch.long, device=model.device)
        self.prefixes: dict[tuple[int, int], Prefixes] = {}  # by shape
        self.graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self.aside = torch.cuda.Stream() if model.device.type == "cuda" else None
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
        if self.aside is not None:  # no graph may be running
            torch.cuda.synchronize()
        caches, timeline = self.caches, self._timeline
        self.graphs.clear()
        self.prefixes.clear()
        self.state = self._state(len(self.newest), slots)
        self.caches[:, :, :, : caches.shape[3]] = caches
        self._timeline.counts.copy_(timeline.counts)

    def join(self, rows: Tensor, state: DecoderState, newest: Tensor) -> None:
        """Let texts take over rows, each of which may be named once. state: after all their tokens
        but the newest, with one beam. newest: (texts,)."""
        self._join(rows, Past.of(state), newest)

    def _join(self, rows: Tensor, past: "Past", newest: Tensor) -> None:
        length = past.caches.shape[3]
        self.caches[:, :, :, :length].index_copy_(1, rows, past.caches)
        self._timeline.counts.index_copy_(0, rows, past.counts)
        self.newest.index_copy_(0, rows, newest[:, None])

    def read(self, rows: Sequence[int], prefixes: Sequence[Sequence[int]]) -> None:
        """Let texts take over rows, after the model has read their prefixes but the last tokens. On
        a GPU, they are read beside the steps that are still running."""
        columns = power_of_two(max(map(len, prefixes)), LEAST_LENGTH)
        shape = (power_of_two(len(rows)), min(columns, self.model.max_length or columns))
        if shape not in self.prefixes:
            size = (shape[0], 1 + shape[1])
            inputs = torch.empty(size, dtype=torch.long, device=self.model.device)
            self.prefixes[shape] = Prefixes(inputs, inputs[:, 0], inputs[:, 1:])
            self._release(self.prefixes[shape])  # steps may still use the memory of `inputs`
        held = self.prefixes[shape]
        values = [
            [row, *[-1] * (shape[1] - len(prefix)), *prefix]
            for row, prefix in zip(rows, prefixes, strict=True)
        ]
        spare = [len(self.newest) - 1, *[-1] * (shape[1] - 1), 0]
        given = torch.tensor(values + [spare] * (shape[0] - len(rows)))

        def read() -> None:
            tokens = held.tokens[:, :-1]
            state = self.model.start(GenerationInputs(shape[0]), tokens.shape[1])
            self.model.step(tokens.clamp(min=0), state, tokens >= 0)
            held.past = Past.of(state)

        def join() -> None:
            assert held.past is not None
            self._join(held.rows, held.past, held.tokens[:, -1])

        with self._beside(held):
            held.inputs.copy_(staged(given, self.model.device), non_blocking=True)
            self._replay(("read", shape), read, [], self.aside)
        self._replay(("join", shape), join, [self.newest, self._timeline.counts])
        self._release(held)

    def _release(self, held: "Prefixes") -> None:
        """Let the tensors change after all that the GPU was given before."""
        if self.aside is not None:
            held.free = torch.cuda.Event()
            held.free.record()

    @contextmanager
    def _beside(self, held: "Prefixes") -> Iterator[None]:
        """Let the GPU do this beside what it was given before, but after the tensors are free. What
        follows the block waits for it."""
        if self.aside is None:
            yield
            return
        with torch.cuda.stream(self.aside):
            if held.free is not None:
                self.aside.wait_event(held.free)
            yield
        torch.cuda.current_stream().wait_stream(self.aside)

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

    def _replay(
        self,
        name: Hashable,
        act: Callable[[], None],
        moving: Sequence[Tensor],
        stream: "torch.cuda.Stream | None" = None,
    ) -> None:
        if self.aside is None:
            return act()
        if name not in self.graphs:
            self.graphs[name] = capture(act, moving, stream)
        self.graphs[name].replay()

    def _state(self, rows: int, slots: int) -> DecoderState:
        """A state whose caches are parts of `caches`, so that one copy changes all layers."""
        state = self.model.decoder.start(rows, 0)
        caches = _caches(state)
        _, heads, _, d_head = caches[0].keys.shape
        shape = (2 * len(caches), rows, heads, slots, d_head)
        self.caches = caches[0].keys.new_zeros(shape)
        for number, layer in enumerate(caches):
            layer.keys, layer.values = self.caches[2 * number], self.caches[2 * number + 1]
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
