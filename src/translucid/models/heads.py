"""Output heads: for a class or a vector of a text, for the tags of its tokens, or for masked
tokens."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.catalogue import Variant
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.activations import ActivationName, identity, softmax, symbol
from translucid.parts.cache import RecurrentState
from translucid.parts.computation import Index, Scope
from translucid.parts.embedding import Embedding
from translucid.parts.expression import Expression, Terms, activation, apply, constant, dot
from translucid.parts.feedforward import Dense
from translucid.parts.recurrent import Recurrent

HeadName = Literal["language", "classify", "tag", "none", "fill", "embed"]
Pooling = Literal["mean", "last", "first", "attention"]


@dataclass(frozen=True)
class Encoded:
    """The output of an encoder or decoder, which a head reads."""

    outputs: Tensor  # (batch, length, d_output)
    mask: Tensor | None = None  # (batch, length), True at real tokens; None: no padding
    state: RecurrentState | None = None  # after the last token, for a recurrent network


class Tagger(nn.Module):
    """A head that computes logits W x + b for each token."""

    output_point = "logits"

    def __init__(self, d_input: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_input, outputs)

    def forward(self, encoded: Encoded, trace: NoTrace = NO_TRACE) -> Tensor:
        return trace("logits", self.linear(encoded.outputs))  # (batch, length, outputs)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place, tag = index
        return at.linear("linear", tag, at.inputs(row, place, None))


class HiddenStates(nn.Module):
    """A head that returns the encoder's outputs unchanged."""

    output_point = "hidden"

    def forward(self, encoded: Encoded, trace: NoTrace = NO_TRACE) -> Tensor:
        return trace("hidden", encoded.outputs)  # (batch, length, d_model)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        return at.input(*index)


class MaskedLanguageHead(nn.Module):
    """Logits W norm(act(W_d x + b_d)) + b over the vocabulary, for each token; if tied, W is the
    embedding table.

    Devlin et al. 2019, https://arxiv.org/abs/1810.04805
    """

    output_point = "logits"

    def __init__(
        self,
        d_model: int,
        vocab: int,
        norm: nn.Module,
        activation: ActivationName = "gelu",
        tied: Embedding | None = None,
    ) -> None:
        super().__init__()
        self.dense = Dense(d_model, d_model, activation)
        self.norm = norm
        self.linear = nn.Linear(d_model, vocab)
        nn.init.zeros_(self.linear.bias)
        if tied is not None:
            self.linear.weight = tied.table.weight

    @property
    def variant(self) -> Variant:
        return Variant(["fill"], symbols={"act": symbol(self.dense.activation)})

    def forward(self, encoded: Encoded, trace: NoTrace = NO_TRACE) -> Tensor:
        x = trace("transformed", self.dense(encoded.outputs))
        return trace("logits", self.linear(self.norm(x, encoded.mask, trace.at("norm"))))

    def feeds(self, part: str, at: Scope) -> str | None:
        return at.name("transformed") if part == "norm" else None

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place, d = index
        if point == "transformed":
            return _dense_terms(self.dense, at, d, at.inputs(row, place, None))
        normed = at.run.vector("normed", at.name("norm.output"), row, place, None)
        return at.linear("linear", d, normed)


