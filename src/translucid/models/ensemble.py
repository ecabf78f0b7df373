"""An ensemble: the mean of several networks' probabilities.

The members of an ensemble start training from different weights and learn from different batches,
because each forward pass in training uses one random member. So their errors differ, and the mean
is right more often than any member (Hansen & Salamon 1990, https://doi.org/10.1109/34.58871).
Networks that were trained separately can generate together too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models.autoregressive import BatchState, GenerationInputs
from translucid.models.base import AutoregressiveNetwork, DecoderModel, EncoderModel, Network
from translucid.models.sequence_config import TextConfig
from translucid.parts.activations import as_log_probs
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, add, apply, constant

Member = EncoderModel | DecoderModel


def mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean probability of several models, from the logits (..., classes) of
    each."""
    log_probs = torch.stack([as_log_probs(one) for one in logits])
    return log_probs.logsumexp(dim=0) - math.log(len(log_probs))


class Ensemble(Network):
    """An ensemble of networks that label texts or tokens."""

    config: TextConfig

    def __init__(self, config: TextConfig, members: Sequence[Network]) -> None:
        super().__init__()
        self.config, self.members = config, nn.ModuleList(members)
        self.training = members[0].training

    def networks(self) -> list[Member]:
        """The members as a list, with their type, which a ModuleList does not give."""
        return [member for member in self.members if isinstance(member, Member)]

    def forward(self, *inputs: Any, trace: NoTrace = NO_TRACE, **named: Any) -> Tensor:
        """The logarithm of the members' mean probability; in training, the output of one random
        member. The arguments are those of the members."""
        if inputs and isinstance(inputs[-1], NoTrace):
            *inputs, trace = inputs  # type: ignore[assignment]
        if self.training:
            chosen = int(torch.randint(len(self.members), ()))
            return self.members[chosen](*inputs, trace=trace.at(f"members.{chosen}"), **named)
        outputs = [
            member(*inputs, trace=trace.at(f"members.{number}"), **named)
            for number, member in enumerate(self.members)
        ]
        return _mean(outputs, trace)

    @property
    def output_point(self) -> str:
        return f"ensemble.{self.networks()[0].head.output_point}"

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        outputs = [
            f"members.{n}.{member.output_point.rpartition('.')[0]}"
            for n, member in enumerate(self.members)
            if isinstance(member, Network)
        ]
        probabilities = [
            at.run.number("softmax", f"{scope}.softmax.probabilities", *index) for scope in outputs
        ]
        return apply("log", add(*probabilities) / constant("n", len(probabilities)))


@dataclass
class EnsembleState:
    """The generation states of all members."""

    states: Sequence[BatchState]

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

    def join(self, other: "EnsembleState") -> None:
        for mine, its in zip(self.states, other.states, strict=True):
            mine.join(its)

    def compact(self) -> None:
        for state in self.states:
            state.compact()


class GeneratingEnsemble(Ensemble, AutoregressiveNetwork[EnsembleState]):
    """An ensemble of networks that generate text. They may be of different families, but must have
    the same vocabulary."""

    def __init__(
        self, members: Sequence[AutoregressiveNetwork[Any]], config: TextConfig | None = None
    ) -> None:
        """config: the configuration of the ensemble; default: that of the first member."""
        if not members:
            raise InputError("an ensemble needs at least one model")
        sizes = sorted({member.vocab for member in members})
        if len(sizes) > 1:
            raise InputError(
                f"the models have vocabularies of {', '.join(map(str, sizes))} tokens; an "
                "ensemble needs models with the same vocabulary"
            )
        super().__init__(config or members[0].config, members)
        self.vocab = sizes[0]

    @property
    def generators(self) -> list[AutoregressiveNetwork[Any]]:
        return [member for member in self.members if isinstance(member, AutoregressiveNetwork)]

    @property
    def max_length(self) -> int | None:
        lengths = [member.max_length for member in self.generators]
        return min((length for length in lengths if length is not None), default=None)

    def start(
        self, inputs: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE
    ) -> EnsembleState:
        return EnsembleState(
            [
                member.start(inputs, capacity, trace.at(f"members.{number}"))
                for number, member in enumerate(self.generators)
            ]
        )

    def step(
        self,
        tokens: Tensor,
        state: EnsembleState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Add new tokens to the state of each member; return the logarithm of the mean probability
        (rows, queries, vocab)."""
        log_probs = [
            member.step(tokens, own, mask, trace.at(f"members.{number}"))
            for number, (member, own) in enumerate(zip(self.generators, state.states, strict=True))
        ]
        return _mean(log_probs, trace)


def _mean(logits: Sequence[Tensor], trace: NoTrace) -> Tensor:
    mean = mean_log_probs(logits)
    return trace.at("ensemble")("class_logits" if mean.dim() == 2 else "logits", mean)
