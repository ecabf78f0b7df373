"""The search itself: a model, its state, and round after round until nothing better can come.

Sentences that are settled leave the batch at once; what was found comes back in the order of the
sources.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from pydantic import model_validator
from torch import Tensor

from translucid.config import Config, key
from translucid.generate import constraints
from translucid.generate.beam import Beams, beam_step, group_step, settled
from translucid.generate.constraints import Rule
from translucid.models.autoregressive import S
from translucid.parts.activations import as_log_probs


class Search(Config):
    """How to look for the best texts."""

    beams: int = key(4, "prefixes that are followed side by side; 1: greedy", gt=0)
    alpha: float = key(1.0, "texts are compared by log-probability / length^alpha", ge=0)
    best: int = key(1, "how many texts are wanted for each source", gt=0)
    shortest: int = key(0, "tokens that a text has at least, the end not counted", ge=0)
    longest: int | None = key(
        None, "tokens that a text has at most, the end counted; not set: by the source", gt=0
    )
    shortest_share: float = key(0.0, "the same as a share of the source's tokens", ge=0)
    longest_share: float = key(2.0, "the same as a share of the source's tokens, and 10 more", gt=0)
    no_repeat: int = key(0, "no run of this many tokens comes twice; 0: any may", ge=0)
    repetition: float = key(1.0, "multiplies the log-probability of tokens written before", ge=1)
    groups: int = key(1, "groups of beams that avoid each other's tokens", gt=0)
    diversity: float = key(0.5, "what a token costs that an earlier group has taken", ge=0)

    @model_validator(mode="after")
    def _numbers_fit(self) -> "Search":
        if self.best > self.beams:
            raise ValueError(
                f"best {self.best} is more than beams {self.beams}: a search finds at most as many "
                f"texts as it has beams; set beams = {self.best}"
            )
        if self.beams % self.groups:
            raise ValueError(
                f"beams {self.beams} is not a multiple of groups {self.groups}; "
                f"try beams = {self.groups * -(-self.beams // self.groups)}"
            )
        if self.longest is not None and self.shortest >= self.longest:
            raise ValueError(
                f"shortest {self.shortest} leaves no room below longest {self.longest}, in which "
                f"the end is counted; set longest = {self.shortest + 1} or more"
            )
        return self

    def limits(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The fewest and the most tokens for sources of these lengths (sources,)."""
        least = (source * self.shortest_share).floor().long().clamp(min=self.shortest)
        most = (source * self.longest_share).ceil().long() + 10
        if self.longest is not None:
            most = torch.full_like(most, self.longest)
        return torch.minimum(least, most - 1), most


@dataclass(frozen=True)
class Hypothesis:
    """A text that the search has found."""

    tokens: list[int]  # without start and end
    score: float  # what it was ranked by
    log_probability: float  # the model's own, the end included
    gains: list[float]  # of each token, and of the end if it came
    finished: bool  # it ended by itself; else it was cut off


@dataclass(frozen=True)
class Round:
    """One round of the search, as a spectator sees it."""

    sources: Tensor  # (sources,), their numbers: some may have left
    before: Beams
    log_probs: Tensor  # (sources, beams, vocab), the model's own
    adjusted: Tensor  # the same after all rules
    after: Beams
    parents: Tensor  # (sources, beams)
    done: Tensor  # (sources,)


