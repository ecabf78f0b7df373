"""Turn the cells of a table into the numbers that a network reads.

Each column has a kind, found on the training data:

    number      standardised: minus the mean, divided by the standard deviation
    yes/no      1 or 0
    category    one feature of 0 or 1 for each category; rare ones share `(other)`
    date        the day, standardised, and month and weekday as sine and cosine
    ignore      identifiers, constant columns, free text: not read

A missing number is read as the mean. For a missing value of another kind, all features are 0. If
the training data has missing values, a further feature, `is missing`, is 1 for them.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError

from translucid.core.config import Config
from translucid.core.errors import ConfigError, InputError
from translucid.data.readers.quantities import (
    START,
    Notation,
    Order,
    days,
    moment,
    text_of,
)
from translucid.data.readers.tables import Decimal

Id = int | str  # a column: its name, or its number from 1 if it has none
EXTREME = 1e15  # the largest number of deviations from the mean
LARGEST = 3.4e38  # in 32-bit arithmetic
MARGIN = 0.1  # of the range of the training data; numbers beyond it are unlike them
MOST_LINES = 40  # of a report on columns


def title(column: Id) -> str:
    """The name of a column, as used in messages and in the names of its features. A column without
    a name is called by its number, such as "column 3"."""
    return column if isinstance(column, str) else f"column {column}"


class _Column(Config):
    """A column, and what was learned about it from the training data."""

    column: Id
    missing: int = Field(default=0, ge=0)  # training rows without a value

    reads: ClassVar[bool] = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the column's features."""
        return (*self.own, *((f"{title(self.column)} is missing",) if self.missing else ()))

    @property
    def own(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def summary(self) -> str:
        """A short description of what was learned about the column."""
        raise NotImplementedError

    def text(self, cell: object) -> str | None:
        """A cell as text; None if its value is missing."""
        return text_of(cell)

    def value(self, cell: object) -> str | float | None:
        """The value in a cell: a text or, in a column of numbers, possibly a number; None if it is
        missing."""
        return self.text(cell)

    @property
    def typical(self) -> object:
        """A usual value of the column, for an example row."""
        raise NotImplementedError

    def values(self, value: Any) -> list[float]:
        """The features that represent a value. Raises ValueError if the value cannot be read."""
        raise NotImplementedError

    def remark(self, value: Any) -> str:
        """How a value differs from all training values, as a sentence; empty if it does not."""
        return ""


class NumberColumn(_Column):
    kind: Literal["number"] = "number"
    decimal: Decimal = "."
    unit: str = ""
    mean: float
    deviation: float = Field(gt=0)
    least: float | None = None  # of the training data; None if unknown
    most: float | None = None
    standardised: bool = True

    @property
    def own(self) -> tuple[str, ...]:
        return (title(self.column),)

    @property
    def typical(self) -> object:
        return float(f"{self.mean:.3g}")

    @property
    def summary(self) -> str:
        written = " with decimal commas" if self.decimal == "," else ""
        if self.least is None or self.most is None:
            return f"any number{written}"
        return f"{self.least:.6g} to {self.most:.6g}{self.unit and ' ' + self.unit}{written}"

    def text(self, cell: object) -> str | None:
        """A cell as text; None if its value is missing. A number that is not text yet is written
        with the column's decimal mark and unit."""
        text = text_of(cell)
        if text is None or isinstance(cell, str | bool):
            return text
        return text.replace(".", self.decimal) + self.unit

    def value(self, cell: object) -> str | float | None:
        return cell if isinstance(cell, float) and math.isfinite(cell) else self.text(cell)

    def number(self, value: str | float) -> float:
        if not isinstance(value, str):
            return value
        number = Notation(self.decimal, self.unit).read(value)
        if number is None:
            raise ValueError(f"a number is needed, such as {self.text(self.typical)}")
        return number

    def scaled(self, value: float) -> float:
        if not self.standardised:
            if abs(value) > LARGEST:
                raise ValueError(f"the model computes with numbers up to {LARGEST:g}")
            return value
        scaled = (value - self.mean) / self.deviation
        if abs(scaled) > EXTREME:
            raise ValueError(
                f"the training data has numbers around {self.mean:g}, which is too different"
                if self.least is None
                else f"the training data has numbers from {self.least:g} to {self.most:g}, which "
                "is too different"
            )
        return scaled

    def values(self, value: str | float) -> list[float]:
        return [self.scaled(self.number(value))]

    def remark(self, value: str | float) -> str:
        number = self.number(value)
        if self.least is None or self.most is None:
            return ""
        margin = MARGIN * (self.most - self.least)
        if self.least - margin <= number <= self.most + margin:
            return ""
        side, end = ("below", self.least) if number < self.least else ("above", self.most)
        return f"{title(self.column)} = {number:.6g} is {side} all training values ({end:.6g})"


class YesNoColumn(_Column):
    kind: Literal["yes/no"] = "yes/no"
    yes: str
    no: str

    @property
    def own(self) -> tuple[str, ...]:
        return (f"{title(self.column)}={self.yes}",)

    @property
    def typical(self) -> object:
        return self.yes

    @property
    def summary(self) -> str:
        return f"{self.yes} or {self.no}"

    def text(self, cell: object) -> str | None:
        if isinstance(cell, bool):
            return self.yes if cell else self.no
        return text_of(cell)

    def values(self, text: str) -> list[float]:
        if text.lower() not in (self.yes.lower(), self.no.lower()):
            raise ValueError(f"{self.yes} or {self.no} is needed")
        return [float(text.lower() == self.yes.lower())]


class CategoryColumn(_Column):
    kind: Literal["category"] = "category"
    categories: tuple[str, ...] = Field(min_length=1, strict=False)
    other: int = Field(default=0, ge=0)  # training rows with a rarer category

    @property
    def own(self) -> tuple[str, ...]:
        names = (*self.categories, *(("(other)",) if self.other else ()))
        return tuple(f"{title(self.column)}={name}" for name in names)

    @property
    def typical(self) -> object:
        return self.categories[0]

    @property
    def summary(self) -> str:
        shown = ", ".join(self.categories[:5]) + (", ..." if len(self.categories) > 5 else "")
        rare = f"; {self.other:,} rows with rarer ones" if self.other else ""
        return f"{len(self.categories):,}: {shown}{rare}"

    @cached_property
    def _places(self) -> dict[str, int]:
        return {category: place for place, category in enumerate(self.categories)}

    def values(self, text: str) -> list[float]:
        row = [0.0] * len(self.own)
        place = self._places.get(text, len(self.categories))
        if place < len(row):
            row[place] = 1.0
        return row

    def remark(self, text: str) -> str:
        if text in self._places:
            return ""
        read = ", read as (other)" if self.other else ""
        return f"{title(self.column)} = {text!r:.40} is no category of the training data{read}"


class DateColumn(_Column):
    kind: Literal["date"] = "date"
    order: Order
    clock: bool = False  # whether the time of day is read
    mean: float  # in days since the beginning of 2000, as all of these
    deviation: float = Field(gt=0)
    least: float
    most: float

    @property
    def own(self) -> tuple[str, ...]:
        cycles = ("month", "weekday", *(("hour",) if self.clock else ()))
        parts = [f"{cycle} ({wave})" for cycle in cycles for wave in ("sine", "cosine")]
        return tuple(f"{title(self.column)}: {part}" for part in ("day", *parts))

    @property
    def typical(self) -> object:
        return (START + timedelta(days=int(self.mean))).date()

    @property
    def summary(self) -> str:
        ends = (START + timedelta(days=end) for end in (self.least, self.most))
        return " to ".join(end.date().isoformat() for end in ends)

    def values(self, text: str) -> list[float]:
        when = moment(text, self.order) or moment(text, "ymd")
        if when is None:
            raise ValueError(f"a date is needed, written as {'-'.join(self.order)}")
        fractions = [(when.month - 1) / 12, when.weekday() / 7]
        fractions += [(when.hour + when.minute / 60) / 24] if self.clock else []
        waves = [wave(2 * math.pi * part) for part in fractions for wave in (math.sin, math.cos)]
        return [(days(when) - self.mean) / self.deviation, *waves]

    def remark(self, text: str) -> str:
        when = moment(text, self.order) or moment(text, "ymd")
        if when is None or self.least <= days(when) <= self.most:
            return ""
        side = "before" if days(when) < self.least else "after"
        return f"{title(self.column)} = {text} is {side} all training dates"


class IgnoredColumn(_Column):
    kind: Literal["ignore"] = "ignore"
    reason: str

    reads: ClassVar[bool] = False

    @property
    def summary(self) -> str:
        return self.reason


AnyColumn = Annotated[
    NumberColumn | YesNoColumn | CategoryColumn | DateColumn | IgnoredColumn,
    Field(discriminator="kind"),
]
_STORED: TypeAdapter[list[AnyColumn]] = TypeAdapter(list[AnyColumn])


@dataclass(frozen=True)
class Columns:
    """The columns of a table, in the order of the training data, and how each is read."""

    columns: Sequence[Any]  # of AnyColumn

    def __post_init__(self) -> None:
        if not self.used:
            reasons = "; ".join(f"{title(c.column)}: {c.summary}" for c in self.columns)
            raise InputError(
                f"no column is left for the inputs ({reasons}); add a column whose values differ, "
                "or set its kind with data.column_kinds"
            )

    @classmethod
    def read(cls, stored: object) -> "Columns":
        """Load the columns that a model folder stores. If they are damaged, the error message names
        the first mistake."""
        try:
            return cls(_STORED.validate_python(stored))
        except (ValidationError, ConfigError) as error:
            raise InputError(
                f"statistics.columns is damaged ({_first_mistake(error)}); copy the whole model "
                "again"
            ) from None

    @classmethod
    def numbers(
        cls, ids: Sequence[Id], means: Sequence[float] = (), deviations: Sequence[float] = ()
    ) -> "Columns":
        """Columns of numbers of which only the mean and deviation are known. Without these, the
        network reads the numbers as they are."""
        scale = zip(means or [0.0] * len(ids), deviations or [1.0] * len(ids), strict=True)
        return cls(
            [
                NumberColumn(column=one, mean=mean, deviation=side, standardised=bool(means))
                for one, (mean, side) in zip(ids, scale, strict=True)
            ]
        )

    def as_json(self) -> list[dict[str, Any]]:
        return [column.model_dump(mode="json") for column in self.columns]

    @cached_property
    def used(self) -> list[Any]:
        return [column for column in self.columns if column.reads]

    @cached_property
    def ids(self) -> tuple[Id, ...]:
        """The names of the columns that the model reads; a number for a column without a name."""
        return tuple(column.column for column in self.used)

    @cached_property
    def scale(self) -> list[tuple[float, float]] | None:
        """For each column, what is subtracted from its numbers, and by what they are then divided.
        None if the model does not read only numbers that are never missing."""
        if any(column.kind != "number" or column.missing for column in self.used):
            return None
        return [(c.mean, c.deviation) if c.standardised else (0.0, 1.0) for c in self.used]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all features."""
        return tuple(name for column in self.used for name in column.names)

    def cells_of(self, row: Sequence[object], header: Sequence[Id] | None, where: str) -> list[Any]:
        """The cells of the columns that the model reads. header: the columns of the row. Without a
        header, the row must contain all columns of the training data, or only those that the model
        reads."""
        every = [column.column for column in self.columns]
        if header is None:
            header = self.ids if len(row) == len(self.ids) else every
            if len(row) != len(header):
                raise InputError(
                    f"{where}: {len(row)} cell{'s' * (len(row) != 1)}, but this model reads "
                    f"{len(self.ids)}: {', '.join(map(title, self.ids))}; separate cells by commas "
                    "or spaces, and leave a cell empty if its value is missing"
                )
        header = tuple(header)
        if header not in self._places:
            places = {column: place for place, column in enumerate(header)}
            lacking = [title(column) for column in self.ids if column not in places]
            if lacking:
                raise InputError(
                    f"{where}: the column {lacking[0]!r} is missing; the model reads "
                    f"{', '.join(map(title, self.ids))}"
                )
            self._places[header] = [places[column] for column in self.ids]
        return [row[place] for place in self._places[header]]

    @cached_property
    def _places(self) -> dict[tuple[Id, ...], list[int]]:
        """By header, the places of the columns that the model reads."""
        return {}

    def encode(
        self, row: Sequence[object], where: str, header: Sequence[Id] | None = None
    ) -> list[float]:
        """The features of a row. where: file and line, for messages."""
        features: list[float] = []
        for column, cell in zip(self.used, self.cells_of(row, header, where), strict=True):
            features += self._features(column, cell, where)
        return features

    def _features(self, column: Any, cell: object, where: str) -> list[float]:
        if isinstance(cell, list | dict | bytes):
            check_single(cell, f"{where}: {title(column.column)}")
        value = column.value(cell)
        try:
            values = [0.0] * len(column.own) if value is None else column.values(value)
        except ValueError as error:
            raise InputError(
                f"{where}: {title(column.column)} is {value!r:.60}, but {error}; correct it, or "
                "leave it empty if the value is missing"
            ) from None
        if value is None and column.kind == "number" and not column.standardised:
            values = [column.mean]
        return values + ([float(value is None)] if column.missing else [])

    def remarks(self, row: Sequence[object], where: str = "the row") -> list[str]:
        """How a row differs from the training data: it has unknown categories, values out of range,
        or missing values in columns that had none."""
        remarks = []
        for column, cell in zip(self.used, self.cells_of(row, None, where), strict=True):
            value = column.value(cell)
            if value is not None:
                remarks.append(column.remark(value))
            elif not column.missing:
                remarks.append(f"{title(column.column)} is missing, which no training row is")
        return [remark for remark in remarks if remark]

    def described(self, row: Sequence[object]) -> tuple[str, ...]:
        """Labels of the features of a row: `age = 41`, `city=Bonn`. A number that the network reads
        as it is has only its name."""
        names: list[str] = []
        for column, cell in zip(self.used, self.cells_of(row, None, "the row"), strict=True):
            check_single(cell, title(column.column))
            text = column.text(cell) or "(missing)"
            first, *others = column.names
            known = column.standardised if column.kind == "number" else column.kind == "date"
            names += [f"{first} = {text}" if known else first, *others]
        return tuple(names)

    def parse(self, line: str, where: str) -> list[str]:
        """Split a line into cells. They are separated by commas, tabs, semicolons or spaces."""
        line, cells = line.strip(" "), list[str]()
        for mark in (",", "\t", ";", " "):
            cells = next(csv.reader(io.StringIO(line), delimiter=mark, skipinitialspace=True), [])
            if len(cells) in (len(self.ids), len(self.columns)) and self._is_split(cells):
                return cells
        cells = next(csv.reader(io.StringIO(line)), [])
        self.cells_of(cells, None, where)
        return cells

    def _is_split(self, cells: Sequence[str]) -> bool:
        """Whether cells are not just a line without the mark that separates them. If the model
        reads only one of several columns, "70 2" is a row of two cells, not a number."""
        if len(cells) > 1 or len(self.columns) == 1:
            return True
        column = self.used[0]
        value = column.value(cells[0])
        try:
            if value is not None:
                column.values(value)
        except ValueError:
            return False
        return True

    def line(self, row: Sequence[object], header: Sequence[Id] | None) -> str:
        """A row as one line that `parse` reads."""
        cells = self.cells_of(row, header, "the row")
        texts = [c.text(cell) or "" for c, cell in zip(self.used, cells, strict=True)]
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="").writerow(texts)
        return buffer.getvalue()

    def named(self, row: Sequence[object]) -> dict[str, object]:
        """The cells of a row by column name, numbers as numbers; None if a value is missing."""
        pairs = zip(self.used, self.cells_of(row, None, "the row"), strict=True)
        values = ((column, column.value(cell)) for column, cell in pairs)
        return {
            str(column.column): column.number(value)
            if column.kind == "number" and value is not None
            else value
            for column, value in values
        }

    def example(self) -> str:
        """A row of usual values, as one line."""
        return self.line([column.typical for column in self.used], self.ids)

    @property
    def note(self) -> str:
        """What the features of a row are; empty if they are the numbers as they are in the row."""
        kinds, notes = {column.kind for column in self.used}, []
        if "date" in kinds or any(c.kind == "number" and c.standardised for c in self.used):
            what = " and ".join(f"{one}s" for one in ("number", "date") if one in kinds)
            notes.append(
                f"{what.capitalize()} are standardised: minus the mean of the training data, "
                "divided by its standard deviation."
            )
        if kinds & {"category", "yes/no"}:
            notes.append("Categories are 1 or 0.")
        return " ".join(notes)

    def report(self) -> list[str]:
        """One line for each column: its kind, what was learned about it, and the number of missing
        values."""
        lines, plain = [], self.columns
        if len(self.columns) > MOST_LINES:  # numbers that are never missing need no line
            plain = [column for column in self.columns if column.kind != "number" or column.missing]
            lines.append(f"{len(self.columns) - len(plain):,} columns: number, never missing")
        for column in plain:
            missing = f"; {column.missing:,} missing" if column.missing else ""
            kind = "ignored" if column.kind == "ignore" else column.kind
            lines.append(f"{title(column.column)}: {kind}, {column.summary}{missing}")
        return lines


def number_scale(statistics: Mapping[str, Any]) -> list[tuple[float, float]] | None:
    """The scale of the columns in a model's statistics; see `Columns.scale`."""
    return Columns.read(statistics["columns"]).scale if "columns" in statistics else None


def _first_mistake(error: Exception) -> str:
    if isinstance(error, ValidationError):
        mistake = error.errors()[0]
        return f"{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}"[:200]
    return str(error)[:200]


def check_single(cell: object, where: str) -> None:
    """Raise an error for a list or an object in a cell."""
    if isinstance(cell, list | dict | bytes):
        raise InputError(f"{where} contains a {type(cell).__name__}; a single value is needed")
