"""The search itself: a model, its state, and round after round until nothing better can come.

Sentences that are settled leave the batch at once; what was found comes back in the order of the
sources.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import model_validator
from torch import Tensor

from translucid.config import Config, key
from translucid.generate import constraints
from translucid.generate.beam import Beams, beam_step, group_step, settled
from translucid.generate.constraints import Constraint
from translucid.models.autoregressive import S
from translucid.parts.activations import as_log_probs
from translucid.renamed import refuse_old


class GenerationConfig(Config):
    """How texts are generated: beam search, lengths and penalties."""

    beam_size: int = key(4, "beam size: prefixes followed side by side; 1 is greedy", gt=0)
    alpha: float = key(
        1.0, "length penalty: hypotheses are compared by log-probability / length^alpha", ge=0
    )
    n_best: int = key(1, "hypotheses to return for each source, best first", gt=0)
    min_length: int = key(0, "fewest tokens of a hypothesis, the end not counted", ge=0)
    max_length: int | None = key(
        None, "most tokens of a hypothesis, the end counted; not set: by max_length_ratio", gt=0
    )
    min_length_ratio: float = key(0.0, "fewest tokens, as a fraction of the source's", ge=0)
    max_length_ratio: float = key(
        2.0, "most tokens, as a fraction of the source's, and 10 more", gt=0
    )
    no_repeat_ngram: int = key(0, "no n-gram of this many tokens comes twice; 0: any may", ge=0)
    repetition_penalty: float = key(
        1.0, "repetition penalty: multiplies the log-probability of tokens written before", ge=1
    )
    beam_groups: int = key(1, "groups of diverse beam search: beams that do not compete", gt=0)
    diversity_penalty: float = key(
        0.5, "diversity penalty: what a token costs that an earlier group has taken", ge=0
    )

    def __init__(self, **options: Any) -> None:
        refuse_old(options)
        super().__init__(**options)

    @model_validator(mode="after")
    def _sizes_fit(self) -> "GenerationConfig":
        if self.n_best > self.beam_size:
            raise ValueError(
                f"n_best {self.n_best} is more than beam_size {self.beam_size}: a search finds at "
                f"most as many texts as it has beams; set beam_size = {self.n_best}"
            )
        if self.beam_size % self.beam_groups:
            raise ValueError(
                f"beam_size {self.beam_size} is not a multiple of beam_groups {self.beam_groups}; "
                f"try beam_size = {self.beam_groups * -(-self.beam_size // self.beam_groups)}"
            )
        if self.max_length is not None and self.min_length >= self.max_length:
            raise ValueError(
                f"min_length {self.min_length} leaves no room below max_length {self.max_length}, "
                f"in which the end is counted; set max_length = {self.min_length + 1} or more"
            )
        return self

    def limits(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The fewest and the most tokens for sources of these lengths (sources,)."""
        least = (source * self.min_length_ratio).floor().long().clamp(min=self.min_length)
        most = (source * self.max_length_ratio).ceil().long() + 10
        if self.max_length is not None:
            most = torch.full_like(most, self.max_length)
        return torch.minimum(least, most - 1), most


@dataclass(frozen=True)
class Hypothesis:
    """A text that the search has found."""

    tokens: list[int]  # without start and end
    score: float  # what it was ranked by
    log_probability: float  # the model's own, the end included
    token_log_probs: list[float]  # of each token, and of the end if it came
    finished: bool  # it ended by itself; else it was cut off


