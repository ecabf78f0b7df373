"""Convert Python data to table rows: lists, dicts of columns, pandas and polars data frames, and
Hugging Face datasets. None of these packages is imported: objects are recognised by their methods.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import LARGEST

Row = dict[str, Any]


def write_rows(data: Any, path: Path, columns: Sequence[str], name: str) -> None:
    """Write data as JSON lines. columns: names for the values of rows that are not dicts; if empty,
    such rows are rows of numbers. name: the name of the data in messages."""
    size = 0
    with path.open("wb") as file:
        for row in rows_of(data, columns, name):
            size += file.write(_line(row) + b"\n")
            if size > LARGEST:
                raise InputError(
                    f"{name} would take more than {LARGEST >> 30} GiB as text; write the data to a "
                    "file and pass the file name"
                )
    if not size:
        raise InputError(f"{name} has no rows; at least two are needed")


def _line(row: Row) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which the reader reports with its line
        return json.dumps(row).encode()


def is_table(data: Any) -> bool:
    """Whether the data has named columns: a data frame, a dataset or a dict of columns."""
    return hasattr(data, "columns") or isinstance(getattr(data, "features", data), Mapping)


def rows_of(data: Any, columns: Sequence[str], name: str) -> Iterator[Row]:
    """Yield the rows of the data as dicts."""
    for number, row in enumerate(_elements(data, name), start=1):
        yield _row(row, columns, f"{name}, row {number}")


def _elements(data: Any, name: str) -> Iterable[Any]:
    """The rows of the data. If its columns have names, the rows are dicts."""
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):  # lazy frame of polars
        raise InputError(
            f"{name}: a {type(data).__name__} has no rows until it is computed; pass "
            f"{name}=frame.collect()"
        )
    if hasattr(data, "iter_rows") and hasattr(data, "columns"):  # polars
        return iter(data.iter_rows(named=True))
    if hasattr(data, "itertuples") and hasattr(data, "columns"):  # pandas
        titles = [str(column) for column in data.columns]
        tuples = data.itertuples(index=False, name=None)
        return (dict(zip(titles, values, strict=True)) for values in tuples)
    if isinstance(features := getattr(data, "features", None), Mapping):  # datasets
        return _named(data, {str(key): class_namer(feature) for key, feature in features.items()})
    if isinstance(data, Mapping):
        return _of_columns(data, name)
    if isinstance(data, str | bytes) or not hasattr(data, "__iter__"):
        raise InputError(
            f"{name}: got {type(data).__name__}; expected a file, a list of rows, a dict of "
            "columns, a pandas or polars data frame, a dataset, or an iterator over rows"
        )
    return iter(data)


def _of_columns(data: Mapping[Any, Any], name: str) -> Iterator[Row]:
    """Yield the rows of a dict of columns: {"text": [...], "label": [...]}."""
    lengths = {}
    for key, column in data.items():
        if hasattr(column, "features") or hasattr(column, "itertuples"):
            raise InputError(
                f"{name} is a dict of tables ({', '.join(map(repr, data))}); pass one of them, "
                f"such as {name}=data[{key!r}]"
            )
        if isinstance(column, str | bytes) or not hasattr(column, "__len__"):
            raise InputError(
                f"{name}: a dict of columns must contain lists, but {key!r} is a "
                f"{type(column).__name__}; pass a single row as [row]"
            )
        lengths[str(key)] = len(column)
    if len({*lengths.values()}) > 1:
        listed = ", ".join(f"{key!r} has {count:,}" for key, count in lengths.items())
        raise InputError(f"{name}: columns must have the same number of values, but {listed}")
    for values in zip(*data.values(), strict=True):
        yield dict(zip(lengths, values, strict=True))


def _named(data: Iterable[Any], namers: Mapping[str, Callable[[Any], Any]]) -> Iterator[Row]:
    for row in data:
        yield {key: namers[key](value) if key in namers else value for key, value in row.items()}


def class_namer(feature: Any) -> Callable[[Any], Any]:
    """Return a function that converts class numbers to class names, also inside lists, and leaves
    other values unchanged.

    feature: the type of a column, as an object of `datasets` or as JSON from a file.
    """

    def get(key: str) -> Any:
        return feature.get(key) if isinstance(feature, dict) else getattr(feature, key, None)

    names, inner = get("names"), get("feature")
    if isinstance(names, list | tuple):
        # In test sets, -1 means "no label"; as an index, it would select the last name.
        return lambda value: (
            names[value] if isinstance(value, int) and 0 <= value < len(names) else value
        )
    if inner is None and isinstance(feature, list | tuple) and feature:
        inner = feature[0]
    if inner is None:
        return lambda value: value
    name_of = class_namer(inner)
    return lambda value: [name_of(item) for item in value] if isinstance(value, list) else value


def _row(row: Any, columns: Sequence[str], where: str) -> Row:
    if isinstance(row, Mapping):
        if len(row) == 1 and isinstance(inner := next(iter(row.values())), Mapping):
            row = inner  # {"translation": {"en": ..., "de": ...}}
        return {str(key): _plain(value) for key, value in row.items()}
    row = _plain(row)
    if isinstance(row, str):
        row = [row]
    if isinstance(row, list) and not columns:
        return _numbers(row, where)
    if not isinstance(row, list) or len(row) != len(columns):
        needed = "(" + ", ".join(columns or ("inputs", "output")) + ")"
        raise InputError(
            f"{where}: got {row!r:.80}; expected {needed}, or a dict with column names"
        )
    return dict(zip(columns, row, strict=True))


def _numbers(row: list[Any], where: str) -> Row:
    """A row of numbers as a dict. The row is (inputs, output), or a list that ends with the
    output."""
    if len(row) == 2 and isinstance(row[0], list):
        output = row[1][0] if isinstance(row[1], list) and len(row[1]) == 1 else row[1]
        if isinstance(output, list):
            raise InputError(
                f"{where} has {len(output)} outputs; pass dicts or a data frame, and name the "
                "output columns: output_columns=['a', 'b']"
            )
        row = [*row[0], output]
    return {f"x{n}": value for n, value in enumerate(row[:-1], start=1)} | {"y": row[-1]}


def _plain(value: Any) -> Any:
    """Convert a value to a JSON type. A value of an unsupported type becomes an object, which
    readers reject."""
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)  # an empty cell of a data frame
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # numpy and torch
        return _plain(value.tolist())
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas
        return None
    if isinstance(value, date):
        return value.isoformat()
    return {type(value).__name__: str(value)}
