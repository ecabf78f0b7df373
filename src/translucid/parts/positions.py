"""Position encodings, which tell an attention layer the order of tokens. Register your own with
`@position("name")`.

A scheme overrides one of three methods: `add` to the embeddings (sinusoidal, learned), `angles` to
rotate queries and keys (rotary), `bias` to add to the scores (ALiBi, relative). It also declares
the trace point through which it acts (`point`), how its numbers are computed (`terms`), and
whether the fast decode step supports it (`decode_slots`).

Shapes: positions (batch, length), counted without padding; bias (batch, heads, queries, keys).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, TypeVar

import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.errors import ConfigError, InputError
from translucid.core.registry import Registry, place_of
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, apply, constant, times
from translucid.parts.rotary_scaling import BY_PARTS, RotaryScaling
from translucid.parts.rotary_scaling import frequencies as frequencies
from translucid.parts.switch import Switch, in_words


def _check(cls: "type[NoPositions]") -> None:
    if not issubclass(cls, NoPositions):
        raise ConfigError(
            f"{place_of(cls)} must derive from translucid.parts.positions.NoPositions"
        )


OWN = ("sinusoidal", "learned", "rotary", "alibi", "relative", "none")
POSITIONS: "Registry[type[NoPositions]]" = Registry(
    "position", dict.fromkeys(OWN, __name__), _check
)
PositionName = Annotated[str, POSITIONS]
Scheme = TypeVar("Scheme", bound="type[NoPositions]")


def position(name: str) -> Callable[[Scheme], Scheme]:
    """Register a position scheme, which a config selects with `positions = name`."""

    def register(scheme: Scheme) -> Scheme:
        POSITIONS.add(name, scheme)
        return scheme

    return register


SinusoidLayout = Literal["interleaved", "halves", "fairseq"]


@dataclass(frozen=True, kw_only=True)
class PositionSetup:
    """The sizes of a model and the options of all schemes, from its config."""

    d_model: int
    heads: int
    d_head: int
    max_length: int
    base: float = 10000.0  # rotary
    rotary: RotaryScaling = RotaryScaling()  # noqa: RUF009 (frozen)
    fraction: float = 1.0  # rotary: fraction of each head's dimensions that are rotated
    layout: SinusoidLayout = "interleaved"
    first: int = 0  # index of the first position: sinusoidal, learned
    buckets: int = 32  # relative
    distance: int = 128  # relative: beyond it, all share a bucket
    both_ways: bool = True  # relative: separate buckets for earlier and later keys


class NoPositions(nn.Module):
    """The scheme without positions, and the base class of all schemes."""

    # The trace point of the encoding, angles or bias. Editing it to 0 removes the order of tokens.
    point: ClassVar[Literal["encoding", "angles", "bias"] | None] = None
    limited: ClassVar[bool] = False  # whether there are only max_length positions
    decode_slots = ("positions",)

    @classmethod
    def make(cls, setup: PositionSetup) -> Self:
        """Build the scheme for a model."""
        return cls()

    def check(self, farthest: int) -> None:
        """Raise an error if the scheme does not support a position this large."""

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        """Add the position encoding to x (batch, length, d_model)."""
        return x

    def angles(self, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor | None:
        """The angles by which queries and keys are rotated: (batch, length, pairs), for the first
        `pairs` pairs of dimensions. None if the scheme rotates nothing."""
        return None

    def bias(self, queries: Tensor, keys: Tensor, trace: NoTrace = NO_TRACE) -> Tensor | None:
        """The bias that is added to the scores (batch, heads, queries, keys); None if the scheme
        has none."""
        return None

    def terms(self, at: Scope, point: str, index: Index) -> Expression | None:
        """One value of the scheme's trace points, as an expression. The base class covers `output`,
        the sum of the embeddings and an `encoding`."""
        if point == "output":
            return at.input(*index) + at.number("encoding", *index)
        return None

    def switches(self, path: str) -> Iterator[Switch]:
        if self.point is not None:
            yield Switch(path, in_words(path), "positions", {f"{path}.{self.point}": 0.0})


POSITIONS.add("none", NoPositions)


@position("sinusoidal")
class Sinusoidal(NoPositions):
    """PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i+1) = cos(p / base^(2i/d)); not trained.

    layout: "interleaved" is this formula. "halves" has all sines before all cosines. "fairseq" is
    like "halves", but with base^(i/(d/2-1)). Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
    """

    point = "encoding"
    decode_slots = ("positions",)

    @property
    def variant(self) -> Variant:
        return Variant(["sinusoidal" if self.layout == "interleaved" else self.layout])

    @classmethod
    def make(cls, setup: PositionSetup) -> Self:
        return cls(setup.d_model, layout=setup.layout, first=setup.first)  # the base is rotary's

    def __init__(
        self,
        d_model: int,
        base: float = 10000.0,
        *,
        layout: SinusoidLayout = "interleaved",
        first: int = 0,
    ) -> None:
        """first: the index of the first position."""
        super().__init__()
        if d_model % 2:
            raise ConfigError(
                f"d_model {d_model} is odd, but sinusoidal positions come in pairs; "
                f"try {d_model + 1}"
            )
        self.d_model, self.base, self.layout, self.first = d_model, base, layout, first

    def encode(self, positions: Tensor) -> Tensor:
        """The encoding PE of these positions, in float64: (..., d_model)."""
        d = self.d_model
        rates = frequencies(d, self.base, positions.device)
        if self.layout == "fairseq":
            rates = rates ** (d / (d - 2))
        turn = (positions + self.first).to(torch.float64)[..., None] * rates
        if self.layout == "interleaved":
            return torch.stack([turn.sin(), turn.cos()], dim=-1).flatten(-2)  # sine even
        return torch.cat([turn.sin(), turn.cos()], dim=-1)

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        encoding = trace("encoding", self.encode(positions).to(x.dtype))
        return trace("output", x + encoding)

    def terms(self, at: Scope, point: str, index: Index) -> Expression | None:
        if point != "encoding":
            return super().terms(at, point, index)
        row, place, d = index
        half = self.d_model // 2
        pair, cosine = divmod(d, 2) if self.layout == "interleaved" else (d % half, d // half)
        power = pair / (half - 1) if self.layout == "fairseq" else 2 * pair / self.d_model
        slow = apply("^", constant("base", self.base), constant("2i/d", power))
        p = constant("p", at.position(row, place) + self.first)
        return apply("cos" if cosine else "sin", p / slow)


@position("learned")
class Learned(NoPositions):
    """One trained vector per position, up to `max_length`. The first `first` rows of the table are
    not used."""

    variant = Variant(["learned"])
    point = "encoding"
    limited = True
    decode_slots = ("positions",)

    @classmethod
    def make(cls, setup: PositionSetup) -> Self:
        return cls(setup.d_model, setup.max_length, setup.first)

    def __init__(self, d_model: int, max_length: int, first: int = 0) -> None:
        super().__init__()
        self.first, self.max_length = first, max_length
        self.table = nn.Parameter(torch.empty(first + max_length, d_model))

    def check(self, farthest: int) -> None:
        limit = self.max_length
        if farthest >= limit:
            raise InputError(
                f"position {farthest} is out of range: learned positions end at {limit - 1} "
                f"(max_length {limit}); shorten the input, raise max_length, or use sinusoidal, "
                f"rotary or alibi positions"
            )

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        # No position is larger than its slot, and the start of a decoder state checks the capacity.
        if x.shape[1] > self.max_length:
            self.check(int(positions.max()))
        rows = positions + self.first if self.first else positions
        encoding = trace("encoding", self.table[rows])
        return trace("output", x + encoding)

    def terms(self, at: Scope, point: str, index: Index) -> Expression | None:
        if point != "encoding":
            return super().terms(at, point, index)
        row, place, d = index
        p = at.position(row, place) + self.first
        return apply("table", at.weight("table", "table", p, d), constant("p", p))


@position("rotary")
class Rotary(NoPositions):
    """Rotate each pair (2i, 2i+1) of queries and keys by p / base^(2i/d), so that scores depend
    only on relative positions.

    scaling: for texts longer than in training, a factor for the linear method or a RotaryScaling.
    fraction: the fraction of a head's dimensions that is rotated, beginning with the first.
    Su et al. 2021, https://arxiv.org/abs/2104.09864
    """

    point = "angles"
    decode_slots = ("positions",)

    @classmethod
    def make(cls, setup: PositionSetup) -> Self:
        return cls(setup.d_head, setup.base, setup.rotary, setup.fraction)

    def __init__(
        self,
        d_head: int,
        base: float = 10000.0,
        scaling: RotaryScaling | float = 1.0,
        fraction: float = 1.0,
    ) -> None:
        super().__init__()
        self.d_rotary = check_rotary(d_head, fraction)
        self.base = base
        self.scaling = scaling if isinstance(scaling, RotaryScaling) else RotaryScaling(scaling)

    @property
    def variant(self) -> Variant:
        method = self.scaling.method
        return variant(
            interpolated=method == "linear" and self.scaling.factor != 1,
            dynamic=method == "dynamic",
            by_parts=method in BY_PARTS,
        )

    def angles(self, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        return trace("angles", self.scaling.angles(positions, self.d_rotary, self.base))

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, place, pair = index
        return self.scaling.terms(at.position(row, place), pair, self.d_rotary, self.base)


def check_rotary(d_head: int, fraction: float = 1.0) -> int:
    """The number of dimensions of a head that are rotated; raises an error if this number is
    odd."""
    turned = int(d_head * fraction)
    if turned % 2 or not turned:
        of = "" if fraction == 1 else f" times rotary_fraction {fraction} is {turned}"
        raise ConfigError(
            f"d_head {d_head}{of}{' is odd' if not of else ''}, but rotary positions rotate pairs; "
            f"make {'it' if of else 'd_model / heads'} even"
        )
    return turned


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the first pairs of x (batch, heads, length, d_head) by angles (batch, length, n)."""
    return turn(x, angles.cos(), angles.sin())


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the first pairs of x (batch, heads, length, d_head) by angles whose cosines and sines
    (batch, length, pairs) are given."""
    cos, sin = cos.to(x.dtype)[:, None], sin.to(x.dtype)[:, None]  # (batch, 1, length, pairs)
    paired = 2 * cos.shape[-1]
    pairs = x[..., :paired].unflatten(-1, (-1, 2))
    turned = (turn_complex if fits_complex(pairs) else turn_pairs)(pairs, cos, sin).flatten(-2)
    return turned if paired == x.shape[-1] else torch.cat([turned, x[..., paired:]], dim=-1)


def turn_pairs(pairs: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs (..., 2)."""
    even, odd = pairs.unbind(dim=-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)


