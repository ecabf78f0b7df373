"""Search on a GPU: a round is captured once as a graph and replayed, so that Python and the launch
of kernels cost nothing.

All shapes are fixed: batches are filled up to a bucket of sizes, sentences that are settled stay in
their places and are frozen, and the host looks only every few rounds whether all are settled. It is
the search of `search.py` and finds the same texts; for rules that look at the tokens written so
far, use that one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.decoding.beam import Beams, choose, settled
from translucid.decoding.search import Hypothesis, Search, harvest
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.models.lean_step import lean_step
from translucid.models.transformer import TransformerDecoder
from translucid.parts import plain_kernels
from translucid.parts.cache import DecoderState

LOOK = 8  # rounds between two looks whether all are settled
PARTS = 4  # graphs that read a quarter, a half, three quarters or all of the slots
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

Model = EncoderDecoderModel | DecoderModel


@dataclass(frozen=True)
class Sources:
    """What an encoder-decoder reads: ids (sources, length), and where they are real."""

    ids: Tensor
    real: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        if self.real is None:
            return torch.full_like(self.ids[:, 0], self.ids.shape[1])
        return self.real.sum(dim=1)


@dataclass(frozen=True)
class Shape:
    """What a graph is made for."""

    sources: int
    source_length: int  # 0: none is read
    prompt: int  # tokens that are read before the first round, less the last
    steps: int
    how: Search


class Rounds:
    """The tensors of a running search, and one round on them."""

    def __init__(self, model: Model, state: DecoderState, shape: Shape, eos: int, pad: int) -> None:
        self.model, self.state, self.shape = model, state, shape
        self.eos, self.pad = eos, pad
        self.lean = lean_step(model) if model.device.type == "cuda" else None
        device, rows = model.device, (shape.sources, shape.how.beams)
        self.tokens = torch.zeros(*rows, shape.steps, dtype=torch.long, device=device)
        self.gains = torch.zeros(*rows, shape.steps, device=device)
        self.scores = torch.zeros(rows, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.finished = torch.zeros(rows, dtype=torch.bool, device=device)
        self.newest = torch.zeros(rows[0] * rows[1], 1, dtype=torch.long, device=device)
        self.number = torch.zeros((), dtype=torch.long, device=device)  # of the round
        self.least = torch.zeros(shape.sources, dtype=torch.long, device=device)
        self.most = torch.zeros(shape.sources, dtype=torch.long, device=device)
        self.done = torch.zeros(shape.sources, dtype=torch.bool, device=device)

    def restart(self, state: DecoderState, newest: Tensor, least: Tensor, most: Tensor) -> None:
        """Begin anew. newest: (sources,), the last token of each prefix."""
        self.state.restart(state)
        if self.lean is not None:
            self.lean.refresh()
        self.scores.fill_(-torch.inf)
        self.scores[:, 0] = 0.0
        for part in (self.tokens, self.gains, self.lengths, self.finished, self.number):
            part.zero_()
        self.newest.copy_(newest.repeat_interleave(self.shape.how.beams)[:, None])
        self.least.copy_(least)
        self.most.copy_(most)
        self.done.copy_(most <= 0)

    @torch.no_grad()
    def round(self) -> None:
        """One token more; nothing here waits for the GPU."""
        beams = self.shape.how.beams
        early = (self.number < self.least).repeat_interleave(beams)  # an end would come too soon
        stepper = self.model if self.lean is None else self.lean
        kernels = plain_kernels if self.lean is None else self.lean.kernels
        logits = stepper.step(self.newest, self.state)[:, -1]  # (rows, vocab)
        width = min(beams, logits.shape[1])
        best, tokens, normaliser = kernels.top_and_normaliser(logits, width, self.eos, early)
        gains = (best - normaliser).unflatten(0, (-1, beams))
        live = ~(self.finished | self.done[:, None])
        chosen = choose(self.scores, live, gains, tokens.unflatten(0, (-1, beams)), pad=self.pad)
        self._keep(self.tokens, chosen.parents, chosen.tokens)
        self._keep(self.gains, chosen.parents, chosen.gains)
        self.scores.copy_(chosen.scores)
        self.lengths.copy_(self.lengths.gather(1, chosen.parents) + live)
        self.finished |= live & (chosen.tokens == self.eos) & (chosen.scores > -torch.inf)
        self.number += 1
        how = self.shape.how
        self.done |= settled(self.beams, self.most, best=how.best, alpha=how.alpha)
        self.done |= self.number >= self.most
        if beams > 1:
            self.state.follow(chosen.parents)
        self.newest.copy_(chosen.tokens.reshape(-1, 1))

    @property
    def beams(self) -> Beams:
        return Beams(self.tokens, self.gains, self.scores, self.lengths, self.finished)

    def _keep(self, past: Tensor, parents: Tensor, newest: Tensor) -> None:
        """Each place goes on from its parent's past, with the newest at the number of the round."""
        if self.shape.how.beams > 1:
            past.copy_(past.gather(1, parents[..., None].expand_as(past)))
        index = self.number.clamp(max=past.shape[2] - 1)
        past.index_copy_(2, index[None], newest[..., None])


