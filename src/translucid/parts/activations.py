"""Elementwise activations by name, and the softmax along the last axis."""

from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace

ActivationName = Literal[
    "identity", "sigmoid", "tanh", "relu", "gelu", "silu", "gelu_tanh", "quick_gelu", "relu_squared"
]  # fmt: skip


def identity(x: Tensor) -> Tensor:
    """Return x unchanged, so that the layer is an affine map."""
    return x


def gelu(x: Tensor) -> Tensor:
    """x Φ(x), with the exact normal distribution function (not the tanh approximation)."""
    return F.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))) / 2: the tanh approximation of the GELU.

    Hendrycks & Gimpel 2016, https://arxiv.org/abs/1606.08415
    """
    return F.gelu(x, approximate="tanh")


def quick_gelu(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x): a coarser approximation of the GELU, from the same paper as
    `gelu_tanh`."""
    return x * torch.sigmoid(1.702 * x)


def relu_squared(x: Tensor) -> Tensor:
    """max(0, x)². So et al. 2021, https://arxiv.org/abs/2109.08668"""
    return torch.relu(x).square()


ACTIVATIONS: dict[ActivationName, Callable[[Tensor], Tensor]] = {
    "identity": identity,
    "sigmoid": torch.sigmoid,  # 1 / (1 + e^-x), slope at most 1/4
    "tanh": torch.tanh,  # slope at most 1, reached at 0
    "relu": torch.relu,  # max(0, x), slope 0 at x = 0
    "gelu": gelu,
    "silu": F.silu,  # x sigmoid(x)
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "relu_squared": relu_squared,
}
assert set(ACTIVATIONS) == set(get_args(ActivationName))

SYMBOLS: dict[ActivationName, str] = {
    "identity": r"\mathrm{id}",
    "sigmoid": r"\sigma",
    "tanh": r"\tanh",
    "relu": r"\mathrm{ReLU}",
    "gelu": r"\mathrm{GELU}",
    "silu": r"\mathrm{SiLU}",
    "gelu_tanh": r"\mathrm{GELU}_{\tanh}",
    "quick_gelu": r"\mathrm{GELU}_{\sigma}",
    "relu_squared": r"\mathrm{ReLU}^2",
}


def symbol(activation: Callable[[Tensor], Tensor]) -> str:
    """The LaTeX symbol of an activation; `act` for one that is not in the table."""
    names = (name for name, function in ACTIVATIONS.items() if function is activation)
    return next((SYMBOLS[name] for name in names), r"\mathrm{act}")


def softmax(x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
    """e^x / Σ e^x along the last axis; a row in which every entry is -inf gives zeros, not NaN.

    The largest entry (`shift`) is subtracted first to keep the exponentials in range. Editing
    `shift` to 0 gives the textbook form, which overflows.
    """
    if not x.shape[-1]:  # an empty source has no largest entry
        return x
    if not trace.wants("shift", "exponentials", "normaliser"):
        hidden = x.detach().amax(dim=-1, keepdim=True) == -torch.inf  # (..., 1)
        if x.requires_grad:  # else the gradient of such a row would be NaN: 0 times its NaN
            x = x.masked_fill(hidden, 0.0)
        return torch.softmax(x, dim=-1).masked_fill(hidden, 0.0)
    shift = x.detach().amax(dim=-1, keepdim=True)  # (..., 1)
    shift = trace("shift", shift.masked_fill(shift == -torch.inf, 0.0))
    exponentials = trace("exponentials", torch.exp(x - shift))
    normaliser = trace("normaliser", exponentials.sum(dim=-1, keepdim=True))  # (..., 1)
    return exponentials / normaliser.masked_fill(normaliser == 0.0, 1.0)


def as_log_probs(logits: Tensor) -> Tensor:
    """Log-probabilities in float32 or float64, since sums over a text need the precision."""
    return (logits if logits.dtype is torch.float64 else logits.float()).log_softmax(dim=-1)
