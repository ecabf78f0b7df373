"""Numbers and dates as people write them in tables: 3.5, 3,5, 1,234.50, 12 %, € 5, 2024-03-31.

A column is read in one notation, which all its cells must share. If the cells can be read in
several ways, such as 1,234 or 03/04/2024, an error names the setting that decides.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from translucid.data.readers.cells import MISSING
from translucid.data.readers.tables import Decimal

Order = Literal["ymd", "dmy", "mdy"]
UNITS = ("%", "€", "$", "£", "¥")
NUMBER: dict[Decimal, re.Pattern[str]] = {
    ".": re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+|\d{1,3}([ '’]\d{3})+)?(\.\d*)?([eE][+-]?\d+)?"),
    ",": re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+|\d{1,3}([ '’]\d{3})+)?(,\d*)?([eE][+-]?\d+)?"),
}
PLAIN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")  # most numbers, read quickly
# A leading zero, as in a postcode, or more digits than a float holds: not a quantity.
CODE = re.compile(r"0\d+|\d{16,}")
PARTS: dict[Order, re.Pattern[str]] = {
    "ymd": re.compile(r"(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})"),
    "dmy": re.compile(r"(?P<d>\d{1,2})([-/.])(?P<m>\d{1,2})\2(?P<y>\d{4})"),
    "mdy": re.compile(r"(?P<m>\d{1,2})([-/.])(?P<d>\d{1,2})\2(?P<y>\d{4})"),
}
CLOCK = re.compile(r"[T ](\d{1,2}):(\d{2})(:(\d{2})([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?")
START = datetime(2000, 1, 1)  # the day 0 of dates as numbers; a Saturday


def text_of(cell: object) -> str | None:
    """A cell as text, the same for CSV, JSON and Parquet; None if its value is missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):  # of pandas
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return None if math.isnan(cell) else f"{cell:.15g}"
    if isinstance(cell, date):
        return cell.isoformat()
    text = str(cell).strip()
    return None if text.lower() in MISSING else text


def unit_of(text: str) -> tuple[str, str]:
    """Split a percent or currency sign off a number: 12 % gives ("12", "%")."""
    for unit in UNITS:
        if text.endswith(unit):
            return text[: -len(unit)].rstrip(), unit
        if text.startswith(unit) and unit != "%":
            return text[len(unit) :].lstrip(), unit
    return text, ""


def number(text: str, decimal: Decimal) -> float | None:
    """The number that a text represents with this decimal mark; None for any other text, including
    infinity and nan."""
    if NUMBER[decimal].fullmatch(text) is None or not any(map(str.isdigit, text)):
        return None
    grouped = re.sub(r"[ '’]", "", text).replace("." if decimal == "," else ",", "")
    value = float(grouped.replace(",", "."))
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Notation:
    """How the numbers of a column are written."""

    decimal: Decimal = "."
    unit: str = ""

    def read(self, text: str) -> float | None:
        """The number in a cell; None if the cell contains no number, or one with a different
        decimal mark or unit."""
        if self.decimal == "." and not self.unit and PLAIN.fullmatch(text):
            return float(text)
        bare, unit = unit_of(text)
        return number(bare, self.decimal) if unit == self.unit else None


def as_number(text: str) -> bool:
    """Whether a cell is a number in any notation."""
    if PLAIN.fullmatch(text):
        return math.isfinite(float(text))
    bare, _ = unit_of(text)
    return any(number(bare, decimal) is not None for decimal in NUMBER)


def notation_of(texts: Sequence[str], decimal: Decimal | None) -> Notation:
    """The notation in which all cells of a column are numbers. Raises ValueError if there is none,
    or if several are possible."""
    if decimal != "," and all(map(PLAIN.fullmatch, texts)):
        return Notation()
    split = [unit_of(text) for text in texts]
    units = {unit: text for text, (_, unit) in zip(texts, split, strict=True)}
    if len(units) > 1:
        several = " and ".join(repr(text) for text in list(units.values())[:2])
        raise ValueError(
            f"has numbers with different units, such as {several}; write all of them the same way"
        )
    bare, marks = [text for text, _ in split], [decimal] if decimal else list(NUMBER)
    fits = [mark for mark in marks if all(number(text, mark) is not None for text in bare)]
    if not fits:
        others = [next(t for t in bare if number(t, mark) is None) for mark in marks]
        shown = " and ".join(map(repr, others))
        raise ValueError(
            f"has {shown}, which is no number with data.decimal={decimal!r}"
            if decimal
            else f"has decimal points and decimal commas, such as {shown}; write all of them the "
            "same way"
        )
    if len(fits) > 1 and any("," in text for text in bare):
        example = next(text for text in bare if "," in text)
        raise ValueError(
            f"has {example!r}, where the comma may separate decimals or thousands; set "
            "data.decimal=, or data.decimal=."
        )
    return Notation(fits[0], next(iter(units)))


def moment(text: str, order: Order) -> datetime | None:
    """Parse a date, optionally with a time, whose day, month and year are in this order; None if
    the text is not such a date."""
    parts = PARTS[order].match(text)
    if parts is None:
        return None
    clock = CLOCK.fullmatch(text, parts.end())
    if clock is None and parts.end() < len(text):
        return None
    try:
        day = datetime(int(parts["y"]), int(parts["m"]), int(parts["d"]))
        hour, minute, second = (int((clock and clock[part]) or 0) for part in (1, 2, 4))
        if clock is None or (hour < 24 and minute < 60 and second < 60):
            return day + timedelta(hours=hour, minutes=minute, seconds=second)
    except ValueError:  # 31 February
        pass
    return None


def days(when: datetime) -> float:
    """The days since the beginning of the year 2000."""
    return (when - START) / timedelta(days=1)


def order_of(texts: Sequence[str]) -> Order | None:
    """The order of day, month and year in which all texts are dates; None if there is no such
    order. Raises ValueError if two orders give different dates."""
    fits = [order for order in PARTS if all(moment(text, order) is not None for text in texts)]
    if len(fits) > 1 and any(moment(text, fits[0]) != moment(text, fits[1]) for text in texts):
        example = next(t for t in texts if moment(t, fits[0]) != moment(t, fits[1]))
        raise ValueError(f"has {example!r}, where the day or the month may come first")
    return fits[0] if fits else None
