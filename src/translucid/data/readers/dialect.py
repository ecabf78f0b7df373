"""What a delimited file does not say: which character separates its cells, and whether its first
row is a header."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from translucid.data.readers.cells import is_number
from translucid.data.readers.lines import read_lines

Delimiter = Literal[",", ";", "tab", "pipe"]
CHARACTERS: dict[Delimiter, str] = {",": ",", ";": ";", "tab": "\t", "pipe": "|"}
LOOKED_AT = 50  # lines, for the delimiter; rows below the first one, for how long they are
COMPARED = 1000  # rows below the first one, for which values repeat
_NAME = re.compile(r"[^\W\d]\w*([ .-]\w+){0,2}")  # of a column: three words at most, no full stop


def as_table(path: str | Path) -> str:
    """What to add for a file whose name says nothing, but whose first line is one of a table."""
    first = next((text for _, text in read_lines(path) if text and text.strip()), "")
    if first.count("\t") == 1:
        return "; its lines have two cells with a tab between them: data.format=tsv"
    if first.startswith("{"):
        return "; if its lines are JSON objects: data.format=jsonl"
    if first.startswith("[") and str(path).endswith(".json"):
        return "; of a JSON list, one object a line is needed: jq -c '.[]' FILE > pairs.jsonl"
    return ""


def find_delimiter(first: str, following: Iterator[str]) -> str:
    """Of the CSV whose first line this is; `following` is only asked where that does not decide.

    A comma, unless another character occurs in its place: as often in every line as in the first.
    """
    present = [character for character in CHARACTERS.values() if _count(first, character)]
    if present in ([], [","]):
        return ","
    lines = [first, *(line for line in islice(following, LOOKED_AT) if line.strip())]
    whole = [line for line in lines if line.count('"') % 2 == 0]  # no cell goes over its end
    regular = [c for c in present if len({_count(line, c) for line in whole}) <= 1]
    return (regular or [","])[0]


def _count(line: str, character: str) -> int:
    """How often it occurs outside of quotes."""
    return sum(part.count(character) for part in line.split('"')[::2])


def is_name(cell: str) -> bool:
    """Whether a cell could name a column."""
    return _NAME.fullmatch(cell) is not None


def unlike_the_rest(first: Sequence[object], following: Sequence[Sequence[object]]) -> bool:
    """Whether a row of short names stands above something else: numbers, labels that repeat, texts
    that are all longer."""
    cells = [str(cell).strip() for cell in first]
    if len(set(cells)) < len(cells) or not all(map(is_name, cells)):
        return False
    rows = [row for row in following[:LOOKED_AT] if len(row) == len(cells)]
    if len(rows) < 3:
        return False
    kinds = [
        _kind(cell, [str(row[place]).strip() for row in rows]) for place, cell in enumerate(cells)
    ]
    return "alike" not in kinds and "other" in kinds


def _kind(name: str, column: Sequence[str]) -> Literal["alike", "other", "unknown"]:
    """Whether the cells of a column could be such a name."""
    if name in column:
        return "alike"
    if all(is_number(cell) for cell in column):
        return "other"
    words = [len(cell.split()) for cell in column]
    if min(words) >= len(name.split()) + 2:
        return "other"
    return "unknown" if len(set(column)) <= len(column) / 2 else "alike"
