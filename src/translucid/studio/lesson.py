"""Lessons as Python files: what an author writes. docs/lessons.md explains it by examples.

A lesson file makes a `Lesson` and adds stops to it. A stop is a function: it gets the run at hand
(`lesson_run.LessonRun`) and returns a `Stop`, whose text is an f-string. Numbers and words of the
run that stand in the f-string stay linked to the place where the page shows them.

This module imports no torch, so that mistakes in a lesson file show before any model is opened.
"""

import json
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from translucid.core import extensions
from translucid.core.errors import InputError, nearest

VIEWS = ("flow", "attention", "recurrent", "decode", "whatif", "compare", "data", "train")
ATTENTION = ("encoder", "decoder", "cross")
MOMENTS = ("scores", "scaled", "biased", "masked", "weights")
# The keys of an address: what their values look like, and how to say that. None: anything.
KEYS: dict[str, tuple[str, str] | None] = {
    "at": None, "i": None, "off": None, "problem": None,
    "kind": ("|".join(ATTENTION), f"one of {', '.join(ATTENTION)}"),
    "moment": ("|".join(MOMENTS), f"one of {', '.join(MOMENTS)}"),
    "head": (r"\d+|mean", "a number or 'mean'"),
    **dict.fromkeys(("layer", "unit", "step", "seed"), (r"\d+", "a number")),
}  # fmt: skip
_PIECE = re.compile(
    r"\x02(?P<piece>[^\x03]*)\x03|\[(?P<noun>[^\]\[\x02]+)\]\((?P<means>[^)\x02]+)\)"
)


# ---- why a stop cannot be shown ----


class Lacks(Exception):
    """The model lacks what a stop asks for, and the lesson does not say what to do about it."""


class ModelLacks(Lacks):
    """The stop is not for this model. The message completes "This model has no such stop: ..."."""


class SentenceLacks(Lacks):
    """This sentence lacks what the stop is about; another may have it."""


class NotChosen(Lacks):
    """The page does not show what a check asks about."""


# ---- texts with numbers ----


def marked(piece: Mapping[str, Any]) -> str:
    """A number or a word of a run as a part of an f-string, which `pieces` reads back."""
    return f"\x02{json.dumps(piece)}\x03"


def pieces(text: str) -> list[dict[str, Any]]:
    """A text as the page shows it: plain text, numbers, words, and nouns that light something."""
    return list(_pieces(text))


def _pieces(text: str) -> Iterator[dict[str, Any]]:
    end = 0
    for match in _PIECE.finditer(text):
        if match.start() > end:
            yield {"text": text[end : match.start()]}
        end = match.end()
        if match["noun"]:
            yield {"text": match["noun"], "means": match["means"]}
        else:
            yield json.loads(match["piece"])
    if end < len(text):
        yield {"text": text[end:]}


# ---- lessons ----


class Stop:
    """What a stop shows: its text, what to try, and what is chosen in its view.

    `pin` are tokens that are pinned, `light` what is pointed out (`part:NAME`, `head:LAYER.HEAD`,
    `moment:scores`, `gate:forget_gate`, `switch:KEY`). `do` replaces that of the decorator, and
    `chosen` are further keys of the address: `at`, `i`, `head`, `unit`, ...
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
    """Whether a task is done, and what to say."""

    done: bool
    say: str


def right(say: str) -> Verdict:
    return Verdict(True, say)


def wrong(say: str) -> Verdict:
    return Verdict(False, say)


@dataclass
class StopFunction:
    """A stop of a lesson: a function of the run, and perhaps one that checks a task."""

    title: str
    view: str
    do: str
    chosen: dict[str, str]
    show: Callable[[Any], Stop]  # of a LessonRun
    task: Callable[[Any, Any], Verdict] | None = None  # of a LessonRun and a PageState

    def check(self, function: Callable[[Any, Any], Verdict]) -> Callable[[Any, Any], Verdict]:
        """Decorate the function that is called when *Check* is pressed."""
        self.task = function
        return function


@dataclass
class Lesson:
    """A guided tour through the studio.

    `needs` has patterns of trace points that the model must have, each with the reason that is
    shown where it does not.
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
        """Add a stop: a function of the run that returns a `Stop`. chosen: keys of its address."""
        _check_texts(title=title, do=do)
        if view not in VIEWS:
            raise ValueError(f"there is no view {view!r}; choose {', '.join(VIEWS)}")
        fixed = _checked(chosen)

        def add(function: Callable[[Any], Stop]) -> StopFunction:
            self.stops.append(StopFunction(title, view, do, fixed, function))
            return self.stops[-1]

        return add


def _check_texts(**texts: Any) -> None:
    for key, text in texts.items():
        optional = key in ("do", "model", "text")
        if not isinstance(text, str) and not (optional and text is None):
            raise TypeError(f"{key} must be a text, not {text!r:.80}")


def _checked(chosen: Mapping[str, Any]) -> dict[str, str]:
    """The keys of an address with their values as the page writes them."""
    for key in chosen:
        if key not in KEYS:
            close = nearest(key, list(KEYS), 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise TypeError(f"an address has no key {key!r}; {hint}there are {', '.join(KEYS)}")
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
    """The lesson in a user's file, which is run as other code of the user's is (`--code`)."""
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            f"--lesson {path}: there is no such Python file; a lesson is a file such as lesson.py "
            "(docs/lessons.md)"
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
            f"{path}: defines {len(lessons) or 'no'} lesson{'s' * (len(lessons) > 1)}; write "
            "lesson = Lesson(name=...), once in a file"
        )
    if not lessons[0].stops:
        raise InputError(
            f"{path}: the lesson has no stops; write @lesson.stop(...) above the function of each"
        )
    return lessons[0]
