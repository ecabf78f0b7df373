"""Where a token stands: five ways to tell an attention layer, which by itself cannot know. A sixth
of your own registers itself with `@position("name")`.

A scheme acts in one of three places and leaves the other two alone: `add` on the embeddings
(sinusoidal, learned), `angles` for rotating queries and keys (rotary), `bias` on the scores
(ALiBi). Positions are (batch, length) and come from the token mask or the decoder state, never
from the padded index.
"""

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn

from translucid.catalogue import Variant, variant
from translucid.errors import ConfigError, InputError
from translucid.registry import Registry, place_of
from translucid.trace import NO_TRACE, NoTrace


def _check(cls: "type[NoPositions]") -> None:
    if not issubclass(cls, NoPositions):
        raise ConfigError(
            f"{place_of(cls)} must derive from translucid.parts.positions.NoPositions"
        )


POSITIONS: "Registry[type[NoPositions]]" = Registry(
    "position",
    dict.fromkeys(("sinusoidal", "learned", "rotary", "alibi", "none"), __name__),
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


class NoPositions(nn.Module):
    """No position at all; also the shape of every scheme."""

    limited: ClassVar[bool] = False  # it knows max_length positions and no more

    @classmethod
    def make(
        cls, *, d_model: int, heads: int, max_length: int, base: float, scaling: float
    ) -> Self:
        """The scheme for a model of these sizes."""
        return cls()

    def check(self, farthest: int) -> None:
        """Raise if this position cannot be told."""

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        """x (batch, length, d_model), with the positions added."""
        return x

    def angles(self, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor | None:
        """The angles (batch, length, d_head / 2) by which to turn queries and keys."""
        return None

    def bias(self, queries: Tensor, keys: Tensor, trace: NoTrace = NO_TRACE) -> Tensor | None:
        """What to add to the scores (batch, heads, queries, keys)."""
        return None


POSITIONS.add("none", NoPositions)


def frequencies(d: int, base: float = 10000.0, device: torch.device | None = None) -> Tensor:
    """1 / base^(2i/d) for each pair i of dimensions; computed in float64."""
    pairs = torch.arange(0, d, 2, dtype=torch.float64, device=device)
    return base ** -(pairs / d)  # (d / 2,)


@position("sinusoidal")
class Sinusoidal(NoPositions):
    """PE(p, 2i) = sin(p / base^(2i/d)), PE(p, 2i+1) = cos(p / base^(2i/d)); fixed, never trained.

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
    """

    variant = Variant(["sinusoidal"])

    @classmethod
    def make(
        cls, *, d_model: int, heads: int, max_length: int, base: float, scaling: float
    ) -> Self:
        return cls(d_model)  # the base is that of rotary positions

    def __init__(self, d_model: int, base: float = 10000.0) -> None:
        super().__init__()
        if d_model % 2:
            raise ConfigError(
                f"d_model {d_model} is odd, but sinusoidal positions come in pairs; "
                f"try {d_model + 1}"
            )
        self.d_model, self.base = d_model, base

    def encode(self, positions: Tensor) -> Tensor:
        """PE of these positions, in float64: (..., d_model)."""
        turn = positions.to(torch.float64)[..., None] * frequencies(
            self.d_model, self.base, positions.device
        )
        return torch.stack([turn.sin(), turn.cos()], dim=-1).flatten(-2)  # sine even, cosine odd

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        encoding = trace("encoding", self.encode(positions).to(x.dtype))
        return trace("output", x + encoding)


@position("learned")
class Learned(NoPositions):
    """One trained vector per position, up to `max_length` of them."""

    variant = Variant(["learned"])
    limited = True

    @classmethod
    def make(
        cls, *, d_model: int, heads: int, max_length: int, base: float, scaling: float
    ) -> Self:
        return cls(d_model, max_length)

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_length, d_model))

    def check(self, farthest: int) -> None:
        limit = self.table.shape[0]
        if farthest >= limit:
            raise InputError(
                f"position {farthest} was asked for, but learned positions end at {limit - 1} "
                f"(max_length {limit}); shorten the input, raise max_length, or use sinusoidal, "
                f"rotary or alibi positions"
            )

    def add(self, x: Tensor, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        # No position is beyond its slot, and a decoder state checked its capacity at the start.
        if x.shape[1] > self.table.shape[0]:
            self.check(int(positions.max()))
        encoding = trace("encoding", self.table[positions])
        return trace("output", x + encoding)


@position("rotary")
class Rotary(NoPositions):
    """Turn each pair (2i, 2i+1) of a query and key by p / base^(2i/d): scores see p - q alone.

    `scaling` divides the positions (linear interpolation), so a model trained to length n can be
    read at n * scaling. Su et al. 2021, https://arxiv.org/abs/2104.09864; Chen et al. 2023,
    https://arxiv.org/abs/2306.15595
    """

    @classmethod
    def make(
        cls, *, d_model: int, heads: int, max_length: int, base: float, scaling: float
    ) -> Self:
        return cls(d_model // heads, base, scaling)

    def __init__(self, d_head: int, base: float = 10000.0, scaling: float = 1.0) -> None:
        super().__init__()
        if d_head % 2:
            raise ConfigError(
                f"d_head {d_head} is odd, but rotary positions turn pairs; "
                f"make d_model / heads even"
            )
        self.d_head, self.base, self.scaling = d_head, base, scaling

    @property
    def variant(self) -> Variant:
        return variant(interpolated=self.scaling != 1)

    def angles(self, positions: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        turn = frequencies(self.d_head, self.base, positions.device)
        return trace("angles", positions.to(torch.float64)[..., None] / self.scaling * turn)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn the pairs of x (batch, heads, length, d_head) by angles (batch, length, d_head / 2)."""
    return turn(x, angles.cos(), angles.sin())


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The same by cosines and sines (batch, length, d_head / 2), for who has them at hand."""
    cos, sin = cos.to(x.dtype)[:, None], sin.to(x.dtype)[:, None]  # (batch, 1, length, d_head / 2)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


@position("alibi")
class Alibi(NoPositions):
    """Subtract slope * distance from each score; head h has slope 2^(-8h/heads), h from 1.

    The same geometric slopes for every number of heads. Press, Smith & Lewis 2022,
    https://arxiv.org/abs/2108.12409
    """

    slopes: Tensor

    @classmethod
    def make(
        cls, *, d_model: int, heads: int, max_length: int, base: float, scaling: float
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
    base: float = 10000.0,
    scaling: float = 1.0,
) -> NoPositions:
    """The scheme of this name."""
    return POSITIONS[name].make(
        d_model=d_model, heads=heads, max_length=max_length, base=base, scaling=scaling
    )


def period(pair: int, d_model: int, base: float = 10000.0) -> float:
    """How many positions pair i takes for one turn: 2π base^(2i/d)."""
    return 2 * math.pi / float(frequencies(d_model, base)[pair])
