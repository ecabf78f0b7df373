"""Write a solution for the terminal, as Unicode text wrapped to its width."""

import textwrap

from translucid.see.render.plain_math import (
    OPERATORS,
    TextBlock,
    columns,
    flow,
    in_row,
    inline,
    pad,
    spaced,
    words,
)
from translucid.worked.solution.content import Content, Given, SolutionTable, Step, dollars

_INDENT = 4
_COLUMNS = 6  # a table with more columns has only numbers; its inner columns may be omitted
_BOLD, _DIM, _END = "\033[1m", "\033[2m", "\033[0m"
_CUT = "… marks columns that do not fit; --format json has all of them."


def render(solution: Content, width: int, color: bool) -> str:
    """The solution as terminal text. color: print titles bold and remarks dim."""
    width = max(width, 40)

    def bold(text: str) -> str:
        return f"{_BOLD}{text}{_END}" if color else text

    def dim(text: str) -> str:
        return f"{_DIM}{text}{_END}" if color else text

    title = inline(solution.title)
    out = [bold(title), dim("─" * columns(title))]
    if solution.opening:
        out += _wrap(solution.opening, width)
    if solution.given:
        out += ["", bold("Given"), *_given(solution.given, width)]
    for number, heading, step in solution.numbered():
        out += ["", bold(f"── {inline(heading)} ──")] if heading else []
        out.append("")
        lead = f"{number}. "
        head = _wrap(lead + inline(step.title), width, len(lead))
        out += [bold(line) for line in head]
        out += _body(step, width)
        out += [dim(line) for line in _wrap(inline(step.note), width, _INDENT, _INDENT)]
    if any(_is_cut(line) for line in out):
        out += ["", *(dim(line) for line in _wrap(_CUT, width))]
    for note in solution.notes:
        out += ["", *(dim(line) for line in _wrap(inline(f"Note: {note}"), width))]
    if solution.closing:
        out += ["", *(bold(line) for line in _wrap(inline(solution.closing), width))]
    if solution.next:
        out += ["", dim(f"next: {solution.next}")]
    return dollars("\n".join(line.rstrip() for line in out) + "\n", "$")


def _is_cut(line: str) -> bool:
    """Whether matrix or table columns were omitted from this line."""
    return "  …  " in line or (" … " in line and line.endswith(("⎤", "⎥", "⎦", "]")))


def _wrap(text: str, width: int, hang: int = 0, first: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * hang,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _given(given: tuple[Given, ...], width: int) -> list[str]:
    """The given values (X = ...), as many per line as fit."""
    room = width - _INDENT
    formulas = [f"{g.symbol} = {g.text}" for g in given if g.table is None]
    lines: list[list[TextBlock]] = [[]]
    for box in (spaced(words(formula, room - 10)) for formula in formulas):
        if lines[-1] and sum(b.width + 3 for b in [*lines[-1], box]) - 3 > room:
            lines.append([])
        lines[-1].append(box)
    rows = [spaced(line, "   ") for line in lines]
    tall = any(row.height > 1 for row in rows)
    out: list[str] = []
    for row in rows:
        out += [""] if out and tall else []
        out += _indented(row, _INDENT)
    for item in given:
        if item.table is not None:
            out += ["", *_wrap(inline(item.symbol), width, _INDENT, _INDENT)]
            out += _table(item.table, width)
    return out


def _body(step: Step, width: int) -> list[str]:
    """The body of a step: its formula, then the formula with numbers, wrapped; or its table."""
    lines = _formula(step, width)
    return lines if step.table is None else lines + _table(step.table, width)


def _formula(step: Step, width: int) -> list[str]:
    room = width - _INDENT
    sides = [words(f"= {side}", room - 10) for side in step.sides()]
    if not sides:
        return []
    left = words(step.symbol)
    if all(box.height == 1 for side in sides for box in side):
        whole = spaced(left + [box for side in sides for box in side])
        if whole.width <= room:
            return _indented(whole, _INDENT)
    lines: list[TextBlock] = []
    first = left + sides[0]
    if len(sides) == 1 or all(box.height == 1 for box in first):
        lines += flow(first, room)
        sides = sides[1:]
    else:
        sides = [first, *sides[1:]]
    row: list[TextBlock] = []
    for side in sides:
        if row and sum(box.width + 1 for box in row + side) - 1 > room - 2:
            lines += _inner(row, room)
            row = []
        row += side
    lines += _inner(row, room) if row else []
    return [text for line in lines for text in _indented(line, _INDENT)]


def _inner(row: list[TextBlock], room: int) -> list[TextBlock]:
    """Wrap a long formula into lines, with continuation lines indented."""
    starts = row[0].lines[0] in OPERATORS
    return [in_row([TextBlock(("  ",)), box]) if starts else box for box in flow(row, room - 2)]


def _indented(box: TextBlock, indent: int) -> list[str]:
    return [" " * indent + line for line in box.lines]


def _table(table: SolutionTable, width: int) -> list[str]:
    """A table as text: numbers right-aligned, text left-aligned."""
    rows = [[inline(cell) for cell in row] for row in (table.header, *table.rows)]
    rows = _elided(rows, width - _INDENT)
    widths = _widths(rows)
    over = sum(w + 2 for w in widths) - 2 - (width - _INDENT)
    if over > 0:  # in the widest column, cut the start of texts: their latest words come last
        widest = widths.index(max(widths))
        widths[widest] = max(widths[widest] - over, 8)
        for row in rows:
            row[widest] = _tail(row[widest], widths[widest])
    numeric = [all(_is_number(row[i]) for row in rows[1:]) for i in range(len(widths))]

    def line(cells: list[str]) -> str:
        placed = [
            " " * (w - columns(cell)) + cell if right else pad(cell, w)
            for cell, w, right in zip(cells, widths, numeric, strict=True)
        ]
        return " " * _INDENT + "  ".join(placed)

    rule = " " * _INDENT + "  ".join("─" * w for w in widths)
    return [line(rows[0]), rule, *(line(row) for row in rows[1:])]


def _widths(rows: list[list[str]]) -> list[int]:
    return [max(columns(cell) for cell in column) for column in zip(*rows, strict=True)]


def _elided(rows: list[list[str]], room: int) -> list[list[str]]:
    """Reduce a table that is too wide to its first columns and its last, with … between."""
    widths = _widths(rows)
    if len(widths) <= _COLUMNS or sum(w + 2 for w in widths) - 2 <= room:
        return rows
    kept = len(widths) - 2
    while kept > 2 and sum(w + 2 for w in [*widths[:kept], 1, widths[-1]]) - 2 > room:
        kept -= 1
    return [[*row[:kept], "…", row[-1]] for row in rows]


def _is_number(text: str) -> bool:
    return not text or text[0] in "0123456789+-−…"


def _tail(text: str, width: int) -> str:
    if columns(text) <= width:
        return text
    while columns(text) >= width:
        text = text[1:]
    return "…" + text
