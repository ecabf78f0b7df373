"""The interface of a model that generates token by token: one network or an ensemble.

    state = model.start(GenerationInputs(rows), capacity)                 a language model
    state = model.start(GenerationInputs.of(source, mask), capacity)      an encoder-decoder
    logits = model.step(tokens, state)                                    repeatedly

A state holds `rows` sequences; `expand(beams)` continues each of them in several beams.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace


@dataclass(frozen=True)
class GenerationInputs:
    """The number of rows to generate and, for an encoder-decoder, the source of each."""

    rows: int
    source: Tensor | None = None  # (rows, source length)
    mask: Tensor | None = None  # of the source, True at real tokens; None: no padding

    @classmethod
    def of(cls, source: Tensor, mask: Tensor | None = None) -> "GenerationInputs":
        """Inputs of an encoder-decoder; source and mask: (rows, source length)."""
        return cls(len(source), source, mask)

    @property
    def source_lengths(self) -> Tensor | None:
        """The number of tokens of each source, without padding: (rows,)."""
        if self.source is None:
            return None
        if self.mask is None:
            return torch.full_like(self.source[:, 0], self.source.shape[1])
        return self.mask.sum(dim=1)


class GenerationState(Protocol):
    """What a model remembers of the tokens so far."""

    @property
    def length(self) -> int: ...

    def expand(self, beams: int) -> None:
        """Continue every row in `beams` beams."""

    def follow(self, parents: Tensor) -> None:
        """Beam j of row i now continues its beam parents[i, j]: (rows, beams)."""

    def select(self, sources: Tensor) -> None:
        """Row i is now what row sources[i] was; rows may repeat or be left out."""


S = TypeVar("S", bound=GenerationState)


class AutoregressiveModel(Protocol[S]):
    """A model that generates: recurrent or Transformer, alone or an ensemble."""

    @property
    def vocab(self) -> int: ...
    @property
    def max_length(self) -> int | None:
        """The most tokens the model can read or generate; None: no limit."""

    @property
    def device(self) -> torch.device: ...

    def start(self, inputs: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE) -> S:
        """A fresh state for sequences of up to `capacity` tokens."""

    def step(
        self, tokens: Tensor, state: S, mask: Tensor | None = None, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        """Logits (rows, queries, vocab) for the newest tokens (rows, queries), which are added
        to the state. mask: (rows, queries), True at real tokens."""
