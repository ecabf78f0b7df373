"""Write numbers, tensors, and formulas with numbers as LaTeX.

Numbers with few decimals are written exactly (1, 0.25); others are rounded to `digits` decimals, so
0.250 means a rounded value, not exactly 1/4. Vectors are columns, as in W x.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from translucid.core import catalogue

NOISE = 1e-13  # rounding errors of float64 up to this size are written as 0
_LARGE = 1e7  # larger numbers are written with powers of ten


def number(value: float, digits: int, noise: float = NOISE) -> str:
    """Write one number as LaTeX."""
    if math.isnan(value):
        return r"\mathrm{NaN}"
    if math.isinf(value):
        return r"\infty" if value > 0 else r"-\infty"
    if abs(value) <= noise:
        return "0"
    if abs(value) < 0.5 * 10.0**-digits or abs(value) >= _LARGE:
        mantissa, exponent = f"{value:.{max(digits - 1, 1)}e}".split("e")
        return rf"{mantissa}{{\cdot}}10^{{{int(exponent)}}}"
    rounded = f"{value:.{digits}f}"
    if math.isclose(float(rounded), value, rel_tol=1e-12, abs_tol=NOISE):
        rounded = rounded.rstrip("0").rstrip(".") if "." in rounded else rounded
    return rounded


def is_rounded(value: float, digits: int, noise: float = NOISE) -> bool:
    """Whether `number` writes the value inexactly."""
    if not math.isfinite(value):
        return False
    written = number(value, digits, noise).replace(r"{\cdot}10^{", "e").replace("}", "")
    return not math.isclose(float(written), value, rel_tol=1e-12, abs_tol=noise)


def count(value: int) -> str:
    """Write a whole number with thousands separators: 1{,}769{,}472."""
    return f"{value:,}".replace(",", "{,}")


def write(value: Tensor, digits: int, noise: float = NOISE) -> str:
    """Write a scalar, column vector or matrix as LaTeX."""
    if value.dtype == torch.bool:
        value = value.to(torch.float64)
    if value.numel() == 1:
        return number(value.item(), digits, noise)
    rows = value[:, None] if value.dim() == 1 else value
    assert rows.dim() == 2, f"only tensors with up to two axes can be written, not {value.dim()}"
    lines = [" & ".join(number(entry, digits, noise) for entry in row) for row in rows.tolist()]
    return r"\begin{bmatrix} " + r" \\ ".join(lines) + r" \end{bmatrix}"


# These private use characters enclose numbers in a template until the operators between them are
# inserted: 2 3 becomes 2 · 3.
_OPEN, _CLOSE = "\ue000", "\ue001"
_BARE = re.compile(rf"(^|[(\[{{,]\s*|^\s*){_OPEN}(-[^{_CLOSE}]*){_CLOSE}(?!\^)")
_NEGATIVE = re.compile(rf"{_OPEN}(-[^{_CLOSE}]*|[^{_CLOSE}]*cdot[^{_CLOSE}]*){_CLOSE}")


@dataclass
class Writer:
    """Writes the formulas of one part, with symbols or with numbers."""

    digits: int
    rounded: bool = False  # whether any number has been rounded so far

    def number(self, value: float, noise: float = NOISE) -> str:
        self.rounded = self.rounded or is_rounded(value, self.digits, noise)
        return number(value, self.digits, noise)

    def value(self, value: Tensor, noise: float = NOISE) -> str:
        entries = value.flatten().tolist()
        self.rounded = self.rounded or any(is_rounded(v, self.digits, noise) for v in entries)
        return write(value, self.digits, noise)

    def numbers(
        self,
        template: str,
        part: str,
        values: Mapping[str, Tensor | str],
        absent: Collection[str] = (),
        noise: float = NOISE,
    ) -> str:
        """Fill the values into a template; text values are inserted unchanged."""
        used = {name: value for name, value in values.items() if f"<{name}>" in template}
        written = {name: self._operand(value, noise) for name, value in used.items()}
        return _mend(catalogue.fill(template, part, written, absent))

    def _operand(self, value: Tensor | str, noise: float) -> str:
        if isinstance(value, str):
            return value
        text = self.value(value, noise)
        return text if value.numel() > 1 else f"{_OPEN}{text}{_CLOSE}"


def _mend(text: str) -> str:
    """Insert dots between numeric factors and parentheses around negative operands."""
    end_of_matrix, matrix = r"\\end\{bmatrix\}", r"\\begin\{bmatrix\}"
    text = re.sub(rf"({_CLOSE})\^\{{\\top\}}", r"\1", text)  # a number is its own transpose
    text = re.sub(rf"(?<=\))\s+(?={_OPEN})", r" \\cdot ", text)
    text = re.sub(rf"(?<={_CLOSE})\s+(?={_OPEN}|{matrix}|\()", r" \\cdot ", text)
    text = re.sub(rf"({end_of_matrix}(?:\^\{{\\top\}})?)\s+(?={_OPEN})", r"\1 \\cdot ", text)
    if r"\begin{bmatrix}" not in text:  # for single numbers, an element-wise product is a product
        text = text.replace(r"\odot", r"\cdot")
    text = _BARE.sub(r"\1\2", text)
    text = _NEGATIVE.sub(r"(\1)", text)
    return text.replace(_OPEN, "").replace(_CLOSE, "")
