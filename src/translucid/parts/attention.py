"""Attention: each query takes a weighted mean of the values, by how well it matches the keys.

Shapes: x (batch, positions, d_model); per head (batch, heads, positions, d_head).
Masks are boolean and broadcast to (batch, heads, queries, keys); True means "may attend".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.errors import ConfigError
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts import masks
from translucid.parts.activations import softmax
from translucid.parts.cache import KVCache, Slots
from translucid.parts.lora import linear
from translucid.parts.norms import RMSNorm
from translucid.parts.positions import turn

# Whoever looks at one of these sees the computation by hand; else a fused kernel runs.
SEARCHED = 100_000  # numbers on either side of a size that does not divide
INSIDE = (
    "scale",
    "scores",
    "scaled",
    "biased",
    "mask",
    "masked",
    "shift",
    "exponentials",
    "normaliser",
    "pattern",
)


@dataclass(frozen=True)
class Layout:
    """What all layers of a stack share: who may see whom, and where everyone stands."""

    mask: Tensor | None = None  # broadcasts to (batch, heads, queries, keys); None: all may attend
    causal: bool = False  # with mask None: only the past, without building the mask
    blind: bool = True  # a query may be there that sees nothing
    bias: Tensor | None = None  # broadcasts to (batch, heads, queries, keys)
    angles: Tensor | None = None  # (batch, queries, pairs): of the first pairs of each head
    # Of the angles, once for all layers: cosines and sines.
    turns: tuple[Tensor, Tensor] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.angles is not None:
            object.__setattr__(self, "turns", (self.angles.cos(), self.angles.sin()))


# q, k, v, layout, the scale of the scores, the probability of dropout -> mixed
Kernel = Callable[[Tensor, Tensor, Tensor, Layout, float, float], Tensor]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: Layout = Layout(),  # noqa: B008 (frozen)
    *,
    scaled: bool = True,
    factor: float = 1.0,
    dropout: float = 0.0,
    kernel: Kernel | None = None,
    trace: NoTrace = NO_TRACE,
) -> Tensor:
    """softmax(factor q kᵀ / sqrt(d_head) + bias) v; a query that may see nothing gets zeros.

    q: (batch, heads, queries, d_head); k, v: (batch, kv_heads, keys, d_head). Each key head serves
    heads / kv_heads query heads. kernel: not set, `fused`.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scaled else 1.0
    scale = scale * factor
    if not trace.wants(*INSIDE):
        return (kernel or fused)(q, k, v, layout, scale, dropout)

    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    mask = _mask(layout, q)
    if mask is None:
        mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=q.device)

    scores = trace("scores", q @ k.transpose(-2, -1))  # (batch, heads, queries, keys)
    rescaled = trace("scaled", scores * trace("scale", scores.new_tensor(scale)))
    if layout.bias is not None:
        rescaled = trace("biased", rescaled + layout.bias.to(scores.dtype))
    mask = trace("mask", mask.expand_as(scores))
    masked = trace("masked", rescaled.masked_fill(~mask, -torch.inf))
    pattern = trace("pattern", softmax(masked, trace))
    return F.dropout(pattern, dropout) @ v


def _mask(layout: Layout, q: Tensor) -> Tensor | None:
    """The layout's mask, built where `causal` only names it."""
    if not layout.causal:
        return layout.mask
    slots = torch.arange(q.shape[2], device=q.device)
    return masks.causal(slots, slots)[None, None]


def fused(q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float, dropout: float) -> Tensor:
    """By a kernel of torch's; the scores are never stored."""
    mask = layout.mask
    if layout.bias is not None:
        mask = _as_bias(layout, q)
    mixed = F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        is_causal=layout.causal and mask is None,
        dropout_p=dropout,
        scale=scale,
        enable_gqa=bool(q.shape[1] != k.shape[1]),  # bool: torch.compile has symbols here
    )
    # Not every kernel gives zeros to a query that may see nothing (cuDNN in bfloat16 does not).
    if layout.mask is None or not layout.blind:
        return mixed
    return mixed.masked_fill(~layout.mask.any(dim=-1, keepdim=True), 0.0)


def _as_bias(layout: Layout, q: Tensor) -> Tensor:
    """Mask and bias as one tensor to add to the scores."""
    assert layout.bias is not None
    bias = layout.bias.to(q.dtype)
    mask = _mask(layout, q)
    return bias if mask is None else bias.masked_fill(~mask, -torch.inf)


