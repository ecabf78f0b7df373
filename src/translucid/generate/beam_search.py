"""Beam search with a model: rounds, until no better text can be found.

A source whose search is over leaves the batch at once, and others may join it between two rounds.
The results of `search` have the order of the sources.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import torch
from pydantic import Field, model_validator
from torch import Tensor

from translucid.core.cancellation import check_cancelled
from translucid.core.config import Config, key
from translucid.generate import constraints
from translucid.generate.beam import Beams, beam_step, group_step, settled
from translucid.generate.constraints import Constraint
from translucid.models.autoregressive import S
from translucid.parts.activations import as_log_probs

Ids = Annotated[tuple[int, ...], Field(strict=False)]  # also lists, from JSON


class GenerationConfig(Config):
    """Settings of text generation: beam search, lengths and penalties."""

    beam_size: int = key(4, "beam size; 1: greedy search", gt=0)
    alpha: float = key(
        1.0, "length penalty: hypotheses are compared by log-probability / length^alpha", ge=0
    )
    n_best: int = key(1, "hypotheses to return for each source, best first", gt=0)
    min_length: int = key(0, "minimum number of tokens of a hypothesis, without the end", ge=0)
    max_length: int | None = key(
        None, "maximum number of tokens, including the end; default: by max_length_ratio", gt=0
    )
    min_length_ratio: float = key(0.0, "minimum tokens, as a fraction of the source's", ge=0)
    max_length_ratio: float = key(
        2.0, "maximum number of tokens, as a fraction of the source's, plus 10", gt=0
    )
    no_repeat_ngram: int = key(0, "never repeat an n-gram of this many tokens; 0: no limit", ge=0)
    repetition_penalty: float = key(
        1.0,
        "repetition penalty: the score of an earlier token is divided by it if positive, else "
        "multiplied; scores are logits, or log-probabilities in beam search",
        gt=0,
    )
    beam_groups: int = key(1, "groups in diverse beam search; they do not compete", gt=0)
    diversity_penalty: float = key(
        0.5, "diversity penalty for tokens that an earlier group has chosen", ge=0
    )

    # Settings of imported models, with the meaning they have in transformers.
    early_stopping: bool | Literal["never"] | None = key(
        None,
        "when beam search stops, as in transformers; not set: a finished text keeps its place, "
        "and the search ends when no better text can be found",
        repr=False,
    )
    min_total_length: int = key(
        0, "minimum number of tokens, including the start or the prompt", ge=0, repr=False
    )
    max_total_length: int | None = key(
        None,
        "maximum number of tokens, including the start or the prompt; if max_length is not set",
        gt=0,
        repr=False,
    )
    length_offset: int = key(
        0,
        "number of start tokens that count in the length, for the length penalty",
        ge=0,
        repr=False,
    )
    count_start: bool = key(False, "whether start tokens count as repetitions", repr=False)
    forbid_ids: tuple[Ids, ...] = key(
        (), "sequences of token ids that must not be generated", strict=False, repr=False
    )
    forbid_first_ids: Ids = key((), "token ids that must not come first", strict=False, repr=False)
    forced_end_ids: Ids = key(
        (),
        "token ids, one of which ends a text at its maximum length",
        strict=False,
        repr=False,
    )
    renormalise: bool = key(
        False, "renormalize probabilities after all constraints, in beam search", repr=False
    )

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
        if self.max_length is not None and self.min_length > self.max_length - self.room_for_end:
            raise ValueError(
                f"min_length {self.min_length} is too large for max_length {self.max_length}, "
                f"which includes the end token; set max_length = {self.min_length + 1} or more"
            )
        return self

    def with_options(self, **options: Any) -> "GenerationConfig":
        """A copy with some settings changed. If `options` contains max_length or min_length, the
        copy has no corresponding limit on the total length, which includes the prompt."""
        values = self.model_dump() | options
        most = options.get("max_length")
        if isinstance(most, int):
            values["max_total_length"] = None
            if "min_length" not in options:
                values["min_length"] = max(min(self.min_length, most - 1), 0)
        if "min_length" in options:
            values["min_total_length"] = 0
        return GenerationConfig(**values)

    def constraints(self, start: int) -> list[Constraint]:
        """The constraints on token ids, for texts that begin after `start` tokens (the start tokens
        or prompt)."""
        checks = [constraints.forbid_run(run) for run in self.forbid_ids]
        if self.forbid_first_ids:
            checks.append(constraints.forbid_first(self.forbid_first_ids, start))
        return checks

    def limits(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The minimum and maximum number of tokens for sources of these lengths: (sources,)
        each."""
        least = (source * self.min_length_ratio).floor().long().clamp(min=self.min_length)
        most = (source * self.max_length_ratio).ceil().long() + 10
        if self.max_length is not None:
            most = torch.full_like(most, self.max_length)
        return torch.minimum(least, most - self.room_for_end), most

    @property
    def room_for_end(self) -> int:
        """By how many tokens the minimum length must be less than the maximum length: 1, so that
        the end token fits, or 0 in transformers' search, which does not require this."""
        return int(self.early_stopping is None)


