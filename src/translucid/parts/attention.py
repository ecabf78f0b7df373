"""Attention: each query gets a mean of the values. The weight of a value says how well its key
matches the query.

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
from translucid.parts.computation import Index, Scope, softmax_terms
from translucid.parts.expression import Expression, Terms, apply, constant, dot, joined, times
from translucid.parts.lora import linear
from translucid.parts.norms import RMSNorm
from translucid.parts.positions import turn

SEARCHED = 100_000  # how far below and above a size to look for a divisor
# A trace of one of these points needs the step-by-step computation instead of a fused kernel.
INSIDE = (
    "scale", "scores", "scaled", "biased", "mask", "masked", "shift", "exponentials", "normaliser",
    "pattern",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Attention mask and token positions, shared by all layers of a stack."""

    mask: Tensor | None = None  # broadcasts to (batch, heads, queries, keys); None: no mask
    causal: bool = False  # with mask None: a causal mask, which the kernel applies by itself
    blind: bool = True  # some queries may have no visible key
    bias: Tensor | None = None  # broadcasts to (batch, heads, queries, keys)
    angles: Tensor | None = None  # (batch, queries, pairs): rotate the first pairs of each head
    turns: tuple[Tensor, Tensor] | None = field(init=False, default=None)  # their cosines, sines

    def __post_init__(self) -> None:
        if self.angles is not None:
            object.__setattr__(self, "turns", (self.angles.cos(), self.angles.sin()))


# (q, k, v, layout, scale of the scores, dropout probability) -> mixed values
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
    """softmax(factor q kᵀ / sqrt(d_head) + bias) v; zeros for a query that sees no key. Without
    `scaled`, the scores are not divided by sqrt(d_head).

    q: (batch, heads, queries, d_head); k, v: (batch, kv_heads, keys, d_head). Each key head serves
    heads / kv_heads query heads. kernel: computes the result if no step is traced; default:
    `fused`.
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
    """The layout's mask. If the layout only has the flag `causal`, the causal mask is built."""
    if not layout.causal:
        return layout.mask
    slots = torch.arange(q.shape[2], device=q.device)
    return masks.causal(slots, slots)[None, None]


