"""Draw an exercise: numbers for which common slips lead to different answers, and the solution."""

import json
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from translucid.core.errors import InputError
from translucid.practice.topic import Array, Draw, Part, Topic, as_array
from translucid.practice.topics import find_topic
from translucid.worked.solution.numbers import many
from translucid.worked.solution.solution import Solution

_TRIES = 1000  # draws before the topic counts as broken


@dataclass(frozen=True, eq=False)
class Exercise:
    """One exercise: a topic with numbers."""

    topic: Topic
    seed: int
    numbers: dict[str, Any]
    slips: dict[str, dict[str, Array]]  # for each slip that can happen, the value of each step

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.topic.parts

    @property
    def last(self) -> Part:
        """The part to ask for unless the user answers step by step."""
        return self.topic.parts[-1]

    @cached_property
    def _worked(self) -> Solution:
        return self.topic.solve(SimpleNamespace(**self.numbers))

    @cached_property
    def right(self) -> dict[str, Array]:
        """The right value of each step, from the worked solution."""
        plain = self.topic.compute(self.numbers)
        assert plain is not None
        return {
            part.name: np.asarray(part.right(self._worked), float).reshape(plain[part.name].shape)
            for part in self.parts
        }

    @property
    def task(self) -> str:
        """What to do, apart from the numbers."""
        task = self.topic.task
        return task if isinstance(task, str) else task(SimpleNamespace(**self.numbers))

    def question(self, ask: Literal["typed", "written", "task"] = "typed") -> Solution:
        """The given values and the task as a document. ask: whether to ask for an answer that is
        typed or written on paper; task: do not ask for an answer."""
        closing = self.task
        if ask != "task":
            entry = self.entry(self.last, sample=ask == "typed")
            closing += f" Find {self.last.ask}: {entry}."
        return replace(
            self._worked, title=self.topic.title, steps=(), notes=(), closing=closing, next="",
            example=False,
        )  # fmt: skip

    @cached_property
    def solution(self) -> Solution:
        """The worked solution up to the last part, without sections that do not lead to it."""
        steps, used = self._worked.steps, [part.step(self._worked) for part in self.parts]
        if used[-1] is not None:
            sections = {step.section for step in used if step is not None}
            steps = steps[: steps.index(used[-1]) + 1]
            steps = tuple(step for step in steps if step.section in sections)
        return replace(
            self._worked, title=self.topic.title, steps=steps, closing="", next="", example=False
        )

    def formula(self, part: Part) -> str:
        """The formula of a step, in LaTeX; empty if it is shown as a table."""
        step = part.step(self._worked)
        return f"{step.symbol} = {step.formula}" if step and step.formula and step.symbol else ""

    @property
    def decimals(self) -> int:
        return self.topic.decimals

    @property
    def tolerance(self) -> float:
        """The largest error of an answer rounded as required, with a margin for ties."""
        return round(0.501 * 10.0**-self.decimals, 10)

    def entry(self, part: Part, sample: bool = True) -> str:
        """A description of the answer to enter: its shape, a sample, and the rounding."""
        shape = self.right[part.name].shape
        what = "a number"
        if shape:
            row = many(shape[-1])
            what = row if len(shape) == 1 else f"{shape[0]} rows of {row}"
            if sample:
                line = " ".join(str(i + 1) for i in range(shape[-1]))
                what += f', such as "{"; ".join([line] * (1 if len(shape) == 1 else shape[0]))}"'
        return f"{what}, {self.rounding}"

    @property
    def rounding(self) -> str:
        return f"rounded to {many(self.decimals, 'decimal')}" if self.decimals else "exactly"

    def as_dict(self, answers: bool = False) -> dict[str, Any]:
        """The exercise as plain values; the right answers only on request."""
        steps: list[dict[str, Any]] = []
        for part in self.parts:
            value = self.right[part.name]
            steps.append(
                {"name": part.name, "ask": part.ask, "shape": list(value.shape)}
                | ({"answer": value.tolist()} if answers else {})
            )
        question = json.loads(self.question().json())
        return {
            "topic": self.topic.name, "seed": self.seed, "title": self.topic.title,
            "task": self.task, "given": question["given"], "steps": steps,
            "asked": self.last.name, "decimals": self.decimals, "tolerance": self.tolerance,
        }  # fmt: skip


@lru_cache(maxsize=256)
def draw(topic: str, seed: int) -> Exercise:
    """Draw the exercise of a topic with this seed; the same seed gives the same exercise."""
    kind = find_topic(topic)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed = {seed}: must be a whole number of at least 0")
    for attempt in range(_TRIES):
        numbers = kind.draw(Draw(f"{topic}/{seed}/{attempt}"))
        values = kind.compute(numbers)
        assert values is not None
        arrays = {name: as_array(value) for name, value in numbers.items()}
        if not kind.fits(SimpleNamespace(**arrays, **values)):
            continue
        slips = _distinct_slips(kind, numbers, values)
        if slips is not None and np.any(values[kind.parts[-1].name]):
            return Exercise(kind, seed, numbers, slips)
    raise AssertionError(f"{topic}: no suitable numbers in {_TRIES} draws for seed {seed}")


def _distinct_slips(
    topic: Topic, numbers: dict[str, Any], right: dict[str, Array]
) -> dict[str, dict[str, Array]] | None:
    """The slips that can happen with these numbers, each with the value of every step. None if more
    than a tenth of the slips do not change the answer, or change it like one at another step (of
    two that change it alike, one counts)."""
    asked, near = topic.parts[-1].name, 4 * 10.0**-topic.decimals
    slips: dict[str, dict[str, Array]] = {}
    answers: list[tuple[str, Array]] = []
    without_effect = 0
    for mistake in topic.slips:
        values = topic.compute(numbers, mistake.wrong)
        if values is None or not all(np.isfinite(v).all() for v in values.values()):
            continue
        step = next((p.name for p in topic.parts if differs(values[p.name], right[p.name])), "")
        if step and differs(values[asked], right[asked], near):
            answers.append((step, values[asked]))
            slips[mistake.name] = values
        else:
            without_effect += 1
    alike = sum(
        any(step != other and not differs(answer, its, near) for other, its in answers)
        for step, answer in answers
    )
    return slips if without_effect + alike / 2 <= len(topic.slips) // 10 else None


def differs(a: Array, b: Array, by: float = 1e-9) -> bool:
    """Whether any entry differs by more than `by`."""
    return bool((np.abs(a - b) > by).any())
