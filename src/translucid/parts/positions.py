"""Where a token stands: six ways to tell an attention layer, which by itself cannot know. A seventh
of your own registers itself with `@position("name")`.

A scheme acts in one of three places and leaves the other two alone: `add` on the embeddings
(sinusoidal, learned), `angles` for rotating queries and keys (rotary), `bias` on the scores
(ALiBi, relative). Positions are (batch, length) and come from the token mask or the decoder state,
never from the padded index.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, TypeVar

import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.errors import ConfigError, InputError
from translucid.core.registry import Registry, place_of
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.rotary_scaling import BY_PARTS, RotaryScaling
from translucid.parts.rotary_scaling import frequencies as frequencies


def _check(cls: "type[NoPositions]") -> None:
    if not issubclass(cls, NoPositions):
        raise ConfigError(
            f"{place_of(cls)} must derive from translucid.parts.positions.NoPositions"
        )


POSITIONS: "Registry[type[NoPositions]]" = Registry(
    "position",
    {
        **dict.fromkeys(("sinusoidal", "learned", "rotary", "alibi"), __name__),
        "relative": "translucid.parts.relative",
        "none": __name__,
    },
    _check,
)
PositionName = Annotated[str, POSITIONS]
Scheme = TypeVar("Scheme", bound="type[NoPositions]")


def position(name: str) -> Callable[[Scheme], Scheme]:
    """Register a scheme, so that `positions = name` in a model's config means it."""

    def register(scheme: Scheme) -> Scheme:
        POSITIONS.add(name, scheme)
        return scheme

    return register


SinusoidLayout = Literal["interleaved", "halves", "fairseq"]


@dataclass(frozen=True)
class PositionOptions:
    """What a model's config says to one scheme or another, beyond sizes."""

    rotary: RotaryScaling = RotaryScaling()  # noqa: RUF009 (frozen)
    fraction: float = 1.0  # of each head that rotary positions turn
    layout: SinusoidLayout = "interleaved"
    first: int = 0  # the number of the first position: sinusoidal, learned
    buckets: int = 32  # of relative positions,
    distance: int = 128  # beyond which all are alike,
    both_ways: bool = True  # before and behind apart


