"""The LaTeX of the catalogue as blocks of Unicode text.

Only what formulas here use is understood: letters, sub- and superscripts, fractions, roots,
parentheses and matrices. A block is a few lines of equal width, one of which is the baseline:

    ⎡1 0⎤ᵀ
    ⎣0 1⎦
"""

import re
import unicodedata
from dataclasses import dataclass

_TOKEN = re.compile(r"\\begin\{bmatrix\}|\\end\{bmatrix\}|\\\\|\\[a-zA-Z]+|\\.|\s+|.")
_COMMANDS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η",
    "theta": "θ", "mu": "μ", "pi": "π", "sigma": "σ", "partial": "∂", "infty": "∞", "ell": "ℓ",
    "cdot": "·", "odot": "⊙", "times": "×", "le": "≤", "ge": "≥", "approx": "≈", "leftarrow": "←",
    "sum": "Σ", "ldots": "…", "top": "ᵀ", "exp": "exp", "tanh": "tanh", "max": "max", "log": "log",
    "ln": "ln", "sin": "sin", "cos": "cos", "prime": "′", "lVert": "‖", "rVert": "‖", "quad": "  ",
    "left": "", "right": "", "textstyle": "", "displaystyle": "", "cdots": "…", "to": "→",
}  # fmt: skip
_WORDS = {"exp", "tanh", "max", "log", "ln", "sin", "cos"}
_CLINGS = {"partial", "left", "right", "textstyle", "displaystyle"}  # no space after these
_STYLES = {"mathrm", "mathbf", "text", "mathcal"}
OPERATORS = {"=", "+", "-", "·", "⊙", "/", "←", "≈", ">", "×"}
_SUPER = str.maketrans("0123456789+-=()Tin", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵀⁱⁿ")
_SUB = str.maketrans("0123456789+-t", "₀₁₂₃₄₅₆₇₈₉₊₋ₜ")
_ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}
_SCRIPT = {"E": "ℰ", "L": "ℒ"}


