"""Lessons as Python files: what lesson authors use. docs/guides/lessons.md has examples.

A lesson file creates a `Lesson` and adds stops to it. A stop is a function that takes the current
run (`lesson_run.LessonRun`) and returns a `Stop`, whose text is an f-string. Numbers and words of
the run in the f-string stay linked to their place on the page.

This module does not import torch, so errors in a lesson file appear before any model is opened.
"""

import json
import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from translucid.core import extensions
from translucid.core.errors import InputError, nearest

VIEWS = ("flow", "attention", "recurrent", "decode", "whatif", "compare", "data", "train")
ATTENTION = ("encoder", "decoder", "cross")
MOMENTS = ("scores", "scaled", "biased", "masked", "weights")
# Keys of an address, with a pattern and a description of the value. None: any value.
KEYS: dict[str, tuple[str, str] | None] = {
    "at": None, "i": None, "off": None, "problem": None,
    "kind": ("|".join(ATTENTION), f"one of {', '.join(ATTENTION)}"),
    "moment": ("|".join(MOMENTS), f"one of {', '.join(MOMENTS)}"),
    "head": (r"\d+|mean", "a number or 'mean'"),
    **dict.fromkeys(("layer", "unit", "step", "seed"), (r"\d+", "a number")),
}  # fmt: skip
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PIECE = re.compile(
    r"\x02(?P<piece>[^\x03]*)\x03|\[(?P<noun>[^\]\[\x02]+)\]\((?P<means>[^)\x02]+)\)"
)


# ---- reasons why a stop cannot be shown ----


class Lacks(Exception):
    """The model lacks something that a stop uses, and the lesson does not handle this case."""


class ModelLacks(Lacks):
    """The stop does not apply to this model. The message completes a sentence such as "Skipped: it
    has no attention"."""


class SentenceLacks(Lacks):
    """The sentence contains nothing with which the stop could show its subject; a different
    sentence may."""


class NotChosen(Lacks):
    """The page does not show the value that a check uses."""


# ---- texts with numbers ----


def marked(piece: Mapping[str, Any]) -> str:
    """Encode a number or a word of a run for an f-string; `pieces` decodes it."""
    return f"\x02{json.dumps(piece)}\x03"


def written(value: float) -> str:
    """A positive number that is not from the run, with about four digits: 980.0 or 2.400 × 10⁹."""
    if 0.1 <= value < 100_000:
        return f"{value:.1f}" if value >= 10 else f"{value:.3f}"
    mantissa, exponent = f"{value:.3e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def pieces(text: str) -> list[dict[str, Any]]:
    """Split a text for the page: plain text, numbers, words, and nouns that highlight a part."""
    split, end = [], 0
    for match in _PIECE.finditer(text):
        split.append({"text": text[end : match.start()]})
        end = match.end()
        if match["noun"]:
            split.append({"text": match["noun"], "means": match["means"]})
        else:
            split.append(json.loads(match["piece"]))
    split.append({"text": text[end:]})
    return [piece for piece in split if piece != {"text": ""}]


# ---- lessons ----


class Stop:
    """The content of a stop: its text, what to try, and the selection in its view.

    `pin` lists tokens to pin; `light` lists what to highlight (`part:NAME`, `head:LAYER.HEAD`,
    `moment:scores`, `gate:forget_gate`, `switch:KEY`). `do` says what to try and replaces the `do`
    that was passed to `lesson.stop`. `chosen` are further keys of the address: `at`, `i`, `head`,
    `unit`, ...
    """

    def __init__(
        self,
        say: str,
        *,
        do: str | None = None,
        pin: Sequence[Any] = (),
        light: Sequence[str] = (),
        **chosen: Any,
    ) -> None:
        _check_texts(say=say, do=do)
        self.say, self.do, self.pin, self.light = say, do, pin, light
        self.chosen = _checked(chosen)


def number_stop(say: str, number: Any, *pin: Any, **more: Any) -> Stop:
    """A stop that opens one number of a point, such as `point[row, 0]`, and pins tokens."""
    return Stop(say, at=number.at, i=number.index, pin=pin, **more)


@dataclass(frozen=True)
class Verdict:
    """Whether a task is done, and the text to show."""

    done: bool
    say: str


def right(say: str) -> Verdict:
    return Verdict(True, say)


def wrong(say: str) -> Verdict:
    return Verdict(False, say)


