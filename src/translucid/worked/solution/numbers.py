"""Parse numbers from users: `"1 0; 0 1"`, nested lists, tensors, arrays, small files.

In text, rows are separated by `;` or new lines, and numbers by spaces or commas. A fraction such as
1/3 is a number too. Every error names the argument and the position.
"""

import json
import math
import re
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import torch
from numpy.typing import NDArray
from torch import Tensor

from translucid.core.errors import InputError, nearest
from translucid.core.spelling import Missing, spelt

Numbers: TypeAlias = (
    str | float | Sequence[float] | Sequence[Sequence[float]] | Tensor | NDArray[Any]
)
Number: TypeAlias = str | float | Tensor  # a single number
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


def matrix(numbers: Numbers, name: str) -> Tensor:
    """Convert numbers in any form to a float64 matrix (rows, columns); a flat list is one row."""
    rows = _rows(numbers, name)
    if not rows or not any(rows):
        raise InputError(f'{name} is empty; pass numbers such as "1 0; 0 1" (; separates rows)')
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise InputError(
                f"{name}: row {number} has {many(len(row))}, but row 1 has {len(rows[0])}; "
                f"every row of a matrix must be as long as the first"
            )
    return torch.tensor(rows, dtype=torch.float64)


def vector(numbers: Numbers, name: str) -> Tensor:
    """Convert one row or one column of numbers to a vector (size,)."""
    table = matrix(numbers, name)
    if 1 not in table.shape:
        raise InputError(f"{name} is {shape(table)}; expected one row (or one column) of numbers")
    return table.flatten()


def scalar(numbers: Number, name: str) -> Tensor:
    """Convert one number to a tensor without axes."""
    try:
        table = matrix(numbers, name)
    except InputError:
        if isinstance(numbers, str):
            raise InputError(f"{name} = {numbers}: must be one number, such as 0.5") from None
        raise
    if table.numel() != 1:
        if isinstance(numbers, str) and _DECIMAL_COMMA.fullmatch(numbers.strip()):
            point = decimal_point(numbers)
            raise InputError(f"{name} = {numbers}: write {point}, with a decimal point")
        raise InputError(f"{name} is {shape(table)}; expected one number")
    return table.reshape(())


def decimal_point(text: str) -> str:
    """The text of a single number with a decimal point: `0,5` becomes `0.5`."""
    text = text.strip().replace("−", "-")
    return text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text


def whole(number: object, name: str, *, least: int = 1) -> int:
    """Convert a number or text to an integer of at least `least`."""
    text = str(number).strip()
    if isinstance(number, bool) or not text.lstrip("+-").isdigit():
        raise InputError(f"{name} = {number}: must be a whole number, such as {max(least, 2)}")
    if int(text) < least:
        raise InputError(f"{name} = {number}: must be at least {least}")
    return int(text)


def wholes(numbers: Numbers, name: str, *, least: int = 0) -> list[int]:
    """Convert a row of whole numbers, such as positions, to a list of integers."""
    values = vector(numbers, name).tolist()
    for number in values:
        if number != int(number) or number < least:
            raise InputError(
                f"{name}: {number:g} is not a whole number of at least {least}; "
                f'write for example "0 1 2"'
            )
    return [int(number) for number in values]


def shape(table: Tensor) -> str:
    """A tensor's shape for messages, such as `3 x 2`."""
    return " x ".join(str(size) for size in table.shape) or "one number"


def _rows(numbers: Numbers, name: str) -> list[list[float]]:
    if isinstance(numbers, str):
        return _read(numbers, name)
    if not isinstance(numbers, Sequence):  # a tensor, an array or one number
        numbers = numbers.tolist() if hasattr(numbers, "tolist") else numbers
        if not isinstance(numbers, list):
            return [[_number(numbers, name, "")]]
    if not any(_is_row(row) for row in numbers):
        return [[_number(entry, name, f", number {i}") for i, entry in enumerate(numbers, 1)]]
    rows: list[list[float]] = []
    for r, row in enumerate(numbers, 1):
        if not _is_row(row):
            raise InputError(f"{name}: row {r} is {row!r}, not a row of numbers")
        assert isinstance(row, Sequence)
        rows.append([_number(e, name, f", row {r}, number {i}") for i, e in enumerate(row, 1)])
    return rows


def _is_row(entry: object) -> bool:
    return isinstance(entry, Sequence) and not isinstance(entry, str)


def _read(text: str, name: str) -> list[list[float]]:
    """Parse the rows of a text, which may contain Python or JSON brackets."""
    plain = text.replace("],", ";").replace("[", " ").replace("]", " ").replace("−", "-")
    lines = plain.replace("\n", ";").split(";")
    while lines and not lines[-1].strip():  # a trailing ; does not begin a new row
        lines.pop()
    rows = []
    for r, line in enumerate(lines, 1):
        words = line.replace(",", " ").split()
        if not words:
            raise InputError(f'{name}: row {r} is empty; remove one ";"')
        where = f", row {r}" if len(lines) > 1 else ""
        _refuse_decimal_commas(line, f"{name}{where}")
        rows.append([_number(word, name, where) for word in words])
    return rows


