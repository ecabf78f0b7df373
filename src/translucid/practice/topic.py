"""The parts of a practice topic: how to draw numbers, the steps to solve, and common slips.

The right answers come from a worked solution, and so from the production parts. Each step also has
a plain numpy formula of the earlier steps. A slip replaces the formulas of some steps; recomputing
the later steps gives the answer of someone who made this mistake.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from translucid.worked.solution.content import Step
from translucid.worked.solution.solution import Solution

Array: TypeAlias = NDArray[np.float64]
Formula: TypeAlias = Callable[[Any], Any]  # from the given numbers and earlier steps, by attribute
Item = TypeVar("Item")
DIGITS = 4  # decimals of the numbers in a printed solution


@dataclass(frozen=True)
class Part:
    """One step of an exercise; each can be asked for."""

    name: str  # also the attribute under which later formulas find the value
    ask: str  # a noun phrase, with LaTeX in $...$
    plain: Formula
    source: str | Callable[[Solution], Any]  # where the worked solution has the value

    def step(self, solution: Solution) -> Step | None:
        """The step of the worked solution with this value: "name", or "name@1" for its second
        occurrence."""
        if not isinstance(self.source, str):
            return None
        name, _, place = self.source.partition("@")
        return [step for step in solution.steps if step.name == name][int(place or 0)]

    def right(self, solution: Solution) -> Any:
        """The value of this step in the worked solution."""
        if not isinstance(self.source, str):
            return self.source(solution)
        step = self.step(solution)
        assert step is not None
        return step.value


@dataclass(frozen=True)
class Slip:
    """A common mistake: the steps that it changes, and the message about it."""

    name: str
    say: str
    wrong: Mapping[str, Formula]  # by step; a formula returns None if the slip cannot happen


def slip(name: str, say: str, **wrong: Formula) -> Slip:
    """Make a slip; each keyword is the wrong formula of a step."""
    return Slip(name, say, wrong)


@dataclass(frozen=True)
class Topic:
    """A kind of exercise. The last part is the first question."""

    name: str
    title: str
    task: str | Callable[[Any], str]  # what to do, with LaTeX in $...$; may use the numbers
    draw: Callable[["Draw"], dict[str, Any]]
    solve: Callable[[Any], Solution]
    parts: tuple[Part, ...]
    slips: tuple[Slip, ...]
    decimals: int = 3
    fits: Callable[[Any], bool] = lambda _: True  # whether the numbers make a good exercise

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    def index(self, name: str) -> int:
        return [part.name for part in self.parts].index(name)

    def compute(
        self,
        numbers: Mapping[str, Any],
        changed: Mapping[str, Formula] | None = None,
        *,
        decimals: int | None = None,
        exact: str = "",
    ) -> dict[str, Array] | None:
        """The value of each step by the plain formulas; None if the changed formulas do not apply.

        decimals: Round every step except `exact` to this many decimals.
        """
        values = SimpleNamespace(**{name: as_array(value) for name, value in numbers.items()})
        out: dict[str, Array] = {}
        with np.errstate(all="ignore"):
            for part in self.parts:
                value = ((changed or {}).get(part.name) or part.plain)(values)
                if value is None:
                    return None
                array = np.asarray(value, dtype=np.float64)
                if decimals is not None and part.name != exact:
                    array = array.round(decimals)
                out[part.name] = array
                setattr(values, part.name, out[part.name])
        return out


def as_array(value: Any) -> Any:
    """Convert a list of numbers to an array; return anything else unchanged."""
    return np.asarray(value, dtype=np.float64) if isinstance(value, list) else value


class Draw:
    """Draws simple numbers; the same key always gives the same numbers."""

    def __init__(self, key: str) -> None:
        self._random = random.Random(key)

    def choice(self, values: Sequence[Item]) -> Item:
        return self._random.choice(values)

    def shuffled(self, values: Sequence[Item]) -> list[Item]:
        return self._random.sample(values, len(values))

    def whole(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def distinct(self, count: int, unit: float = 1.0) -> list[float]:
        """Different nonzero multiples of `unit`, from -2 to 3 times."""
        return [unit * n for n in self.shuffled([-2.0, -1.0, 1.0, 2.0, 3.0])[:count]]

    def ints(self, *shape: int, low: int = -2, high: int = 3) -> Any:
        """Integers as nested lists of this shape, not all of them 0."""
        return self._fill(shape, [float(n) for n in range(low, high + 1)])

    def halves(self, *shape: int, most: float = 1.5) -> Any:
        """Nonzero multiples of one half, up to `most` in size."""
        sizes = [n / 2 for n in range(1, round(2 * most) + 1)]
        return self._fill(shape, [*(-size for size in sizes), *sizes])

    def _fill(self, shape: tuple[int, ...], values: list[float]) -> Any:
        if not shape:
            return self.choice(values)
        while True:
            filled = [self._fill(shape[1:], values) for _ in range(shape[0])]
            if np.any(filled):
                return filled


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any, axis: int | None = -1) -> Any:
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)
