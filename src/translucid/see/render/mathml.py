"""Formulas as MathML, which browsers display without a script."""

import unicodedata
from collections.abc import Sequence
from xml.etree.ElementTree import Element, tostring

from translucid.core.errors import InputError
from translucid.see.render.latex import MathNode, read

_SPACES = {r"\,": "0.167em", r"\:": "0.222em", r"\;": "0.278em", r"\ ": "0.25em", r"\quad": "1em",
           r"\qquad": "2em"}  # fmt: skip
_ACCENTS = {"hat": "^", "tilde": "~", "bar": "¯"}
_TAGS = {"letter": "mi", "function": "mi", "number": "mn", "escaped": "mtext"}
_ALPHABETS = {"mathbf": "MATHEMATICAL BOLD", "mathcal": "MATHEMATICAL SCRIPT"}
_APPLY = "\N{FUNCTION APPLICATION}"
_UNDER = ("max", "∑")  # in display style, their subscripts go below
_PRIMES = {1: "′", 2: "″", 3: "‴"}
_GAPS = {"∗": "0.222em", "⊙": "0.222em", "/": "0.1em"}  # TeX's spacing; browsers' differs


def mathml(latex: str, *, display: bool = False) -> str:
    """Convert a formula to a <math> element. display: put it on its own line."""
    root = _element("math", *_row(read(latex), display))
    root.set("xmlns", "http://www.w3.org/1998/Math/MathML")
    if display:
        root.set("display", "block")
    return tostring(root, encoding="unicode")


def _row(nodes: Sequence[MathNode], roomy: bool) -> list[Element]:
    """Convert nodes to elements. roomy: place the limits of a sum below and above it."""
    elements: list[Element] = []
    nodes = [node for node in nodes if node != MathNode("space", " ")]  # ignored, as in LaTeX
    for at, node in enumerate(nodes, 1):
        elements.append(_element_of(node, elements[-1] if elements else None, roomy))
        if node.core.kind == "function":
            elements.append(_element("mo", text=_APPLY))
            if at < len(nodes) and nodes[at].core.kind not in ("open", "fenced"):
                elements.append(_element("mspace", width=_SPACES[r"\,"]))
    return elements


def _element_of(node: MathNode, before: Element | None, roomy: bool) -> Element:
    match node.kind:
        case "letter" | "function" | "number" | "escaped":
            return _element(_TAGS[node.kind], text=node.text)
        case "sum" | "sign" | "mark" | "open" | "close" | "bar":
            return _operator(node, before)
        case "space":
            return _element("mspace", width=_SPACES[node.text])
        case "text" | "mathrm" | "mathbf" | "mathcal":
            return _words(node)
        case "textstyle":
            return _element("mstyle", *_row(node.parts, False), displaystyle="false")
        case "scripts":
            return _scripted(node.parts, before, roomy)
        case "fenced":
            left, *inside, right = node.parts
            return _fenced(left.text, _row(inside, roomy), right.text)
        case "group":
            return _group(_row(node.parts, roomy))
        case "cell":
            return _element("mtd", *_row(node.parts, roomy))
    parts = [_element_of(part, None, roomy) for part in node.parts]
    match node.kind:
        case "accent":
            mark = _element("mo", text=_ACCENTS[node.text], stretchy="false")
            return _element("mover", *parts, mark, accent="true")
        case "bmatrix":
            return _fenced("[", [_element("mtable", *parts)], "]")
        case "aligned":
            return _aligned(parts)
    return _element({"row": "mtr", "frac": "mfrac", "sqrt": "msqrt"}[node.kind], *parts)


def _operator(node: MathNode, before: Element | None) -> Element:
    operator = _element("mo", text=node.text)
    match node.kind:
        case "sign":
            if node.text in "+−" and _expects_more(before):
                operator.set("form", "prefix")  # a negative sign, not a subtraction
            if gap := _GAPS.get(node.text):
                operator.attrib.update(lspace=gap, rspace=gap)
        case "mark":
            operator.set("separator", "true")
        case "open" | "close" | "bar":
            opens = node.kind == "open" or (node.kind == "bar" and _expects_more(before))
            operator.attrib.update(form="prefix" if opens else "postfix", stretchy="false")
    return operator


def _expects_more(before: Element | None) -> bool:
    """Whether a + or - after this element is a sign rather than a binary operator."""
    if before is None:
        return True
    return before.tag == "mo" and before.get("form") != "postfix"


def _scripted(parts: Sequence[MathNode], before: Element | None, roomy: bool) -> Element:
    """A node with its sub- and superscripts."""
    base = _element_of(parts[0], before, roomy)
    below, above = (
        [_element_of(script.parts[0], None, roomy) for script in parts[1:] if script.kind == kind]
        for kind in "_^"
    )
    if primes := sum(script.kind == "'" for script in parts[1:]):
        drawn = _PRIMES.get(primes, "′" * primes)
        above.insert(0, _element("mo", text=drawn, lspace="0", rspace="0"))
    under = base.text in _UNDER and roomy
    both, one = ("munderover", "munder") if under else ("msubsup", "msub")
    if below and above:
        return _element(both, base, _joined(below), _joined(above))
    if below:
        return _element(one, base, _joined(below))
    return _element("mover" if under else "msup", base, _joined(above))


def _group(inside: list[Element]) -> Element:
    """The content of braces; a single operator gets no space around it, as in 2{\\cdot}10."""
    if len(inside) == 1 and inside[0].tag == "mo":
        inside[0].attrib.update(lspace="0", rspace="0")
    return _joined(inside)


def _words(node: MathNode) -> Element:
    text = node.text
    if node.kind == "text":
        return _element("mtext", text=text.replace(" ", "\N{NO-BREAK SPACE}"))
    if node.kind == "mathrm":
        word = _element("mi", text=text)
        if len(text) == 1:
            word.set("mathvariant", "normal")  # a single letter would be italic
        return word
    drawn = "".join(_in_alphabet(letter, node.kind) for letter in text)
    return _element("mn" if text.isdigit() else "mi", text=drawn)


def _in_alphabet(letter: str, style: str) -> str:
    """The bold or script form of a letter, as a Unicode character: browsers' MathML has no other
    way to write it."""
    name = unicodedata.name(letter, "").removeprefix("LATIN ").replace(" LETTER", "")
    for named in (f"{_ALPHABETS[style]} {name}", f"SCRIPT {name}"):
        try:
            return unicodedata.lookup(named)
        except KeyError:
            continue
    raise InputError(f"formula: Unicode has no {letter} for \\{style}")


def _fenced(left: str, inside: Sequence[Element], right: str) -> Element:
    """Put elements in parentheses that match their height."""
    first = _element("mo", text=left, form="prefix", stretchy="true")
    last = _element("mo", text=right, form="postfix", stretchy="true")
    return _element("mrow", first, *inside, last)


def _aligned(rows: list[Element]) -> Element:
    """Format the lines of an equation so that they align at =."""
    for row in rows:
        for place, cell in enumerate(row):
            side = "left" if place % 2 else "right"
            cell.set("style", f"text-align: {side}; padding-left: 0; padding-right: 0")
    return _element("mtable", *rows, displaystyle="true")


def _element(tag: str, *children: Element, text: str = "", **attributes: str) -> Element:
    made = Element(tag, attributes)
    made.extend(children)
    made.text = text or None
    return made


def _joined(elements: Sequence[Element]) -> Element:
    return elements[0] if len(elements) == 1 else _element("mrow", *elements)