@dataclass(frozen=True)
class Answer:
    """The right answer to the question of a stop: a number, a row of numbers, or a word.

    decimals: how many decimals to type; the last decimal may be off by 1, because the numbers in
    the text are rounded, too. slips: for the message about each common mistake, the answer that it
    leads to. say: what to add to the verdict on the right answer.
    """

    right: Any
    decimals: int = 2
    slips: Mapping[str, Any] = field(default_factory=dict)
    say: str = ""


Task: TypeAlias = Callable[[Any, Any], Verdict | Answer]  # takes a LessonRun and a PageState


@dataclass
class StopFunction:
    """A stop of a lesson: a function of the run, optionally with a function that checks a task."""

    title: str
    view: str
    do: str
    chosen: dict[str, str]
    show: Callable[[Any], Stop]  # takes a LessonRun
    task: Task | None = None
    typed: bool = False  # whether the reader types an answer, which the task compares with its own

    def check(self, function: Task) -> Task:
        """Register the function that runs when *Check* is pressed (a decorator)."""
        return self._add(function, typed=False)

    def answer(self, function: Task) -> Task:
        """Let the reader type an answer, and register the function that computes the right one (a
        decorator). It returns an `Answer`, or `wrong(...)` if the page is not as it should be."""
        return self._add(function, typed=True)

    def _add(self, function: Task, *, typed: bool) -> Task:
        if self.task is not None:
            raise ValueError(f"stop {self.title!r} has two tasks; use one check or one answer")
        self.task, self.typed = function, typed
        return function


@dataclass
class Lesson:
    """A guided tour through the studio.

    The model must have the trace points in `needs`. Each key is a pattern; its value is the reason
    that the page shows if no point matches the pattern.
    """

    name: str
    teaches: str = ""
    model: str | None = None
    text: str | None = None
    needs: Mapping[str, str] = field(default_factory=dict)
    stops: list[StopFunction] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        _check_texts(name=self.name, teaches=self.teaches, model=self.model, text=self.text)

    def stop(
        self, title: str, view: str, *, do: str = "", **chosen: Any
    ) -> Callable[[Callable[[Any], Stop]], StopFunction]:
        """Add a stop (a decorator for a function that takes the run and returns a `Stop`).

        chosen: keys of the page's address.
        """
        _check_texts(title=title, do=do)
        if view not in VIEWS:
            raise ValueError(f"unknown view {view!r}; expected one of {', '.join(VIEWS)}")
        fixed = _checked(chosen)

        def add(function: Callable[[Any], Stop]) -> StopFunction:
            self.stops.append(StopFunction(title, view, do, fixed, function))
            return self.stops[-1]

        return add


def _check_texts(**texts: Any) -> None:
    for key, text in texts.items():
        optional = key in ("do", "model", "text")
        if not isinstance(text, str) and not (optional and text is None):
            raise TypeError(f"{key} must be a string, not {text!r:.80}")


def _checked(chosen: Mapping[str, Any]) -> dict[str, str]:
    """Check the keys of an address and convert their values to text."""
    for key in chosen:
        if key not in KEYS:
            close = nearest(key, list(KEYS), 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise TypeError(f"unknown key {key!r}; {hint}the keys are {', '.join(KEYS)}")
    written = {key: _written(value) for key, value in chosen.items()}
    for key, value in written.items():
        allowed = KEYS[key]
        if allowed is not None and not re.fullmatch(allowed[0], value):
            raise ValueError(f"{key} must be {allowed[1]}, not {value!r:.80}")
    return written


def _written(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(_written, value))
    return str(operator.index(value)) if hasattr(value, "__index__") else str(value)


def read(path: Path) -> Lesson:
    """Load the lesson in a user's file; the file is executed, as with `--code`."""
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            f"--lesson {path}: no such Python file; a lesson is a file such as lesson.py "
            "(docs/guides/lessons.md)"
        )
    file = extensions.load(path)
    module = next(
        module
        for name, module in list(sys.modules.items())
        if name.startswith(file.stem) and getattr(module, "__file__", None) == str(file)
    )
    lessons = [value for value in vars(module).values() if isinstance(value, Lesson)]
    if len(lessons) != 1:
        raise InputError(
            f"{path} defines {len(lessons) or 'no'} lesson{'s' * (len(lessons) > 1)}; write "
            "lesson = Lesson(name=...) exactly once"
        )
    if not lessons[0].stops:
        raise InputError(
            f"{path}: the lesson has no stops; decorate a function with @lesson.stop(...)"
        )
    return lessons[0]
