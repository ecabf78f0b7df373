"""One round of beam search as a pure function, from log-probabilities to the next beams.

Unfinished prefixes have the same length, so they compete by log-probability alone. A finished text
keeps its place in the beam, and prefixes compete for the remaining places. Only finished texts,
whose lengths differ, are compared by log-probability / length^alpha. With beam size 1 this is
greedy search; with a beam that holds every prefix, it is exhaustive.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

MANY = 1 << 17  # values from which the best are found faster by parts


@dataclass(frozen=True)
class Beams:
    """The unfinished prefixes and the finished texts of each source."""

    tokens: Tensor  # (sources, beams, length), the given prefix included
    token_log_probs: Tensor  # (sources, beams, tokens chosen), the model's own
    scores: Tensor  # (sources, beams), sums of adjusted log-probabilities; -inf: empty place
    lengths: Tensor  # (sources, beams), number of tokens chosen so far, including the end
    finished: Tensor  # (sources, beams)

    @classmethod
    def start(
        cls, prefix: Tensor, beams: int, dtype: torch.dtype = torch.float32, groups: int = 1
    ) -> "Beams":
        """Start all beams from a prefix (sources, length). At first, the beams of a group are
        equal, so only the first of them has a score above -inf."""
        sources, device = prefix.shape[0], prefix.device
        scores = torch.full((sources, beams), -torch.inf, dtype=dtype, device=device)
        scores[:, :: beams // groups] = 0.0
        return cls(
            tokens=prefix[:, None].expand(-1, beams, -1),
            token_log_probs=torch.zeros(sources, beams, 0, dtype=dtype, device=device),
            scores=scores,
            lengths=torch.zeros(sources, beams, dtype=torch.long, device=device),
            finished=torch.zeros(sources, beams, dtype=torch.bool, device=device),
        )

    def ranking(self, alpha: float) -> Tensor:
        """Scores / length^alpha, by which finished texts are compared: (sources, beams)."""
        return self.scores / self.lengths.clamp(min=1).to(self.scores) ** alpha

    def select(self, sources: Tensor) -> "Beams":
        return Beams(*(part[sources] for part in vars(self).values()))

    def join(self, other: "Beams") -> "Beams":
        """Append the sources of another search. Shorter histories are left-padded: tokens with -1,
        log-probabilities with 0."""
        return Beams(
            tokens=stack_histories(self.tokens, other.tokens, -1),
            token_log_probs=stack_histories(
                self.token_log_probs, other.token_log_probs.to(self.token_log_probs), 0.0
            ),
            scores=torch.cat([self.scores, other.scores.to(self.scores)]),
            lengths=torch.cat([self.lengths, other.lengths]),
            finished=torch.cat([self.finished, other.finished]),
        )

    def group(self, number: int, of: int) -> "Beams":
        """The beams of the group with this index. of: the number of groups, which are equally
        large."""
        return Beams(*(part.chunk(of, dim=1)[number] for part in vars(self).values()))


class BeamChoice(NamedTuple):
    """For each place in the beam, the continuation that fills it. All tensors are (sources,
    beams)."""

    scores: Tensor
    parents: Tensor
    tokens: Tensor
    token_log_probs: Tensor  # the log-probability that each token adds to the score


def choose(
    scores: Tensor, live: Tensor | None, token_log_probs: Tensor, tokens: Tensor, *, pad: int
) -> BeamChoice:
    """Choose the best continuations of the live (unfinished) prefixes. Finished texts keep their
    places and are continued with padding; the continuations fill the other places, best first.

    scores, live: (sources, beams); live None: all prefixes are live. token_log_probs, tokens: the
    best `width` tokens of each beam, (sources, beams, width). `width` must be at least the number
    of beams, or the size of the vocabulary if that is smaller.
    """
    beams, width = token_log_probs.shape[1:]
    if live is None and beams == width == 1:  # greedy search
        added, newest = token_log_probs[..., 0], tokens[..., 0]
        return BeamChoice(scores + added, torch.zeros_like(newest), newest, added)
    if live is None:
        total, index = (scores[..., None] + token_log_probs).flatten(1).topk(beams)
        chosen = (part.flatten(1).gather(1, index) for part in (tokens, token_log_probs))
        return BeamChoice(total, index // width, *chosen)
    competing = torch.where(live, scores, -torch.inf)[..., None] + token_log_probs
    total, index = competing.flatten(1).topk(beams)
    turn = (live.cumsum(dim=1) - 1).clamp(min=0)
    index = index.gather(1, turn)
    places = torch.arange(beams, device=scores.device).expand_as(index)
    return BeamChoice(
        scores=torch.where(live, total.gather(1, turn), scores),
        parents=torch.where(live, index // width, places),
        tokens=torch.where(live, tokens.flatten(1).gather(1, index), pad),
        token_log_probs=torch.where(live, token_log_probs.flatten(1).gather(1, index), 0.0),
    )


def beam_step(
    beams: Beams, log_probs: Tensor, *, eos: int, pad: int, adjusted: Tensor | None = None
) -> tuple[Beams, Tensor]:
    """Extend every prefix by one token and keep the best.

    log_probs: (sources, beams, vocab). adjusted: log-probabilities after constraints, used for
    choosing and for the scores. Returns the beams and their parents (sources, beams).
    """
    live = ~beams.finished if bool(beams.finished.any()) else None
    wanted = log_probs if adjusted is None else adjusted
    width = min(wanted.shape[1:])
    best = wanted.max(dim=-1, keepdim=True) if width == 1 else largest(wanted, width)
    chosen = choose(beams.scores, live, *best, pad=pad)
    token_log_probs = chosen.token_log_probs
    if adjusted is not None:
        flat = chosen.parents * log_probs.shape[2] + chosen.tokens
        token_log_probs = log_probs.flatten(1).gather(1, flat)
    ended = (chosen.tokens == eos) & (chosen.scores > -torch.inf)
    if live is None:
        lengths = beams.lengths + 1
    else:
        lengths = beams.lengths.gather(1, chosen.parents) + live
        token_log_probs = token_log_probs.masked_fill(~live, 0.0)
        ended = beams.finished | (live & ended)
    after = Beams(
        tokens=append(beams.tokens, chosen.parents, chosen.tokens),
        token_log_probs=append(beams.token_log_probs, chosen.parents, token_log_probs),
        scores=chosen.scores,
        lengths=lengths,
        finished=ended,
    )
    return after, chosen.parents


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest values of the last dimension and their indices, largest first."""
    if values.device.type != "cpu" or values.numel() < MANY or values.shape[-1] < 64 * count:
        best, index = values.topk(count)
        return best, index
    return largest_by_parts(values, count)


