"""Compare an answer that the reader of a lesson typed with the right one."""

import math
from typing import Any

from translucid.core.errors import InputError
from translucid.studio.lesson import Answer, Verdict, right, wrong
from translucid.worked.solution.numbers import decimal_point, many, vector

MAX_ANSWER = 1000  # characters


def compare(answer: Answer, typed: str) -> Verdict:
    """Whether a typed answer is right, and otherwise which mistake leads to it."""
    words = isinstance(answer.right, str) or hasattr(answer.right, "word")
    return _word(answer, typed) if words else _numbers(answer, typed)


def _word(answer: Answer, typed: str) -> Verdict:
    entered = _plain(typed)
    if not entered:
        return wrong("Type one word.")
    if entered == _plain(answer.right):
        return right(f"Yes: {answer.right}. {answer.say}".strip())
    for say, mistaken in answer.slips.items():
        if entered == _plain(mistaken):
            return wrong(f"Not {typed.strip():.40}: {say}")
    return wrong(f"It is not {typed.strip():.40}. Look again.")


def _plain(word: Any) -> str:
    return str(getattr(word, "word", word)).strip(" \t\"'“”").casefold()


def _numbers(answer: Answer, typed: str) -> Verdict:
    wanted = _values(answer.right)
    decimals = many(answer.decimals, "decimal") if answer.decimals else "no decimals"
    asked = f"one number with {decimals}"
    if len(wanted) > 1:
        asked = f"{many(len(wanted))} with {decimals} each, separated by spaces"
    if not typed.strip():
        return wrong(f"Type {asked}.")
    try:
        if len(typed) > MAX_ANSWER:
            raise InputError(f"your answer has {len(typed):,} characters")
        text = decimal_point(typed) if len(wanted) == 1 else typed
        entered = vector(text, "answer").tolist()
    except InputError as error:
        return wrong(f"Type {asked}: {error}.")
    if len(entered) != len(wanted):
        return wrong(f"Type {asked}, not {many(len(entered))}.")
    unit = 1.01 * 10.0**-answer.decimals if answer.decimals else 0.51

    def close(values: list[float]) -> list[bool]:
        return [abs(one - other) <= unit for one, other in zip(entered, values, strict=False)]

    def matches(values: list[float]) -> bool:
        return len(values) == len(entered) and all(close(values))

    if matches(wanted):
        shown = " ".join(f"{value + 0.0:.{answer.decimals}f}" for value in wanted)
        return right(f"Yes: {shown}. {answer.say}".strip())
    for say, mistaken in answer.slips.items():
        if matches(_values(mistaken)):
            return wrong(f"Not right: {say}")
    if matches([-value for value in wanted]):
        return wrong("Not right: check the sign.")
    places = [str(i) for i, same in enumerate(close(wanted), 1) if not same]
    if 0 < len(places) < len(wanted):
        return wrong(f"Not right: check number {' and '.join(places)}.")
    return wrong("Not right. Work it out again with the numbers in the text.")


def _values(value: Any) -> list[float]:
    try:
        rows = value.tolist() if hasattr(value, "tolist") else value
        values = [float(number) for number in (rows if isinstance(rows, list | tuple) else [rows])]
    except (TypeError, ValueError):
        values = []
    if not values or not all(map(math.isfinite, values)):
        raise TypeError(
            f"an answer must be a word, a finite number or a row of them: {value!r:.60}"
        )
    return values