@dataclass
class Graphs:
    """A search of one shape, with its graphs: which reads how many slots."""

    rounds: Rounds
    by_extent: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)

    def replay(self, taken: int) -> None:
        """One round, when so many slots are taken before it."""
        timeline = self.rounds.state.timeline
        assert timeline is not None
        if timeline.cursor.device.type != "cuda":  # there are no graphs: the rounds as they are
            return self.rounds.round()
        extent = timeline.slots
        if self.rounds.lean is None:  # its kernels read what is in use, and no more
            needed = taken + self.rounds.shape.how.beams
            part = -(-timeline.slots // (PARTS * 8)) * 8
            extent = min(timeline.slots, -(-needed // part) * part)
        if extent not in self.by_extent:
            self.by_extent[extent] = self._capture(extent)
        self.by_extent[extent].replay()

    def _capture(self, extent: int) -> torch.cuda.CUDAGraph:
        """Capturing runs nothing, but a first run on the side, which loads kernels, does: the
        state is put back after it."""
        rounds, timeline = self.rounds, self.rounds.state.timeline
        assert timeline is not None
        timeline.read = extent
        kept = [part.clone() for part in self._moving()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            rounds.round()
        torch.cuda.current_stream().wait_stream(side)
        for part, before in zip(self._moving(), kept, strict=True):
            part.copy_(before)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            rounds.round()
        return graph

    def _moving(self) -> list[Tensor]:
        """Everything that a round changes, but for the caches, where it writes the same again."""
        r, timeline = self.rounds, self.rounds.state.timeline
        assert timeline is not None
        mine = [r.tokens, r.gains, r.scores, r.lengths, r.finished, r.newest, r.number, r.done]
        return [*mine, timeline.seen, timeline.positions, timeline.counts, timeline.cursor]


class CapturedSearch:
    """Searches of a model on a GPU; graphs are kept for the shapes that come again."""

    def __init__(self, model: Model, *, eos: int, pad: int) -> None:
        self.model, self.eos, self.pad = model, eos, pad
        self._graphs: dict[Shape, Graphs] = {}

    @staticmethod
    def fits(model: object, how: Search, extra: Sequence[object]) -> bool:
        """Whether this search can be captured."""
        return (
            isinstance(model, Model)
            and model.device.type == "cuda"
            and isinstance(model.decoder, TransformerDecoder)
            and not extra
            and not how.no_repeat
            and how.repetition == 1
            and how.groups == 1
        )

    @torch.no_grad()
    def __call__(
        self,
        prefix: Tensor,
        sources: Sources | None,
        least: Tensor,
        most: Tensor,
        how: Search,
    ) -> list[list[Hypothesis]]:
        """The best texts for each source; prefix: (sources, length), -1 in front of short ones."""
        count = prefix.shape[0]
        rows = next((size for size in ROWS if size >= count), count)
        prefix, least, most = (_fill(part, rows) for part in (prefix, least, most))
        most[count:] = 0  # what fills the bucket up is settled from the start
        steps = -(-int(most.max()) // 16) * 16
        if self.model.longest is not None:
            steps = min(steps, self.model.longest - prefix.shape[1])
        given: tuple[Tensor | int | None, ...] = (rows,)
        length = 0
        if sources is not None:
            ids, real = sources.ids, sources.real
            length = -(-ids.shape[1] // 16) * 16
            if real is None:
                real = torch.ones_like(ids, dtype=torch.bool)
            more = (0, length - ids.shape[1])
            given = (_fill(F.pad(ids, more), rows), _fill(F.pad(real, more), rows))
        past, newest = prefix[:, :-1], prefix[:, -1]
        fresh = self.model.start(*given, capacity=max(past.shape[1], 1))  # type: ignore[arg-type]
        if past.shape[1]:
            real = past >= 0
            self.model.step(past.clamp(min=0), fresh, real)
        shape = Shape(rows, length, past.shape[1], steps, how)
        graphs = self._graphs.get(shape)
        if graphs is None:
            graphs = self._graphs[shape] = self._prepare(fresh, shape)
        rounds = graphs.rounds
        rounds.restart(fresh, newest, least, most)
        taken = past.shape[1]
        for number in range(1, int(most.max()) + 1):
            graphs.replay(taken)
            taken += how.beams
            if number % LOOK == 0 and bool(rounds.done.all()):
                break
        return harvest(rounds.beams, how, 0)[:count]

    def _prepare(self, fresh: DecoderState, shape: Shape) -> Graphs:
        """The tensors that the graphs of this shape work on."""
        memory = fresh.memory
        if memory is not None:
            memory = memory.select(torch.arange(shape.sources, device=self.model.device))
        state = self.model.decoder.start(
            shape.sources, shape.prompt + shape.steps, memory, fixed=True
        )
        # One beam has read the prompt; the beams share it.
        assert state.timeline is not None
        state.timeline.taken = shape.prompt
        state.expand(shape.how.beams)
        return Graphs(Rounds(self.model, state, shape, self.eos, self.pad))


def _fill(part: Tensor, rows: int) -> Tensor:
    """Copies of the last row up to this many."""
    return torch.cat([part, part[-1:].expand(rows - part.shape[0], *part.shape[1:])])