class NoPositions(nn.Module):
    """No position at all; also the shape of every scheme."""

    limited: ClassVar[bool] = False  # it knows max_length positions and no more

    @classmethod
    def make(
        cls,
        *,
        d_model: int,
        heads: int,
        d_head: int,
        max_length: int,
        base: float,
        scaling: float,
        options: PositionOptions,
    ) -> Self:
        """The scheme for a model of these sizes."""
        return cls()

    def check(self, farthest: int) -> None:
        """Raise if this position cannot be told."""

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        """x (batch, length, d_model), with the positions added."""
        return x

    def angles(self, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor | None:
        """The angles (batch, length, pairs) by which to turn the first pairs of queries and
        keys."""
        return None

    def bias(self, queries: Tensor, keys: Tensor, trace: NoTrace = NO_TRACE) -> Tensor | None:
        """What to add to the scores (batch, heads, queries, keys)."""
        return None


POSITIONS.add("none", NoPositions)


@position("sinusoidal")
class Sinusoidal(NoPositions):
    """PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i+1) = cos(p / base^(2i/d)); fixed, never trained.

    Layouts: "interleaved" as here; "halves": all sines, then all cosines; "fairseq": halves, with
    base^(i/(d/2-1)). Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
    """

    @property
    def variant(self) -> Variant:
        return Variant(["sinusoidal" if self.layout == "interleaved" else self.layout])

    @classmethod
    def make(
        cls,
        *,
        d_model: int,
        heads: int,
        d_head: int,
        max_length: int,
        base: float,
        scaling: float,
        options: PositionOptions,
    ) -> Self:
        return cls(d_model, layout=options.layout, first=options.first)  # the base is rotary's

    def __init__(
        self,
        d_model: int,
        base: float = 10000.0,
        *,
        layout: SinusoidLayout = "interleaved",
        first: int = 0,
    ) -> None:
        """first: the number of the first position."""
        super().__init__()
        if d_model % 2:
            raise ConfigError(
                f"d_model {d_model} is odd, but sinusoidal positions come in pairs; "
                f"try {d_model + 1}"
            )
        self.d_model, self.base, self.layout, self.first = d_model, base, layout, first

    def encode(self, positions: Tensor) -> Tensor:
        """PE of these positions, in float64: (..., d_model)."""
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


@position("learned")
class Learned(NoPositions):
    """One trained vector per position, up to `max_length` of them; the rows before the `first` are
    never used."""

    variant = Variant(["learned"])
    limited = True

    @classmethod
    def make(
        cls,
        *,
        d_model: int,
        heads: int,
        d_head: int,
        max_length: int,
        base: float,
        scaling: float,
        options: PositionOptions,
    ) -> Self:
        return cls(d_model, max_length, options.first)

    def __init__(self, d_model: int, max_length: int, first: int = 0) -> None:
        super().__init__()
        self.first, self.max_length = first, max_length
        self.table = nn.Parameter(torch.empty(first + max_length, d_model))

    def check(self, farthest: int) -> None:
        limit = self.max_length
        if farthest >= limit:
            raise InputError(
                f"position {farthest} was asked for, but learned positions end at {limit - 1} "
                f"(max_length {limit}); shorten the input, raise max_length, or use sinusoidal, "
                f"rotary or alibi positions"
            )

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        # No position is beyond its slot, and a decoder state checked its capacity at the start.
        if x.shape[1] > self.max_length:
            self.check(int(positions.max()))
        rows = positions + self.first if self.first else positions
        encoding = trace("encoding", self.table[rows])
        return trace("output", x + encoding)


@position("rotary")
class Rotary(NoPositions):
    """Turn each pair (2i, 2i+1) of a query and key by p / base^(2i/d): scores see p - q alone.

    With `scaling`, a model trained to length n can be read at n * scaling: a factor for the linear
    method, or one of `rotary_scaling`.
    With a `fraction`, only the first d of a head's dimensions turn, and the rest know no position.
    Su et al. 2021, https://arxiv.org/abs/2104.09864
    """

    @classmethod
    def make(
        cls,
        *,
        d_model: int,
        heads: int,
        d_head: int,
        max_length: int,
        base: float,
        scaling: float,
        options: PositionOptions,
    ) -> Self:
        return cls(d_head, base, options.rotary, options.fraction)

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


def check_rotary(d_head: int, fraction: float = 1.0) -> int:
    """How many dimensions of a head turn; refused where they are no pairs."""
    turned = int(d_head * fraction)
    if turned % 2 or not turned:
        of = "" if fraction == 1 else f" times rotary_fraction {fraction} is {turned}"
        raise ConfigError(
            f"d_head {d_head}{of}{' is odd' if not of else ''}, but rotary positions turn pairs; "
            f"make {'it' if of else 'd_model / heads'} even"
        )
    return turned


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the first pairs of x (batch, heads, length, d_head) by angles (batch, length, pairs)."""
    return turn(x, angles.cos(), angles.sin())


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The same by cosines and sines (batch, length, pairs), for who has them at hand."""
    cos, sin = cos.to(x.dtype)[:, None], sin.to(x.dtype)[:, None]  # (batch, 1, length, pairs)
    paired = 2 * cos.shape[-1]
    even, odd = x[..., 0:paired:2], x[..., 1:paired:2]
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
    return turned if paired == x.shape[-1] else torch.cat([turned, x[..., paired:]], dim=-1)


@position("alibi")
class Alibi(NoPositions):
    """Subtract slope * distance from each score; head h has slope 2^(-8h/heads), h from 1.

    The same geometric slopes for every number of heads. Press, Smith & Lewis 2022,
    https://arxiv.org/abs/2108.12409
    """

    slopes: Tensor

    @classmethod
    def make(
        cls,
        *,
        d_model: int,
        heads: int,
        d_head: int,
        max_length: int,
        base: float,
        scaling: float,
        options: PositionOptions,
    ) -> Self:
        return cls(heads)

    def __init__(self, heads: int) -> None:
        super().__init__()
        slopes = 2.0 ** -(8.0 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, queries: Tensor, keys: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        distance = (queries[:, :, None] - keys[:, None, :]).abs()  # (batch, queries, keys)
        return trace("bias", -self.slopes[:, None, None] * distance[:, None])


def make_positions(
    name: PositionName,
    *,
    d_model: int,
    heads: int,
    max_length: int,
    d_head: int | None = None,
    base: float = 10000.0,
    options: PositionOptions = PositionOptions(),  # noqa: B008 (frozen)
) -> NoPositions:
    """The scheme of this name; d_head not set: d_model / heads."""
    return POSITIONS[name].make(
        d_model=d_model,
        heads=heads,
        d_head=d_head or d_model // heads,
        max_length=max_length,
        base=base,
        scaling=options.rotary.factor,
        options=options,
    )


def period(pair: int, d_model: int, base: float = 10000.0) -> float:
    """How many positions pair i takes for one turn: 2π base^(2i/d)."""
    return 2 * math.pi / float(frequencies(d_model, base)[pair])
