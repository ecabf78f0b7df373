"""Formulas as blocks of Unicode text.

A block has lines of equal width, one of which is the baseline:

    ⎡1 0⎤ᵀ
    ⎣0 1⎦
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from translucid.core.errors import InputError
from translucid.see.render.latex import MathNode, read, with_formulas

_DRAWN = {"⋅": "·", "∑": "Σ", "⊤": "ᵀ", "−": "-", "∗": "*"}  # easier to read in a terminal
_SPACES = {r"\quad": "  ", r"\qquad": "    "}
OPERATORS = {"=", "+", "-", "·", "⊙", "/", "←", "≈", ">", "×"}
_SUPER = str.maketrans("0123456789+-=()Tin", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵀⁱⁿ")
_SUB = str.maketrans("0123456789+-t", "₀₁₂₃₄₅₆₇₈₉₊₋ₜ")
_ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}
_SCRIPT = {"E": "ℰ", "L": "ℒ"}
_TALL = {"(": "⎛⎜⎝", ")": "⎞⎟⎠", "[": "⎡⎢⎣", "]": "⎤⎥⎦"}  # top, middle, bottom


@dataclass(frozen=True)
class TextBlock:
    """A block of text whose lines have the same width."""

    lines: tuple[str, ...]
    baseline: int = 0

    @property
    def width(self) -> int:
        return columns(self.lines[0])

    @property
    def height(self) -> int:
        return len(self.lines)


def columns(text: str) -> int:
    """The number of terminal columns that a text occupies."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def pad(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def in_row(boxes: list[TextBlock]) -> TextBlock:
    """Join blocks side by side on a common baseline."""
    if not boxes:
        return TextBlock(("",))
    above = max(box.baseline for box in boxes)
    below = max(box.height - box.baseline for box in boxes)
    lines = [""] * (above + below)
    for box in boxes:
        start = above - box.baseline
        for i in range(len(lines)):
            inside = start <= i < start + box.height
            lines[i] += box.lines[i - start] if inside else " " * box.width
    return TextBlock(tuple(lines), above)


def one_line(latex: str) -> str:
    """Convert a formula without matrices to a line of text."""
    box = in_row(blocks(latex))
    assert box.height == 1, f"not one line: {latex}"
    return box.lines[0]


def inline(text: str) -> str:
    """Convert the `$...$` formulas in a text, giving a single line."""
    return with_formulas(text, str, one_line)


def blocks(latex: str, width: int = 10_000) -> list[TextBlock]:
    """The blocks of a formula, left to right; inner columns of a matrix wider than `width` are
    omitted."""
    return _row(read(latex), width)


def words(latex: str, width: int = 10_000) -> list[TextBlock]:
    """Split a formula at its outermost spaces, into one block each."""
    parts: list[list[TextBlock]] = [[]]
    for box in blocks(latex, width):
        if box.lines == (" ",):
            parts.append([])
        else:
            parts[-1].append(box)
    return [in_row(boxes) for boxes in parts if boxes]


def flow(boxes: list[TextBlock], width: int) -> list[TextBlock]:
    """Wrap blocks into lines; a line may begin with an operator, but not end with one."""
    lines: list[list[TextBlock]] = [[]]
    unit: list[TextBlock] = []
    for box in boxes:
        unit.append(box)
        if box.lines[0] in OPERATORS:
            continue  # it stays with the block after it
        if lines[-1] and sum(b.width + 1 for b in lines[-1] + unit) - 1 > width:
            lines.append([])
        lines[-1] += unit
        unit = []
    lines[-1] += unit
    return [spaced(line) for line in lines]


def spaced(boxes: Sequence[TextBlock], gap: str = " ") -> TextBlock:
    """Join blocks side by side with a gap between them."""
    return in_row([piece for box in boxes for piece in (TextBlock((gap,)), box)][1:])


def _row(nodes: Sequence[MathNode], width: int) -> list[TextBlock]:
    """Convert nodes to blocks; parentheses form one block with their content."""
    boxes: list[TextBlock] = []
    at = 0
    while at < len(nodes):
        node, end = nodes[at], _closing(nodes, at)
        if end is None:
            end = at
            boxes += _blocks(node.core, width)
        else:
            inside = in_row(_row(nodes[at + 1 : end], width))
            boxes.append(_fence(inside, node.text, nodes[end].core.text))
        boxes = _scripted(boxes, nodes[end], width)
        at = end + 1
        following = nodes[at].core.kind if at < len(nodes) else ""
        if node.kind == "function" and following not in ("", "space", "open", "fenced", "group"):
            boxes.append(TextBlock((" ",)))
        if node.text == "∂" and following == "space":  # ∂L
            at += 1
    return boxes


def _closing(nodes: Sequence[MathNode], start: int) -> int | None:
    """The index of the parenthesis that closes the one at `start`, if any."""
    if nodes[start].kind != "open" or nodes[start].text == "‖":
        return None
    depth = 0
    for at in range(start, len(nodes)):
        node = nodes[at].core
        depth += (node.kind == "open") - (node.kind == "close")
        if not depth:
            return at
    return None


