"""Several networks of one kind that decide together: the mean of their probabilities.

They start from different weights, and each learns from batches of its own: in training, a pass goes
through one member, drawn by chance. What one has learnt by accident the others have not, so that
the mean is right more often than each (Hansen & Salamon 1990, https://doi.org/10.1109/34.58871).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from translucid.models.base import DecoderModel, EncoderModel, Network, SequenceConfig, Writer
from translucid.parts.activations import as_log_probs
from translucid.parts.cache import DecoderState
from translucid.trace import NO_TRACE, NoTrace

Member = EncoderModel | DecoderModel


def mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean probability, of logits (..., classes)."""
    each = torch.stack([as_log_probs(one) for one in logits])
    return each.logsumexp(dim=0) - math.log(len(each))


@dataclass
class CommitteeState:
    """What each of the networks remembers."""

    states: Sequence[DecoderState]

    @property
    def length(self) -> int:
        return self.states[0].length

    def expand(self, beams: int) -> None:
        for state in self.states:
            state.expand(beams)

    def follow(self, parents: Tensor) -> None:
        for state in self.states:
            state.follow(parents)

    def select(self, sources: Tensor) -> None:
        for state in self.states:
            state.select(sources)


class Committee(Network):
    """Members that label texts or words."""

    config: SequenceConfig

    def __init__(self, config: SequenceConfig, members: Sequence[Member]) -> None:
        super().__init__()
        self.config, self.members = config, nn.ModuleList(members)

    def each(self) -> list[Member]:
        """The members, with their type, which a ModuleList forgets."""
        return [member for member in self.members if isinstance(member, Member)]

    def forward(
        self,
        ids: Tensor,
        real: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
        *,
        letters: Tensor | None = None,
    ) -> Tensor:
        more = {} if letters is None else {"letters": letters}
        if self.training:
            chosen = int(torch.randint(len(self.members), ()))
            return self.members[chosen](ids, real, trace.at(f"members.{chosen}"), **more)
        each = [
            member(ids, real, trace.at(f"members.{number}"), **more)
            for number, member in enumerate(self.members)
        ]
        return _said(mean_log_probs(each), trace)

    @property
    def output_point(self) -> str:
        return f"committee.{self.each()[0].head.output_point}"


class WritingCommittee(Committee, Writer):
    """Members that go on with a text."""

    def __init__(self, config: SequenceConfig, members: Sequence[DecoderModel]) -> None:
        Committee.__init__(self, config, members)
        self.vocab = config.vocab

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def writers(self) -> list[DecoderModel]:
        return [member for member in self.each() if isinstance(member, DecoderModel)]

    def start(self, rows: int, *, capacity: int) -> CommitteeState:  # type: ignore[override]
        return CommitteeState([member.start(rows, capacity=capacity) for member in self.writers()])

    def step(  # type: ignore[override]
        self,
        tokens: Tensor,
        state: CommitteeState,
        real: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        each = [
            member.step(tokens, own, real, trace.at(f"members.{number}"))
            for number, (member, own) in enumerate(zip(self.writers(), state.states, strict=True))
        ]
        return _said(mean_log_probs(each), trace)


def _said(mean: Tensor, trace: NoTrace) -> Tensor:
    return trace.at("committee")("class_logits" if mean.dim() == 2 else "logits", mean)
