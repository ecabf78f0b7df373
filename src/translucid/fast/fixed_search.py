"""Beam search in tensors with fixed addresses and shapes, so that a CUDA graph can replay it.

Batches are padded to a few sizes, and finished sentences keep their rows. The plain counterpart is
the search of `generate.beam_search`, which also supports constraints that depend on earlier tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.fast import plain_kernels
from translucid.fast.decode_step import DecodeStep
from translucid.fast.fixed_state import FixedTimeline, restart, with_fixed_timeline
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.parts.cache import DecoderState

Model = EncoderDecoderModel | DecoderModel


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search, which are the same for all its sources."""

    beams: int
    n_best: int
    alpha: float
    eos: int
    pad: int
    never: tuple[int, ...] = ()  # tokens that are never generated
    ends: tuple[int, ...] = ()  # tokens that end a text as eos does


@dataclass(frozen=True)
class PlainRound:
    """The functions that a round of the plain search uses, passed in by `generate.decode`."""

    # (scores, live, log_probs, tokens, pad=) -> scores, parents, tokens, log_probs
    choose: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]
    settled: Callable[..., Tensor]  # (scores, lengths, finished, most, n_best=, alpha=)


@dataclass(frozen=True)
class Shape:
    """The shape of a search; graphs are captured for each shape."""

    sources: int
    source_length: int  # 0: no sources, for a language model
    prefix: int
    steps: int
    settings: SearchSettings


class Sequences(NamedTuple):
    """The result of a search, copied to the CPU. The fields are those of `generate.beam.Beams`."""

    tokens: Tensor  # (sources, beams, rounds)
    token_log_probs: Tensor
    scores: Tensor  # (sources, beams)
    lengths: Tensor
    finished: Tensor


@dataclass(frozen=True)
class SearchInputs:
    """The inputs of a search, in the tensors that a graph reads."""

    prefix: Tensor  # (sources, length), left-padded with -1
    least: Tensor  # minimum lengths (sources,)
    most: Tensor  # maximum lengths (sources,), 0: done from the start
    ids: Tensor | None = None  # (sources, source length)
    mask: Tensor | None = None

    def copy(self) -> "SearchInputs":
        ids, mask = (None if part is None else part.clone() for part in (self.ids, self.mask))
        return SearchInputs(self.prefix.clone(), self.least.clone(), self.most.clone(), ids, mask)

    def take(self, other: "SearchInputs") -> None:
        for mine, its in zip(vars(self).values(), vars(other).values(), strict=True):
            if mine is not None:
                mine.copy_(its)