@dataclass(frozen=True)
class Round:
    """One round of the search, as a spectator sees it."""

    sources: Tensor  # (sources,), their numbers: some may have left
    before: Beams
    log_probs: Tensor  # (sources, beams, vocab), the model's own
    adjusted: Tensor  # the same after all constraints
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
    config: GenerationConfig,
    *,
    eos: int,
    pad: int,
    ends: Sequence[int] = (),
    extra: Sequence[Constraint] = (),
    watch: Callable[[Round], None] | None = None,
) -> list[list[Hypothesis]]:
    """The best texts for each source, best first.

    step: the newest tokens (rows, 1) and the state to logits, such as a model's own. prefix:
    (sources, length), of which the state has read all but the last token, -1 where it is
    not text; the state has `beams` beams. least, most: (sources,). ends: tokens that end a text as
    `eos` does.
    """
    checks = list(extra)
    if config.no_repeat_ngram:
        checks.append(constraints.no_repeat(config.no_repeat_ngram))
    if config.repetition_penalty != 1:
        checks.append(constraints.repetition(config.repetition_penalty))
    hypotheses: list[list[Hypothesis]] = [[] for _ in range(prefix.shape[0])]
    numbers = torch.arange(prefix.shape[0], device=prefix.device)
    beams = Beams.start(prefix, config.beam_size, groups=config.beam_groups)
    newest = prefix[:, -1:].repeat_interleave(config.beam_size, dim=0)  # (rows, 1)
    rounds = 0
    earliest, soonest = int(least.max()), int(most.min())  # read once: all may end, one must
    while len(numbers):
        rounds += 1
        log_probs = as_log_probs(step(newest, state)[:, -1])
        if ends:
            log_probs = constraints.one_end(log_probs, eos, ends)
        log_probs = log_probs.view(len(numbers), config.beam_size, -1)
        adjusted = constraints.apply(checks, log_probs, beams.tokens)
        if rounds <= earliest:  # for some of them an end would come too soon
            if watch is not None:
                adjusted = adjusted.clone()  # the model's own numbers are shown too
            adjusted[..., eos].masked_fill_((rounds <= least)[:, None], -torch.inf)
        before = beams
        if beams.scores.dtype != log_probs.dtype:
            before = replace(beams, scores=beams.scores.to(log_probs))
        if config.beam_groups == 1:
            beams, parents = beam_step(
                before, log_probs, eos=eos, pad=pad,
                adjusted=None if adjusted is log_probs else adjusted,
            )  # fmt: skip
        else:
            beams, parents = group_step(
                before, log_probs, eos=eos, pad=pad, adjusted=adjusted,
                groups=config.beam_groups, diversity=config.diversity_penalty,
            )  # fmt: skip
        if config.beam_size > 1:
            state.follow(parents)
        newest = beams.tokens[..., -1].reshape(-1, 1)
        if watch is None and rounds < soonest and not bool(beams.finished.any()):
            continue  # nothing has ended, and nothing is cut off yet
        done = settled(beams, most, best=config.n_best, alpha=config.alpha) | (rounds >= most)
        if watch is not None:
            watch(Round(numbers, before, log_probs, adjusted, beams, parents, done))
        if bool(done.any()):
            leaving = harvest(beams.select(done), config, prefix.shape[1])
            for number, texts in zip(numbers[done].tolist(), leaving, strict=True):
                hypotheses[number] = texts
            stay = (~done).nonzero()[:, 0]
            numbers, least, most = numbers[stay], least[stay], most[stay]
            beams = beams.select(stay)
            state.select(stay)
            newest = beams.tokens[..., -1].reshape(-1, 1)
            if len(numbers):
                earliest, soonest = int(least.max()), int(most.min())
    return hypotheses


def harvest(beams: Beams, config: GenerationConfig, start: int) -> list[list[Hypothesis]]:
    """The best texts of each source, best first; they begin at `start`. A text that was cut off
    counts like one that has ended."""
    ranking, order = beams.ranking(config.alpha).sort(dim=1, descending=True, stable=True)
    order = order[:, : config.n_best]
    ranks, lengths = ranking[:, : config.n_best].tolist(), beams.lengths.gather(1, order).tolist()
    finished = beams.finished.gather(1, order).tolist()
    tokens, token_log_probs = (
        part.gather(1, order[..., None].expand(-1, -1, part.shape[2])).tolist()
        for part in (beams.tokens[:, :, start:], beams.token_log_probs)
    )
    return [
        [
            _hypothesis(*one)
            for one in zip(*of_source, strict=True)
            if one[0] != -torch.inf  # an empty place
        ]
        for of_source in zip(ranks, tokens, token_log_probs, lengths, finished, strict=True)
    ]


def _hypothesis(
    rank: float, tokens: list[int], token_log_probs: list[float], length: int, finished: bool
) -> Hypothesis:
    token_log_probs = token_log_probs[:length]
    return Hypothesis(
        tokens[: length - finished], rank, sum(token_log_probs), token_log_probs, finished
    )