@dataclass(frozen=True)
class Hypothesis:
    """A text found by the search."""

    tokens: list[int]  # without start and end
    score: float  # used for ranking
    log_probability: float  # the model's own, including the end
    token_log_probs: list[float]  # of each token, and of the end if there is one
    finished: bool  # it has an end; otherwise it was truncated


@dataclass(frozen=True)
class Round:
    """One round of the search, for the `watch` callback."""

    sources: Tensor  # (sources,), the indices of the sources that are still in the batch
    before: Beams
    log_probs: Tensor  # (sources, beams, vocab), the model's own
    adjusted: Tensor  # the same after all constraints
    after: Beams
    parents: Tensor  # (sources, beams)
    done: Tensor  # (sources,)


class After(NamedTuple):
    """What a round changes: the state of the model has to follow and select."""

    parents: Tensor | None  # (sources, beams), the beam that each beam continues; None: itself
    stay: Tensor | None  # the sources that stay, in their new order; None: all
    done: list[tuple[int, list[Hypothesis]]]  # numbers of the others, with their best texts


class BeamSearch:
    """A beam search for several sources, round by round. Sources may join between two rounds.

    Numbers identify the sources: join() returns them, in the order of the rows.
    """

    beams: Beams
    least: Tensor  # minimum length of each source
    most: Tensor
    rounds: Tensor  # how many rounds each source has had

    def __init__(
        self,
        config: GenerationConfig,
        *,
        eos: int,
        pad: int,
        start: int,
        ends: Sequence[int] = (),
        extra: Sequence[Constraint] = (),
        watch: Callable[[Round], None] | None = None,
    ) -> None:
        """start: the length of the prefixes, for constraints on positions in the text."""
        self.config, self.eos, self.pad, self.ends, self.watch = config, eos, pad, ends, watch
        self.checks = [*extra, *looking_back(config), *config.constraints(start)]
        self.numbers: list[int] = []  # of the sources in the batch
        self._joined = self._early = self._soonest = 0

    def join(self, prefix: Tensor, least: Tensor, most: Tensor) -> list[int]:
        """Add sources. prefix: (sources, length), left-padded with -1. least, most: minimum and
        maximum lengths (sources,)."""
        config, rounds = self.config, torch.zeros_like(least)
        beams = Beams.start(prefix, config.beam_size, groups=config.beam_groups)
        if self.numbers:
            beams = self.beams.join(beams)
            least, most = torch.cat([self.least, least]), torch.cat([self.most, most])
            rounds = torch.cat([self.rounds, rounds])
        self.beams, self.least, self.most, self.rounds = beams, least, most, rounds
        self._update_limits()
        new = list(range(self._joined, self._joined + len(prefix)))
        self._joined += len(prefix)
        self.numbers += new
        return new

    @property
    def newest(self) -> Tensor:
        """The newest token of each beam, which the model reads next: (rows, 1)."""
        return self.beams.tokens[..., -1].reshape(-1, 1)

    def round(self, logits: Tensor) -> After:
        """Extend every prefix by one token. logits: (rows, vocab), of the model."""
        config, eos, watch = self.config, self.eos, self.watch
        self.rounds += 1
        self._early, self._soonest = self._early - 1, self._soonest - 1
        log_probs = as_log_probs(logits)
        if self.ends:
            log_probs, logits = (
                constraints.one_end(t, eos, self.ends) for t in (log_probs, logits.to(log_probs))
            )
        log_probs = log_probs.view(len(self.numbers), config.beam_size, -1)
        greedy = logits.view(log_probs.shape) if config.beam_size == 1 else None
        adjusted = constraints.apply(self.checks, log_probs, self.beams.tokens, greedy)
        if self._early >= 0:  # some texts are too short to end
            if watch is not None:
                adjusted = adjusted.clone()  # `watch` also receives the unadjusted ones
            adjusted[..., eos].masked_fill_((self.rounds <= self.least)[:, None], -torch.inf)
        if config.forced_end_ids and self._soonest <= 0:
            last = self.rounds >= self.most
            adjusted = constraints.force_end(adjusted, config.forced_end_ids, last)
        if config.renormalise:
            adjusted = adjusted.log_softmax(dim=-1)
        before = self.beams
        if before.scores.dtype != log_probs.dtype:
            before = replace(before, scores=before.scores.to(log_probs))
        if config.beam_groups == 1:
            self.beams, parents = beam_step(
                before, log_probs, eos=eos, pad=self.pad,
                adjusted=None if adjusted is log_probs else adjusted,
            )  # fmt: skip
        else:
            self.beams, parents = group_step(
                before, log_probs, eos=eos, pad=self.pad, adjusted=adjusted,
                groups=config.beam_groups, diversity=config.diversity_penalty,
            )  # fmt: skip
        followed = parents if config.beam_size > 1 else None
        if watch is None and self._soonest > 0 and not bool(self.beams.finished.any()):
            return After(followed, None, [])  # no text can be done yet
        done = settled(self.beams, self.most, best=config.n_best, alpha=config.alpha)
        done |= self.rounds >= self.most
        if watch is not None:
            numbers = torch.tensor(self.numbers, device=done.device)
            watch(Round(numbers, before, log_probs, adjusted, self.beams, parents, done))
        if not bool(done.any()):
            return After(followed, None, [])
        return After(followed, *self._leave(done))

    def leave(self, numbers: Collection[int]) -> After:
        """Remove sources, and return the best texts so far."""
        gone = torch.tensor([n in numbers for n in self.numbers], device=self.rounds.device)
        return After(None, *self._leave(gone))

    def _leave(self, done: Tensor) -> tuple[Tensor, list[tuple[int, list[Hypothesis]]]]:
        texts = harvest(self.beams.select(done), self.config, self.rounds[done].tolist())
        gone = done.tolist()
        leaving = [number for number, over in zip(self.numbers, gone, strict=True) if over]
        self.numbers = [number for number, over in zip(self.numbers, gone, strict=True) if not over]
        stay = (~done).nonzero()[:, 0]
        self.beams = self.beams.select(stay)
        self.least, self.most, self.rounds = self.least[stay], self.most[stay], self.rounds[stay]
        if self.numbers:
            self._update_limits()
        return stay, list(zip(leaving, texts, strict=True))

    def _update_limits(self) -> None:
        """Compute after how many rounds all texts may end, and after how many one must."""
        self._early = int((self.least - self.rounds).max())
        self._soonest = int((self.most - self.rounds).min())


