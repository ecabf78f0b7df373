"""Which format a file of rows has: by its name, or else by how it begins."""

import json
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from translucid.data.predictions import ConllSentences, Source, TableRows, TextLines
from translucid.data.readers.conll import COMMENT
from translucid.data.readers.lines import read_lines
from translucid.data.readers.standard_input import standard_input
from translucid.data.readers.tables import Format, format_of

PEEKED = 50  # lines that are looked at

SOURCES: dict[Format, type[Source]] = {
    "text": TextLines,
    "conll": ConllSentences,
    "tsv": TableRows,
    "csv": TableRows,
    "jsonl": TableRows,
    "parquet": TableRows,
    "datasets": TableRows,
}


def format_for(file: str, roles: Sequence[str], labels: Collection[str] = ()) -> Format:
    """By the name's ending, or else by how the file begins: an object of JSON, or for someone who
    asks for words, columns with known tags in one of them."""
    by_name = None if file == "-" else format_of(file, "text")
    if by_name not in (None, "text"):
        return by_name
    lines = _beginning(file)
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("{") and _is_object(first):
        return "jsonl"
    if "words" in roles and _has_columns(lines, labels):
        return "conll"
    return "text"


def _beginning(file: str) -> list[str]:
    if file == "-":
        lines = standard_input().peek().decode("utf-8", "replace").split("\n")
        return [line.removesuffix("\r") for line in lines[:PEEKED]]
    if not Path(file).is_file():  # what comes once is not looked at twice
        return []
    return [line or "" for _, line in islice(read_lines(file, may_be_empty=True), PEEKED)]


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _has_columns(lines: Sequence[str], labels: Collection[str]) -> bool:
    """Of the first sentence."""
    rows: list[list[str]] = []
    for line in lines:
        if not line.strip():
            if rows:
                break
            continue
        if line.startswith(COMMENT) and "=" in line:
            return True
        rows.append(line.split("\t") if "\t" in line else line.split())
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths == {1}:
        return False
    return any("\t" in line for line in lines) or any(
        set(column) <= set(labels) for column in zip(*rows, strict=True)
    )
