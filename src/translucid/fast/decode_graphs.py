"""Search on a GPU with CUDA graphs. One graph reads the sources, others run a round of the search.
They are captured once and then replayed, which saves the time of Python and of kernel launches.

The replayed search is `fixed_search`. Only every few rounds, the CPU checks whether it is done.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.fixed_search import (
    Model,
    PlainRound,
    Rounds,
    SearchInputs,
    SearchSettings,
    Sequences,
    Shape,
    filled,
)
from translucid.fast.unchanged import Snapshot
from translucid.models.autoregressive import AutoregressiveModel, GenerationInputs
from translucid.models.transformer import TransformerDecoder

LOOK = 8  # rounds between two checks whether the search is done
AHEAD = 2  # rounds that are launched before the result of a check is awaited
PARTS = 4  # graphs that read a quarter, a half, three quarters or all of the slots
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
KEPT = 16  # shapes whose graphs and caches are kept
# One search at a time, because a capture takes the workspaces of cuBLAS away from matrix
# multiplications that run at the same time.
ON_THE_GPU = threading.RLock()


def capture(
    act: Callable[[], None], moving: Sequence[Tensor], stream: "torch.cuda.Stream | None" = None
) -> torch.cuda.CUDAGraph:
    """Capture a graph. A first run on a side stream loads kernels; the tensors that it changed,
    `moving`, then get their values back. stream: of a graph that runs beside others, so that they
    do not share workspaces."""
    kept = [part.clone() for part in moving]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        act()
    torch.cuda.current_stream().wait_stream(side)
    for part, before in zip(moving, kept, strict=True):
        part.copy_(before)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        act()
    return graph


@dataclass
class Graphs:
    """A search of one shape, and the CUDA graphs that run it. Without a GPU, the search runs
    without graphs."""

    rounds: Rounds
    held: dict[str, torch.cuda.CUDAGraph] = field(default_factory=dict)

    def __post_init__(self) -> None:
        on_gpu, count = self.rounds.on_gpu, len(self.rounds.done)
        self.done = torch.zeros(count, dtype=torch.bool, pin_memory=on_gpu)
        self.checked = torch.cuda.Event() if self.rounds.on_gpu else None

    def begin(self, inputs: SearchInputs) -> None:
        self.rounds.inputs.take(inputs)
        if self.rounds.lean is not None:
            self.rounds.lean.refresh()
        self._replay("begin", self.rounds.begin)

    def round(self, number: int) -> None:
        """Run the round with this number, counted from 0."""
        timeline, shape = self.rounds.timeline, self.rounds.shape
        timeline.read = timeline.slots
        if self.rounds.lean is None:  # the kernels of `lean` read only the slots in use
            needed = shape.prefix - 1 + (number + 1) * shape.settings.beams
            part = -(-timeline.slots // (PARTS * 8)) * 8
            timeline.read = min(timeline.slots, -(-needed // part) * part)
        self._replay(f"read {timeline.read}", self.rounds.round)

    def check(self) -> None:
        """Start to copy to the CPU which sources are done. The GPU does not wait for this, and gets
        further rounds meanwhile."""
        self.done.copy_(self.rounds.done, non_blocking=True)
        if self.checked is not None:
            self.checked.record()

    def last_check(self) -> list[bool]:
        if self.checked is not None:
            self.checked.synchronize()
        return self.done.tolist()

    def _replay(self, name: str, act: Callable[[], None]) -> None:
        if not self.rounds.on_gpu:
            return act()
        if name not in self.held:
            self.held[name] = capture(act, self._moving())
        self.held[name].replay()

    def _moving(self) -> list[Tensor]:
        """The tensors that a round changes. Caches are omitted, because a repeated round writes the
        same values to them."""
        r, timeline = self.rounds, self.rounds.timeline
        mine = [r.tokens, r.parents, r.token_log_probs, r.scores, r.lengths, r.finished]
        its = [timeline.seen, timeline.positions, timeline.counts, timeline.cursor]
        return [*mine, r.newest, r.number, r.early, r.done, *its]


@dataclass
class GraphSearch:
    """A search that has begun."""

    graphs: Graphs
    sources: int
    limit: int  # rounds
    number: int = 0  # rounds so far

    @torch.no_grad()
    def advance(self) -> list[bool]:
        """Run a few rounds; return which sources were done `AHEAD` rounds before the last."""
        with ON_THE_GPU:
            last = min(self.number + LOOK, self.limit)
            while self.number < last:
                self.graphs.round(self.number)
                self.number += 1
                if self.number == last - AHEAD:
                    self.graphs.check()
            if self.number == self.limit:
                return [True] * self.sources
            return self.graphs.last_check()[: self.sources]

    def sequences(self) -> Sequences:
        """The texts so far."""
        with ON_THE_GPU:
            parts = self.graphs.rounds.sequences(self.number)
            return Sequences(*(part[: self.sources] for part in parts))


class DecodeGraphs(threading.local):
    """Runs searches of a model on a GPU, and keeps the CUDA graphs of recurring shapes.

    The graphs belong to this object. Each thread and each copy has its own, since a graph has fixed
    tensors.
    """

    def __init__(self) -> None:
        self.network: Snapshot | None = None
        self.graphs: OrderedDict[Shape, Graphs] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodeGraphs, ()

    def fits(self, model: AutoregressiveModel[Any], trace: NoTrace = NO_TRACE) -> bool:
        """Whether a search of this model can be replayed."""
        return (
            trace is NO_TRACE
            and isinstance(model, Model)
            and model.device.type == "cuda"
            and isinstance(model.decoder, TransformerDecoder)
            and self.look_at(model).as_made
        )

    @torch.no_grad()
    def begin(
        self,
        model: Model,
        prefix: Tensor,
        inputs: GenerationInputs,
        least: Tensor,
        most: Tensor,
        settings: SearchSettings,
        plain: PlainRound,
        *,
        room: tuple[int, int] = (1, 1),
    ) -> "GraphSearch":
        """Begin a search with the model that was given to `look_at` or `fits`, after the end of the
        one before. prefix: (sources, length), left-padded with -1. room: sources and steps for
        which the graphs must have room at least."""
        assert self.network is not None
        assert self.network.parts[0] is model
        with ON_THE_GPU:
            count, limit = prefix.shape[0], int(most.max())
            rows = next((size for size in ROWS if size >= max(count, room[0])), count)
            filled_inputs = filled(prefix, inputs, least, most, rows)
            steps = -(-max(limit, room[1]) // 16) * 16
            if model.max_length is not None:
                steps = min(steps, model.max_length - prefix.shape[1])
            length = 0 if filled_inputs.ids is None else filled_inputs.ids.shape[1]
            shape = Shape(rows, length, prefix.shape[1], steps, settings)
            if shape not in self.graphs:
                self.graphs[shape] = Graphs(Rounds(model, shape, filled_inputs.copy(), plain))
                if len(self.graphs) > KEPT:
                    self.graphs.popitem(last=False)
            self.graphs.move_to_end(shape)
            graphs = self.graphs[shape]
            graphs.begin(filled_inputs)
            return GraphSearch(graphs, count, limit)

    def look_at(self, model: Model) -> Snapshot:
        """Return a snapshot of the model. If it is not the model of the stored graphs, or has been
        changed since, the graphs are discarded."""
        if self.network is None or not self.network.holds(model):
            with ON_THE_GPU:
                self.graphs.clear()
            self.network = Snapshot(model)
        return self.network
