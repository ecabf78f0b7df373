"""Detect the delimiter of a delimited file, whether its first row is a header, and which of two
unnamed columns contains the labels. All three are detected by comparing cells. If the result is
uncertain, the caller asks the user."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from translucid.data.readers.cells import is_number
from translucid.data.readers.lines import LineRule, read_lines

Delimiter = Literal[",", ";", "tab", "pipe"]
CHARACTERS: dict[Delimiter, str] = {",": ",", ";": ";", "tab": "\t", "pipe": "|"}
LOOKED_AT = 50  # lines compared to find the delimiter; rows compared to detect a header
COMPARED = 1000  # rows compared to detect which values repeat
# If the estimated probability of a label that occurs only once is at most this, a first row whose
# label does not occur below is a header.
UNSEEN_PROBABILITY = 0.1
FEW = 0.05  # if fewer rows than this fraction are as short as the first row, it may be a header
_NAME = re.compile(r"[^\W\d]\w*([ .-]\w+){0,2}")  # column name: at most three words, no full stop


def as_table(path: str | Path, rule: LineRule) -> str:
    """Advice to append to an error message about a file without a known extension, if its first
    line looks like that of a table; otherwise empty."""
    first = next((text for _, text in read_lines(path, rule) if text and text.strip()), "")
    if first.count("\t") == 1:
        return "; its lines have two cells separated by a tab: set data.format=tsv"
    if first.startswith("{"):
        return "; if its lines are JSON objects, set data.format=jsonl"
    return ""


def find_delimiter(first: str, following: Iterator[str]) -> str:
    """Detect the delimiter of a CSV file: a comma, unless only another character occurs equally
    often in every line, or only another separates numbers, as in 3,5;7,25. `following` is read only
    if the first line is not sufficient."""
    present = [character for character in CHARACTERS.values() if _count(first, character)]
    if present in ([], [","]):
        return ","
    lines = [first, *(line for line in islice(following, LOOKED_AT) if line.strip())]
    whole = [
        line for line in lines if line.count('"') % 2 == 0
    ]  # lines in which no quoted cell continues on the next line
    regular = [c for c in present if len({_count(line, c) for line in whole}) <= 1]
    numbers = [c for c in regular if all(map(_is_number, first.split(c)))]
    return (numbers or regular or [","])[0]


def _is_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal point or a decimal comma."""
    return is_number(cell.replace(",", "."))


def _count(line: str, character: str) -> int:
    """Count a character outside of quotes."""
    return sum(part.count(character) for part in line.split('"')[::2])


def is_name(cell: str) -> bool:
    """Whether a cell could name a column."""
    return _NAME.fullmatch(cell) is not None


def unlike_the_rest(first: Sequence[object], following: Sequence[Sequence[object]]) -> bool:
    """Whether the first row consists of short names, and the rows below contain something else:
    numbers, or longer texts."""
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
    """Whether the cells of a column could be names like `name`: "alike" (they could), "other" (they
    are numbers or longer texts) or "unknown"."""
    if name in column:
        return "alike"
    if all(is_number(cell) for cell in column):
        return "other"
    words = [len(cell.split()) for cell in column]
    if min(words) >= len(name.split()) + 2:
        return "other"
    return "unknown" if len(set(column)) <= len(column) / 2 else "alike"


def label_place(rows: Sequence[Sequence[object]]) -> int | None:
    """The index of the label column in a table with two columns; None if uncertain.

    The following properties are checked in this order. The first one that only one of the columns
    has decides which column contains the labels: its values repeat; it has at most half as many
    different values as the other column; it contains only single words; it contains only numbers; a
    value occurs twice.
    """
    columns = [[str(cell).strip() for cell in column] for column in zip(*rows, strict=False)]
    if len(columns) != 2:
        return None
    different = [len(set(column)) for column in columns]
    if len(rows) == 1:  # nothing to compare
        return 0
    often = [2 * count <= len(rows) for count in different]
    fewer = [2 * a <= b for a, b in (different, different[::-1])]
    words = [all(len(cell.split()) <= 1 and _may_be_a_name(cell) for cell in c) for c in columns]
    numbers = [all(map(is_number, column)) for column in columns]
    ever = [count < len(rows) for count in different]
    for signs in (often, fewer, words, numbers, ever):
        if signs.count(True) == 1:
            return signs.index(True)
    return None


def header_over_labels(
    first: Sequence[object], below: Sequence[Sequence[object]], place: int | None
) -> bool | None:
    """Whether the first row is a header, judged by the label column at `place`; None if uncertain.

    If a cell of the first row occurs again in its column, the row is not a header. Otherwise, it is
    a header if a label would probably occur more than once. The probability that it occurs only
    once is estimated from the number of labels below that occur only once (Good-Turing estimate).
    """
    rows = [row for row in below if len(row) == len(first)]
    if unlike_the_rest(first, rows):
        return True
    cells = [str(cell).strip() for cell in first]
    if not rows or not all(map(_may_be_a_name, cells)) or any(map(is_number, cells)):
        return False
    columns = [[str(cell).strip() for cell in column] for column in zip(*rows, strict=True)]
    if any(cell in column for cell, column in zip(cells, columns, strict=True)):
        return False
    if place is not None:
        if not 0 <= place < len(columns) or all(map(is_number, columns[place])):
            return True  # a column that does not exist raises an error later
        once = sum(count == 1 for count in Counter(columns[place]).values())
        if (once + 1) / (len(rows) + 1) <= UNSEEN_PROBABILITY:
            return True
    return None if all(map(is_name, cells)) else False


def header_over_texts(first: Sequence[object], below: Sequence[Sequence[object]]) -> bool | None:
    """Whether the first row is a header above columns of texts. None if uncertain, that is, if the
    first row could consist of names and few of the rows below are as short."""
    rows = [row for row in below if len(row) == len(first)]
    if unlike_the_rest(first, rows):
        return True
    cells = [str(cell).strip() for cell in first]
    if not rows or len(set(cells)) < len(cells) or not all(map(is_name, cells)):
        return False
    length = max(len(cell.split()) for cell in cells)
    short = sum(all(len(str(cell).split()) <= length + 1 for cell in row) for row in rows)
    return None if short < FEW * len(rows) else False


def _may_be_a_name(cell: str) -> bool:
    """Whether a cell may be a column name. It may not if it has more than three words or ends like
    a sentence."""
    return len(cell.split()) <= 3 and not cell.endswith((".", "!", "?", "…", "。"))
