"""Convert and check the values of table cells: text, labels, numbers, lists of words."""

import math
from contextlib import suppress

from translucid.core.errors import InputError

KINDS = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "text",
    list: "a list", dict: "an object",
}  # fmt: skip
# Spellings of a missing value in tables.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "-", "?")


def as_text(value: object, where: str) -> str:
    """Return the value of a cell that must contain text. where: file, line and column, for the
    error message."""
    if not isinstance(value, str):
        raise InputError(f"{where} contains {_kind(value)}, but text is needed")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{where} contains half of a surrogate pair ({value!r:.60}), which is not a "
                "character; write it as UTF-8 or as a full pair"
            ) from None
    return value


def as_label(value: object, where: str) -> str:
    """The label in a cell, which may contain text, a whole number, true or false, as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    label = as_text(value, where).strip()
    if not label:
        raise InputError(f"{where} is empty, but a label is needed; fill it or remove the line")
    return label


def as_number(value: object, where: str) -> float:
    number = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            number = float(value)
        if "_" in str(value):  # Python reads 1_000, other tools do not
            number = math.nan
    if math.isfinite(number):
        return number
    shown = "empty" if value == "" else f"{value!r:.60}"
    hint = ""
    if isinstance(value, str) and "," in value:
        hint = " (write decimals with a point, not with a comma)"
    elif value is None or str(value).strip().lower() in MISSING:
        hint = " (the value is missing: fill it in, or remove the line)"
    raise InputError(f"{where} is {shown}; a finite number is needed{hint}")


def as_list(value: object, where: str) -> list[object]:
    if not isinstance(value, list | tuple):
        raise InputError(f"{where} contains {_kind(value)}, but a list is needed")
    return list(value)


def is_number(cell: object) -> bool:
    try:
        float(str(cell))
    except ValueError:
        return False
    return True


def _kind(value: object) -> str:
    return KINDS.get(type(value), type(value).__name__)
