"""All errors, as a tree.

    TranslucidError                 everything raised on purpose
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

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

LONGEST_NAME, MOST_NAMES = 200, 5000  # compared names, in quadratic time


class TranslucidError(Exception):
    """Everything that Translucid raises on purpose."""


class ConfigError(TranslucidError, ValueError):
    """Sizes, options or keys that cannot work: one mistake, or all of them."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        several = f"{len(mistakes)} mistakes:\n  " + "\n  ".join(mistakes)
        super().__init__(mistakes[0] if len(mistakes) == 1 else several)


class InputError(TranslucidError, ValueError):
    """Numbers, text or files that cannot be used."""


class RowError(InputError):
    """One of several rows that cannot be used. row: from 0, so that callers can name file and line
    instead."""

    def __init__(self, row: int, fact: str) -> None:
        self.row, self.fact = row, fact
        super().__init__(f"row {row + 1}: {fact}")


class WrongTaskError(InputError):
    """A model that was trained for something else. command: the method for its task."""

    def __init__(self, task: str, command: str) -> None:
        self.task, self.command = task, command
        super().__init__(f"this model is for task {task}; use model.{command}")


class TokenizerMismatchError(InputError):
    """A tokenizer other than the one the model was trained with, or one changed since."""


class TrainingError(TranslucidError):
    """A run that cannot continue."""


class Interrupted(TrainingError):
    """A run that was stopped and saved; the message contains the command to resume it."""


class StopTraining(Exception):
    """Raised by a user's callback to save and end training after this step."""


class SaveError(TrainingError):
    """A file or folder that could not be written: a full disk, a quota, no permission."""


class CutText(UserWarning):
    """Texts were truncated to the length that a model reads. count: of texts."""

    def __init__(self, words: str, count: int = 1) -> None:
        super().__init__(words)
        self.count = count


class TraceError(TranslucidError):
    """A request that a trace cannot fulfil."""


class UnknownPointError(TraceError, KeyError):
    """No trace point has this name."""

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0])


class TraceBudgetError(TraceError, MemoryError):
    """Keeping a value would exceed the byte budget of the trace. fact: the value and the sizes;
    remedy: depends on the request."""

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        super().__init__(f"{fact}; {remedy}")


def nearest(name: str, allowed: Iterable[str], count: int = 3) -> list[str]:
    """The allowed names closest to this one, best first, for `did you mean`."""
    if len(name) > LONGEST_NAME:
        return []
    near = [one for one in islice(allowed, MOST_NAMES) if len(one) <= LONGEST_NAME]
    return get_close_matches(name, near, n=count, cutoff=0.5)


def install_command(extra: str) -> str:
    """The command that installs an optional extra. There is no release on PyPI, so it names the
    checkout that this package runs from, if it does."""
    checkout = Path(__file__).parents[3]
    if (checkout / "pyproject.toml").is_file():
        return f'pip install -e "{checkout}[{extra}]"'
    return f'pip install ".[{extra}]" (in a checkout of Translucid)'