@dataclass(frozen=True)
class Box:
    """A block of text; all lines have the same width."""

    lines: tuple[str, ...]
    baseline: int = 0

    @property
    def width(self) -> int:
        return columns(self.lines[0])

    @property
    def height(self) -> int:
        return len(self.lines)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def pad(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def beside(boxes: list[Box]) -> Box:
    """Blocks next to each other, on one baseline."""
    if not boxes:
        return Box(("",))
    above = max(box.baseline for box in boxes)
    below = max(box.height - box.baseline for box in boxes)
    lines = [""] * (above + below)
    for box in boxes:
        start = above - box.baseline
        for i in range(len(lines)):
            inside = start <= i < start + box.height
            lines[i] += box.lines[i - start] if inside else " " * box.width
    return Box(tuple(lines), above)


def one_line(latex: str) -> str:
    """A formula without matrices, as a line of text."""
    box = beside(blocks(latex))
    assert box.height == 1, f"not one line: {latex}"
    return box.lines[0]


def inline(text: str) -> str:
    """Plain text whose `$...$` are formulas."""
    parts = text.split("$")
    return "".join(one_line(part) if i % 2 else part for i, part in enumerate(parts))


def blocks(latex: str, width: int = 10_000) -> list[Box]:
    """The blocks of a formula, left to right; a matrix wider than `width` loses inner columns."""
    parser = _Parser(_TOKEN.findall(latex), width)
    found = parser.sequence(())
    assert parser.at == len(parser.tokens), f"unbalanced: {latex}"
    return found


def words(latex: str, width: int = 10_000) -> list[Box]:
    """The parts of a formula between its outermost spaces."""
    found: list[list[Box]] = [[]]
    for box in blocks(latex, width):
        if box.lines == (" ",):
            found.append([])
        else:
            found[-1].append(box)
    return [beside(boxes) for boxes in found if boxes]


def flow(boxes: list[Box], width: int) -> list[Box]:
    """Lines of blocks, spaced; a line may begin with an operator, but not end with one."""
    lines: list[list[Box]] = [[]]
    unit: list[Box] = []
    for box in boxes:
        unit.append(box)
        if box.lines[0] in OPERATORS:
            continue  # it goes where what follows it goes
        if lines[-1] and sum(b.width + 1 for b in lines[-1] + unit) - 1 > width:
            lines.append([])
        lines[-1] += unit
        unit = []
    lines[-1] += unit
    return [_spaced(line) for line in lines]


def _spaced(boxes: list[Box]) -> Box:
    spaced = [piece for box in boxes for piece in (Box((" ",)), box)]
    return beside(spaced[1:])


class _Parser:
    def __init__(self, tokens: list[str], width: int) -> None:
        self.tokens, self.width, self.at = tokens, width, 0

    def sequence(self, ends: tuple[str, ...]) -> list[Box]:
        """Blocks up to one of the end tokens, which is left in place."""
        found: list[Box] = []
        while self.at < len(self.tokens) and self.tokens[self.at] not in ends:
            token = self._next()
            if token in ("^", "_"):
                base = found.pop() if found else Box(("",))
                found.append(_script(base, beside(self._argument()), token))
            else:
                found += self._atom(token)
        return found

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _argument(self) -> list[Box]:
        """What stands in braces, or the one token that follows."""
        token = self._next()
        return self._group("}") if token == "{" else self._atom(token)

    def _group(self, end: str) -> list[Box]:
        inside = self.sequence((end,))
        assert self._next() == end
        return inside

    def _atom(self, token: str) -> list[Box]:
        if token.isspace():
            return [Box((" ",))]
        if token == "{":
            return self._group("}")
        if token in "([":
            return [_fence(beside(self._group({"(": ")", "[": "]"}[token])), token)]
        if token == r"\begin{bmatrix}":
            return [self._matrix()]
        if token.startswith("\\"):
            return self._command(token[1:])
        return [Box((token,))]

    def _command(self, name: str) -> list[Box]:
        if name == "frac":
            top, bottom = beside(self._argument()), beside(self._argument())
            slash = "/" if _is_short(top) and _is_short(bottom) else " / "
            return [beside([_grouped(top), Box((slash,)), _grouped(bottom)])]
        if name == "sqrt":
            return [beside([Box(("√",)), _grouped(beside(self._argument()))])]
        if name in _ACCENTS:
            letter = beside(self._argument()).lines[0]
            return [Box((unicodedata.normalize("NFC", letter + _ACCENTS[name]),))]
        if name in _STYLES:
            inside = beside(self._argument())
            if name == "mathcal":
                return [Box((_SCRIPT.get(inside.lines[0], inside.lines[0]),))]
            return [inside]
        if name in (",", ";", " ", ":"):
            return [Box((" ",))]
        if name in ("{", "}", "_", "%", "&"):
            return [Box((name,))]
        assert name in _COMMANDS, f"no text for \\{name}"
        after = self.tokens[self.at] if self.at < len(self.tokens) else ""
        if name in _CLINGS and after.isspace():
            self.at += 1
        space = " " if name in _WORDS and after.startswith("\\") and after[1:] != "left" else ""
        return [Box((_COMMANDS[name] + space,))]

    def _matrix(self) -> Box:
        rows: list[list[str]] = [[]]
        while True:
            cell = beside(self.sequence(("&", r"\\", r"\end{bmatrix}"))).lines[0].strip()
            rows[-1].append(cell)
            mark = self._next()
            if mark == r"\end{bmatrix}":
                return matrix(rows, self.width)
            if mark == r"\\":
                rows.append([])


def matrix(rows: list[list[str]], width: int = 10_000) -> Box:
    """Cells in brackets, each column aligned at the decimal point."""
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
    return _bracket(lines, "⎡⎢⎣", "⎤⎥⎦", "[", "]")


def _align(cells: list[str]) -> list[str]:
    parts = [cell.partition(".") for cell in cells]
    before = max(columns(head) for head, _, _ in parts)
    texts = [" " * (before - columns(head)) + head + dot + tail for head, dot, tail in parts]
    width = max(columns(text) for text in texts)
    return [pad(text, width) for text in texts]


def _bracket(lines: list[str], left: str, right: str, one_left: str, one_right: str) -> Box:
    if len(lines) == 1:
        return Box((f"{one_left}{lines[0]}{one_right}",))
    last = len(lines) - 1
    pick = [0 if i == 0 else 2 if i == last else 1 for i in range(len(lines))]
    made = [f"{left[p]}{line}{right[p]}" for p, line in zip(pick, lines, strict=True)]
    return Box(tuple(made), last // 2)


def _fence(inside: Box, kind: str) -> Box:
    if inside.height == 1:
        return Box(("(" + inside.lines[0] + ")" if kind == "(" else f"[{inside.lines[0]}]",))
    marks = ("⎛⎜⎝", "⎞⎟⎠", "(", ")") if kind == "(" else ("⎡⎢⎣", "⎤⎥⎦", "[", "]")
    fenced = _bracket(list(inside.lines), *marks)
    return Box(fenced.lines, inside.baseline)


def _is_short(box: Box) -> bool:
    return box.height == 1 and not re.search(r"[ +·/]|(?<=.)-", box.lines[0])


def _grouped(box: Box) -> Box:
    return box if _is_short(box) or box.height > 1 else _fence(box, "(")


def _script(base: Box, script: Box, kind: str) -> Box:
    """A sub- or superscript, in small letters where Unicode has them all."""
    text = script.lines[0]
    if kind == "^":
        if text == "ᵀ" or not set(text) - set("0123456789+-=()Tin"):
            small = text.translate(_SUPER)
            lines = [
                line + (small if i == 0 else " " * columns(small))
                for i, line in enumerate(base.lines)
            ]
            return Box(tuple(lines), base.baseline)
        tail = f"^{text}" if len(text) == 1 else f"^({text.strip('()')})"
    else:
        small_enough = not set(text) - set("0123456789+-t")
        tail = text.translate(_SUB) if small_enough else f"_{text}"
    return beside([base, Box((tail,))])