@torch.no_grad()
def search(
    step: Callable[[Tensor, S], Tensor],
    state: S,
    prefix: Tensor,
    least: Tensor,
    most: Tensor,
    how: Search,
    *,
    eos: int,
    pad: int,
    extra: Sequence[Rule] = (),
    watch: Callable[[Round], None] | None = None,
) -> list[list[Hypothesis]]:
    """The best texts for each source, best first.

    step: the newest tokens (rows, 1) and the state to logits, such as a model's own. prefix:
    (sources, length), of which the state has read all but the last token, -1 where it is
    not text; the state has `beams` beams. least, most: (sources,).
    """
    checks = list(extra)
    if how.no_repeat:
        checks.append(constraints.no_repeat(how.no_repeat))
    if how.repetition != 1:
        checks.append(constraints.repetition(how.repetition))
    found: list[list[Hypothesis]] = [[] for _ in range(prefix.shape[0])]
    numbers = torch.arange(prefix.shape[0], device=prefix.device)
    beams = Beams.start(prefix, how.beams, groups=how.groups)
    newest = prefix[:, -1:].repeat_interleave(how.beams, dim=0)  # (rows, 1)
    rounds = 0
    earliest, soonest = int(least.max()), int(most.min())  # read once: all may end, one must
    while len(numbers):
        rounds += 1
        log_probs = as_log_probs(step(newest, state)[:, -1])
        log_probs = log_probs.view(len(numbers), how.beams, -1)
        adjusted = constraints.apply(checks, log_probs, beams.tokens)
        if rounds <= earliest:  # for some of them an end would come too soon
            if watch is not None:
                adjusted = adjusted.clone()  # the model's own numbers are shown too
            adjusted[..., eos].masked_fill_((rounds <= least)[:, None], -torch.inf)
        before = beams
        if beams.scores.dtype != log_probs.dtype:
            before = replace(beams, scores=beams.scores.to(log_probs))
        if how.groups == 1:
            beams, parents = beam_step(
                before, log_probs, eos=eos, pad=pad,
                adjusted=None if adjusted is log_probs else adjusted,
            )  # fmt: skip
        else:
            beams, parents = group_step(
                before, log_probs, eos=eos, pad=pad, adjusted=adjusted,
                groups=how.groups, diversity=how.diversity,
            )  # fmt: skip
        if how.beams > 1:
            state.follow(parents)
        newest = beams.tokens[..., -1].reshape(-1, 1)
        if watch is None and rounds < soonest and not bool(beams.finished.any()):
            continue  # nothing has ended, and nothing is cut off yet
        done = settled(beams, most, best=how.best, alpha=how.alpha) | (rounds >= most)
        if watch is not None:
            watch(Round(numbers, before, log_probs, adjusted, beams, parents, done))
        if bool(done.any()):
            leaving = harvest(beams.select(done), how, prefix.shape[1])
            for number, texts in zip(numbers[done].tolist(), leaving, strict=True):
                found[number] = texts
            stay = (~done).nonzero()[:, 0]
            numbers, least, most = numbers[stay], least[stay], most[stay]
            beams = beams.select(stay)
            state.select(stay)
            newest = beams.tokens[..., -1].reshape(-1, 1)
            if len(numbers):
                earliest, soonest = int(least.max()), int(most.min())
    return found


def harvest(beams: Beams, how: Search, start: int) -> list[list[Hypothesis]]:
    """The best texts of each source, best first; they begin at `start`. A text that was cut off
    counts like one that has ended."""
    ranking, order = beams.ranking(how.alpha).sort(dim=1, descending=True, stable=True)
    order = order[:, : how.best]
    ranks, lengths = ranking[:, : how.best].tolist(), beams.lengths.gather(1, order).tolist()
    finished = beams.finished.gather(1, order).tolist()
    tokens, gains = (
        part.gather(1, order[..., None].expand(-1, -1, part.shape[2])).tolist()
        for part in (beams.tokens[:, :, start:], beams.gains)
    )
    return [
        [
            _hypothesis(*one)
            for one in zip(*of_source, strict=True)
            if one[0] != -torch.inf  # an empty place
        ]
        for of_source in zip(ranks, tokens, gains, lengths, finished, strict=True)
    ]


def _hypothesis(
    rank: float, tokens: list[int], gains: list[float], length: int, finished: bool
) -> Hypothesis:
    gains = gains[:length]
    return Hypothesis(tokens[: length - finished], rank, sum(gains), gains, finished)