def largest_by_parts(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same, faster on a CPU, where maxima are found many times faster than with topk. The
    dimension is split into parts: the largest values are in those with the largest maxima."""
    size = values.shape[-1]
    each = math.isqrt(size)
    whole = size // each * each
    maxima = values[..., :whole].unflatten(-1, (-1, each)).amax(dim=-1)
    parts = maxima.topk(count).indices
    index = (parts[..., None] * each + torch.arange(each)).flatten(-2)
    rest = torch.arange(whole, size).expand(*index.shape[:-1], -1)
    index = torch.cat([index, rest], dim=-1)
    best, place = values.gather(-1, index).topk(count)
    return best, index.gather(-1, place)


def group_step(
    beams: Beams, log_probs: Tensor, *, eos: int, pad: int, adjusted: Tensor, groups: int,
    diversity: float,
) -> tuple[Beams, Tensor]:  # fmt: skip
    """Extend every prefix by one token, by diverse beam search: beams compete only within their
    group, and a token's score is reduced by `diversity` for each time that an earlier group has
    chosen it in this round.

    Vijayakumar et al. 2018, https://arxiv.org/abs/1610.02424
    """
    taken = torch.zeros_like(adjusted[:, 0])  # (sources, vocab)
    after_groups: list[Beams] = []
    parents: list[Tensor] = []
    for number in range(groups):
        before = beams.group(number, groups)
        own, wanted = (t.chunk(groups, dim=1)[number] for t in (log_probs, adjusted))
        penalised = wanted - diversity * taken[:, None]
        after, parent = beam_step(before, own, eos=eos, pad=pad, adjusted=penalised)
        newest = after.tokens[..., -1]
        new = ~before.finished & (after.scores > -torch.inf)
        taken = taken.scatter_add(1, newest, new.to(taken))
        after_groups.append(after)
        parents.append(parent + number * parent.shape[1])
    parts = zip(*(vars(group_beams).values() for group_beams in after_groups), strict=True)
    return Beams(*(torch.cat(part, dim=1) for part in parts)), torch.cat(parents, dim=1)


def settled(beams: Beams, most: Tensor, *, best: int, alpha: float) -> Tensor:
    """Whether the search of each source is over: no unfinished prefix can still become one of its
    `best` texts. Shape: (sources,).

    A score can only fall, and no text is longer than `most` (sources,), so the final score of a
    prefix is at most score / most^alpha. The search is over if `best` finished texts are at least
    as good.
    """
    ended = torch.where(beams.finished, beams.ranking(alpha), -torch.inf)
    bar = ended.topk(best, dim=1).values[:, -1]
    live = torch.where(beams.finished, -torch.inf, beams.scores).amax(dim=1)
    return bar >= live / most.to(live) ** alpha


def append(past: Tensor, parents: Tensor, newest: Tensor) -> Tensor:
    """Append the newest entry to the history of each beam's parent. past: (sources, beams,
    length)."""
    if parents.shape[1] > 1:
        past = past.gather(1, parents[..., None].expand(-1, -1, past.shape[-1]))
    return torch.cat([past, newest[..., None]], dim=-1)


def stack_histories(one: Tensor, two: Tensor, padding: float) -> Tensor:
    """Two histories (rows, ..., length) as one. The shorter one is padded on the left; columns that
    only contain -1 are dropped."""
    if padding == -1 and one.shape[-1] > two.shape[-1]:
        used = (one >= 0).flatten(0, -2).any(dim=0)
        most = max(one.shape[-1] - int(used.to(torch.int8).argmax()), two.shape[-1])
        one = one[..., one.shape[-1] - most :]
    most = max(one.shape[-1], two.shape[-1])
    padded = (F.pad(part, (most - part.shape[-1], 0), value=padding) for part in (one, two))
    return torch.cat(list(padded))
