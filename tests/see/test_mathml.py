"""LaTeX to MathML: everything the library writes, and the structure of what comes out."""

import re
from xml.etree.ElementTree import Element, fromstring

import pytest
import torch
from tests.worked.test_solutions import SOLUTIONS

from translucid.core import catalogue
from translucid.core.errors import InputError
from translucid.see.render.mathml import mathml
from translucid.worked.solution.document import aligned, grown
from translucid.worked.solution.notation import write


def parsed(latex: str, *, display: bool = False) -> Element:
    """The tree that a browser sees, without the namespace in its tags."""
    root = fromstring(mathml(latex, display=display))
    for element in root.iter():
        element.tag = element.tag.removeprefix("{http://www.w3.org/1998/Math/MathML}")
    return root


def inside(latex: str, *, display: bool = False) -> Element:
    """The one element of a formula that has one."""
    [only] = parsed(latex, display=display)
    return only


def shape(element: Element) -> str:
    """A tree in one line: msub(mi:W mi:Q)."""
    children = " ".join(shape(child) for child in element)
    return (
        element.tag
        + (f":{element.text}" if element.text else "")
        + f"({children})" * bool(children)
    )


CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2}
NAMED = re.compile(
    r"exp|tanh|log|ln|sin|cos|max|min"
)  # functions: commands in LaTeX, words in MathML
SILENT = re.compile(r"\\(?:begin|end)\{\w+\}|\\math(?:cal|bf)\{\w\}|\\[A-Za-z]+")


def check_tree(latex: str, *, display: bool = False) -> None:
    """Well-formed, with the children that MathML asks for, and with every letter and digit."""
    root = parsed(latex, display=display)
    for element in root.iter():
        if element.tag in CHILDREN:
            assert len(element) == CHILDREN[element.tag], latex
        if element.tag in ("mi", "mn", "mo", "mtext"):
            assert element.text, latex
            assert len(element) == 0, latex
    texts = [element.text or "" for element in root.iter()]
    shown = "".join(text for text in texts if not NAMED.fullmatch(text))
    assert plain(shown) == plain(SILENT.sub("", latex)), latex


def plain(text: str) -> str:
    return "".join(letter for letter in text if letter.isascii() and letter.isalnum())


@pytest.mark.parametrize("key", catalogue.CATALOGUE)
def test_every_formula_of_the_catalogue(key: str) -> None:
    point = catalogue.CATALOGUE[key]
    for display in (False, True):
        check_tree(point.symbol, display=display)
        for words in ("", *point.forms):
            check_tree(catalogue.formula(key, words=words.split()), display=display)


def formulas(kind: str) -> list[str]:
    """Every formula of a solution: displayed ones, and those within texts and tables."""
    solution = SOLUTIONS[kind]
    tables = [part.table for part in (*solution.given, *solution.steps) if part.table is not None]
    cells = [cell for table in tables for row in (table.header, *table.rows) for cell in row]
    texts = [solution.title, solution.closing, *solution.notes, *cells]
    texts += [given.symbol for given in solution.given if given.table is not None]
    texts += [text for step in solution.steps for text in (step.title, step.section, step.note)]
    found = [part for text in texts for part in text.split("$")[1::2]]
    found += [
        f"{given.symbol} = {grown(given.text)}" for given in solution.given if not given.table
    ]
    return found + [aligned(step) for step in solution.steps if step.sides()]


@pytest.mark.parametrize("kind", SOLUTIONS)
def test_every_formula_of_every_worked_solution(kind: str) -> None:
    found = formulas(kind)
    assert found
    for latex in found:
        check_tree(latex, display=True)


@pytest.mark.parametrize(
    ("latex", "wanted"),
    [
        ("x", "mi:x"),
        ("W_Q", "msub(mi:W mi:Q)"),
        ("K^{\\top}", "msup(mi:K mi:⊤)"),
        ("x_t^2", "msubsup(mi:x mi:t mn:2)"),
        ("x^2_t", "msubsup(mi:x mi:t mn:2)"),
        ("S''", "msup(mi:S mo:″)"),
        ("h'_t", "msubsup(mi:h mi:t mo:′)"),
        (r"\frac{1}{n}", "mfrac(mn:1 mi:n)"),
        (r"\sqrt{\sigma^2 + \epsilon}", "msqrt(mrow(msup(mi:σ mn:2) mo:+ mi:ε))"),
        (r"\hat{x}", "mover(mi:x mo:^)"),
        (r"\bar\ell", "mover(mi:ℓ mo:¯)"),
        (r"\mathcal{E}", "mi:ℰ"),
        (r"\mathcal{A}", "mi:𝒜"),
        (r"\mathbf{1}", "mn:𝟏"),
        (r"\mathrm{PE}", "mi:PE"),
        (r"\text{ is real}", "mtext:\xa0is\xa0real"),
        ("b^{2i/d}", "msup(mi:b mrow(mn:2 mi:i mo:/ mi:d))"),
        (r"1{,}769{,}472", "mn:1,769,472"),
        (r"\left( x \right)", "mrow(mo:( mi:x mo:))"),
    ],
)  # fmt: skip
def test_one_thing(latex: str, wanted: str) -> None:
    assert shape(inside(latex)) == wanted


