r"""The LaTeX of the catalogue and of worked solutions as MathML, which browsers show by themselves.

Tokens become a tree of MathML elements, and the tree a text. Only what formulas here use is
understood: any other command is an error, so that nothing is shown that is silently wrong.
"""

import re
import unicodedata
from collections.abc import Sequence
from xml.etree.ElementTree import Element, tostring

from translucid.errors import InputError

_NUMBER = r"(?:\d+(?:\{,\}\d{3})*(?:\.\d+)?|\.\d+)"  # 1{,}234.5: its commas part no list
_TOKEN = re.compile(rf"\\[A-Za-z]+|\\.|{_NUMBER}|\s+|.", re.S)

_LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η",
    "theta": "θ", "mu": "μ", "pi": "π", "sigma": "σ", "ell": "ℓ", "partial": "∂", "infty": "∞",
    "top": "⊤", "ldots": "…",
}  # fmt: skip
_FUNCTIONS = ("exp", "tanh", "log", "ln", "sin", "cos", "max")
_SIGNS = {  # between two things
    "cdot": "⋅", "odot": "⊙", "times": "×", "le": "≤", "ge": "≥", "approx": "≈", "leftarrow": "←",
    "to": "→", "+": "+", "-": "−", "*": "∗", "/": "/", "=": "=", "<": "<", ">": ">",
}  # fmt: skip
_MARKS = {",": ",", ";": ";", ":": ":"}
_OPENING = {"(": "(", "[": "[", "lVert": "‖"}
_CLOSING = {")": ")", "]": "]", "rVert": "‖"}
_BARS = {"|": "|", "vert": "|"}  # they open and close alike
_SPACES = {",": "0.167em", ":": "0.222em", ";": "0.278em", " ": "0.25em", "quad": "1em",
           "qquad": "2em"}  # fmt: skip
_ACCENTS = {"hat": "^", "tilde": "~", "bar": "¯"}
_ALPHABETS = {"mathbf": "MATHEMATICAL BOLD", "mathcal": "MATHEMATICAL SCRIPT"}
_DIGITS = ("ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE")
_ESCAPED = "{}_%&#$"
_APPLY = "\N{FUNCTION APPLICATION}"
_UNDER = ("max", "∑")  # what stands at them goes below, where there is room
_PRIMES = {1: "′", 2: "″", 3: "‴"}
_GAPS = {"∗": "0.222em", "⊙": "0.222em", "/": "0.1em"}  # as TeX has them; browsers have others


def mathml(latex: str, *, display: bool = False) -> str:
    """A formula as a <math> element; `display` sets it on a line of its own."""
    parser = _Parser(latex, display)
    root = _element("math", *parser.row(()))
    root.set("xmlns", "http://www.w3.org/1998/Math/MathML")
    if display:
        root.set("display", "block")
    if parser.token:
        raise parser.error(f"{parser.token} closes nothing")
    return tostring(root, encoding="unicode")


