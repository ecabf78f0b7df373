"""Token embeddings, further input parts, and the language head.

Input parts (`InputPart`) may replace ids (word dropout) or add vectors to the embeddings. Segments
are defined in this module, characters in `characters.py`.

Shapes: ids and segments (batch, length); x (batch, length, d_model).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, Terms, apply, constant
from translucid.parts.switch import Switch, in_words


class Embedding(nn.Module):
    """One trained row per id. With `scale`, each row is multiplied by sqrt(d_model).

    The scale lets a tied matrix with small values serve both as embedding, with entries near 1, and
    as output head, with initial logits near 0.
    """

    decode_slots = ("embedding",)

    def __init__(self, vocab: int, d_model: int, *, scale: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, d_model)
        self.factor = math.sqrt(d_model) if scale else 1.0

    def forward(self, ids: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        x = trace("lookup", self.table(ids))  # (batch, length, d_model)
        return x if self.factor == 1.0 else trace("scaled", x * self.factor)

    @property
    def output_point(self) -> str:
        return "lookup" if self.factor == 1.0 else "scaled"

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point == "lookup":
            return at.row_of("table.weight", at.ids, *index)
        d_model = constant("d_model", self.table.embedding_dim)
        return apply("sqrt", d_model) * at.number("lookup", *index)


class LanguageHead(nn.Module):
    """Logits over the vocabulary: W (scale x) + b. If tied, W is the embedding table."""

    output_point = "logits"
    decode_slots = ("head",)

    def __init__(
        self,
        d_model: int,
        vocab: int,
        *,
        bias: bool = False,
        scale: float = 1.0,
        tied: Embedding | None = None,
    ) -> None:
        super().__init__()
        self.scale = scale
        self.linear = nn.Linear(d_model, vocab, bias=bias)
        if bias:
            nn.init.zeros_(self.linear.bias)
        if tied is not None:
            self.linear.weight = tied.table.weight

    @property
    def variant(self) -> Variant:
        absent = () if self.linear.bias is not None else ("b",)
        return variant(absent, scaled=self.scale != 1)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        if self.scale != 1:
            x = x * self.scale
        return trace("logits", self.linear(x))  # (batch, length, vocab)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place, token = index
        x = at.inputs(row, place, None)
        if self.scale != 1:
            scale, plain = constant("logit_scale", self.scale), x
            x = Terms(plain.values * self.scale, lambda i: scale * plain.at(i))
        return at.linear("linear", token, x)


def out_of_range(ids: Tensor, size: int) -> int | None:
    """Return an id that is not between 0 and size - 1, if any. Ids on a GPU or in a compiled graph
    are not checked: reading values would synchronise the GPU or break the graph."""
    if ids.device.type != "cpu" or torch.compiler.is_compiling() or not ids.numel():
        return None
    low, high = int(ids.min()), int(ids.max())
    return low if low < 0 else high if high >= size else None


@dataclass(frozen=True)
class Tokens:
    """A batch of texts: the input of an encoder."""

    ids: Tensor  # (batch, length)
    mask: Tensor | None = None  # (batch, length), False at padding; None: no padding
    more: Mapping[str, Tensor] = field(default_factory=dict)  # by the name of the input part


class InputPart(nn.Module):
    """A module that changes token ids or adds to embeddings; the base class changes nothing.

    Its name in the encoder is also the name of its weights, its trace points and its input:
    `model(ids, characters=...)` is for the part `characters`.
    """

    needs = False  # whether it has an input of its own

    def check(self, tokens: Tokens, features: Tensor | None) -> None:
        """Raise an error if the part cannot read these features."""

    def read(self, tokens: Tokens) -> Tokens:
        """The tokens to look up in the embedding, possibly changed by this part."""
        return tokens

    def add(self, x: Tensor, features: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        """Add the vectors of this part to x (batch, length, d_model)."""
        return x

    def adds(self) -> bool:
        """Whether the part adds vectors to the embeddings. If it does, the result is its trace
        point `sum`."""
        return type(self).add is not InputPart.add


class Segments(InputPart):
    """x + table[segment]: one trained row per segment. Without `model(ids, segments=...)`, all
    tokens are in segment 0.

    Devlin et al. 2019, https://arxiv.org/abs/1810.04805
    """

    needs = True

    def __init__(self, segments: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(segments, d_model)

    def check(self, tokens: Tokens, features: Tensor | None) -> None:
        if features is None:
            return
        if features.shape != tokens.ids.shape or features.dtype not in (torch.long, torch.int):
            raise InputError(
                f"segments: got a tensor {tuple(features.shape)} of {features.dtype}; expected one "
                f"whole number for each token, {tuple(tokens.ids.shape)}"
            )
        count = self.table.num_embeddings
        if (wrong := out_of_range(features, count)) is not None:
            raise InputError(
                f"segments contains {wrong}, but segment numbers must be between 0 and {count - 1}"
            )

    def add(self, x: Tensor, features: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        if features is None:
            features = torch.zeros(x.shape[:2], dtype=torch.long, device=x.device)
        return trace("sum", x + trace("lookup", self.table(features)))

    def switches(self, path: str) -> Iterator[Switch]:
        yield Switch(path, in_words(path), "segments", {f"{path}.lookup": 0.0})

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point == "sum":
            return at.input(*index) + at.number("lookup", *index)
        if "segments" in at.run.inputs:
            return at.row_of("table.weight", "segments", *index)
        row = at.weight("table", "table.weight", 0, index[-1])
        return apply("table", row, constant("segments", 0))