def _scripted(boxes: list[TextBlock], node: MathNode, width: int) -> list[TextBlock]:
    """Add a node's sub- and superscripts to the last block."""
    for script in node.parts[1:] if node.kind == "scripts" else ():
        if script.kind == "'":
            boxes = [*boxes, TextBlock(("'",))]
        else:
            *before, base = boxes or [TextBlock(("",))]
            boxes = [*before, _script(base, _block(script.parts[0], width), script.kind)]
    return boxes


def _block(node: MathNode, width: int) -> TextBlock:
    return in_row(_blocks(node, width))


def _blocks(node: MathNode, width: int) -> list[TextBlock]:
    match node.kind:
        case "space":
            return [TextBlock((_SPACES.get(node.text, " "),))]
        case "group" | "textstyle":
            return _row(node.parts, width)
        case "frac":
            top, bottom = (_block(part, width) for part in node.parts)
            slash = "/" if _is_short(top) and _is_short(bottom) else " / "
            return [in_row([_grouped(top), TextBlock((slash,)), _grouped(bottom)])]
        case "sqrt":
            return [in_row([TextBlock(("√",)), _grouped(_block(node.parts[0], width))])]
        case "accent":
            letter = _block(node.parts[0], width).lines[0]
            return [TextBlock((unicodedata.normalize("NFC", letter + _ACCENTS[node.text]),))]
        case "mathcal":
            return [TextBlock((_SCRIPT.get(node.text, node.text),))]
        case "fenced":
            left, *inside, right = node.parts
            return [_fence(in_row(_row(inside, width)), left.text, right.text)]
        case "bmatrix":
            cells = [[in_row(_row(cell.parts, width)) for cell in row.parts] for row in node.parts]
            return [matrix([[cell.lines[0].strip() for cell in row] for row in cells], width)]
        case "aligned":
            raise InputError(
                "formula: aligned lines cannot be written as plain text; pass them one by one"
            )
    return [TextBlock((_DRAWN.get(node.text, node.text),))]


def matrix(rows: list[list[str]], width: int = 10_000) -> TextBlock:
    """A matrix in brackets, with each column aligned at the decimal point."""
    aligned = [_align(list(column)) for column in zip(*rows, strict=True)]
    room = width - 2
    if len(aligned) > 3 and sum(columns(column[0]) + 1 for column in aligned) > room:
        last, dots = aligned[-1], ["…"] * len(rows)
        kept: list[list[str]] = []
        for column in aligned[:-1]:
            line = [*kept, column, dots, last]
            if sum(columns(c[0]) + 1 for c in line) > room and kept:
                break
            kept.append(column)
        aligned = [*kept, dots, last]
    lines = [" ".join(cells) for cells in zip(*aligned, strict=True)]
    return _fence(TextBlock(tuple(lines), (len(lines) - 1) // 2), "[", "]")


def _align(cells: list[str]) -> list[str]:
    parts = [cell.partition(".") for cell in cells]
    before = max(columns(head) for head, _, _ in parts)
    texts = [" " * (before - columns(head)) + head + dot + tail for head, dot, tail in parts]
    width = max(columns(text) for text in texts)
    return [pad(text, width) for text in texts]


def _fence(inside: TextBlock, left: str, right: str) -> TextBlock:
    """Put a block in parentheses as tall as the block."""
    if inside.height == 1:
        return TextBlock((left + inside.lines[0] + right,))
    first, middle, last = zip(*(_TALL.get(mark, mark * 3) for mark in (left, right)), strict=True)
    marks = [first, *[middle] * (inside.height - 2), last]
    lines = [left + line + right for (left, right), line in zip(marks, inside.lines, strict=True)]
    return TextBlock(tuple(lines), inside.baseline)


def _is_short(box: TextBlock) -> bool:
    return box.height == 1 and not re.search(r"[ +·/]|(?<=.)-", box.lines[0])


def _grouped(box: TextBlock) -> TextBlock:
    enclosed = all(line[0] in "⎡⎢⎣" and line[-1] in "⎤⎥⎦" for line in box.lines)  # a matrix
    return box if _is_short(box) or enclosed else _fence(box, "(", ")")


def _script(base: TextBlock, script: TextBlock, kind: str) -> TextBlock:
    """Add a sub- or superscript to a block, in Unicode's small characters where they exist."""
    text = script.lines[0]
    if kind == "^":
        if text == "ᵀ" or not set(text) - set("0123456789+-=()Tin"):
            small = text.translate(_SUPER)
            lines = [
                line + (small if i == 0 else " " * columns(small))
                for i, line in enumerate(base.lines)
            ]
            return TextBlock(tuple(lines), base.baseline)
        tail = f"^{text}" if len(text) == 1 else f"^({text.strip('()')})"
    else:
        small_enough = not set(text) - set("0123456789+-t")
        tail = text.translate(_SUB) if small_enough else f"_{text}"
    return in_row([base, TextBlock((tail,))])
