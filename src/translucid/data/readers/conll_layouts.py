"""Which columns a CoNLL file has: known layouts, by what stands in the first sentence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from translucid.core.errors import ConfigError, InputError, nearest
from translucid.data.readers.tables import Column

# https://universaldependencies.org/format.html
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_ID = re.compile(r"\d+([-.]\d+)?")
_SPAN = re.compile(r"O|[BIESULM]-\S+")
_DECLARED = re.compile(r"#\s*global\.columns\s*=\s*(.+)")  # CoNLL-U Plus names its columns


@dataclass(frozen=True)
class Layout:
    """What the columns are called, and where word and tag stand, from 1 on."""

    name: str
    columns: tuple[str, ...] = ()  # empty: they have numbers only
    words: int = 1
    tags: int | None = None  # None: there is no such column, or nobody knows which it is
    width: int = 0

    def place(self, column: Column, role: str, path: str | Path) -> int:
        """The number of a column that was chosen by number or name."""
        if isinstance(column, int):
            if column < 1:
                raise ConfigError(f"{role} = {column}: columns are counted from 1")
            return column
        if not self.columns:
            raise ConfigError(
                f"{path}: {role} = {column!r}: the columns of this file have no names that are "
                f"known; choose by number, from 1 to {self.width}"
            )
        if column.lower() not in self.columns:
            close = nearest(column.lower(), self.columns, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(
                f"{path}: {role} = {column!r}: there is no such column; {self.name}: "
                f"{', '.join(self.columns)}{hint}"
            )
        return self.columns.index(column.lower()) + 1

    def title(self, number: int) -> str:
        """How messages call a column."""
        known = number <= len(self.columns)
        return f"column {number}" + (f" ({self.columns[number - 1]!r})" if known else "")


def declared_columns(comment: str) -> tuple[str, ...]:
    """The names that a comment of CoNLL-U Plus gives the columns; empty: it is another comment."""
    match = _DECLARED.fullmatch(comment.strip())
    return tuple(match[1].lower().split()) if match else ()


def recognise(
    rows: Sequence[Sequence[str]], path: str | Path, declared: Sequence[str] = ()
) -> Layout:
    """The layout of a file whose first sentence has these rows."""
    width = len(rows[0])
    if declared:
        places = {name: number for number, name in enumerate(declared, start=1)}
        return Layout(
            "CoNLL-U Plus", tuple(declared), places.get("form", 1), places.get("upos"), width
        )
    numbered = all(_ID.fullmatch(row[0]) for row in rows)
    if numbered and (width == len(CONLLU) or (_is_conllu(path) and 2 <= width < len(CONLLU))):
        return Layout("CoNLL-U", CONLLU[:width], 2, 4 if width >= 4 else None, width)
    if width == 1:
        return Layout("one column", ("word",), 1, None, width)
    if width == 2:
        return Layout("two columns", ("word", "tag"), 1, 2, width)
    if not _spans(rows, width):
        return Layout(f"{width} columns", width=width)
    chunks = _spans(rows, width - 1)
    if chunks and width == 4:
        return Layout("CoNLL-2003", ("word", "pos", "chunk", "ner"), 1, 4, width)
    if chunks and width == 5:
        return Layout("CoNLL-2003 (de)", ("word", "lemma", "pos", "chunk", "ner"), 1, 5, width)
    if width == 3 and not chunks:
        return Layout("three columns", ("word", "pos", "tag"), 1, 3, width)
    return Layout(f"{width} columns", width=width)


def _is_conllu(path: str | Path) -> bool:
    return ".conllu" in Path(path).suffixes


def _spans(rows: Sequence[Sequence[str]], number: int) -> bool:
    """Whether a column holds chunks or entities, as B-, I- and O."""
    return all(len(row) >= number and _SPAN.fullmatch(row[number - 1]) for row in rows)
