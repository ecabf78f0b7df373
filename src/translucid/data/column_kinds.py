"""Find the kind of each column of a table, and learn what the kind needs, from training rows."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, get_args

import numpy as np

from translucid.core.errors import ConfigError, InputError
from translucid.data.features import (
    CategoryColumn,
    Columns,
    DateColumn,
    Id,
    IgnoredColumn,
    NumberColumn,
    YesNoColumn,
    check_single,
    title,
)
from translucid.data.readers.quantities import (
    CODE,
    Order,
    as_number,
    days,
    moment,
    notation_of,
    order_of,
    text_of,
)
from translucid.data.readers.tables import ColumnKind, Decimal

ORDERS: tuple[Order, ...] = get_args(Order)
CATEGORIES, OFTEN = 64, 3  # maximum number in a column; minimum rows of each
MOSTLY = 0.9  # with this fraction of numbers or dates, the other cells are mistakes
FEW_ROWS = 20  # below, all values may differ by chance
YES_NO = (
    ("yes", "no"), ("true", "false"), ("y", "n"), ("t", "f"), ("on", "off"), ("ja", "nein"),
    ("oui", "non"), ("si", "no"), ("sí", "no"),
)  # fmt: skip
IDENTIFIER = re.compile(r"((.*[_ .-])?(id|uuid|guid|index|nr|row))|(.*[a-z]I[dD])")
TIME = re.compile(
    r"(.*[_ .-])?(second|minute|hour|day|week|month|quarter|year|time|age|step|t)s?", re.IGNORECASE
)


@dataclass(frozen=True)
class Choices:
    """The user's settings for the columns of a table."""

    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)
    decimal: Decimal | None = None
    standardise: bool = True
    named: bool = False  # the user listed the input columns, so none of them is an identifier


def learn(
    header: Sequence[Id],
    rows: Sequence[Sequence[object]],
    places: Sequence[str],
    choices: Choices,
) -> Columns:
    """Find the kind of each column, and learn what the kind needs. places: file and line of each
    row."""
    titles = {title(column): column for column in header}
    for name in choices.kinds:
        if name not in titles:
            raise ConfigError(
                f"data.column_kinds: there is no input column {name!r}; the input columns are "
                f"{', '.join(titles)}"
            )
    if len(header) == 1:
        choices = replace(choices, named=True)
    return Columns(
        [
            _Learner(column, [row[place] for row in rows], places, choices).learn()
            for place, column in enumerate(header)
        ]
    )


