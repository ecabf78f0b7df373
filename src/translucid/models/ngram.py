"""N-gram language model. It learns by counting instead of gradient steps, so training takes
seconds.

Shapes: ids (batch, length); logits, which are log-probabilities, (batch, length, vocab).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from translucid.core.catalogue import Variant
from translucid.core.config import key
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models import inputs
from translucid.models.autoregressive import GenerationInputs
from translucid.models.base import AutoregressiveNetwork
from translucid.models.sequence_config import TextConfig
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, apply
from translucid.parts.kneser_ney import NGrams, estimated
from translucid.parts.sparse_table import Integers

TableSize = Annotated[int, Field(ge=0, lt=1 << 48)]


class NGramConfig(TextConfig):
    """Configuration of an n-gram language model."""

    kind: Literal["ngram"] = "ngram"
    order: int = key(4, "longest n-gram: a token and the order - 1 tokens before it", ge=1, le=9)
    ngrams: tuple[TableSize, ...] = key(
        (), "number of n-grams of each order from 2 on, set in training", strict=False
    )


@dataclass
class RowState:
    """A generation state that consists of tensors with one entry per row or one entry per
    source."""

    rows: tuple[Tensor, ...]  # the beams of a source are adjacent
    sources: tuple[Tensor, ...] = ()  # shared by the beams of a source
    length: int = 0
    beams: int = 1

    def expand(self, beams: int) -> None:
        self.beams = beams
        self.rows = tuple(values.repeat_interleave(beams, dim=0) for values in self.rows)

    def follow(self, parents: Tensor) -> None:
        first = torch.arange(len(parents), device=parents.device)[:, None] * self.beams
        self._reorder((first + parents).flatten())

    def select(self, sources: Tensor) -> None:
        beams = torch.arange(self.beams, device=sources.device)
        self._reorder((sources[:, None] * self.beams + beams).flatten())
        self.sources = tuple(values[sources] for values in self.sources)

    def _reorder(self, rows: Tensor) -> None:
        self.rows = tuple(values[rows] for values in self.rows)


class LogHead(nn.Module):
    """logits = log p, for a model that computes probabilities p."""

    variant = Variant(["counted"])
    output_point = "logits"

    def forward(self, probability: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        return trace("logits", probability.log())

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        return apply("log", at.run.number("p", at.run.reads(at.path), *index))


class NGramModel(AutoregressiveNetwork[RowState]):
    """p(w | the tokens before it), by interpolated n-gram counts (see `parts.kneser_ney`)."""

    fits = True
    config: NGramConfig

    def __init__(self, config: NGramConfig) -> None:
        super().__init__()
        self.config, self.vocab = config, config.vocab
        self.decoder = NGrams(config.vocab, config.ngrams)
        self.head = LogHead()

    def forward(self, ids: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        return self.step(ids, self.start(GenerationInputs(len(ids)), 0), mask, trace)

    def start(
        self, prompts: GenerationInputs, capacity: int, trace: NoTrace = NO_TRACE
    ) -> RowState:
        """Create a state, which holds the n-grams at the end of each text. Its size does not depend
        on `capacity`."""
        inputs.check_generation(prompts, with_source=False)
        return RowState((self.decoder.start(prompts.rows),))

    def step(
        self,
        tokens: Tensor,
        state: RowState,
        mask: Tensor | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        inputs.check_trace(trace)
        inputs.check_ids(tokens, mask, self.vocab)
        contexts, after = self.decoder.read(tokens, mask, state.rows[0])
        state.rows, state.length = (after,), state.length + tokens.shape[1]
        return self.head(self.decoder(contexts, trace.at("decoder")), trace.at("head"))

    @property
    def output_point(self) -> str:
        return "head.logits"

    def feeds(self, part: str, at: Scope) -> str | None:
        return at.part("decoder").output_name if part == "head" else None

    def check(self) -> None:
        self.decoder.check()

    def fit(self, batches: Sequence[tuple[Mapping[str, Tensor], Tensor]]) -> None:
        rows, like = list(texts_of(batches, "ids", "mask")), next(self.parameters())
        self.decoder = estimated(rows, self.vocab, self.config.order).to(like)
        self.config = self.config.model_copy(update={"ngrams": self.decoder.sizes})


def texts_of(
    batches: Sequence[tuple[Mapping[str, Tensor], Tensor]], ids: str, mask: str
) -> Iterator[Integers]:
    """Yield each text that a decoder reads in training: its tokens without padding, followed by the
    target of the last token. ids, mask: the names under which a batch contains the token ids and
    their mask."""
    for named, targets in batches:
        real = named.get(mask)
        real = torch.ones_like(named[ids], dtype=torch.bool) if real is None else real
        arrays = (tensor.numpy() for tensor in (named[ids], real, targets))
        for row, kept, last in zip(*arrays, strict=True):
            yield np.append(row[kept], last[kept][-1:])
