"""From ids to vectors, and from vectors back to scores over the vocabulary.

An encoder looks up a row of its embedding for each id. Further parts of its input (`InputPart`) may
replace ids (word dropout) or add to the vectors what else is known about a token: its segment here,
its characters in `characters.py`.

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
from translucid.parts.expression import Expression, Terms, add, apply, constant, times
from translucid.parts.switch import Switch, in_words


class Embedding(nn.Module):
    """One trained row per id, times sqrt(d_model) when `scale` is on.

    The scale lets one small-valued matrix serve both as embedding, where entries near 1 should
    meet the positions, and as tied output head, where logits should start near 0.
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
        return times(apply("sqrt", d_model), at.number("lookup", *index))


class LanguageHead(nn.Module):
    """Logits over the vocabulary, W x + b; tied, W is the embedding table. A bias starts at 0.
    With a `scale`, W (scale x) + b: a table with entries near 1 makes logits near 1 with it."""

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
            x = Terms(plain.values * self.scale, lambda i: times(scale, plain.at(i)))
        return at.linear("linear", token, x)


@dataclass(frozen=True)
class Tokens:
    """A batch of texts, as a reader gets it."""

    ids: Tensor  # (batch, length)
    mask: Tensor | None = (
        None  # (batch, length), True at tokens, False at padding; None: no padding
    )
    more: Mapping[str, Tensor] = field(default_factory=dict)  # by the name of the part it is for


class InputPart(nn.Module):
    """One part of a reader's input; this one changes nothing.

    A part stands in the reader under a name of its own, and so do its weights, its trace points and
    what it needs beside the ids (`needs`): `model(ids, characters=...)` is for the part
    `characters`.
    """

    needs = False  # an input under its own name

    def check(self, tokens: Tokens, features: Tensor | None) -> None:
        """Raise if this is not what the part needs."""

    def read(self, tokens: Tokens) -> Tokens:
        """The tokens that are looked up."""
        return tokens

    def add(self, x: Tensor, features: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        """x (batch, length, d_model), with what this part knows about each token."""
        return x

    def adds(self) -> bool:
        """Whether the part adds to the vectors; the trace then has its `sum`."""
        return type(self).add is not InputPart.add


class Segments(InputPart):
    """x + table[segment]: one trained row for each segment; all tokens are in segment 0 unless
    `model(ids, segments=...)` says otherwise.

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
                f"segments: {tuple(features.shape)} of {features.dtype} was given; give one whole "
                f"number for each token, {tuple(tokens.ids.shape)}"
            )
        many = self.table.num_embeddings
        if features.device.type == "cpu" and not torch.compiler.is_compiling() and features.numel():
            low, high = int(features.min()), int(features.max())
            if low < 0 or high >= many:
                wrong = low if low < 0 else high
                raise InputError(f"segments holds {wrong}, but the model has 0 to {many - 1}")

    def add(self, x: Tensor, features: Tensor | None, trace: NoTrace = NO_TRACE) -> Tensor:
        if features is None:
            features = torch.zeros(x.shape[:2], dtype=torch.long, device=x.device)
        return trace("sum", x + trace("lookup", self.table(features)))

    def switches(self, path: str) -> Iterator[Switch]:
        yield Switch(path, in_words(path), "segments", {f"{path}.lookup": 0.0})

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point == "sum":
            return add(at.input(*index), at.number("lookup", *index))
        if "segments" in at.run.inputs:
            return at.row_of("table.weight", "segments", *index)
        row = at.weight("table", "table.weight", 0, index[-1])
        return apply("table", row, constant("segments", 0))
