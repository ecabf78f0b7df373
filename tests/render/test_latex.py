"""One reader, two writers: what a browser shows and what a terminal shows is the same formula."""

import unicodedata
from collections.abc import Callable
from xml.etree.ElementTree import fromstring

import pytest

from translucid.core import catalogue
from translucid.core.errors import InputError
from translucid.see.render.latex import MathNode, read, with_formulas
from translucid.see.render.mathml import mathml
from translucid.see.render.plain_math import blocks, in_row, one_line


def letters(text: str) -> str:
    """Letters and digits without size, style and accents; drawn signs that are letters left out."""
    text = text.replace("ᵀ", "").replace("Σ", "")
    return "".join(c for c in unicodedata.normalize("NFKD", text) if c.isalnum())


@pytest.mark.parametrize("key", catalogue.CATALOGUE)
def test_both_writers_show_the_same_letters_in_the_same_order(key: str) -> None:
    point = catalogue.CATALOGUE[key]
    forms = [catalogue.formula(key, words=form.split()) for form in ("", *point.forms)]
    for latex in (point.symbol, *forms):
        shown = "".join(fromstring(mathml(latex)).itertext())
        assert letters(one_line(latex)) == letters(shown), latex


@pytest.mark.parametrize("write", [mathml, one_line])
@pytest.mark.parametrize(
    "latex", [r"\wrong{x}", r"\frac{1}", "x_", "{x", "x}", r"\left( x", "x_a_b", "a ? b"]
)
def test_both_writers_refuse_unknown_commands(latex: str, write: Callable[[str], str]) -> None:
    with pytest.raises(InputError, match="formula"):
        write(latex)


def test_the_tree_keeps_what_was_written() -> None:
    x, two = MathNode("letter", "x"), MathNode("number", "2")
    assert read("x_{t}^2") == (
        MathNode(
            "scripts", parts=(x, MathNode("_", parts=(group("t"),)), MathNode("^", parts=(two,)))
        ),
    )
    assert read("x_t^2")[0].core == x
    assert read(r"\frac{x}2") == (MathNode("frac", parts=(group("x"), two)),)
    matrix = read(r"\begin{bmatrix}x&2\end{bmatrix}")
    cells = (MathNode("cell", parts=(x,)), MathNode("cell", parts=(two,)))
    assert matrix == (MathNode("bmatrix", parts=(MathNode("row", parts=cells),)),)


def group(letter: str) -> MathNode:
    return MathNode("group", parts=(MathNode("letter", letter),))


@pytest.mark.parametrize(
    ("latex", "shown"),
    [
        (r"(a + (b)^2)^{\top}", "(a + (b)²)ᵀ"),
        (r"[0, 1)", "[0, 1)"),  # an interval: the two ends differ
        (r"(x", "(x"),
        (r"\left\lVert x \right\rVert", "‖ x ‖"),
        (r"a \qquad b", "a      b"),
    ],
)
def test_parentheses_in_plain_text(latex: str, shown: str) -> None:
    assert one_line(latex) == shown


def test_tall_parentheses() -> None:
    column = r"\begin{bmatrix} 1 \\ 2 \\ 3 \end{bmatrix}"
    assert in_row(blocks(rf"[{column})")).lines == ("⎡⎡1⎤⎞", "⎢⎢2⎥⎟", "⎣⎣3⎦⎠")
    assert in_row(blocks(rf"\left\lVert{column}\right\rVert^2")).lines == (
        "‖⎡1⎤‖²", "‖⎢2⎥‖ ", "‖⎣3⎦‖ ",
    )  # fmt: skip


def test_a_function_has_a_space_before_its_argument_only() -> None:
    assert "mspace" in mathml(r"\max x")
    assert "mspace" not in mathml(r"n_{\max} \cdot \exp(x)")


def test_plain_text_has_no_aligned_lines() -> None:
    with pytest.raises(InputError, match="aligned"):
        one_line(r"\begin{aligned} a &= b \end{aligned}")


def test_a_text_with_formulas_comes_back_as_it_was() -> None:
    text = r"Slope at $z$: $\theta_0$, twice $5$."
    assert with_formulas(text, str) == text
    assert with_formulas("a $b$ c", str.upper, "<{}>".format) == "A <b> C"
