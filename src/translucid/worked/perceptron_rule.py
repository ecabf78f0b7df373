"""The perceptron rule on points and targets, and all that it went through.

Shapes: points (points, inputs); targets (points,), 0 or 1.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.models.perceptron import Perceptron

_TIE = 1e-12  # 0.1 + 0.2 - 0.3 is 0 on paper; float64 makes it 6e-17, on the positive side


def _trace(unit: Perceptron, x: Tensor, scale: float = 0.0) -> Trace:
    """A trace that takes a sum for 0 if it is 0 but for rounding, as it is on paper.

    scale: of numbers that went into the weights, which may have cancelled down to rounding.
    """
    largest = max(unit.weight.abs().max().item(), abs(unit.bias.item()), scale)
    tolerance = _TIE * largest * (1 + x.abs().sum().item())
    return Trace(edit={"perceptron.sum": lambda z: torch.where(z.abs() <= tolerance, 0.0, z)})


def look(unit: Perceptron, x: Tensor, scale: float = 0.0) -> tuple[Tensor, Tensor]:
    """The sum and the answer."""
    trace = _trace(unit, x, scale)
    unit(x[None], trace)
    return trace["perceptron.sum"][0], trace["perceptron.output"][0]


@dataclass(frozen=True)
class Turn:
    """One point's turn: what was answered, and the weights before and after."""

    x: Tensor
    target: Tensor
    total: Tensor
    output: Tensor
    before: tuple[Tensor, Tensor]
    after: tuple[Tensor, Tensor]

    @property
    def wrong(self) -> bool:
        return bool(self.output != self.target)


@dataclass(frozen=True)
class Epoch:
    turns: list[Turn]
    weight: Tensor
    bias: Tensor
    right: int  # of all points, with the weights at its end

    @property
    def mistakes(self) -> int:
        return sum(turn.wrong for turn in self.turns)


@dataclass
class Lesson:
    """The perceptron rule, epoch by epoch, until nothing is wrong or it goes round."""

    unit: Perceptron
    points: Tensor  # (points, inputs)
    targets: Tensor  # (points,)
    rate: float
    epochs: list[Epoch] = field(default_factory=list)
    returns: int | None = None  # the epoch, 0 for the start, to whose weights the last comes back

    def __post_init__(self) -> None:
        start = torch.cat([self.unit.weight, self.unit.bias[None]])
        self.scale = max(start.abs().max().item(), self.rate)

    @property
    def all_right(self) -> int:
        """The epoch after which all points are right; 0 if there is none."""
        right = [i for i, epoch in enumerate(self.epochs, 1) if epoch.right == len(self.points)]
        return right[0] if right else 0

    @property
    def ended(self) -> bool:
        """Nothing new would come of more epochs."""
        return bool(self.all_right) or self.returns is not None

    def run(self, limit: int) -> None:
        met = {self._weights(): 0}
        for number in range(1, limit + 1):
            turns = [self._turn(i) for i in range(len(self.points))]
            answers = torch.stack([look(self.unit, x, self.scale)[1] for x in self.points])
            right = int((answers == self.targets).sum())
            epoch = Epoch(turns, self.unit.weight.clone(), self.unit.bias.clone(), right)
            self.epochs.append(epoch)
            if not epoch.mistakes:
                return
            same = met.setdefault(self._weights(), number)
            if same != number:
                self.returns = same
                return

    def _weights(self) -> tuple[float, ...]:
        """What comes back is the same but for rounding, beside what a point moves it by."""
        largest = self.points.abs().amax(dim=0)
        moved = torch.where(largest > 0, self.rate * largest, 1.0)
        weights = [*(self.unit.weight / moved).tolist(), self.unit.bias.item() / self.rate]
        return tuple(round(value, 6) for value in weights)

    def _turn(self, i: int) -> Turn:
        x, target = self.points[i], self.targets[i]
        trace = _trace(self.unit, x, self.scale)
        before = self.unit.weight.clone(), self.unit.bias.clone()
        self.unit.learn(x[None], target[None], self.rate, trace=trace)
        after = self.unit.weight.clone(), self.unit.bias.clone()
        total, output = (trace[f"perceptron.{name}"][0] for name in ("sum", "output"))
        return Turn(x, target, total, output, before, after)