def test_a_row_keeps_its_order() -> None:
    found = [shape(child) for child in parsed(r"\exp(x - \max x) < 1.5")]
    assert found == ["mi:exp", "mo:\u2061", "mo:(", "mi:x", "mo:−", "mi:max", "mo:\u2061",
                     "mspace", "mi:x", "mo:)", "mo:<", "mn:1.5"]  # fmt: skip


def test_a_minus_stands_close_to_its_number_and_between_two_terms() -> None:
    signs = [element for element in parsed("(-1 - 2) = -x").iter("mo") if element.text == "−"]
    assert [sign.get("form") for sign in signs] == ["prefix", None, "prefix"]


def test_a_sign_in_braces_keeps_no_distance() -> None:
    dot = next(parsed(r"2{\cdot}10^{-3}").iter("mo"))
    assert dot.text == "⋅"
    assert (dot.get("lspace"), dot.get("rspace")) == ("0", "0")


def test_what_is_below_a_sum_stands_under_it_only_where_there_is_room() -> None:
    assert inside(r"\sum_k", display=True).tag == "munder"
    assert inside(r"\sum_k").tag == "msub"
    small = inside(r"\textstyle\sum_k x", display=True)
    assert (small.tag, small.get("displaystyle"), small[0].tag) == ("mstyle", "false", "msub")
    assert inside(r"\sum_k^n", display=True).tag == "munderover"


@pytest.mark.parametrize("size", [(1, 2), (3, 1), (2, 3), (4, 4)])
def test_a_matrix_has_its_rows_its_cells_and_its_numbers(size: tuple[int, int]) -> None:
    values = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = inside(write(values, 3))
    assert [element.text for element in matrix] == ["[", None, "]"]
    rows = [["".join(cell.itertext()) for cell in row] for row in matrix[1]]
    found = torch.tensor([[float(cell.replace("−", "-")) for cell in row] for row in rows])
    assert found.shape == size
    torch.testing.assert_close(found.double(), values.round(decimals=3), atol=1e-6, rtol=0)


def test_aligned_lines_meet_at_their_equals_signs() -> None:
    table = inside(
        r"\begin{aligned} a &= b \\ &= \begin{bmatrix} 1 & 2 \end{bmatrix} \end{aligned}"
    )
    assert [["".join(cell.itertext()) for cell in row] for row in table] == [
        ["a", "=b"],
        ["", "=[12]"],
    ]
    for row in table:
        styles = [cell.get("style") or "" for cell in row]
        assert ["right" in styles[0], "left;" in styles[1]] == [True, True]


def test_what_people_wrote_is_escaped() -> None:
    assert parsed(r"\text{<b> & co}")[0].text == "<b>\xa0&\xa0co"
    assert "<b>" not in mathml(r"\text{<b>}")


def test_display_is_said_to_the_browser() -> None:
    assert parsed("x", display=True).get("display") == "block"
    assert parsed("x").get("display") is None


@pytest.mark.parametrize(
    ("latex", "message"),
    [
        (r"\wrong{x}", r"unknown command \\wrong"),
        (r"\begin{cases} x \end{cases}", r"unknown environment \\begin\{cases\}"),
        (r"\frac{1}", r"missing argument after frac"),
        (r"x_", r"missing argument after _"),
        ("{x", r"\{ without \}"),
        ("x}", r"\} closes nothing"),
        ("a & b", r"& closes nothing"),
        (r"\left( x", r"\\left without \\right"),
        (r"\left x \right)", r"\\left needs a parenthesis"),
        (r"x \right)", r"\\right closes nothing"),
        (r"\begin{bmatrix} 1", r"\\begin\{bmatrix\} without \\end\{bmatrix\}"),
        (r"\begin{bmatrix} 1 \end{aligned}", r"ends with \\end\{aligned\}"),
        ("x_a_b", "two _"),
        (r"\mathrm{\sum}", r"\\sum is not allowed in \\mathrm"),
        (r"\mathcal{é}", r"Unicode has no é for \\mathcal"),
        ("<query>?", r"unknown sign \?"),
    ],
)
def test_what_is_not_understood_is_named(latex: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        mathml(latex)
    assert isinstance(caught.value, ValueError)
