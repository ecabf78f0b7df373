"""RoPE scaling: use rotary positions beyond the length they were trained with.

    linear    divide every position by the factor; Chen et al. 2023, arxiv.org/abs/2306.15595
    dynamic   beyond the original length, the base grows with the length so far (NTK-aware);
              Peng et al. 2023, section 3.3
    yarn      "by parts": fast pairs are unchanged, slow ones are divided by the factor, those in
              between partly; Peng et al. 2023, https://arxiv.org/abs/2309.00071
    llama3    also by parts, but interpolates by a pair's number of rotations, not by its index;
              Grattafiori et al. 2024, https://arxiv.org/abs/2407.21783

Shapes: positions (batch, length); angles (batch, length, d / 2). All in float64.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from translucid.parts.expression import Expression, apply, constant

ScalingName = Literal["linear", "dynamic", "llama3", "yarn"]
BY_PARTS: dict[ScalingName, float] = {"llama3": 4.0, "yarn": 32.0}  # the default of `high`


def frequencies(d: int, base: float = 10000.0, device: torch.device | None = None) -> Tensor:
    """1 / base^(2i/d) for each pair i of dimensions; computed in float64."""
    pairs = torch.arange(0, d, 2, dtype=torch.float64, device=device)
    return base ** -(pairs / d)  # (d / 2,)


@dataclass(frozen=True)
class RotaryScaling:
    """A scaling method and its parameters."""

    factor: float = 1.0
    method: ScalingName = "linear"
    length: int = 0  # the original context length, for all methods but linear
    low: float = 1.0  # a pair with fewer rotations in that length is slow
    high: float = 4.0  # a pair with more rotations in that length is fast

    def angles(self, positions: Tensor, d: int, base: float) -> Tensor:
        """The angle of each pair of d dimensions at these positions."""
        places = positions.to(torch.float64)[..., None]
        match self.method:
            case "linear":
                return places / self.factor * frequencies(d, base, positions.device)
            case "dynamic":
                return places * self._dynamic(places, d, base)
            case "llama3" | "yarn":
                turn = frequencies(d, base, positions.device)
                kept = self.kept(d, base, positions.device)
                return places * ((kept + (1 - kept) / self.factor) * turn)

    def _dynamic(self, places: Tensor, d: int, base: float) -> Tensor:
        """The frequencies at each token (..., d / 2). They depend on the length up to that token
        only, so that step-by-step decoding gives the same result."""
        longer = ((places + 1) / self.length).clamp(min=1)
        grown = base * (self.factor * longer - self.factor + 1) ** (d / (d - 2))
        pairs = torch.arange(0, d, 2, dtype=torch.float64, device=places.device)
        return grown ** -(pairs / d)

    def terms(self, position: int, pair: int, d: int, base: float) -> Expression:
        """One angle as an expression; p / base^(2i/d) without scaling."""
        p, factor, one = constant("p", position), constant("scaling", self.factor), constant("1", 1)
        whole, power = constant("base", base), constant("2i/d", 2 * pair / d)
        if self.method == "dynamic":
            longer = constant("longer", max(1.0, (position + 1) / self.length))
            stretched = factor * longer - factor + one
            grown = whole * apply("^", stretched, constant("d/(d-2)", d / (d - 2)))
            return p / apply("^", grown, power)
        slow = apply("^", whole, power)
        if self.method in BY_PARTS:
            kept = constant("kept", float(self.kept(d, base)[pair]))
            return p * (kept + (one - kept) / factor) / slow
        return p / slow if self.factor == 1 else p / (factor * slow)

    def kept(self, d: int, base: float, device: torch.device | None = None) -> Tensor:
        """The fraction of each pair's frequency that is kept: 1 for fast pairs, 0 for slow ones.
        Shape: (d / 2,)."""
        if self.method == "llama3":
            turns = self.length * frequencies(d, base, device) / (2 * math.pi)
            return ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        # The (fractional) index of the pair that makes `high` or `low` rotations in `length`.
        fast, slow = (
            d * math.log(self.length / (turns * 2 * math.pi)) / (2 * math.log(base))
            for turns in (self.high, self.low)
        )
        first, last = max(math.floor(fast), 0), min(math.ceil(slow), d - 1)
        pairs = torch.arange(d // 2, dtype=torch.float64, device=device)
        return 1 - ((pairs - first) / ((last - first) or 0.001)).clamp(0, 1)


def yarn_attention_factor(factor: float) -> float:
    """0.1 ln(factor) + 1: the factor by which YaRN scales queries and keys."""
    return 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
