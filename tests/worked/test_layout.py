"""LaTeX as blocks of text."""

import pytest
import torch

from translucid.core import catalogue
from translucid.see.render.plain_math import (
    TextBlock,
    blocks,
    columns,
    flow,
    in_row,
    inline,
    one_line,
    words,
)
from translucid.worked.solution.notation import Writer, count, number, write


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"Q K^{\top}", "Q Kᵀ"),
        (r"1 / \sqrt{d_k}", "1 / √d_k"),
        (r"\frac{\partial L}{\partial \hat{y}}", "∂L/∂ŷ"),
        (r"\frac{1}{n} \sum (x - \mu)^2", "1/n Σ (x - μ)²"),
        (r"\frac{a + b}{c}", "(a + b) / c"),
        (r"\sigma(W x + U h_{t-1} + b_{hn})", "σ(W x + U hₜ₋₁ + b_hn)"),
        (r"f \odot c + (1 - z) \odot \tanh(n)", "f ⊙ c + (1 - z) ⊙ tanh(n)"),
        (r"\mathrm{PE}(p) / b^{2i/d}", "PE(p) / b^(2i/d)"),
        (r"\textstyle\sum_k \mathcal{E}", "Σ_k ℰ"),
        (r"-2.5{\cdot}10^{-5}", "-2.5·10⁻⁵"),
        (r"\sin\theta_0, \max_k S'", "sin θ₀, max_k S'"),
        (r"1{,}769{,}472", "1,769,472"),
        (r"[\,k \text{ is real}\,]", "[ k  is real ]"),
    ],
)
def test_one_line(latex: str, text: str) -> None:
    assert one_line(latex) == text


def test_every_formula_of_the_catalogue_can_be_written() -> None:
    for key, point in catalogue.CATALOGUE.items():
        assert one_line(point.symbol), key
        for form in ("", *point.forms):
            line = one_line(catalogue.formula(key, words=form.split()))
            assert "\\" not in line, key
            assert "<" not in line.replace(" < ", ""), key


def test_matrices_stand_on_one_baseline() -> None:
    square = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
    product = Writer(3).numbers(r"<q> <k>^{\top}", "", {"q": square, "k": square})
    box = flow(words(product + r" = " + write(square @ square.T, 3)), 80)[0]
    assert box.lines == (
        "⎡1 0⎤ ⎡1 0⎤ᵀ   ⎡1 0 1⎤",
        "⎢0 1⎥ ⎢0 1⎥  = ⎢0 1 1⎥",
        "⎣1 1⎦ ⎣1 1⎦    ⎣1 1 2⎦",
    )
    assert box.baseline == 1


def test_columns_align_at_the_point() -> None:
    table = torch.tensor([[0.5, -10], [-2, 0.125], [1, torch.inf]])
    assert in_row(blocks(write(table, 3))).lines == (
        "⎡ 0.5 -10    ⎤",
        "⎢-2     0.125⎥",
        "⎣ 1     ∞    ⎦",
    )


def test_a_line_breaks_before_an_operator() -> None:
    lines = flow(words("aaaa + bbbb = cccc dddd"), 11)
    assert [line.lines[0] for line in lines] == ["aaaa + bbbb", "= cccc dddd"]
    assert [line.lines[0] for line in flow(words("aaaa + bbbb"), 6)] == ["aaaa", "+ bbbb"]


def test_a_wide_matrix_loses_inner_columns_only() -> None:
    box = in_row(blocks(write(torch.arange(40.0).reshape(2, 20), 1), 30))
    assert box.width <= 30
    assert box.lines[0].startswith("⎡ 0  1")
    assert box.lines[0].endswith("… 19⎤")
    assert box.lines[1].endswith("… 39⎦")


def test_widths_are_those_of_a_terminal() -> None:
    assert columns("x\u0302") == 1
    assert columns("ŷ") == 1
    assert columns("語") == 2
    assert in_row([TextBlock(("語",)), TextBlock(("a", "b"))]).lines == ("語a", "  b")


def test_text_with_formulas() -> None:
    assert inline(r"Slope at $z$, $\theta_0$") == "Slope at z, θ₀"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.25, "0.25"),
        (0.2500001, "0.250"),
        (-0.0, "0"),
        (2.2415999999999996, "2.242"),
        (1.9599999999999997, "1.96"),
        (5e-17, "0"),
        (0.00049, r"4.90{\cdot}10^{-4}"),
        (0.0006, "0.001"),
        (-12345678.9, r"-1.23{\cdot}10^{7}"),
        (100.0, "100"),
        (float("-inf"), r"-\infty"),
        (float("nan"), r"\mathrm{NaN}"),
    ],
)
def test_a_number(value: float, text: str) -> None:
    assert number(value, 3) == text


def test_no_digits_and_no_noise() -> None:
    assert number(99.6, 0) == "100"
    assert number(100.0, 0) == "100"
    assert number(5e-17, 3, noise=0.0) == r"5.00{\cdot}10^{-17}"
    assert count(1769472) == "1{,}769{,}472"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("<a> <b> + <c>", r"2 \cdot (-3) + 0"),
        ("<b> <a>", r"-3 \cdot 2"),
        ("(<b> - <b>)^2", "(-3 - (-3))^2"),
        (r"\sigma(<b>)", r"\sigma(-3)"),
        (r"<a> \odot <b>", r"2 \cdot (-3)"),
        (r"<a> <m>", r"2 \cdot \begin{bmatrix} 1 \\ -1 \end{bmatrix}"),
        (r"<m> <a>", r"\begin{bmatrix} 1 \\ -1 \end{bmatrix} \cdot 2"),
        (r"<m> <m>^{\top}", "\\begin{bmatrix} 1 \\\\ -1 \\end{bmatrix} " * 2),
        (r"<a> <b>^{\top}", r"2 \cdot (-3)"),
        (r"<a> \odot <m>", r"2 \odot \begin{bmatrix} 1 \\ -1 \end{bmatrix}"),
        (r"<a> <tiny>", r"2 \cdot (1.00{\cdot}10^{-6})"),
        ("<b>^2", "(-3)^2"),
        (r"(<a> \odot <a>) <b>", r"(2 \cdot 2) \cdot (-3)"),
    ],
)
def test_numbers_put_into_a_formula(template: str, text: str) -> None:
    values = {"a": 2.0, "b": -3.0, "c": 0.0, "m": [1.0, -1.0], "tiny": 1e-6}
    tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
    written = Writer(3).numbers(template, "", dict(tensors))
    assert written.replace(r"^{\top}", " ").strip() == text.strip()
