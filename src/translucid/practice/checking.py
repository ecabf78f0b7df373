"""Check an answer, and find the step that went wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from translucid.core.errors import InputError
from translucid.practice.exercise import Exercise, differs, draw
from translucid.practice.topic import Array, Formula, Part
from translucid.worked.solution.numbers import Numbers, decimal_point, matrix, shape

_NEAR = 12  # units of the last decimal: how far rounding too early can move an answer


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right, and what is wrong with it. Entries and steps count from 1."""

    right: bool
    message: str
    step: int | None = None  # the step that went wrong
    part: str | None = None  # its name
    slip: str | None = None  # the mistake that explains the answer
    also: tuple[int, ...] = ()  # other steps in which a mistake would lead to the same answer
    wrong_entries: tuple[tuple[int, ...], ...] = ()  # (row, column), or (number,) in a vector

    def as_dict(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Suspect:
    """A possible mistake: the answer that it leads to, and the step where it happens."""

    part: Part
    name: str
    say: str
    answer: Array


def check(topic: str, seed: int, answer: Numbers, part: str | None = None) -> Verdict:
    """Check the answer to an exercise; `part`: the step that was asked for [default: the last]."""
    return check_answer(draw(topic, seed), answer, part)


def check_steps(exercise: Exercise, answers: Sequence[Numbers]) -> list[Verdict]:
    """Check one answer for each step. A step that follows from earlier mistakes counts as right."""
    if len(answers) != len(exercise.parts):
        asked = ", ".join(part.name for part in exercise.parts)
        raise InputError(
            f"got {len(answers)} answers; this exercise has {len(exercise.parts)} steps: {asked}"
        )
    verdicts: list[Verdict] = []
    wrong: dict[str, Formula] = {}  # wrong answers so far, from which later steps may follow
    for part, answer in zip(exercise.parts, answers, strict=True):
        verdict = check_answer(exercise, answer, part.name)
        if not verdict.right:
            typed = read_answer(exercise, part, answer)
            if wrong and _follows(exercise, part, typed, wrong):
                say = "This follows correctly from your earlier steps."
                verdict = Verdict(True, say)
            wrong[part.name] = _always(typed)
        verdicts.append(verdict)
    return verdicts


def _follows(exercise: Exercise, part: Part, typed: Array, wrong: dict[str, Formula]) -> bool:
    """Whether a wrong answer follows correctly from the wrong answers to earlier steps. These were
    rounded, so the tolerance is larger."""
    values = exercise.topic.compute(exercise.numbers, wrong)
    if values is None or values[part.name].shape != typed.shape:
        return False
    slack = max(4 * 10.0**-exercise.decimals, 0.004 * abs(typed).max())
    return not differs(typed, values[part.name], slack)


def _always(value: Array) -> Formula:
    return lambda _: value


def check_answer(exercise: Exercise, answer: Numbers, part: str | None = None) -> Verdict:
    """Check the answer to one step of an exercise."""
    asked = exercise.last if part is None else _find(exercise, part)
    right, typed = exercise.right[asked.name], read_answer(exercise, asked, answer)
    if typed.shape != right.shape:
        return Verdict(
            False, "Your answer is the transpose: exchange its rows and columns.",
            exercise.topic.index(asked.name) + 1, asked.name, "transposed",
        )  # fmt: skip
    if not differs(typed, right, exercise.tolerance):
        return Verdict(True, "Right.")
    matches = [
        suspect
        for suspect in suspects(exercise, asked.name)
        if not differs(typed, suspect.answer, exercise.tolerance)
    ]
    return _explained(exercise, matches) if matches else _unexplained(exercise, asked, typed)


def _explained(exercise: Exercise, matches: list[Suspect]) -> Verdict:
    first, steps = matches[0], [exercise.topic.index(suspect.part.name) + 1 for suspect in matches]
    also = tuple(sorted(set(steps) - {steps[0]}))
    say = f"Step {steps[0]}, {first.part.ask}: {first.say}"
    if also:
        others = " or ".join(str(step) for step in also)
        say += f" (A mistake in step {others} can lead to the same answer.)"
    return Verdict(False, say, steps[0], first.part.name, first.name, also)


def _find(exercise: Exercise, name: str) -> Part:
    names = [part.name for part in exercise.parts]
    if name not in names:
        raise InputError(f"no such step: {name!r}; the steps are {', '.join(names)}")
    return exercise.topic.part(name)


def read_answer(exercise: Exercise, part: Part, answer: Numbers) -> Array:
    """Convert an answer to an array of the expected shape. A transposed matrix is allowed."""
    wanted = exercise.right[part.name].shape
    if not wanted and isinstance(answer, str):
        answer = decimal_point(answer)
    table = matrix(answer, "answer")
    entered = np.asarray(table.numpy(), dtype=np.float64)
    vector = len(wanted) < 2
    if vector and 1 in entered.shape and entered.size == (wanted[0] if wanted else 1):
        return entered.reshape(wanted)
    if not vector and entered.shape in (wanted, wanted[::-1]):
        return entered
    raise InputError(f"your answer is {shape(table)}; enter {exercise.entry(part)}")


@lru_cache(maxsize=64)
def suspects(exercise: Exercise, asked: str) -> tuple[Suspect, ...]:
    """Possible mistakes, most common first, each with the answer that it leads to."""
    return tuple(_suspects(exercise, asked))


def _suspects(exercise: Exercise, asked: str) -> Iterator[Suspect]:
    topic, right = exercise.topic, exercise.right
    upto = topic.parts[: topic.index(asked) + 1]
    for mistake in topic.slips:
        values = exercise.slips.get(mistake.name)
        if values is None:
            continue
        step = next((p for p in upto if differs(values[p.name], right[p.name])), None)
        if step is not None:
            yield Suspect(step, mistake.name, mistake.say, values[asked])
    for part in reversed(upto):
        yield from _general(exercise, part, asked)
    for part, following in pairwise(upto):
        if right[part.name].shape == right[asked].shape:
            say = f"your answer is the result of the previous step, {part.ask}."
            yield Suspect(following, "stopped", say, right[part.name])
    for decimals in range(exercise.decimals - 1, -1, -1):
        values = topic.compute(exercise.numbers, decimals=decimals, exact=asked)
        if values is None or not np.isfinite(values[asked]).all():
            continue
        step = next((p for p in upto if differs(values[p.name], right[p.name])), None)
        if step is not None and step.name != asked:
            say = f"you rounded too early; keep at least {exercise.decimals + 1} decimals."
            yield Suspect(step, "rounded-early", say, values[asked])


def _general(exercise: Exercise, part: Part, asked: str) -> Iterator[Suspect]:
    """Mistakes that can happen in any step, and the answers of someone who then continues."""
    value = exercise.right[part.name]
    for name, say, changed in _changes(value):
        if not differs(changed, value):
            continue
        values = exercise.topic.compute(exercise.numbers, {part.name: _always(changed)})
        if values is not None and np.isfinite(values[asked]).all():
            yield Suspect(part, name, say, values[asked])


def _changes(value: Array) -> Iterator[tuple[str, str, Array]]:
    """A value with a usual mistake: its name, the message, and the wrong value."""
    yield "sign", "check the sign.", -value
    if (value < 0).any() and (value > 0).any():
        yield "lost-minus", "a minus sign is missing.", abs(value)
    if value.ndim == 2 and value.shape[0] == value.shape[1]:
        yield "transposed", "exchange the rows and columns.", value.T
    for axis in range(value.ndim):
        what = "number" if value.ndim == 1 else ("row", "column")[axis]
        lines = np.moveaxis(value, axis, 0)
        for i, j in combinations(range(len(lines)), 2):
            order = np.arange(len(lines))
            order[[i, j]] = j, i
            say = f"you exchanged {what} {i + 1} and {what} {j + 1}."
            yield "exchanged", say, np.moveaxis(lines[order], 0, axis)
        for i in range(1, len(lines)):
            order = np.arange(len(lines))
            order[i] = i - 1
            say = f"{what} {i + 1} repeats {what} {i}."
            yield "repeated", say, np.moveaxis(lines[order], 0, axis)
    yield "decimal-point", "check the decimal point.", value * 10
    yield "decimal-point", "check the decimal point.", value / 10


def _unexplained(exercise: Exercise, asked: Part, typed: Array) -> Verdict:
    right, number = exercise.right[asked.name], exercise.topic.index(asked.name) + 1
    for decimals in range(exercise.decimals - 1, 0, -1):
        coarse = 0.501 * 10.0**-decimals
        with np.errstate(over="ignore"):  # of a huge answer
            rounded = typed.round(decimals)
        if not differs(typed, rounded) and not differs(typed, right, coarse):
            say = f"Right so far, but your answer must be {exercise.rounding}."
            return Verdict(False, say, number, asked.name, "too-few-decimals")
    if exercise.decimals and not differs(typed, right, _NEAR * 10.0**-exercise.decimals):
        say = (
            "Very close: this looks like a rounding error. Keep more decimals until the end, and "
            f"give the answer {exercise.rounding}."
        )
        return Verdict(False, say, number, asked.name, "rounded-early")
    wrong = np.argwhere(np.abs(typed - right) > exercise.tolerance) + 1
    places = tuple(tuple(int(i) for i in place) for place in wrong)
    if not right.shape or len(places) == right.size:
        say = "Not right, and no common mistake explains this answer. Check it step by step."
        return Verdict(False, say, wrong_entries=places if right.shape else ())
    listed = ", ".join(
        f"row {p[0]}, column {p[1]}" if len(p) == 2 else f"number {p[0]}" for p in places
    )
    say = f"{right.size - len(places)} of {right.size} numbers are right. Check {listed}."
    return Verdict(False, say, wrong_entries=places)


def right_answer(exercise: Exercise, part: Part) -> str:
    """The right answer as a user would type it, rounded as required."""
    return written(exercise.right[part.name], exercise.decimals)


def written(value: Array, decimals: int) -> str:
    """Numbers as a user types them: "1 2; 3 4"."""
    rows = np.atleast_2d(value).round(decimals) + 0.0  # not -0
    return "; ".join(" ".join(f"{number:.{decimals}f}" for number in row) for row in rows)