class MultiHead(nn.Module):
    """What self- and cross-attention share: the sizes, the heads, the output projection."""

    factor = 1.0  # of the scores, beside the scale
    kernel: Kernel | None = None  # while training on a GPU, another than `fused`

    def __init__(
        self,
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        *,
        d_head: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        scaled: bool = True,
        dropout: float = 0.0,
    ) -> None:
        """d_head not set: the heads split d_model. output_bias not set: as bias."""
        super().__init__()
        check_heads(d_model, heads, kv_heads, d_head)
        self.heads = heads
        self.kv_heads = kv_heads or heads
        self.d_head = d_head or d_model // heads
        self.scaled, self.dropout = scaled, dropout
        self._make_projections(d_model, bias)
        output_bias = bias if output_bias is None else output_bias
        self.output = nn.Linear(self.heads * self.d_head, d_model, bias=output_bias)

    @property
    def variant(self) -> Variant:
        biases = {
            "b_O": self.output.bias,
            **dict.fromkeys(("b_Q", "b_K", "b_V"), self._projection().bias),
        }
        return variant(
            absent=[name for name, bias in biases.items() if bias is None],
            unscaled=not self.scaled,
            factored=self.factor != 1,
            grouped=self.kv_heads != self.heads,
            cross=isinstance(self, CrossAttention),
        )

    def _make_projections(self, d_model: int, bias: bool) -> None:
        """The matrices that make queries, keys and values."""
        raise NotImplementedError

    def _projection(self) -> nn.Linear:
        """One of them."""
        raise NotImplementedError

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, self.d_head)).transpose(
            1, 2
        )  # (batch, heads, positions, d_head)

    def _mix(self, q: Tensor, k: Tensor, v: Tensor, layout: Layout, trace: NoTrace) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        mixed = attend(
            q, k, v, layout, scaled=self.scaled, factor=self.factor, dropout=dropout,
            kernel=self.kernel, trace=trace,
        )  # fmt: skip
        mixed = trace("mixed", mixed)  # (batch, heads, queries, d_head)
        joined = mixed.transpose(1, 2).flatten(2)
        return trace("output", linear(self.output, joined, trace.at("output")))


class SelfAttention(MultiHead):
    """Queries, keys and values from the same positions, by one fused projection.

    With `norms`, the queries and keys of each head are normalised before they are turned (Henry et
    al. 2020, https://arxiv.org/abs/2010.04245), which keeps the scores from growing in training.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        *,
        d_head: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        norms: tuple[RMSNorm, RMSNorm] | None = None,
        scaled: bool = True,
        factor: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        """norms: of queries and of keys, over d_head."""
        super().__init__(
            d_model, heads, kv_heads, d_head=d_head, bias=bias, output_bias=output_bias,
            scaled=scaled, dropout=dropout,
        )  # fmt: skip
        self.factor = factor
        self.query_norm: RMSNorm | None = None
        self.key_norm: RMSNorm | None = None
        if norms is not None:
            self.query_norm, self.key_norm = norms

    def _make_projections(self, d_model: int, bias: bool) -> None:
        self.qkv = nn.Linear(d_model, (self.heads + 2 * self.kv_heads) * self.d_head, bias=bias)

    def _projection(self) -> nn.Linear:
        return self.qkv

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        cache: KVCache | None = None,
        slots: Slots | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """With a cache, the new keys and values go to `slots` and the queries see all slots."""
        query, key, value = linear(self.qkv, x, trace.at("qkv")).split(
            [n * self.d_head for n in (self.heads, self.kv_heads, self.kv_heads)], dim=-1
        )
        q = trace("query", self._heads(query, self.heads))
        k = trace("key", self._heads(key, self.kv_heads))
        v = trace("value", self._heads(value, self.kv_heads))
        if self.query_norm is not None and self.key_norm is not None:
            q = trace("normed_query", self.query_norm(q))
            k = trace("normed_key", self.key_norm(k))
        if layout.turns is not None:
            cos, sin = (turns.to(q.dtype) for turns in layout.turns)
            q = trace("rotated_query", turn(q, cos, sin))
            k = trace("rotated_key", turn(k, cos, sin))
        if cache is not None:
            assert slots is not None, "a cache needs to know where to write"
            k, v = cache.append(k, v, slots)
        return self._mix(q, k, v, layout, trace)


class CrossAttention(MultiHead):
    """Queries from the decoder, keys and values from an encoder's output, which stays while
    decoding."""

    def _make_projections(self, d_model: int, bias: bool) -> None:
        self.query = nn.Linear(d_model, self.heads * self.d_head, bias=bias)
        self.kv = nn.Linear(d_model, 2 * self.kv_heads * self.d_head, bias=bias)

    def _projection(self) -> nn.Linear:
        return self.query

    def project(self, encoder_output: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of an encoder's output (sources, keys, d_model), projected once."""
        key, value = self.kv(encoder_output).chunk(2, dim=-1)
        return self._heads(key, self.kv_heads), self._heads(value, self.kv_heads)

    def forward(
        self,
        x: Tensor,
        encoder_output: tuple[Tensor, Tensor],
        layout: Layout,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        q = trace("query", self._heads(linear(self.query, x, trace.at("query")), self.heads))
        k, v = trace("key", encoder_output[0]), trace("value", encoder_output[1])
        return self._mix(q, k, v, layout, trace)


def check_heads(d_model: int, heads: int, kv_heads: int | None, d_head: int | None = None) -> None:
    """Refuse sizes that do not divide, with sizes that do."""
    if d_head is None and d_model % heads:
        raise ConfigError(
            f"d_model {d_model} is not a multiple of heads {heads}; try {_divisors(d_model, heads)}"
        )
    if kv_heads is not None and heads % kv_heads:
        raise ConfigError(
            f"heads {heads} is not a multiple of kv_heads {kv_heads}; "
            f"try {_divisors(heads, kv_heads)}"
        )


def _divisors(number: int, near: int) -> str:
    """The divisors of a number on either side of a wrong one, as "4 or 8"."""
    below = range(min(near - 1, number), max(near - SEARCHED, 0), -1)
    above = range(near + 1, min(near + SEARCHED, number) + 1)
    nearest = (next((n for n in side if number % n == 0), None) for side in (below, above))
    return " or ".join(str(n) for n in nearest if n is not None) or "1"