class Search(Protocol):
    """A search that runs round by round."""

    numbers: list[int]

    @property
    def newest(self) -> Tensor: ...
    def round(self, logits: Tensor) -> After: ...


def run(searching: Search, step: Callable[[Tensor, S], Tensor], state: S) -> list[list[Hypothesis]]:
    """Run all rounds of a search. Return the texts of each source, ordered by their numbers."""
    texts: dict[int, list[Hypothesis]] = {}
    while searching.numbers:
        check_cancelled()
        after = searching.round(step(searching.newest, state)[:, -1])
        if after.parents is not None:
            state.follow(after.parents)
        if after.stay is not None:
            state.select(after.stay)
        texts |= after.done
    return [texts[number] for number in sorted(texts)]


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
    """Return the best texts for each source, best first.

    step: maps the newest tokens (rows, 1) and the state to logits. state: has read all but the last
    token of the prefix, and has `beam_size` beams. prefix: (sources, length), left-padded with -1.
    least, most: minimum and maximum lengths (sources,). ends: further end tokens besides `eos`.
    """
    searching = BeamSearch(
        config, eos=eos, pad=pad, start=prefix.shape[1], ends=ends, extra=extra, watch=watch
    )
    searching.join(prefix, least, most)
    return run(searching, step, state)


def looking_back(config: GenerationConfig) -> list[Constraint]:
    """The constraints on repetition. They depend on earlier tokens."""
    checks = []
    if config.no_repeat_ngram:
        checks.append(constraints.no_repeat(config.no_repeat_ngram))
    if config.repetition_penalty != 1:
        checks.append(constraints.repetition(config.repetition_penalty))
    return checks


def harvest(
    beams: Beams, config: GenerationConfig, rounds: Sequence[int] | None = None
) -> list[list[Hypothesis]]:
    """The best texts of each source, best first. rounds: how many of its tokens were generated;
    default: all. Truncated texts compete with finished ones."""
    if rounds is None:
        rounds = [beams.tokens.shape[2]] * beams.tokens.shape[0]
    most = max(rounds, default=0)
    ranking, order = beams.ranking(config.alpha).sort(dim=1, descending=True, stable=True)
    order = order[:, : config.n_best]
    ranks, lengths = ranking[:, : config.n_best].tolist(), beams.lengths.gather(1, order).tolist()
    finished = beams.finished.gather(1, order).tolist()
    tokens, token_log_probs = (
        part.gather(1, order[..., None].expand(-1, -1, part.shape[2])).tolist()
        for part in (
            beams.tokens[:, :, beams.tokens.shape[2] - most :],
            beams.token_log_probs[:, :, beams.token_log_probs.shape[2] - most :],
        )
    )
    before = [most - count for count in rounds]  # tokens of longer texts
    return [
        [
            _hypothesis(rank, ids[first:], log_probs[first:], length, ended)
            for rank, ids, log_probs, length, ended in zip(*of_source, strict=True)
            if rank != -torch.inf  # an empty place
        ]
        for first, *of_source in zip(
            before, ranks, tokens, token_log_probs, lengths, finished, strict=True
        )
    ]


def _hypothesis(
    rank: float, tokens: list[int], token_log_probs: list[float], length: int, finished: bool
) -> Hypothesis:
    token_log_probs = token_log_probs[:length]
    return Hypothesis(
        tokens[: length - finished], rank, sum(token_log_probs), token_log_probs, finished
    )