def fused(q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float, dropout: float) -> Tensor:
    """torch's fused attention, which does not store the scores."""
    mask = layout.mask
    if layout.bias is not None:
        mask = _as_bias(layout, q)
    mixed = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=layout.causal and mask is None, dropout_p=dropout,
        scale=scale, enable_gqa=bool(q.shape[1] != k.shape[1]),  # bool: torch.compile has symbols
    )  # fmt: skip
    # Not every kernel gives zeros to a query that sees no key (cuDNN in bfloat16 does not).
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
    """Base class of self- and cross-attention: sizes, heads, output projection."""

    factor = 1.0  # multiplies the scores, in addition to the scale
    kernel: Kernel | None = None  # set while training on a GPU; None: `fused`

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
        """d_head: size of a head; default d_model / heads. output_bias: whether the output
        projection has a bias; default: `bias`."""
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
        absent = [] if self.output.bias is not None else ["b_O"]
        if getattr(self, self._rows_of("query")[0]).bias is None:
            absent += ["b_Q", "b_K", "b_V"]
        return variant(
            absent=absent,
            unscaled=not self.scaled,
            factored=self.factor != 1,
            grouped=self.kv_heads != self.heads,
            cross=isinstance(self, CrossAttention),
        )

    def _make_projections(self, d_model: int, bias: bool) -> None:
        """Create the projections to queries, keys and values."""
        raise NotImplementedError

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        """Split x into heads: (batch, heads, positions, d_head)."""
        return x.unflatten(-1, (heads, self.d_head)).transpose(1, 2)

    def _mix(self, q: Tensor, k: Tensor, v: Tensor, layout: Layout, trace: NoTrace) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        mixed = attend(
            q, k, v, layout, scaled=self.scaled, factor=self.factor, dropout=dropout,
            kernel=self.kernel, trace=trace,
        )  # fmt: skip
        mixed = trace("mixed", mixed)  # (batch, heads, queries, d_head)
        side_by_side = mixed.transpose(1, 2).flatten(2)
        return trace("output", linear(self.output, side_by_side, trace.at("output")))

    def feeds(self, part: str, at: Scope) -> str | None:
        return at.name("mixed") if part.startswith("output") else None

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if point == "scale":
            return self._scale_terms()
        (row, *place), run = index, at.run
        match point:
            case "query" | "key" | "value":
                return self._projected(at, point, index)
            case "scores":
                head, query, key = place
                q = at.vector(_matched(at, "query"), row, head, query, None)
                k = at.vector(_matched(at, "key"), row, self._served_by(head), key, None)
                return run.total(dot(q, k))
            case "scaled":
                return at.number("scale") * at.number("scores", *index)
            case "biased":
                bias = at.stack.part("positions").number("bias", *index)
                return at.number("scaled", *index) + bias
            case "mask":
                return self._mask_terms(at, index)
            case "masked":
                before = "biased" if at.has("biased") else "scaled"
                return apply("where", at.number("mask", *index), at.number(before, *index))
            case "shift" | "exponentials" | "normaliser" | "pattern":
                return softmax_terms(at, point, index, at.vector("masked", row, *place[:2], None))
            case "mixed":
                head, query, d = place
                values = at.vector("value", row, self._served_by(head), None, d)
                return run.total(dot(at.vector("pattern", row, head, query, None), values))
        query, d = place
        heads = (at.vector("mixed", row, head, query, None) for head in range(self.heads))
        return at.linear("output", d, joined(*heads), "W_O", "b_O")

    def _scale_terms(self) -> Expression:
        if not self.scaled:
            return constant("scale", self.factor)
        above = constant("factor", self.factor) if self.factor != 1 else constant("1", 1)
        return above / apply("sqrt", constant("d_head", self.d_head))

    def _served_by(self, head: int) -> int:
        """The index of the key/value head that a query head uses."""
        return head // (self.heads // self.kv_heads)

    def _projected(self, at: Scope, point: str, index: Index) -> Expression:
        row, head, place, d = index
        layer, first = self._rows_of(point)
        letter, own = point[0].upper(), (first + head) * self.d_head + d
        x = self._read_by(at, point, row, place)
        return at.linear(layer, own, x, f"W_{letter}", f"b_{letter}")

    def _rows_of(self, point: str) -> tuple[str, int]:
        """The name of the linear layer that computes `point` (query, key or value), and the number
        of heads whose rows precede the rows of this point in the layer."""
        raise NotImplementedError

    def _read_by(self, at: Scope, point: str, row: int, place: int) -> Terms:
        """The vector that the projection to `point` (query, key or value) reads at a position."""
        return at.inputs(row, place, None)

    def _mask_terms(self, at: Scope, index: Index) -> Expression:
        """Whether a query may attend to a key, as an expression in the masks that determine it."""
        raise NotImplementedError


class SelfAttention(MultiHead):
    """Queries, keys and values from the same positions, computed by one projection.

    With `norms`, the queries and keys of each head are normalised before the rotation (Henry et al.
    2020, https://arxiv.org/abs/2010.04245), which keeps the scores from growing in training.
    """

    decode_slots = ("self_attention",)

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
        """norms: the norm of the queries and the norm of the keys. Each is applied to every head,
        over d_head."""
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

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        cache: KVCache | None = None,
        slots: Slots | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> Tensor:
        """Apply self-attention to x. With a cache, new keys and values are stored in `slots`, and
        queries attend to all slots."""
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
            assert slots is not None, "a cache needs slots to write to"
            k, v = cache.append(k, v, slots)
        return self._mix(q, k, v, layout, trace)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        kind, _, side = point.partition("_")
        match kind:
            case "normed":
                return self._normed_terms(at, side, index)
            case "rotated":
                return _turned_terms(at, side, index)
        return super().terms(at, point, index)

    def _rows_of(self, point: str) -> tuple[str, int]:
        return "qkv", {"query": 0, "key": self.heads, "value": self.heads + self.kv_heads}[point]

    def _normed_terms(self, at: Scope, side: str, index: Index) -> Expression:
        """gain · q / sqrt(mean(q²) + eps), over the dimensions of a head."""
        *place, d = index
        whole, norm = at.vector(side, *place, None), getattr(self, f"{side}_norm")
        gain = at.weight(f"gain_{side[0].upper()}", f"{side}_norm.gain", d)
        mean = at.run.total(dot(whole, whole)) / constant("n", len(whole.values))
        size = apply("sqrt", mean + constant("epsilon", norm.eps))
        return gain * whole.at(d) / size

    def _mask_terms(self, at: Scope, index: Index) -> Expression:
        row, _, query, key = index
        masks = at.stack.part("masks")
        asked = [
            masks.number(name, row, 0, query, key)
            for name in ("causal", "window", "padding")
            if masks.has(name)
        ]
        if not asked:
            return constant("1", 1)
        return asked[0] if len(asked) == 1 else times(*asked)


