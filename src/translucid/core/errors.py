"""All exception classes.

    TranslucidError                 base class of all errors below
    ├── ConfigError                 a size, option or key that cannot work
    ├── InputError                  numbers, text or files that cannot be used
    │   ├── RowError                one of several rows that cannot be used
    │   ├── TokenizerMismatchError  a tokenizer other than the one the model was trained with
    │   └── WrongTaskError          a model that was trained for something else
    ├── TrainingError               a run that cannot continue
    │   ├── Interrupted             a run that was stopped and saved
    │   └── SaveError               a file or folder that could not be written
    └── TraceError                  a request that a trace cannot fulfil
        ├── UnknownPointError       no such name, or a pattern that matched nothing
        └── TraceBudgetError        keeping a value would exceed the memory budget

A message contains what was given, what is allowed, and what to do.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

LONGEST_NAME, MOST_NAMES = 200, 5000  # limits for comparing names, which takes quadratic time


class TranslucidError(Exception):
    """Base class of all errors that Translucid raises."""


class ConfigError(TranslucidError, ValueError):
    """Invalid sizes, options or keys; lists all mistakes at once."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        several = f"{len(mistakes)} mistakes:\n  " + "\n  ".join(mistakes)
        super().__init__(mistakes[0] if len(mistakes) == 1 else several)


class InputError(TranslucidError, ValueError):
    """Invalid input: numbers, text or files that cannot be used."""


class RowError(InputError):
    """One of several rows is invalid. row: the index of this row, counted from 0. Callers use it to
    find the file and the line."""

    def __init__(self, row: int, fact: str) -> None:
        self.row, self.fact = row, fact
        super().__init__(f"row {row + 1}: {fact}")


class WrongTaskError(InputError):
    """The model was trained for a different task. command: the name of the method that fits the
    model."""

    def __init__(self, task: str, command: str) -> None:
        self.task, self.command = task, command
        super().__init__(f"this model is for task {task}; use model.{command}")


class TokenizerMismatchError(InputError):
    """The tokenizer is not the one that the model was trained with, or has changed since."""


class TrainingError(TranslucidError):
    """A training run cannot continue."""


class Interrupted(TrainingError):
    """A run was stopped and saved; the message contains the command to resume it."""


class StopTraining(Exception):
    """Raised by a user's callback to save and end training after this step."""


class SaveError(TrainingError):
    """A file or folder could not be written: disk full, quota exceeded or no permission."""


class CutText(UserWarning):
    """Warning that texts were truncated to the model's maximum length. count: number of texts."""

    def __init__(self, words: str, count: int = 1) -> None:
        super().__init__(words)
        self.count = count


class TraceError(TranslucidError):
    """A trace cannot do what was requested."""


class UnknownPointError(TraceError, KeyError):
    """No trace point has this name."""

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0])


class TraceBudgetError(TraceError, MemoryError):
    """Keeping a value would exceed the byte budget of the trace. fact: the first half of the
    message, with the value and the sizes; remedy: the second half, with what to do."""

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        super().__init__(f"{fact}; {remedy}")


def nearest(name: str, allowed: Iterable[str], count: int = 3) -> list[str]:
    """The allowed names most similar to this one, best first, for "did you mean" hints."""
    if len(name) > LONGEST_NAME:
        return []
    near = [one for one in islice(allowed, MOST_NAMES) if len(one) <= LONGEST_NAME]
    return get_close_matches(name, near, n=count, cutoff=0.5)


def install_command(extra: str) -> str:
    """The command that installs an optional extra. Translucid is not on PyPI, so the command names
    the checkout that this package runs from, if there is one."""
    checkout = Path(__file__).parents[3]
    if (checkout / "pyproject.toml").is_file():
        return f'pip install -e "{checkout}[{extra}]"'
    return f'pip install ".[{extra}]" (in a checkout of Translucid)'


def check_same_settings(
    started: object, before: Mapping[str, Any], now: Mapping[str, Any], advice: str
) -> None:
    """Refuse to resume output that was started with other settings."""
    for key in sorted({*before, *now}):
        if before.get(key) != now.get(key):
            raise InputError(
                f"{started} was started with {key} = {before.get(key)}, now it is {now.get(key)}; "
                f"{advice}"
            )
