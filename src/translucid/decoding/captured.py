"""Search on a GPU: reading the sources, and a round, are captured once as graphs and replayed, so
that Python and the launch of kernels cost nothing.

All shapes are fixed: batches are filled up to a bucket of sizes, sentences that are settled stay in
their places and are frozen, and the host looks only every few rounds whether all are settled. It is
the search of `search.py` and finds the same texts; for rules that look at the tokens written so
far, use that one.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from translucid.parts.positions import shipped

LOOK = 8  # rounds between two looks whether all are settled
PARTS = 4  # graphs that read a quarter, a half, three quarters or all of the slots
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
KEPT = 16  # shapes whose graphs and caches are kept

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
    """What graphs are made for."""

    sources: int
    source_length: int  # 0: none is read
    prefix: int
    steps: int
    how: Search


@dataclass(frozen=True)
class Given:
    """What a search begins with, in the tensors that a graph reads."""

    prefix: Tensor  # (sources, length), -1 in front of short ones
    least: Tensor  # (sources,)
    most: Tensor  # (sources,), 0: settled from the start
    ids: Tensor | None = None  # (sources, source length)
    real: Tensor | None = None

    def copy(self) -> "Given":
        ids, real = (None if part is None else part.clone() for part in (self.ids, self.real))
        return Given(self.prefix.clone(), self.least.clone(), self.most.clone(), ids, real)

    def take(self, other: "Given") -> None:
        for mine, its in zip(vars(self).values(), vars(other).values(), strict=True):
            if mine is not None:
                mine.copy_(its)


class Rounds:
    """The tensors of a running search; how it begins, and one round on them."""

    def __init__(self, model: Model, shape: Shape, given: Given, eos: int, pad: int) -> None:
        self.model, self.shape, self.given = model, shape, given
        self.eos, self.pad = eos, pad
        self.lean = lean_step(model) if model.device.type == "cuda" else None
        self.kernels: Any = plain_kernels if self.lean is None else self.lean.kernels
        device, rows = model.device, (shape.sources, shape.how.beams)
        written = (shape.steps, *rows)
        self.tokens = torch.zeros(written, dtype=torch.long, device=device)
        self.parents = torch.zeros(written, dtype=torch.long, device=device)
        self.gains = torch.zeros(written, device=device)
        self.scores = torch.zeros(rows, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.finished = torch.zeros(rows, dtype=torch.bool, device=device)
        self.newest = torch.zeros(rows[0] * rows[1], 1, dtype=torch.long, device=device)
        self.number = torch.zeros((), dtype=torch.long, device=device)  # of the round
        self.done = torch.zeros(shape.sources, dtype=torch.bool, device=device)
        self.state = self._state()

    def _read(self) -> DecoderState:
        """A state that has read what is given, but for the last token of each prefix."""
        past = self.given.prefix[:, :-1]
        sources: tuple[Any, ...] = (self.shape.sources,)
        if self.given.ids is not None:
            sources = (self.given.ids, self.given.real)
        fresh = self.model.start(*sources, capacity=max(past.shape[1], 1))
        if past.shape[1]:
            self.model.step(past.clamp(min=0), fresh, past >= 0)
        return fresh

    def _state(self) -> DecoderState:
        """The state that rounds work on, with room for all of them; one beam has read the prefix,
        and the beams share that."""
        memory = self._read().memory
        past = self.shape.prefix - 1
        if memory is not None:  # in tensors of its own
            memory = memory.select(torch.arange(self.shape.sources, device=self.model.device))
        state = self.model.decoder.start(
            self.shape.sources, past + self.shape.steps, memory, fixed=True
        )
        assert state.timeline is not None
        state.timeline.taken = past
        state.expand(self.shape.how.beams)
        return state

    def begin(self) -> None:
        """Read what is given, and forget the search before."""
        self.state.restart(self._read())
        self.scores.fill_(-torch.inf)
        self.scores[:, 0] = 0.0
        for part in (self.lengths, self.finished, self.number):
            part.zero_()
        last = self.given.prefix[:, -1]
        self.newest.copy_(last.repeat_interleave(self.shape.how.beams)[:, None])
        self.done.copy_(self.given.most <= 0)

    def round(self) -> None:
        """One token more; nothing here waits for the GPU."""
        beams = self.shape.how.beams
        stepper = self.model if self.lean is None else self.lean
        logits = stepper.step(self.newest, self.state)[:, -1]  # (rows, vocab)
        early = (self.number < self.given.least).repeat_interleave(beams)  # too soon for an end
        best = self.kernels.top_and_normaliser(logits, min(beams, logits.shape[1]), self.eos, early)
        if self.lean is not None:
            self._select_by_kernel(best)
        else:
            self._select(*best)
        self.number += 1

    def _select_by_kernel(self, best: tuple[Tensor, Tensor, Tensor]) -> None:
        """The same as `_select`."""
        from translucid.decoding.search_kernel import select_and_follow

        assert self.state.timeline is not None
        select_and_follow(
            best,
            (self.scores, self.lengths, self.finished, self.done, self.given.most, self.number),
            (self.tokens, self.parents, self.gains),
            self.newest,
            self.state.timeline,
            eos=self.eos,
            pad=self.pad,
            wanted=self.shape.how.best,
            alpha=self.shape.how.alpha,
        )

    def _select(self, best: Tensor, tokens: Tensor, normaliser: Tensor) -> None:
        """Choose among the best of each beam, write down, see who is settled, follow."""
        how, beams = self.shape.how, self.shape.how.beams
        gains = (best - normaliser).unflatten(0, (-1, beams))
        live = ~(self.finished | self.done[:, None])
        chosen = choose(self.scores, live, gains, tokens.unflatten(0, (-1, beams)), pad=self.pad)
        at = self.number.clamp(max=self.shape.steps - 1)[None]
        self.tokens.index_copy_(0, at, chosen.tokens[None])
        self.parents.index_copy_(0, at, chosen.parents[None])
        self.gains.index_copy_(0, at, chosen.gains[None])
        self.scores.copy_(chosen.scores)
        self.lengths.copy_(self.lengths.gather(1, chosen.parents) + live)
        self.finished |= live & (chosen.tokens == self.eos) & (chosen.scores > -torch.inf)
        compared = Beams(self.tokens, self.gains, self.scores, self.lengths, self.finished)
        self.done |= settled(compared, self.given.most, best=how.best, alpha=how.alpha)
        self.done |= self.number + 1 >= self.given.most
        if beams > 1:
            self.state.follow(chosen.parents)
        self.newest.copy_(chosen.tokens.reshape(-1, 1))

    def found(self, rounds: int) -> Beams:
        """The beams after so many rounds, each traced back through its parents."""
        tokens, parents, gains, scores, lengths, finished = (
            part.cpu()
            for part in (
                self.tokens, self.parents, self.gains, self.scores, self.lengths, self.finished
            )
        )  # fmt: skip
        place = torch.arange(scores.shape[1]).expand(scores.shape)
        for number in reversed(range(rounds)):
            tokens[number] = tokens[number].gather(1, place)
            gains[number] = gains[number].gather(1, place)
            place = parents[number].gather(1, place)
        tokens, gains = (part[:rounds].permute(1, 2, 0) for part in (tokens, gains))
        return Beams(tokens, gains, scores, lengths, finished)


@dataclass
class Graphs:
    """A search of one shape, with its graphs; without a GPU, what they would replay is run."""

    rounds: Rounds
    held: dict[str, torch.cuda.CUDAGraph] = field(default_factory=dict)

    def begin(self, given: Given) -> None:
        self.rounds.given.take(given)
        if self.rounds.lean is not None:
            self.rounds.lean.refresh()
        self._replay("begin", self.rounds.begin)

    def round(self, number: int) -> None:
        """The round of this number, from 0 on."""
        timeline, shape = self.rounds.state.timeline, self.rounds.shape
        assert timeline is not None
        timeline.read = timeline.slots
        if self.rounds.lean is None:  # its kernels read what is in use, and no more
            needed = shape.prefix - 1 + (number + 1) * shape.how.beams
            part = -(-timeline.slots // (PARTS * 8)) * 8
            timeline.read = min(timeline.slots, -(-needed // part) * part)
        self._replay(f"read {timeline.read}", self.rounds.round)

    def _replay(self, name: str, act: Callable[[], None]) -> None:
        if self.rounds.model.device.type != "cuda":
            return act()
        if name not in self.held:
            self.held[name] = self._capture(act)
        self.held[name].replay()

    def _capture(self, act: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Capturing runs nothing, but a first run on the side, which loads kernels, does: what it
        has changed is put back."""
        kept = [part.clone() for part in self._moving()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            act()
        torch.cuda.current_stream().wait_stream(side)
        for part, before in zip(self._moving(), kept, strict=True):
            part.copy_(before)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            act()
        return graph

    def _moving(self) -> list[Tensor]:
        """Everything that a round changes, but for the caches, where it writes the same again."""
        r, timeline = self.rounds, self.rounds.state.timeline
        assert timeline is not None
        mine = [r.tokens, r.parents, r.gains, r.scores, r.lengths, r.finished]
        its = [timeline.seen, timeline.positions, timeline.counts, timeline.cursor]
        return [*mine, r.newest, r.number, r.done, *its]


class CapturedSearch:
    """Searches of a model on a GPU; graphs are kept for the shapes that come again."""

    def __init__(self, model: Model, *, eos: int, pad: int) -> None:
        self.model, self.eos, self.pad = model, eos, pad
        self._graphs: OrderedDict[Shape, Graphs] = OrderedDict()

    @staticmethod
    def fits(model: object, how: Search, extra: Sequence[object]) -> bool:
        """Whether this search can be captured."""
        return (
            isinstance(model, Model)
            and model.device.type == "cuda"
            and isinstance(model.decoder, TransformerDecoder)
            and shipped(model.decoder.positions)  # others may ask the GPU, and make it wait
            and not extra
            and not how.no_repeat
            and how.repetition == 1
            and how.groups == 1
        )

    @torch.no_grad()
    def __call__(
        self, prefix: Tensor, sources: Sources | None, least: Tensor, most: Tensor, how: Search
    ) -> list[list[Hypothesis]]:
        """The best texts for each source; prefix: (sources, length), -1 in front of short ones."""
        count, limit = prefix.shape[0], int(most.max())
        rows = next((size for size in ROWS if size >= count), count)
        given = self._given(prefix, sources, least, most, rows)
        steps = -(-limit // 16) * 16
        if self.model.longest is not None:
            steps = min(steps, self.model.longest - prefix.shape[1])
        length = 0 if given.ids is None else given.ids.shape[1]
        graphs = self._of(Shape(rows, length, prefix.shape[1], steps, how), given)
        graphs.begin(given)
        number = 0
        while number < limit:
            graphs.round(number)
            number += 1
            if number % LOOK == 0 and bool(graphs.rounds.done.all()):
                break
        return harvest(graphs.rounds.found(number), how, 0)[:count]

    def _given(
        self, prefix: Tensor, sources: Sources | None, least: Tensor, most: Tensor, rows: int
    ) -> Given:
        """Filled up to a bucket; what fills it up is settled from the start."""
        settled_at_once = torch.zeros(rows - len(most), dtype=most.dtype, device=most.device)
        most = torch.cat([most, settled_at_once])
        ids = real = None
        if sources is not None:
            ids, real = sources.ids, sources.real
            if real is None:
                real = torch.ones_like(ids, dtype=torch.bool)
            more = (0, -ids.shape[1] % 16)
            ids, real = _fill(F.pad(ids, more), rows), _fill(F.pad(real, more), rows)
        return Given(_fill(prefix, rows), _fill(least, rows), most, ids, real)

    def _of(self, shape: Shape, given: Given) -> Graphs:
        if shape not in self._graphs:
            rounds = Rounds(self.model, shape, given.copy(), self.eos, self.pad)
            self._graphs[shape] = Graphs(rounds)
            if len(self._graphs) > KEPT:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(shape)
        return self._graphs[shape]


def _fill(part: Tensor, rows: int) -> Tensor:
    """Copies of the last row up to this many."""
    return torch.cat([part, part[-1:].expand(rows - part.shape[0], *part.shape[1:])])