def _matched(at: Scope, side: str) -> str:
    """The name of the trace point with the queries or keys from which the scores are computed.
    side: "query" or "key"."""
    forms = (f"rotated_{side}", f"normed_{side}", side)
    return next(form for form in forms if at.has(form))


def _turned_terms(at: Scope, side: str, index: Index) -> Expression:
    """One value of the rotated queries or keys, as an expression. Dimensions form pairs (even,
    odd), and each pair is rotated by its angle; a pair without an angle is unchanged."""
    row, head, place, d = index
    before = f"normed_{side}" if at.has(f"normed_{side}") else side
    positions, pair = at.stack.part("positions"), d // 2
    if pair >= at.run.tensor(positions.name("angles")).shape[-1]:
        return at.number(before, *index)
    even, odd = (at.number(before, row, head, place, 2 * pair + n) for n in (0, 1))
    angle = positions.number("angles", row, place, pair)
    cos, sin = apply("cos", angle), apply("sin", angle)
    if d % 2 == 0:
        return cos * even - sin * odd
    return sin * even + cos * odd


class CrossAttention(MultiHead):
    """Queries from the decoder, keys and values from an encoder's output."""

    decode_slots = ("cross_attention",)

    def _make_projections(self, d_model: int, bias: bool) -> None:
        self.query = nn.Linear(d_model, self.heads * self.d_head, bias=bias)
        self.kv = nn.Linear(d_model, 2 * self.kv_heads * self.d_head, bias=bias)

    def project(self, encoder_output: Tensor) -> tuple[Tensor, Tensor]:
        """Project an encoder's output (sources, keys, d_model) to keys and values, once for all
        decoder steps."""
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

    def feeds(self, part: str, at: Scope) -> str | None:
        return at.encoder.output_name if part.startswith("kv") else super().feeds(part, at)

    def _rows_of(self, point: str) -> tuple[str, int]:
        return {"query": ("query", 0), "key": ("kv", 0), "value": ("kv", self.kv_heads)}[point]

    def _read_by(self, at: Scope, point: str, row: int, place: int) -> Terms:
        if point == "query":
            return super()._read_by(at, point, row, place)
        return at.run.vector("encoder_output", at.encoder.output_name, row, place, None)

    def _mask_terms(self, at: Scope, index: Index) -> Expression:
        row, _, _, key = index
        mask = at.encoder.mask
        return at.run.number(mask, mask, row, key) if mask else constant("1", 1)


def check_heads(d_model: int, heads: int, kv_heads: int | None, d_head: int | None = None) -> None:
    """Raise an error if d_model or heads is not divisible as required, and suggest sizes that
    work."""
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
    """The divisors of a number that are nearest to `near`, as text: "4 or 8"."""
    below = range(min(near - 1, number), max(near - SEARCHED, 0), -1)
    above = range(near + 1, min(near + SEARCHED, number) + 1)
    nearest = (next((n for n in side if number % n == 0), None) for side in (below, above))
    return " or ".join(str(n) for n in nearest if n is not None) or "1"
