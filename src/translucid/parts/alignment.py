"""Attention for recurrent decoders: an alignment of each target position to the source.

Shapes: hidden (rows, queries, d_query); encoder_output (sources, keys, d_encoder); pattern
(sources, beams * queries, keys). The query is the state of the decoder after it has read the token
(Luong et al. 2015, https://arxiv.org/abs/1508.04025), so all positions of a known target are
aligned in parallel. The score is Bahdanau's or Luong's.
"""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.activations import softmax
from translucid.parts.computation import Index, Scope, softmax_terms
from translucid.parts.expression import Expression, Terms, apply, dot, joined
from translucid.parts.switch import Switch

AlignmentName = Literal["additive", "dot"]


class Alignment(nn.Module):
    """context = Σ pattern · encoder_output; output = tanh(W [context; hidden]). Subclasses define
    the score."""

    def __init__(self, d_query: int, d_encoder: int) -> None:
        super().__init__()
        self.key = nn.Linear(d_encoder, d_query, bias=False)
        self.output = nn.Linear(d_encoder + d_query, d_query)

    def project(self, encoder_output: Tensor) -> tuple[Tensor, Tensor]:
        """Project an encoder's output to keys and values, once for all decoder steps."""
        return self.key(encoder_output), encoder_output

    def score(self, hidden: Tensor, keys: Tensor, trace: NoTrace) -> Tensor:
        """The score of each target state and source position: (rows, queries, keys)."""
        raise NotImplementedError

    def forward(
        self,
        hidden: Tensor,
        encoder_output: tuple[Tensor, Tensor],
        mask: Tensor | None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Attend to the source. mask: (sources, keys), True at real tokens. The beams of a source
        are adjacent rows."""
        rows, queries = hidden.shape[:2]
        keys, values = encoder_output
        hidden = hidden.reshape(keys.shape[0], -1, hidden.shape[-1])  # beams become queries
        scores = trace("scores", self.score(hidden, keys, trace))
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], -torch.inf)
        pattern = trace("pattern", softmax(scores, trace))
        context = trace("context", pattern @ values)  # (sources, beams * queries, d_encoder)
        output = torch.tanh(self.output(torch.cat([context, hidden], dim=-1)))
        return trace("output", output).view(rows, queries, -1)

    def switches(self, path: str) -> Iterator[Switch]:
        name = "decoder attends uniformly to the source"
        yield Switch(path, name, "alignment", {f"{path}.scores": 0.0})

    def score_terms(self, at: Scope, query: Terms, key: Terms) -> Expression:
        """The score of one query and one key, as an expression."""
        raise NotImplementedError

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        (row, *place), run, source = index, at.run, at.encoder
        match point:
            case "key":
                key, d = place
                read = run.vector("encoder_output", source.output_name, row, key, None)
                return at.linear("key", d, read, "W_k")
            case "scores":
                query, key = place
                asked = at.vector("query", row, query, None)
                return self.score_terms(at, asked, at.vector("key", row, key, None))
            case "query":
                query, d = place
                hidden = _hidden(at, row, query)
                projects = isinstance(self, AdditiveAlignment)
                return at.linear("query", d, hidden, "W_q", "b_q") if projects else hidden.at(d)
            case "shift" | "exponentials" | "normaliser" | "pattern":
                scores, mask = at.vector("scores", row, place[0], None), source.mask
                terms = softmax_terms(at, point, index, scores, source.tokens(row, scores))
                masked = point == "exponentials" and mask
                return run.number(mask, mask, row, place[1]) * terms if masked else terms
            case "context":
                query, d = place
                values = run.vector("encoder_output", source.output_name, row, None, d)
                return run.total(dot(at.vector("pattern", row, query, None), values))
        query, d = place
        both = joined(at.vector("context", row, query, None), _hidden(at, row, query))
        return apply("tanh", at.linear("output", d, both))


def _hidden(at: Scope, row: int, query: int) -> Terms:
    """The decoder's state at a target position, as the terms of a vector."""
    return at.run.vector("hidden", at.run.reads(at.path), row, query, None)


class AdditiveAlignment(Alignment):
    """score = vᵀ tanh(W h + U m). Bahdanau, Cho & Bengio 2015, https://arxiv.org/abs/1409.0473"""

    variant = Variant(["additive"])

    def __init__(self, d_query: int, d_encoder: int) -> None:
        super().__init__(d_query, d_encoder)
        self.query = nn.Linear(d_query, d_query)
        self.energy = nn.Linear(d_query, 1, bias=False)

    def score(self, hidden: Tensor, keys: Tensor, trace: NoTrace) -> Tensor:
        query = trace("query", self.query(hidden))  # (rows, queries, d_query)
        key = trace("key", keys)  # (rows, keys, d_query)
        return self.energy(torch.tanh(query[:, :, None] + key[:, None])).squeeze(-1)

    def score_terms(self, at: Scope, query: Terms, key: Terms) -> Expression:
        v = at.weights("v", "energy.weight", 0, None)
        values = v.values * (query.values + key.values).tanh()
        return at.run.total(
            Terms(values, lambda d: v.at(d) * apply("tanh", query.at(d) + key.at(d)))
        )


class DotAlignment(Alignment):
    """score = hᵀ W m: Luong's dot product, with the encoder's output m projected to d_query."""

    variant = Variant(["dot"])

    def score(self, hidden: Tensor, keys: Tensor, trace: NoTrace) -> Tensor:
        query = trace("query", hidden)
        key = trace("key", keys)
        return query @ key.transpose(1, 2)

    def score_terms(self, at: Scope, query: Terms, key: Terms) -> Expression:
        return at.run.total(dot(query, key))


def make_alignment(name: AlignmentName, d_query: int, d_encoder: int) -> Alignment:
    """Build an alignment layer by name."""
    return (AdditiveAlignment if name == "additive" else DotAlignment)(d_query, d_encoder)
