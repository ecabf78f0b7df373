"""RoPE scaling: how rotary positions learnt at one length are read at a longer one.

    linear    every position is divided by the factor; Chen et al. 2023, arxiv.org/abs/2306.15595
    dynamic   the base grows with the length read so far (NTK-aware), nothing changes within the
              original one; Peng et al. 2023, section 3.3
    yarn      fast pairs stay, slow ones are divided by the factor, those in between partly
              ("by parts"); Peng et al. 2023, https://arxiv.org/abs/2309.00071
    llama3    by parts too; which pair counts as fast is told by its turns, not by its number;
              Grattafiori et al. 2024, https://arxiv.org/abs/2407.21783

Shapes: positions (batch, length); angles (batch, length, d / 2). All in float64.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from translucid.parts.expression import Expression, add, apply, constant, minus, over, times

ScalingName = Literal["linear", "dynamic", "llama3", "yarn"]
BY_PARTS: dict[ScalingName, float] = {"llama3": 4.0, "yarn": 32.0}  # what `high` is by default


def frequencies(d: int, base: float = 10000.0, device: torch.device | None = None) -> Tensor:
    """1 / base^(2i/d) for each pair i of dimensions; computed in float64."""
    pairs = torch.arange(0, d, 2, dtype=torch.float64, device=device)
    return base ** -(pairs / d)  # (d / 2,)


@dataclass(frozen=True)
class RotaryScaling:
    """One of these methods, with its numbers."""

    factor: float = 1.0
    method: ScalingName = "linear"
    length: int = 0  # the original context length, for all methods but linear
    low: float = 1.0  # pairs with fewer turns in that length are slow,
    high: float = 4.0  # with more, fast

    def angles(self, positions: Tensor, d: int, base: float) -> Tensor:
        """By how much each pair of d dimensions is turned at these positions."""
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
        """Each token turns as the length up to itself has it, so that steps are the same."""
        longer = ((places + 1) / self.length).clamp(min=1)
        grown = base * (self.factor * longer - self.factor + 1) ** (d / (d - 2))
        pairs = torch.arange(0, d, 2, dtype=torch.float64, device=places.device)
        return grown ** -(pairs / d)

    def terms(self, position: int, pair: int, d: int, base: float) -> Expression:
        """One angle, p / base^(2i/d) where nothing is scaled, as an expression."""
        p, factor, one = constant("p", position), constant("scaling", self.factor), constant("1", 1)
        whole, power = constant("base", base), constant("2i/d", 2 * pair / d)
        if self.method == "dynamic":
            longer = constant("longer", max(1.0, (position + 1) / self.length))
            stretched = add(minus(times(factor, longer), factor), one)
            grown = times(whole, apply("^", stretched, constant("d/(d-2)", d / (d - 2))))
            return over(p, apply("^", grown, power))
        slow = apply("^", whole, power)
        if self.method in BY_PARTS:
            kept = constant("kept", float(self.kept(d, base)[pair]))
            return over(times(p, add(kept, over(minus(one, kept), factor))), slow)
        return over(p, slow) if self.factor == 1 else over(p, times(factor, slow))

    def kept(self, d: int, base: float, device: torch.device | None = None) -> Tensor:
        """How much of each pair's own frequency stays: 1 for a fast one, 0 for a slow one."""
        if self.method == "llama3":
            turns = self.length * frequencies(d, base, device) / (2 * math.pi)
            return ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        # The pair that makes so many turns in the original length, as a number of its dimension.
        fast, slow = (
            d * math.log(self.length / (turns * 2 * math.pi)) / (2 * math.log(base))
            for turns in (self.high, self.low)
        )
        first, last = max(math.floor(fast), 0), min(math.ceil(slow), d - 1)
        pairs = torch.arange(d // 2, dtype=torch.float64, device=device)
        return 1 - ((pairs - first) / ((last - first) or 0.001)).clamp(0, 1)


def yarn_attention_factor(factor: float) -> float:
    """0.1 ln(factor) + 1: by how much YaRN lengthens queries and keys."""
    return 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
