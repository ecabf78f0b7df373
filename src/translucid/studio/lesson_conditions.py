"""Whether a condition of a lesson is true of a run: those of claims and of tasks.

A condition compares two sides, as in `A[h, q, k] > 0.5` or `neighbour E[q] 0 = sleeps`, or is one
of `config KEY VALUE`, `reads WORD`, `says WORD`. A side is a number, a place, whatever a text may
ask for, the `mean`, `largest` or `least` of several numbers, or two of these with a sign in
between.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from translucid.studio.lesson_lacks import Lacks, Mistake
from translucid.studio.lesson_pieces import Asked

COMPARISON = re.compile(r"(.+?) (>=|<=|=|>|<) (.+)")
COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    "<": lambda a, b: a < b, "=": lambda a, b: a == b,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[[Any, Any], float]] = {
    "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else math.inf,
}  # fmt: skip


class Conditions(Asked):
    """Evaluates the conditions of one step."""

    def claim_holds(self, claim: Mapping[str, Any]) -> bool:
        """Whether a sentence is true of this run; one that cannot be evaluated is not."""
        try:
            return all(self.holds(condition) for condition in claim["that"])
        except Mistake:
            raise
        except Lacks:
            return False

    def holds(self, condition: str) -> bool:
        """A condition about the run; those about the page are `lesson_checks`'s."""
        if match := COMPARISON.fullmatch(condition):
            left, right = self._side(match[1]), self._side(match[3])
            if isinstance(left, str) or isinstance(right, str):
                return match[2] == "=" and str(left) == str(right)
            return COMPARED[match[2]](left, right)
        kind, _, rest = condition.partition(" ")
        match kind:
            case "config":
                return self._has(condition)
            case "reads":
                return rest.lower() in re.findall(r"[\w'-]+", self.run.text.lower())
            case "says":
                return rest.lower() in self.answer().lower()
        raise Mistake(f"{condition}: it is about the page, and not about the run")

    def _side(self, text: str) -> float | str:
        """A number: written, a place, any that a text may have, the mean, largest or least of some,
        or two of them with a sign in between; or a word."""
        try:
            return float(text)
        except ValueError:
            pass
        for sign, act in ARITHMETIC.items():
            first, separator, second = text.partition(f" {sign} ")
            if separator:
                numbers = self._side(first), self._side(second)
                if not all(isinstance(number, float) for number in numbers):
                    raise Mistake(f"{text}: these are no numbers")
                return act(*numbers)
        if text in self.values:
            return self.values[text]
        way, _, rest = text.partition(" ")
        if way in ("mean", "largest", "least"):
            value = self.numbers(rest)
            made = {"mean": value.mean(), "largest": value.amax(), "least": value.amin()}
            return float(made[way])
        if "[" in text or rest:
            piece = self._asked(text)
            if "word" in piece:
                return str(piece["word"])
            if "value" not in piece:
                return float(piece["text"].replace(",", ""))
            return float("-inf") if piece["value"] is None else float(piece["value"])
        if re.fullmatch(r"[^\W\d_]{2,}", text) and text not in self.places:
            return text  # a word, as in neighbour E[q] 0 = sleeps
        return float(self.index(text))
