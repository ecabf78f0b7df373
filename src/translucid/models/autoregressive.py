"""The interface of a model that generates token by token: one network or an ensemble.

    state = model.start(GenerationInputs(rows), capacity)                 a language model
    state = model.start(GenerationInputs.of(source, mask), capacity)      an encoder-decoder
    logits = model.step(tokens, state)                                    repeatedly

A state holds `rows` sequences; `expand(beams)` continues each of them in several beams.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace


@dataclass(frozen=True)
class GenerationInputs:
    """The number of rows to generate and, for an encoder-decoder, the source of each."""

    rows: int
    source: Tensor | None = None  # (rows, source length)
    mask: Tensor | None = None  # source mask, True at real tokens; None: no padding

    @classmethod
    def of(cls, source: Tensor, mask: Tensor | None = None) -> "GenerationInputs":
        """Create the inputs for an encoder-decoder. source, mask: (rows, source length)."""
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
    """What a model remembers of the tokens that each row has read so far."""

    @property
    def length(self) -> int: ...

    def expand(self, beams: int) -> None:
        """Split every row into `beams` beams."""

    def follow(self, parents: Tensor) -> None:
        """Make beam j of row i continue beam parents[i, j] of the same row. parents: (rows,
        beams)."""

    def select(self, sources: Tensor) -> None:
        """Replace row i by row sources[i]; rows may be repeated or omitted."""


class BatchState(GenerationState, Protocol):
    """A state that rows can join while others are generated."""

    def join(self, other: Any) -> None:
        """Append the rows of another state of the same model, with as many beams."""

    def compact(self) -> None:
        """Free the memory for what no beam remembers, if this is much."""


S = TypeVar("S", bound=GenerationState)


class AutoregressiveModel(Protocol[S]):
    """A model that generates: recurrent or Transformer, alone or an ensemble."""

    @property
    def vocab(self) -> int: ...
    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens the model can read or generate; None: no limit."""

    @property
    def device(self) -> torch.device: ...

    def start(self, inputs: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE) -> S:
        """Create a state for sequences of up to `capacity` tokens."""

    def step(
        self, tokens: Tensor, state: S, mask: Tensor | None = None, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        """Add new tokens (rows, queries) to the state and return their logits (rows, queries,
        vocab). mask: (rows, queries), True at real tokens."""