class _Learner:
    """Finds the kind of one column."""

    def __init__(
        self, column: Id, cells: Sequence[object], places: Sequence[str], choices: Choices
    ) -> None:
        self.column, self.places, self.choices = column, places, choices
        name = title(column)
        for cell, at in zip(cells, places, strict=True):
            check_single(cell, f"{at}: {name}")
        every = [self._text(cell) for cell in cells]
        self.texts = [text for text in every if text is not None]
        self.cells = [cell for text, cell in zip(every, cells, strict=True) if text is not None]
        self.where = [at for text, at in zip(every, places, strict=True) if text is not None]
        self.base: dict[str, Any] = {"column": column, "missing": len(every) - len(self.texts)}

    def _text(self, cell: object) -> str | None:
        text, mark = text_of(cell), self.choices.decimal
        if text is not None and mark is not None and isinstance(cell, float):
            return text.replace(".", mark)
        return text

    def learn(self) -> Any:
        kind = self.choices.kinds.get(title(self.column))
        if kind == "ignore":
            return self._ignored("as set")
        different = len(set(self.texts))
        if different == 0:
            return self._ignored("all values are missing")
        if different == 1:
            return self._ignored(f"every value is {self.texts[0]!r:.40}")
        if kind is None:
            return self._detected(different)
        match kind:
            case "number":
                return self._number()
            case "category":
                return self._category()
            case "yes/no":
                return self._yes_no() or self._refuse(
                    f"has {different} values, but yes/no needs two such as yes and no"
                )
        return self._date({"date": None, "date-dmy": "dmy", "date-mdy": "mdy"}[kind])

    def _detected(self, different: int) -> Any:
        if (two := self._yes_no()) is not None:
            return two
        numbers = sum(map(as_number, self.texts))
        codes = sum(CODE.fullmatch(text) is not None for text in self.texts)
        dates = 0
        if numbers < len(self.texts):
            dates = sum(any(moment(t, o) for o in ORDERS) for t in self.texts)
        if dates >= MOSTLY * len(self.texts):
            return self._date(None)
        if numbers >= MOSTLY * len(self.texts) and not codes:
            column = self._number()
            return (
                self._ignored("an identifier: numbers the rows") if self._numbers_rows() else column
            )
        if different == len(self.texts) >= FEW_ROWS:
            return self._ignored("an identifier or text: every value is different")
        return self._category()

    def _numbers_rows(self) -> bool:
        """Whether the column numbers the rows. Its cells must be different integers, and there must
        be enough of them. In addition, either they count from 0 or 1 with few gaps, or the column
        has the name of an identifier, such as id. A column that the user chose, or the only one, is
        not an identifier, nor is a count of days or other times."""
        if self.choices.named:
            return False
        values = [float(text) for text in self.texts if text.lstrip("-").isdigit()]
        if len(values) < max(len(self.texts), FEW_ROWS) or len(set(values)) < len(values):
            return False
        begins = min(values) in (0, 1) and max(values) < 2 * len(values)
        name = title(self.column)
        counts = begins and values == sorted(values) and TIME.fullmatch(name) is None
        return counts or IDENTIFIER.fullmatch(name) is not None

    def _number(self) -> Any:
        for text, at in zip(self.texts, self.where, strict=True):
            if not as_number(text):
                self._wrong(text, at, "number")
        try:
            notation = notation_of(self.texts, self.choices.decimal)
        except ValueError as error:
            self._refuse(str(error))
        numbers = [
            notation.read(text) if isinstance(cell, str) else cell  # text may have fewer digits
            for cell, text in zip(self.cells, self.texts, strict=True)
        ]
        values = np.array(numbers, dtype=np.float64)
        if values.min() == values.max():
            return self._ignored(f"every value is {values[0]:g}")
        mean, deviation = self._scale(values)
        return NumberColumn(
            **self.base, decimal=notation.decimal, unit=notation.unit, mean=mean,
            deviation=deviation, least=float(values.min()), most=float(values.max()),
            standardised=self.choices.standardise,
        )  # fmt: skip

    def _scale(self, values: Any) -> tuple[float, float]:
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = float(values.mean()), float(values.std())
        if not (math.isfinite(mean) and math.isfinite(deviation) and deviation > 0):
            self._refuse("has numbers that are too large to be standardized; use another unit")
        return mean, deviation

    def _yes_no(self) -> Any:
        lowered = {text.lower() for text in self.texts}
        for yes, no in YES_NO:
            if lowered == {yes, no}:
                written = {text.lower(): text for text in reversed(self.texts)}
                return YesNoColumn(**self.base, yes=written[yes], no=written[no])
        return None

    def _category(self) -> Any:
        counts = Counter(self.texts)
        often = OFTEN if len(self.texts) >= FEW_ROWS else 1
        kept = [name for name, n in counts.most_common(CATEGORIES) if n >= often]
        if not kept:
            return self._ignored(f"text: {len(counts):,} values, each in fewer than {often} rows")
        other = len(self.texts) - sum(counts[name] for name in kept)
        return CategoryColumn(**self.base, categories=tuple(sorted(kept)), other=other)

    def _date(self, order: Order | None) -> Any:
        for text, at in zip(self.texts, self.where, strict=True):
            if not any(moment(text, one) for one in ORDERS):
                self._wrong(text, at, "date")
        try:
            written = order or order_of(self.texts)
        except ValueError as error:
            self._refuse(f"{error}; set data.column_kinds to date-dmy or date-mdy for this column")
        if written is None:
            self._refuse("has dates in different notations; write all of them as 2024-03-31")
        when = [moment(text, written) for text in self.texts]
        for one, text, at in zip(when, self.texts, self.where, strict=True):
            if one is None:
                self._wrong(text, at, "date")
        values = np.array([days(one) for one in when if one is not None])
        mean, deviation = self._scale(values)
        return DateColumn(
            **self.base, order=written, clock=bool((values % 1).any()), mean=mean,
            deviation=deviation, least=float(values.min()), most=float(values.max()),
        )  # fmt: skip

    def _ignored(self, reason: str) -> IgnoredColumn:
        return IgnoredColumn(**self.base, reason=reason)

    def _wrong(self, text: str, where: str, kind: str) -> NoReturn:
        name = title(self.column)
        raise InputError(
            f"{where}: {name} is {text!r:.60}, but the other cells of this column are {kind}s; "
            "correct it, leave it empty if the value is missing, or set "
            f'data.column_kinds=\'{{"{name}"="category"}}\''
        )

    def _refuse(self, fact: str) -> NoReturn:
        file = self.where[0].rpartition(":")[0]
        raise InputError(f"{file}: {title(self.column)} {fact}")
