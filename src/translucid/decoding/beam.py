"""Beam search as a pure step and a short loop; greedy search is a beam of 1.

A step knows nothing of models: it takes log-probabilities and returns the next beams and, for
each, the beam it continues. The loop hands those parents to the decoder state, so a KV cache and
a recurrent state are moved by the same line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor


class State(Protocol):
    """What a decoder remembers."""

    def follow(self, parents: Tensor) -> None: ...


S = TypeVar("S", bound=State)
S_in = TypeVar("S_in", bound=State, contravariant=True)


class Stepper(Protocol[S_in]):
    """What beam search needs of a model."""

    def step(self, tokens: Tensor, state: S_in) -> Tensor: ...


@dataclass(frozen=True)
class Beams:
    """The prefixes still followed, best first."""

    tokens: Tensor  # (sources, beams, length), from the first given token on
    scores: Tensor  # (sources, beams), summed log-probability
    lengths: Tensor  # (sources, beams), tokens chosen so far, the end counted
    finished: Tensor  # (sources, beams)

    @classmethod
    def start(cls, prefix: Tensor, beams: int, dtype: torch.dtype = torch.float32) -> "Beams":
        """prefix: (sources, length). All beams are equal at first, so only one may be expanded."""
        sources, device = prefix.shape[0], prefix.device
        scores = torch.full((sources, beams), -torch.inf, dtype=dtype, device=device)
        scores[:, 0] = 0.0
        return cls(
            tokens=prefix[:, None].expand(-1, beams, -1),
            scores=scores,
            lengths=torch.zeros(sources, beams, dtype=torch.long, device=device),
            finished=torch.zeros(sources, beams, dtype=torch.bool, device=device),
        )

    def ranking(self, alpha: float) -> Tensor:
        """What beams are compared by: the score, divided by length to the power alpha."""
        return self.scores / self.lengths.clamp(min=1) ** alpha


def beam_step(
    beams: Beams, log_probs: Tensor, *, eos: int, pad: int, alpha: float = 0.0
) -> tuple[Beams, Tensor]:
    """Extend every beam by one token and keep the best.

    log_probs: (sources, beams, vocab). Returns the beams and their parents (sources, beams).
    """
    vocab = log_probs.shape[-1]
    # A finished beam has one continuation: padding, at no cost.
    only_pad = torch.full_like(log_probs[0, 0], -torch.inf)
    only_pad[pad] = 0.0
    log_probs = torch.where(beams.finished[..., None], only_pad, log_probs)

    scores = beams.scores[..., None] + log_probs  # (sources, beams, vocab)
    lengths = beams.lengths + ~beams.finished
    ranking = scores / lengths[..., None] ** alpha
    best = ranking.flatten(1).topk(beams.scores.shape[1]).indices  # into beams * vocab, best first
    parents, token = best // vocab, best % vocab

    past = beams.tokens.gather(1, parents[..., None].expand(-1, -1, beams.tokens.shape[-1]))
    after = Beams(
        tokens=torch.cat([past, token[..., None]], dim=-1),
        scores=scores.flatten(1).gather(1, best),
        lengths=lengths.gather(1, parents),
        finished=beams.finished.gather(1, parents) | (token == eos),
    )
    return after, parents


@dataclass(frozen=True)
class Round:
    """One round of the search, as a spectator sees it."""

    before: Beams
    log_probs: Tensor  # (sources, beams, vocab)
    after: Beams
    parents: Tensor  # (sources, beams)


def beam_rounds(
    model: Stepper[S],
    state: S,
    prefix: Tensor,
    *,
    beams: int,
    steps: int,
    eos: int,
    pad: int,
    alpha: float = 0.0,
) -> Iterator[Round]:
    """Search, one round at a time. The state must hold `sources * beams` rows and no tokens yet."""
    found = Beams.start(prefix, beams)
    newest = prefix.repeat_interleave(beams, dim=0)  # (rows, queries)
    for _ in range(steps):
        logits = model.step(newest, state)[:, -1]  # (rows, vocab)
        log_probs = logits.log_softmax(dim=-1).unflatten(0, (-1, beams))
        found = Beams(found.tokens, found.scores.to(log_probs), found.lengths, found.finished)
        after, parents = beam_step(found, log_probs, eos=eos, pad=pad, alpha=alpha)
        yield Round(found, log_probs, after, parents)
        if (after.finished | (after.scores == -torch.inf)).all():  # a dead beam cannot come back
            return
        state.follow(parents)
        found, newest = after, after.tokens[..., -1].flatten()[:, None]


@torch.no_grad()
def beam_search(
    model: Stepper[S],
    state: S,
    prefix: Tensor,
    *,
    beams: int,
    steps: int,
    eos: int,
    pad: int,
    alpha: float = 0.0,
) -> Beams:
    """The best `beams` continuations of each prefix (sources, length), best first."""
    rounds = beam_rounds(
        model, state, prefix, beams=beams, steps=steps, eos=eos, pad=pad, alpha=alpha
    )
    found = Beams.start(prefix, beams)
    for each in rounds:
        found = each.after
    return found
