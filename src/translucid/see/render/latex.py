r"""Parse LaTeX into a tree, which is then written as MathML or plain text.

Only the commands used in the catalogue and in worked solutions are supported. Any other command is
an error, so that no formula is silently wrong.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from translucid.core.errors import InputError

_NUMBER = r"(?:\d+(?:\{,\}\d{3})*(?:\.\d+)?|\.\d+)"  # 1{,}234.5 has a thousands separator
_TOKEN = re.compile(rf"\\[A-Za-z]+|\\.|{_NUMBER}|\s+|.", re.S)

# Symbols by kind, each with the character used to draw it.
_SYMBOLS = {
    "letter": {
        r"\alpha": "α", r"\beta": "β", r"\gamma": "γ", r"\delta": "δ", r"\epsilon": "ε",
        r"\eta": "η", r"\theta": "θ", r"\mu": "μ", r"\pi": "π", r"\sigma": "σ", r"\ell": "ℓ",
        r"\Delta": "Δ", r"\Phi": "Φ", r"\varphi": "φ", r"\partial": "∂", r"\infty": "∞",
        r"\top": "⊤", r"\ldots": "…",
    },
    "function": {
        rf"\{name}": name for name in ("exp", "tanh", "log", "ln", "sin", "cos", "max", "min")
    },
    "sum": {r"\sum": "∑"},
    "sign": {  # binary operators and relations
        r"\cdot": "⋅", r"\odot": "⊙", r"\times": "×", r"\le": "≤", r"\ge": "≥", r"\approx": "≈",
        r"\leftarrow": "←", r"\to": "→", "+": "+", "-": "−", "*": "∗", "/": "/", "=": "=",
        "<": "<", ">": ">",
    },
    "mark": {",": ",", ";": ";", ":": ":"},
    "open": {"(": "(", "[": "[", r"\lVert": "‖"},
    "close": {")": ")", "]": "]", r"\rVert": "‖"},
    "bar": {"|": "|", r"\vert": "|"},  # opening or closing
    "escaped": {rf"\{sign}": sign for sign in "{}_%&#$"},
}  # fmt: skip
_KINDS = {
    token: (kind, drawn) for kind, known in _SYMBOLS.items() for token, drawn in known.items()
}
_SPACES = (r"\,", r"\:", r"\;", r"\ ", r"\quad", r"\qquad")
_ENDS = ("", "}", "&", r"\\", r"\right", r"\end")


@dataclass(frozen=True)
class MathNode:
    """A node of a formula: a symbol with its text, or a group of nodes."""

    kind: str
    text: str = ""
    parts: "tuple[MathNode, ...]" = ()

    @property
    def core(self) -> "MathNode":
        """The node without its sub- and superscripts."""
        return self.parts[0] if self.kind == "scripts" else self


def read(latex: str) -> tuple[MathNode, ...]:
    """Parse a formula into nodes, from left to right.

    Kinds: space (text: its command), letter, function, sum, sign, mark, open, close, bar, escaped,
    number; mathrm, text, mathbf, mathcal with their text; group, textstyle, frac, sqrt, accent
    (text: which one), fenced (with its two delimiters); bmatrix and aligned with rows of cells;
    scripts: the base, then _, ^ and ' in source order.
    """
    reader = _Reader(latex)
    row = reader.row(())
    if reader.token:
        raise reader.error(f"{reader.token} closes nothing")
    return row


def with_formulas(
    text: str, plain: Callable[[str], str], formula: Callable[[str], str] = "${}$".format
) -> str:
    """Convert a text with formulas in `$...$`, using one function for plain text and one for
    formulas."""
    return "".join(formula(p) if i % 2 else plain(p) for i, p in enumerate(text.split("$")))


class _Reader:
    """Reads LaTeX tokens in order; every method advances past what it has read."""

    def __init__(self, latex: str) -> None:
        self.latex, self.at = latex, 0
        self.tokens = _TOKEN.findall(latex)

    @property
    def token(self) -> str:
        """The next token, which may be a space; empty at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def error(self, message: str) -> InputError:
        return InputError(f"formula {self.latex!r:.200}: {message}")

    def row(self, ends: Sequence[str]) -> tuple[MathNode, ...]:
        """Read nodes up to one of the end tokens, without consuming it."""
        nodes: list[MathNode] = []
        while self.token and self.token not in ends:
            if self.token in _ENDS:
                raise self.error(f"{self.token} closes nothing")
            if self.token == r"\textstyle":  # applies to everything after it
                self._take()
                self._skip_spaces()
                nodes.append(MathNode("textstyle", parts=self.row(ends)))
            else:
                base = MathNode("group") if self.token in ("_", "^", "'") else self._thing()
                scripts = self._scripts()
                nodes.append(MathNode("scripts", parts=(base, *scripts)) if scripts else base)
        return tuple(nodes)

    def _scripts(self) -> list[MathNode]:
        """The sub- and superscripts of a node."""
        scripts: list[MathNode] = []
        while self.token in ("_", "^", "'"):
            kind = self._take()
            if kind != "'" and any(script.kind == kind for script in scripts):
                raise self.error(
                    f"a symbol has two {kind}; put braces around the symbol and the first one"
                )
            scripts.append(MathNode(kind, parts=() if kind == "'" else (self._argument(kind),)))
        return scripts

    def _thing(self) -> MathNode:
        token = self._take()
        if token.isspace():
            return MathNode("space", " ")
        if token in _SPACES:
            return MathNode("space", token)
        if token in _KINDS:
            return MathNode(*_KINDS[token])
        if token == "{":
            inside = self.row(("}",))
            self._expect("}", "{")
            return MathNode("group", parts=inside)
        if re.fullmatch(_NUMBER, token):
            return MathNode("number", token.replace("{,}", ","))
        if token.isalpha():
            return MathNode("letter", token)
        if token.startswith("\\"):
            return self._command(token[1:])
        raise self.error(f"unknown sign {token}")

    def _command(self, name: str) -> MathNode:
        match name:
            case "frac":
                return MathNode(name, parts=(self._argument(name), self._argument(name)))
            case "sqrt":
                return MathNode(name, parts=(self._argument(name),))
            case "hat" | "tilde" | "bar":
                return MathNode("accent", name, (self._argument(name),))
            case "mathrm" | "text" | "mathbf" | "mathcal":
                return MathNode(name, self._raw(name))
            case "left":  # parentheses as tall as their content
                left = self._fence("open", name)
                inside = self.row((r"\right",))
                self._expect(r"\right", r"\left")
                return MathNode("fenced", parts=(left, *inside, self._fence("close", "right")))
            case "begin":
                return self._environment(self._raw(name))
        raise self.error(f"unknown command \\{name}")

    def _take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _skip_spaces(self) -> None:
        while self.token.isspace():
            self.at += 1

    def _argument(self, owner: str) -> MathNode:
        """Read a command's argument: a group in braces, or a single node."""
        self._skip_spaces()
        if self.token in _ENDS:
            raise self.error(f"missing argument after {owner}")
        return self._thing()

    def _expect(self, end: str, start: str) -> None:
        if self.token != end:
            raise self.error(f"{start} without {end}")
        self.at += 1

    def _raw(self, owner: str) -> str:
        """Read the characters in braces without parsing them."""
        self._expect("{", f"\\{owner}")
        text = ""
        while self.token not in ("", "}"):
            token = self._take()
            command = token[0] == "\\" and token not in (*_SYMBOLS["escaped"], r"\ ")
            if command or token in "{^_$":
                raise self.error(f"{token} is not allowed in \\{owner}{{}}")
            text += token.removeprefix("\\")
        self._expect("}", f"\\{owner}{{")
        return text

    def _fence(self, kind: str, side: str) -> MathNode:
        token = self._take() if self.token else ""
        drawn = {**_SYMBOLS[kind], **_SYMBOLS["bar"]}
        if token not in drawn:
            name = token.removeprefix("\\")
            raise self.error(f"\\{side} needs a parenthesis after it, not {name!r}")
        return MathNode(kind, drawn[token])

    def _environment(self, kind: str) -> MathNode:
        if kind not in ("bmatrix", "aligned"):
            raise self.error(f"unknown environment \\begin{{{kind}}}")
        rows: list[list[MathNode]] = [[]]
        while True:
            rows[-1].append(MathNode("cell", parts=self.row(("&", r"\\", r"\end"))))
            if not self.token:
                raise self.error(f"\\begin{{{kind}}} without \\end{{{kind}}}")
            mark = self._take()
            if mark == r"\\":
                rows.append([])
            elif mark == r"\end":
                break
        if (ended := self._raw("end")) != kind:
            raise self.error(f"\\begin{{{kind}}} ends with \\end{{{ended}}}")
        return MathNode(kind, parts=tuple(MathNode("row", parts=tuple(row)) for row in rows))