class _Pooled(nn.Module):
    """One vector for all tokens, optionally followed by a dense layer.

    mean: the mean of all tokens. first, last: the first or last real token; for recurrent networks,
    "last" is the final state, which covers the text in both directions. attention: a mean weighted
    by a trained query.
    """

    def __init__(self, d_input: int, pooling: Pooling, dense: Dense | None) -> None:
        super().__init__()
        self.pooling = pooling
        self.query = nn.Linear(d_input, 1, bias=False) if pooling == "attention" else None
        self.dense = dense

    @property
    def variant(self) -> Variant:
        words, symbols = [self.pooling, *self._words()], {}
        if self.dense is not None:
            symbols["act"] = symbol(self.dense.activation)
            words += ["identity"] if self.dense.activation is identity else []
        return Variant(words, symbols=symbols)

    def _words(self) -> list[str]:
        """Further keywords that identify the variant of this head, in addition to the pooling."""
        return []

    def _vector(self, encoded: Encoded, trace: NoTrace) -> Tensor:
        pooled = trace("pooled", self._pool(encoded, trace))  # (batch, d_model)
        return pooled if self.dense is None else trace("dense", self.dense(pooled))

    def _pool(self, encoded: Encoded, trace: NoTrace) -> Tensor:
        x, mask, state = encoded.outputs, encoded.mask, encoded.state
        if mask is None:
            mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        match self.pooling:
            case "mean":
                weight = mask.to(x.dtype)
                weight = weight / weight.sum(dim=1, keepdim=True).clamp(min=1)
            case "attention":
                assert self.query is not None
                scores = trace("pool_scores", self.query(x).squeeze(-1))
                weight = softmax(scores.masked_fill(~mask, -torch.inf))
            case "first" | "last":
                if self.pooling == "last" and state is not None:
                    directions = x.shape[-1] // state.hidden.shape[-1]
                    return torch.cat(list(state.hidden[-directions:]), dim=-1)
                place = mask.cumsum(dim=1)
                wanted = 1 if self.pooling == "first" else place[:, -1:]
                weight = ((place == wanted) & mask).to(x.dtype)
        weight = trace("pool_pattern", weight)  # (batch, length)
        return (weight[:, None] @ x).squeeze(1)

    def _vector_terms(self, at: Scope, row: int) -> Terms:
        """The vector of a text that the output layer reads, as terms."""
        return at.vector("pooled" if self.dense is None else "dense", row, None)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place = index
        match point:
            case "pool_scores":
                query = at.weights("w", "query.weight", 0, None)
                return at.run.total(dot(query, at.inputs(row, place, None)))
            case "pool_pattern":
                return self._pattern_terms(at, row, place)
            case "dense":
                assert self.dense is not None
                return _dense_terms(self.dense, at, place, at.vector("pooled", row, None))
        if at.has("pool_pattern"):
            weights = at.vector("pool_pattern", row, None)
            return at.run.total(dot(weights, at.inputs(row, None, place)))
        source = at.run.at(at.run.reads(at.path).rpartition(".")[0])
        recurrent = source.module
        assert isinstance(recurrent, Recurrent)
        return recurrent.last_states(source, recurrent.layers - 1, row, "hidden", "h").at(place)

    def _pattern_terms(self, at: Scope, row: int, place: int) -> Expression:
        if self.pooling == "attention":
            name = at.name("pool_softmax.probabilities")
            return at.run.number("pool_scores", name, row, place)
        length = at.run.tensor(at.name("pool_pattern")).shape[1]
        there = [t for t in range(length) if at.is_token(row, t)]
        if self.pooling == "mean":
            return constant("t", place in there) / constant("n", max(len(there), 1))
        return constant("t", place in (there[:1] if self.pooling == "first" else there[-1:]))


def _dense_terms(dense: Dense, at: Scope, d: int, x: Terms) -> Expression:
    """One value of the dense layer, act(W_d x + b_d), as an expression. d: the index of the
    value."""
    return activation(dense.activation, at.linear("dense.linear", d, x, "W_d", "b_d"))


class Classifier(_Pooled):
    """Logits W p + b of the pooled vector p, or W act(W_d p + b_d) + b with a dense layer."""

    output_point = "class_logits"

    def __init__(
        self,
        d_input: int,
        outputs: int,
        pooling: Pooling = "mean",
        dense: ActivationName | None = None,
    ) -> None:
        """dense: activation of a dense layer before the logits; None: no dense layer."""
        super().__init__(
            d_input, pooling, None if dense is None else Dense(d_input, d_input, dense)
        )
        self.linear = nn.Linear(d_input, outputs)

    def forward(self, encoded: Encoded, trace: NoTrace = NO_TRACE) -> Tensor:
        vector = self._vector(encoded, trace)
        return trace("class_logits", self.linear(vector))  # (batch, outputs)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point != "class_logits":
            return super().terms(at, point, index)
        row, label = index
        return at.linear("linear", label, self._vector_terms(at, row))


class TextEmbedding(_Pooled):
    """One vector for a text, optionally after a dense layer, optionally normalised to length 1.

    Reimers & Gurevych 2019, https://arxiv.org/abs/1908.10084
    """

    output_point = "embedding"

    def __init__(
        self,
        d_input: int,
        outputs: int | None,
        pooling: Pooling = "mean",
        dense: ActivationName = "identity",
        *,
        normalise: bool = False,
    ) -> None:
        """outputs: width of the dense layer; None: no dense layer."""
        super().__init__(
            d_input, pooling, None if outputs is None else Dense(d_input, outputs, dense)
        )
        self.normalise = normalise

    def _words(self) -> list[str]:
        return ["normalised"] if self.normalise else []

    def forward(self, encoded: Encoded, trace: NoTrace = NO_TRACE) -> Tensor:
        vector = self._vector(encoded, trace)
        return trace("embedding", F.normalize(vector, dim=-1) if self.normalise else vector)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point != "embedding":
            return super().terms(at, point, index)
        row, d = index
        vector = self._vector_terms(at, row)
        if not self.normalise:
            return vector.at(d)
        return vector.at(d) / apply("sqrt", at.run.total(dot(vector, vector)))


Head = Classifier | Tagger | HiddenStates | MaskedLanguageHead | TextEmbedding


def make_head(
    name: HeadName,
    d_input: int,
    outputs: int | None,
    pooling: Pooling,
    dense: ActivationName | None = None,
    *,
    normalise: bool = False,
) -> Head:
    """Build a head by name: classify, tag, embed or none."""
    match name:
        case "none":
            return HiddenStates()
        case "embed":
            return TextEmbedding(
                d_input, outputs, pooling, dense or "identity", normalise=normalise
            )
    assert outputs is not None, "the config was validated"
    if name == "classify":
        return Classifier(d_input, outputs, pooling, dense)
    return Tagger(d_input, outputs)