class _Parser:
    """Walks along the tokens; every method leaves it behind what the method has read."""

    def __init__(self, latex: str, display: bool) -> None:
        self.latex, self.roomy = latex, display
        self.tokens = _TOKEN.findall(latex)
        self.at = 0

    @property
    def token(self) -> str:
        """The next token, which may be a space; nothing at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def error(self, said: str) -> InputError:
        return InputError(f"formula {self.latex!r:.200}: {said}")

    def row(self, ends: Sequence[str]) -> list[Element]:
        """Elements up to one of the end tokens, which is left in place."""
        found: list[Element] = []
        roomy = self.roomy
        while self.token and self.token not in ends:
            if self.token in ("}", r"\right", r"\end", "&", r"\\"):
                raise self.error(f"{self.token} closes nothing")
            if self.token.isspace():
                self.at += 1
            elif self.token == r"\textstyle":
                self.at += 1
                self.roomy = False
                found.append(_element("mstyle", *self.row(ends), displaystyle="false"))
            else:
                found += self._with_scripts(found[-1] if found else None)
        self.roomy = roomy
        return found

    def _with_scripts(self, before: Element | None) -> list[Element]:
        """One thing with all that stands above and below to its right."""
        scripted = self.token in ("_", "^", "'")
        base = [_element("mrow")] if scripted else self._thing(before)
        below, above = self._scripts()
        if below or above:
            base[-1] = self._scripted(base[-1], below, above)
        return [*base, *self._applied()] if _is_function(base[-1]) else base

    def _scripts(self) -> tuple[list[Element], list[Element]]:
        below: list[Element] = []
        above: list[Element] = []
        primes = 0
        while self.token in ("_", "^", "'"):
            kind = self._take()
            if kind == "'":
                primes += 1
                continue
            wanted = below if kind == "_" else above
            if wanted:
                raise self.error(f"two {kind} at one thing; put the first into braces")
            wanted.append(self._argument(kind))
        if primes:
            drawn = _PRIMES.get(primes, "′" * primes)
            above.insert(0, _element("mo", text=drawn, lspace="0", rspace="0"))
        return below, above

    def _scripted(self, base: Element, below: list[Element], above: list[Element]) -> Element:
        under = base.text in _UNDER and self.roomy
        both, one = ("munderover", "munder") if under else ("msubsup", "msub")
        if below and above:
            return _element(both, base, _joined(below), _joined(above))
        if below:
            return _element(one, base, _joined(below))
        return _element("mover" if under else "msup", base, _joined(above))

    def _applied(self) -> list[Element]:
        """What stands between a function and what it is taken of: a gap, if no parenthesis."""
        while self.token.isspace():
            self.at += 1
        opened = self.token in ("(", "[", r"\left", "")
        gap = [] if opened else [_element("mspace", width=_SPACES[","])]
        return [_element("mo", text=_APPLY), *gap]

    def _thing(self, before: Element | None) -> list[Element]:
        token = self._take()
        if token == "{":
            return [self._group()]
        if token.startswith("\\") and token[1:] not in (*_SIGNS, *_OPENING, *_CLOSING, *_BARS):
            return [self._command(token[1:])]
        return [self._sign(token, before)]

    def _sign(self, token: str, before: Element | None) -> Element:
        name = token.removeprefix("\\")
        if name in _SIGNS:
            sign = _element("mo", text=_SIGNS[name])
            if name in "+-" and _expects_more(before):
                sign.set("form", "prefix")  # a minus, not a difference
            if gap := _GAPS.get(_SIGNS[name]):
                sign.attrib.update(lspace=gap, rspace=gap)
            return sign
        if name in _MARKS:
            return _element("mo", text=_MARKS[name], separator="true")
        for fences, form in ((_OPENING, "prefix"), (_CLOSING, "postfix")):
            if name in fences:
                return _element("mo", text=fences[name], form=form, stretchy="false")
        if name in _BARS:
            form = "prefix" if _expects_more(before) else "postfix"
            return _element("mo", text=_BARS[name], form=form, stretchy="false")
        if re.fullmatch(_NUMBER, name):
            return _element("mn", text=name.replace("{,}", ","))
        if name.isalpha():
            return _element("mi", text=name)
        raise self.error(f"the sign {token} is not known")

    def _command(self, name: str) -> Element:
        if name in _LETTERS:
            return _element("mi", text=_LETTERS[name])
        if name in _FUNCTIONS:
            return _element("mi", text=name)
        if name in _SPACES:
            return _element("mspace", width=_SPACES[name])
        if name in _ESCAPED:
            return _element("mtext", text=name)
        match name:
            case "sum":
                return _element("mo", text="∑")
            case "frac":
                return _element("mfrac", self._argument(name), self._argument(name))
            case "sqrt":
                return _element("msqrt", self._argument(name))
            case "hat" | "tilde" | "bar":
                accent = _element("mo", text=_ACCENTS[name], stretchy="false")
                return _element("mover", self._argument(name), accent, accent="true")
            case "mathrm" | "text" | "mathbf" | "mathcal":
                return self._words(name)
            case "left":
                return self._fenced()
            case "begin":
                return self._environment(self._raw(name))
        raise self.error(f"the command \\{name} is not known")

    def _take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _argument(self, owner: str) -> Element:
        """What stands in braces, or the one thing that follows."""
        while self.token.isspace():
            self.at += 1
        if self.token in ("", "}", "&", r"\\", r"\right", r"\end"):
            raise self.error(f"something is missing after {owner}")
        return _joined(self._thing(None))

    def _group(self) -> Element:
        """What stands in braces; a sign alone keeps no distance, as in 2{\\cdot}10."""
        inside = self.row(("}",))
        self._expect("}", "{")
        if len(inside) == 1 and inside[0].tag == "mo":
            inside[0].attrib.update(lspace="0", rspace="0")
        return _joined(inside)

    def _expect(self, end: str, start: str) -> None:
        if self.token != end:
            raise self.error(f"{start} without {end}")
        self.at += 1

    def _raw(self, owner: str) -> str:
        """The letters in braces, as they stand."""
        self._expect("{", f"\\{owner}")
        found = ""
        while self.token not in ("", "}"):
            token = self._take()
            command = token[0] == "\\" and token[1:] not in (*_ESCAPED, " ")
            if command or token in "{^_$":
                raise self.error(f"{token} cannot stand in \\{owner}{{}}")
            found += token.removeprefix("\\")
        self._expect("}", f"\\{owner}{{")
        return found

    def _words(self, style: str) -> Element:
        text = self._raw(style)
        if style == "text":
            return _element("mtext", text=text.replace(" ", "\N{NO-BREAK SPACE}"))
        if style == "mathrm":
            word = _element("mi", text=text)
            if len(text) == 1:
                word.set("mathvariant", "normal")  # a single letter would lean
            return word
        drawn = "".join(self._drawn(letter, style) for letter in text)
        return _element("mn" if text.isdigit() else "mi", text=drawn)

    def _drawn(self, letter: str, style: str) -> str:
        """The letter of another alphabet: browsers know no other way to write it."""
        alphabet = _ALPHABETS[style]
        if letter.isdecimal():
            names = [f"{alphabet} DIGIT {_DIGITS[int(letter)]}"]
        else:
            size = "CAPITAL" if letter.isupper() else "SMALL"
            names = [f"{alphabet} {size} {letter.upper()}", f"SCRIPT {size} {letter.upper()}"]
        for name in names:
            try:
                return unicodedata.lookup(name)
            except KeyError:
                continue
        raise self.error(f"there is no {letter} in the letters of \\{style}")

    def _fenced(self) -> Element:
        """Between \\left and \\right: parentheses as tall as what they hold."""
        left = self._fence(_OPENING, "left")
        inside = self.row((r"\right",))
        self._expect(r"\right", r"\left")
        return _element("mrow", left, *inside, self._fence(_CLOSING, "right"))

    def _fence(self, known: dict[str, str], side: str) -> Element:
        name = self._take().removeprefix("\\") if self.token else ""
        if name not in {**known, **_BARS}:
            raise self.error(f"\\{side} needs a parenthesis after it, not {name!r}")
        form = "prefix" if side == "left" else "postfix"
        return _element("mo", text={**known, **_BARS}[name], form=form, stretchy="true")

    def _environment(self, kind: str) -> Element:
        if kind not in ("bmatrix", "aligned"):
            raise self.error(f"\\begin{{{kind}}} is not known")
        rows: list[list[Element]] = [[]]
        while True:
            rows[-1].append(_element("mtd", *self.row(("&", r"\\", r"\end"))))
            if not self.token:
                raise self.error(f"\\begin{{{kind}}} without \\end{{{kind}}}")
            mark = self._take()
            if mark == r"\\":
                rows.append([])
            elif mark == r"\end":
                break
        if (ended := self._raw("end")) != kind:
            raise self.error(f"\\begin{{{kind}}} ends with \\end{{{ended}}}")
        return _matrix(rows) if kind == "bmatrix" else _aligned(rows)


def _matrix(rows: list[list[Element]]) -> Element:
    table = _element("mtable", *(_element("mtr", *row) for row in rows))
    left = _element("mo", text="[", form="prefix", stretchy="true")
    right = _element("mo", text="]", form="postfix", stretchy="true")
    return _element("mrow", left, table, right)


def _aligned(rows: list[list[Element]]) -> Element:
    """Lines whose = stand below each other."""
    for row in rows:
        for place, cell in enumerate(row):
            side = "left" if place % 2 else "right"
            cell.set("style", f"text-align: {side}; padding-left: 0; padding-right: 0")
    return _element("mtable", *(_element("mtr", *row) for row in rows), displaystyle="true")


def _element(tag: str, *children: Element, text: str = "", **attributes: str) -> Element:
    made = Element(tag, attributes)
    made.extend(children)
    made.text = text or None
    return made


def _joined(elements: Sequence[Element]) -> Element:
    return elements[0] if len(elements) == 1 else _element("mrow", *elements)


def _is_function(element: Element) -> bool:
    core = element[0] if element.tag in ("msub", "munder", "msup", "mover", "msubsup") else element
    return core.tag == "mi" and core.text in _FUNCTIONS


def _expects_more(before: Element | None) -> bool:
    """May no minus be taken off what stands before, because that is no term?"""
    if before is None:
        return True
    return before.tag == "mo" and before.get("form") != "postfix"
