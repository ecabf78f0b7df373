"""What can go wrong, as a tree.

    TranslucidError                 everything raised on purpose
    ├── ConfigError                 a size, option or key that cannot work
    ├── InputError                  numbers, text or files that cannot be used
    │   ├── RowError                one row of several that cannot be used
    │   ├── TokenizerMismatchError  a tokenizer other than the one the model was trained with
    │   └── WrongTaskError          a model that was trained for something else
    ├── TrainingError               a run that cannot go on
    │   ├── Interrupted             a run that was asked to stop, and is saved
    │   └── SaveError               a file or folder that could not be written
    └── TraceError                  a trace that was asked for something it cannot give
        ├── UnknownPointError       no such name, or a pattern that matched nothing
        └── TraceBudgetError        keeping this would take more memory than allowed

A message says what was given, what is allowed, and what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

LONGEST_NAME, MOST_NAMES = 200, 5000  # that are compared: it takes the square of their length


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
    """One row of several that cannot be used. row: counted from 0; who knows its file and line can
    name them instead."""

    def __init__(self, row: int, fact: str) -> None:
        self.row, self.fact = row, fact
        super().__init__(f"row {row + 1}: {fact}")


class WrongTaskError(InputError):
    """A model that was trained for something else. command: by which such models are asked."""

    def __init__(self, task: str, command: str) -> None:
        self.task, self.command = task, command
        super().__init__(f"this model is for task {task}; use model.{command}")


class TokenizerMismatchError(InputError):
    """A tokenizer other than the one the model was trained with, or one changed since."""


class TrainingError(TranslucidError):
    """A run that cannot go on."""


class Interrupted(TrainingError):
    """A run that was asked to stop, and is saved; the message says how to go on."""


class StopTraining(Exception):
    """Raised by a callback of the user's: training ends after this step, and is saved."""


class SaveError(TrainingError):
    """A file or folder that could not be written: a full disk, a quota, no permission."""


class CutText(UserWarning):
    """Texts were longer than a model reads: their beginning was read. count: how many texts."""

    def __init__(self, words: str, count: int = 1) -> None:
        super().__init__(words)
        self.count = count


class TraceError(TranslucidError):
    """A trace that was asked for something it cannot give."""


class UnknownPointError(TraceError, KeyError):
    """No trace point has this name."""

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0])


class TraceBudgetError(TraceError, MemoryError):
    """Keeping a value would go over the trace's byte budget. fact: which value, and by how much;
    what to do depends on what was asked."""

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        super().__init__(f"{fact}; {remedy}")


def nearest(name: str, allowed: Iterable[str], count: int = 3) -> list[str]:
    """The allowed names closest to the given one, best first; for `did you mean`."""
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