class Rounds:
    """The tensors of a running search, with methods that start it and run its rounds."""

    def __init__(self, model: Model, shape: Shape, inputs: SearchInputs, plain: PlainRound) -> None:
        self.model, self.shape, self.inputs, self.plain = model, shape, inputs, plain
        self.settings = shape.settings
        self.device = device = model.device
        self.on_gpu = device.type == "cuda"
        self.lean = DecodeStep(model) if self.on_gpu and DecodeStep.fits(model) else None
        self.kernels: Any = plain_kernels if self.lean is None else self.lean.kernels
        rows = (shape.sources, shape.settings.beams)
        written = (shape.steps, *rows)
        self.tokens = torch.zeros(written, dtype=torch.long, device=device)
        self.parents = torch.zeros(written, dtype=torch.long, device=device)
        self.token_log_probs = torch.zeros(written, device=device)
        self.scores = torch.zeros(rows, device=device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.finished = torch.zeros(rows, dtype=torch.bool, device=device)
        self.newest = torch.zeros(rows[0] * rows[1], 1, dtype=torch.long, device=device)
        # The number of the round, and whether it is too early for an end token.
        self.number = torch.zeros(shape.sources, dtype=torch.long, device=device)
        self.early = torch.zeros(rows[0] * rows[1], dtype=torch.bool, device=device)
        self.done = torch.zeros(shape.sources, dtype=torch.bool, device=device)
        never, ends = shape.settings.never, shape.settings.ends
        self.never = torch.tensor(never, device=device) if never else None
        ends = (shape.settings.eos, *ends) if ends else ()
        self.ends = torch.tensor(ends, device=device) if ends else None
        self.state = self._state()

    def _read(self) -> DecoderState:
        """Create a state that has read the inputs, except the last token of each prefix."""
        past = self.inputs.prefix[:, :-1]
        inputs = GenerationInputs(self.shape.sources, self.inputs.ids, self.inputs.mask)
        fresh = self.model.start(inputs, capacity=max(past.shape[1], 1))
        if past.shape[1]:
            self.model.step(past.clamp(min=0), fresh, past >= 0)
        return fresh

    def _state(self) -> DecoderState:
        """Create the state that the rounds use. It has capacity for all rounds, and the beams share
        the prefix."""
        encoder_output = self._read().encoder_output
        past = self.shape.prefix - 1
        sources = self.shape.sources
        if encoder_output is not None:  # a copy
            encoder_output = encoder_output.select(torch.arange(sources, device=self.device))
        state = self.model.decoder.start(sources, past + self.shape.steps, encoder_output)
        state = with_fixed_timeline(state)
        self._timeline(state).taken = past
        state.expand(self.settings.beams)
        return state

    def _timeline(self, state: DecoderState) -> FixedTimeline:
        assert isinstance(state.timeline, FixedTimeline)
        return state.timeline

    @property
    def timeline(self) -> FixedTimeline:
        return self._timeline(self.state)

    def begin(self) -> None:
        """Read the inputs and reset the search."""
        restart(self.state, self._read())
        self.scores.fill_(-torch.inf)
        self.scores[:, 0] = 0.0
        for part in (self.lengths, self.finished, self.number):
            part.zero_()
        last = self.inputs.prefix[:, -1]
        self.newest.copy_(last.repeat_interleave(self.settings.beams)[:, None])
        self.done.copy_(self.inputs.most <= 0)
        self._update_early()

    def _update_early(self) -> None:
        early = self.number < self.inputs.least
        self.early.copy_(early.repeat_interleave(self.settings.beams))

    def round(self) -> None:
        """Generate one token per beam, without synchronising the GPU."""
        beams, eos = self.settings.beams, self.settings.eos
        stepper = self.model if self.lean is None else self.lean
        logits = stepper.step(self.newest, self.state)[:, -1]  # (rows, vocab)
        allowed = logits
        if self.ends is not None:
            likeliest = logits.index_select(1, self.ends).amax(dim=1, keepdim=True)
            allowed = allowed.index_fill(1, self.ends, -torch.inf)
            allowed[:, eos : eos + 1] = likeliest
        if self.never is not None:
            allowed = allowed.index_fill(1, self.never, -torch.inf)
        best = self.kernels.top_and_normaliser(
            allowed, min(beams, logits.shape[1]), eos, self.early
        )
        if allowed is not logits:  # excluded tokens count in the sum, as in the plain search
            best = *best[:2], logits.float().logsumexp(dim=-1, keepdim=True)
        if self.lean is not None:
            self._select_by_kernel(best)
        else:
            self._select(*best)
            self.number += 1
            self._update_early()

    def _select_by_kernel(self, best: tuple[Tensor, Tensor, Tensor]) -> None:
        """Do what `_select` does, by one GPU kernel."""
        from translucid.fast.beam_kernel import select_and_follow

        settings = self.settings
        select_and_follow(
            best,
            (
                self.scores, self.lengths, self.finished, self.done, self.inputs.least,
                self.inputs.most, self.number, self.early,
            ),
            (self.tokens, self.parents, self.token_log_probs),
            self.newest,
            self.timeline,
            eos=settings.eos, pad=settings.pad, wanted=settings.n_best, alpha=settings.alpha,
        )  # fmt: skip

    def _select(self, best: Tensor, tokens: Tensor, normaliser: Tensor) -> None:
        """Select the best candidates, store them, update `done`, and reorder the state."""
        settings, beams = self.settings, self.settings.beams
        token_log_probs = (best - normaliser).unflatten(0, (-1, beams))
        live = ~(self.finished | self.done[:, None])
        scores, parents, tokens, token_log_probs = self.plain.choose(
            self.scores, live, token_log_probs, tokens.unflatten(0, (-1, beams)), pad=settings.pad
        )
        at = self.number[:1].clamp(max=self.shape.steps - 1)
        self.tokens.index_copy_(0, at, tokens[None])
        self.parents.index_copy_(0, at, parents[None])
        self.token_log_probs.index_copy_(0, at, token_log_probs[None])
        self.scores.copy_(scores)
        self.lengths.copy_(self.lengths.gather(1, parents) + live)
        self.finished |= live & (tokens == settings.eos) & (scores > -torch.inf)
        self.done |= self.plain.settled(
            self.scores, self.lengths, self.finished, self.inputs.most,
            n_best=settings.n_best, alpha=settings.alpha,
        )  # fmt: skip
        self.done |= self.number + 1 >= self.inputs.most
        if beams > 1:
            self.state.follow(parents)
        self.newest.copy_(tokens.reshape(-1, 1))

    def sequences(self, rounds: int) -> Sequences:
        """The texts in the beams after this many rounds, collected by following each beam's parents
        backwards, in steps of 1, 2, 4 ... rounds."""
        sources, beams = self.scores.shape
        tokens, token_log_probs = self.tokens[:rounds], self.token_log_probs[:rounds]
        if beams > 1:  # else each beam continues itself
            places = torch.arange(beams, device=self.device).repeat(rounds, sources, 1)
            places[:-1] = self.parents[1:rounds]
            step = 1  # the number of rounds back that `places` leads
            while step < rounds:
                places[:-step] = places[:-step].gather(2, places[step:])
                step *= 2
            tokens, token_log_probs = (part.gather(2, places) for part in (tokens, token_log_probs))
        tokens, token_log_probs = (
            part.permute(1, 2, 0).contiguous().cpu() for part in (tokens, token_log_probs)
        )
        ends = (part.cpu() for part in (self.scores, self.lengths, self.finished))
        return Sequences(tokens, token_log_probs, *ends)


def filled(
    prefix: Tensor, inputs: GenerationInputs, least: Tensor, most: Tensor, rows: int
) -> SearchInputs:
    """Pad the inputs to `rows` rows with copies of the last row. The searches of these copies end
    at once."""
    settled_at_once = torch.zeros(rows - len(most), dtype=most.dtype, device=most.device)
    most = torch.cat([most, settled_at_once])
    ids, mask = inputs.source, inputs.mask
    if ids is not None:
        if mask is None:
            mask = torch.ones_like(ids, dtype=torch.bool)
        more = (0, -ids.shape[1] % 16)
        ids, mask = _fill(F.pad(ids, more), rows), _fill(F.pad(mask, more), rows)
    return SearchInputs(_fill(prefix, rows), _fill(least, rows), most, ids, mask)


def _fill(part: Tensor, rows: int) -> Tensor:
    """Repeat the last row up to this many rows."""
    return torch.cat([part, part[-1:].expand(rows - part.shape[0], *part.shape[1:])])