def _refuse_decimal_commas(line: str, where: str) -> None:
    """Raise an error for `1,5 2,5`, which may be two numbers or four; `1,5,2,5` is a list."""
    words = line.split()
    decimals = [word for word in words if _DECIMAL_COMMA.fullmatch(word.rstrip(","))]
    parted_by_commas = any(word.endswith(",") for word in words)
    if len(decimals) > 1 or (decimals and len(words) > 1 and not parted_by_commas):
        point = " ".join(
            word.rstrip(",").replace(",", "." if word in decimals else " ") for word in words
        )
        apart = " ".join(line.replace(",", " ").split())
        raise InputError(
            f"{where}: {line.strip()!r} could be decimal commas or a list; write {point} or {apart}"
        )


def _number(entry: object, name: str, where: str) -> float:
    if isinstance(entry, bool) or not isinstance(entry, str | int | float):
        raise InputError(f"{name}{where}: {entry!r} is not a number")
    try:
        value = float(Fraction(entry)) if isinstance(entry, str) and "/" in entry else float(entry)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InputError(
            f"{name}{where}: {entry!r} is not a number; separate numbers with spaces or commas, "
            "rows with ;"
        ) from None
    if not math.isfinite(value):
        raise InputError(f"{name}{where}: {entry} is not a finite number")
    return value


def many(count: int, what: str = "number") -> str:
    """A count with its noun: `1 number`, `2 numbers`."""
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence: `x`, `x and w`, `x, w and v`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


@dataclass(frozen=True)
class Completed:
    """The numbers of an exercise: the user's, completed from the built-in example."""

    numbers: Mapping[str, Any]  # None for an optional argument without a number
    asked: bool  # whether the user gave any of them
    kept: tuple[str, ...]  # the required ones that come from the example

    def __getitem__(self, name: str) -> Any:
        return self.numbers[name]

    @property
    def example(self) -> bool:
        """Whether any numbers come from the example."""
        return bool(self.kept)

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Note in an error about sizes that some of the numbers come from the example."""
        try:
            yield
        except InputError as error:
            if not self.kept or not self.asked:
                raise
            lead = f"{error}; the other numbers come from the built-in example: "
            raise Missing(f"pass {listed(self.kept)} too", self.kept, lead=lead) from None


def complete(
    given: Mapping[str, Any], example: Mapping[str, Any], needs: Collection[str]
) -> Completed:
    """Complete the numbers that the user gave from the built-in example of the exercise.

    If a required number (one of `needs`) is missing, every number that was not given is taken from
    the example. Otherwise the example is not used: optional numbers have their own defaults.
    """
    kept = tuple(name for name in needs if given.get(name) is None)
    numbers = dict(given)
    if kept:
        numbers |= {name: example.get(name) for name, value in given.items() if value is None}
    return Completed(numbers, any(value is not None for value in given.values()), kept)


def read_text(path: Path, expected: str) -> str:
    """The text of a UTF-8 file. expected: what the file should contain, for error messages."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"file {path} does not exist") from None
    except UnicodeDecodeError:
        raise InputError(f"file {path} is not UTF-8 text; expected {expected}") from None
    except OSError as error:
        raise InputError(f"file {path} cannot be read ({error.strerror})") from None


def read_file(path: Path, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Read keys and values from a TOML or JSON file; `-` is standard input.

    kinds: the allowed keys, each a "word", a "flag" or "numbers" (checked by the exercise). Keys
    may be spelled W_Q, w_q or wq.
    """
    from_input = str(path) == "-"
    text = sys.stdin.read() if from_input else read_text(path, "a TOML or JSON file")
    content = _parse(path, text)
    if not isinstance(content, Mapping):
        raise InputError(f'file {path} must contain keys and values, such as x = "1 0; 0 1"')
    values: dict[str, Any] = {}
    for written, value in content.items():
        key = spelt(written, kinds)
        if key in values:
            raise InputError(f"file {path}: {key} is given twice, once as {written}")
        values[key] = value
        if key not in kinds:
            close = nearest(key.lower(), kinds, 1)
            hint = f"did you mean {close[0]}?" if close else f"the keys are {', '.join(kinds)}"
            raise InputError(f"file {path}: no such key {key!r}; {hint}")
        if kinds[key] == "flag" and not isinstance(value, bool):
            raise InputError(f"file {path}: {key} = {value!r}: must be true or false")
        if kinds[key] == "word" and not isinstance(value, str):
            raise InputError(f"file {path}: {key} = {value!r}: must be a word in quotes")
    return values


def _parse(path: Path, text: str) -> Any:
    kind = path.suffix.lower()
    if kind not in ("", ".toml", ".json", ".txt"):
        raise InputError(f"file {path}: expected a .toml or a .json file, not {kind}")
    if kind == ".json" or (str(path) == "-" and text.lstrip()[:1] in ("{", "[")):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(
                f"file {path}, line {error.lineno}: invalid JSON ({error.msg})"
            ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"file {path}: invalid TOML: {error}") from None
