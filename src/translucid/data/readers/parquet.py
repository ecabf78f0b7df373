"""Read Parquet files, and folders saved by Hugging Face `datasets`; both need only pyarrow.

Class labels that `datasets` stores as numbers are read as their names.
"""

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.python_rows import class_namer
from translucid.data.readers.lines import open_binary
from translucid.data.readers.tables import Rows, Table


def open_arrow(path: str | Path) -> Table:
    """Open a Parquet file or a `datasets` folder as a table. Row numbers, counted from 1, take the
    place of line numbers."""
    path = Path(path)
    files = _files_of(path) if path.is_dir() else []
    if not files:
        open_binary(path).close()  # raises an error if it is missing, even without pyarrow
    arrow = _library(path, "pyarrow")
    try:
        if files:
            readers = [arrow.ipc.open_stream(arrow.memory_map(str(file))) for file in files]
            schema, batches = readers[0].schema, chain.from_iterable(readers)
        else:
            table = _library(path, "pyarrow.parquet").ParquetFile(path)
            schema, batches = table.schema_arrow, table.iter_batches(1024)
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as a table ({error})") from None
    names = tuple(schema.names)
    namers = [class_namer(feature) for feature in _features(schema, names)]
    return Table(str(path), names, len(names), _rows(arrow, path, batches, namers))


def _rows(
    arrow: Any, path: Path, batches: Iterator[Any], namers: list[Callable[[Any], Any]]
) -> Rows:
    number = 0
    try:
        for batch in batches:
            columns = [
                [name(value) for value in column.to_pylist()]
                for name, column in zip(namers, batch.columns, strict=True)
            ]
            for row in zip(*columns, strict=True):
                number += 1
                yield number, row
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{path} is damaged after row {number} ({error})") from None
    if not number:
        raise InputError(f"{path}: the table has no rows")


def _files_of(folder: Path) -> list[Path]:
    """The data files of a folder that save_to_disk wrote."""
    if (folder / "dataset_dict.json").is_file():
        splits = sorted(child.name for child in folder.iterdir() if child.is_dir())
        raise InputError(
            f"{folder} contains several splits; choose one of them: "
            + ", ".join(str(folder / split) for split in splits)
        )
    if not (folder / "state.json").is_file():
        raise InputError(
            f"{folder} is a folder, but was not saved by `datasets` (it has no state.json); "
            "expected a file, or a folder written by save_to_disk"
        )
    try:
        state = json.loads((folder / "state.json").read_text("utf-8"))
        files = [entry["filename"] for entry in state["_data_files"]]
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{folder / 'state.json'} lists no data files; save the dataset again with save_to_disk"
        ) from None
    inside = folder.resolve()
    for name in files:  # state.json is not trusted: read nothing outside the folder
        path = folder / str(name)
        if not path.is_file() or path.resolve().parent != inside:
            raise InputError(
                f"{folder / 'state.json'}: {name!r} is not the name of a file in this folder; save "
                "the dataset again with save_to_disk"
            )
    if not files:
        raise InputError(f"{folder}: the table has no rows")
    return [folder / name for name in files]


def _features(schema: Any, names: tuple[str, ...]) -> list[Any]:
    """The type of each column, which `datasets` stores in the metadata of the schema."""
    try:
        note = json.loads((schema.metadata or {})[b"huggingface"])
        return [note["info"]["features"].get(name) for name in names]
    except (KeyError, ValueError, TypeError, AttributeError):
        return [None] * len(names)


def _library(path: Path, name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(
            f"{path}: reading this file needs the package pyarrow: pip install pyarrow"
        ) from None