def turn_complex(pairs: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`turn_pairs` as one product of complex numbers. On a CPU, this takes about a third of the
    time, forward and backward."""
    return torch.view_as_real(torch.view_as_complex(pairs) * torch.complex(cos, sin))


def fits_complex(pairs: Tensor) -> bool:
    """Whether `turn_complex` supports these pairs and is faster."""
    return (
        pairs.device.type == "cpu"
        and pairs.dtype in (torch.float32, torch.float64)
        and pairs.stride(-1) == 1
        and not any(step % 2 for step in (pairs.storage_offset(), *pairs.stride()[:-1]))
        and not torch.compiler.is_compiling()
    )


@position("alibi")
class Alibi(NoPositions):
    """Subtract slope * distance from each score; head h = 1, 2, ... has the slope 2^(-8h/heads).

    Press, Smith & Lewis 2022, https://arxiv.org/abs/2108.12409
    """

    slopes: Tensor
    point = "bias"
    decode_slots = ("positions",)

    @classmethod
    def make(cls, setup: PositionSetup) -> Self:
        return cls(setup.heads)

    def __init__(self, heads: int) -> None:
        super().__init__()
        slopes = 2.0 ** -(8.0 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, queries: Tensor, keys: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        distance = (queries[:, :, None] - keys[:, None, :]).abs()  # (batch, queries, keys)
        return trace("bias", -self.slopes[:, None, None] * distance[:, None])

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, head, query, key = index
        p_q, p_k = constant("p_q", at.position(row, query)), constant("p_k", at.position(row, key))
        slope = at.weight("m_h", "slopes", head)
        return times(constant("-1", -1), slope, apply("abs", p_q - p_k))


@position("relative")
class RelativeBias(NoPositions):
    """Add table[bucket(p_k - p_q)] to each score, one value per head; all layers of a stack share
    the table.

    Half of the buckets are for exact distances; the widths of the others grow logarithmically up to
    `distance`. With `both_ways`, half of all buckets are for earlier keys and half for later keys.

    Raffel et al. 2020, https://arxiv.org/abs/1910.10683, section 2.1
    """

    variant = Variant(["relative"])
    point = "bias"
    decode_slots = ("positions",)

    @classmethod
    def make(cls, setup: PositionSetup) -> Self:
        return cls(setup.heads, setup.buckets, setup.distance, both_ways=setup.both_ways)

    def __init__(
        self, heads: int, buckets: int = 32, distance: int = 128, *, both_ways: bool = True
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.distance, self.both_ways = distance, both_ways

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of each offset p_k - p_q. An offset is negative if the key is before the
        query."""
        buckets = self.table.num_embeddings
        if self.both_ways:
            buckets //= 2
            first, away = (offset > 0) * buckets, offset.abs()
        else:
            first, away = torch.zeros_like(offset), (-offset).clamp(min=0)
        exact = buckets // 2
        # In float32, as in the original: the bucket of a power of 2 depends on rounding.
        grown = (away.float() / exact).log() / math.log(self.distance / exact) * (buckets - exact)
        far = exact + grown.clamp(min=0).long()
        return first + torch.where(away < exact, away, far.clamp(max=buckets - 1))

    def bias(self, queries: Tensor, keys: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        buckets = self.bucket(keys[:, None, :] - queries[:, :, None])  # (batch, queries, keys)
        return trace("bias", self.table(buckets).permute(0, 3, 1, 2))

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, head, query, key = index
        p_q, p_k = at.position(row, query), at.position(row, key)
        bucket = int(self.bucket(torch.tensor(p_k - p_q, device=self.table.weight.device)))
        table = at.weight("table", "table.weight", bucket, head)
        return apply("table", table, constant("p_k", p_k), constant("p_q", p_q))


def period(pair: int, d_model: int, base: float = 10000.0) -> float:
    """The period of pair i in positions: 2π base^(2i/d)."""
    return 2 * math.pi / float(frequencies(d_model, base)[pair])
