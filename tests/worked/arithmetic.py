"""A calculator for formulas in LaTeX: it computes exactly what is written.

The numbers in a formula and the result in the trace are obtained in two different ways; this file
computes the formula, so that the two can be compared.
"""

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.parts.positions import rotate


class _Identity:
    """The identity matrix, of any size."""

    def __rmatmul__(self, other: Tensor) -> Tensor:
        return other


def _turn(*angles: float) -> "_Rotation":
    return _Rotation(torch.tensor([[angles]], dtype=torch.float64))


class _Rotation:
    def __init__(self, angles: Tensor) -> None:
        self.angles = angles

    def __matmul__(self, x: Tensor) -> Tensor:
        return rotate(x.T[None, None], self.angles)[0, 0].T


def _tensor(value: float | bool | Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def _matrix(text: str) -> str:
    rows = [f"[{row.replace('&', ',')}]" for row in text.split(r"\\")]
    return f"M([{','.join(rows)}])"


NAMES = {
    "M": lambda rows: torch.tensor(rows, dtype=torch.float64),
    "I": _Identity(),
    "R": _turn,
    "inf": math.inf,
    "sqrt": lambda x: _tensor(x).sqrt(),
    "ln": math.log,
    "exp": lambda x: torch.exp(_tensor(x)),
    "tanh": lambda x: torch.tanh(_tensor(x)),
    "sigma": lambda x: torch.sigmoid(_tensor(x)),
    "ReLU": lambda x: torch.relu(_tensor(x)),
    "GELU": lambda x: F.gelu(_tensor(x)),
    "SiLU": lambda x: F.silu(_tensor(x)),
    "Phi": lambda x: torch.special.ndtr(_tensor(x)),
    "varphi": lambda x: torch.exp(-(_tensor(x) ** 2) / 2) / math.sqrt(2 * math.pi),
    "min": lambda x, y: torch.minimum(_tensor(x), _tensor(y)),
    "max": lambda x, y: torch.maximum(_tensor(x), _tensor(y)),
    "id": lambda x: x,
    "one": _tensor,
    "where": lambda mask, x, other: torch.where(mask.bool(), x, other),
    "concat": lambda *heads: torch.cat(heads, dim=1),
    "rowsum": lambda x: x.sum(dim=1, keepdim=True) if isinstance(x, Tensor) else x,
    "rowmax": lambda x: x.max(dim=1, keepdim=True).values,
    "diag": lambda x: torch.diag(x.flatten()),
    "dot": lambda x, y: (x * y).sum(),
    "square": lambda x: (x**2).sum(),
}


def compute(numbers: str) -> Tensor:
    """The value of a formula that contains only numbers."""
    text = numbers.replace("{,}", "").replace(r"\infty", "inf").replace(r"\,", " ")
    text = re.sub(r"(?<![}\d])10\^\{(-?\d+)\}", r"1e\1", text)
    text = re.sub(r"\{\\cdot\}10\^\{(-?\d+)\}", r"e\1", text)
    text = re.sub(
        r"\\begin\{bmatrix\}(.*?)\\end\{bmatrix\}", lambda m: _matrix(m[1]), text, flags=re.S
    )
    text = text.replace(r"^{\top}", ".T").replace("^2", "**2")
    text = re.sub(r"(M\([^()]*\)) \\cdot (M\([^()]*\))", r"dot(\1, \2)", text)
    text = text.replace(r"\cdot", "*").replace(r"\odot", "*")
    text = re.sub(r"\\lVert (.*?) \\rVert\*\*2", r"square(\1)", text)
    text = re.sub(r"\\frac\{1\}\{(\d+)\} ", r"1 / \1 * ", text)
    text = re.sub(r"\\ln ([\d.e-]+)", r"ln(\1)", text)
    text = re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", text)
    text = re.sub(r"\\(?:textstyle *)?\\?sum(?:_[jk])? (M\(.*?\]\]\)|[\d.]+)", r"rowsum(\1)", text)
    text = re.sub(r"\\textstyle\\sum_j \((.*)\)\*\*2$", r"rowsum((\1)**2)", text)
    text = re.sub(r"\\textstyle\\sum_k \(", "rowsum(", text)
    text = re.sub(r"\\max(?:_k)? (M\(.*?\]\]\))", r"rowmax(\1)", text)
    text = text.replace(r"\mathbf{1}", "one")
    text = re.sub(r"\\mathrm\{(\w+)\}", r"\1", text)
    text = re.sub(r"\\(exp|tanh|sigma|max|min|Phi|varphi)", r"\1", text)
    text = re.sub(r"(\)|\.T) +(?=M\(|I|\()", r"\1 @ ", text)  # adjacent factors: a matrix product
    assert "\\" not in text, f"cannot compute {text} from {numbers}"
    return _tensor(eval(text, {"__builtins__": {}}, NAMES))
