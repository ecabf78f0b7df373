"""Normalisation: over the features of a token (layer, RMS), or over a batch (batch norm).

Shapes: x (batch, length, d_model). `mask` is the token mask (batch, length); only batch norm
needs it, since only batch norm lets tokens meet.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, NoTrace

NormName = Literal["layer", "rms", "batch", "none"]


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * gain + shift, over the features of each token.

    Ba, Kiros & Hinton 2016, https://arxiv.org/abs/1607.06450; without `bias` there is no shift.
    """

    def __init__(self, d_model: int, eps: float = 1e-5, *, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model)) if bias else None

    @property
    def variant(self) -> Variant:
        return Variant(absent=() if self.shift is not None else ("beta",))

    def forward(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        if not trace.wants("mean", "variance", "normalised"):
            return trace("output", F.layer_norm(x, x.shape[-1:], self.gain, self.shift, self.eps))
        mean = trace("mean", x.mean(dim=-1, keepdim=True))  # (batch, length, 1)
        variance = trace("variance", (x - mean).square().mean(dim=-1, keepdim=True))
        normalised = trace("normalised", (x - mean) / (variance + self.eps).sqrt())
        output = normalised * self.gain
        return trace("output", output if self.shift is None else output + self.shift)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) * gain: the scale is normalised, the mean is left alone.

    Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467
    """

    variant = Variant(["rms"], absent=["beta"])

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        if not trace.wants("rms", "normalised"):
            return trace("output", F.rms_norm(x, x.shape[-1:], self.gain, self.eps))
        rms = trace("rms", (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt())
        normalised = trace("normalised", x / rms)
        return trace("output", normalised * self.gain)


class BatchNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * gain + shift, per feature over all tokens of the batch.

    In training the statistics are the batch's and a running average is kept; afterwards the
    running average is used. `count_padding=True` lets padding into the statistics: a classic
    mistake, kept so that it can be shown. The running average is the one thing a forward pass
    changes in a module.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(
        self, d_model: int, eps: float = 1e-5, momentum: float = 0.1, count_padding: bool = False
    ) -> None:
        super().__init__()
        self.eps, self.momentum, self.count_padding = eps, momentum, count_padding
        self.gain = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_variance", torch.ones(d_model))

    def forward(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        mean, variance = self._statistics(x, mask)
        mean = trace("mean", mean.expand(*x.shape[:-1], -1))  # (batch, length, d_model)
        variance = trace("variance", variance.expand(*x.shape[:-1], -1))
        normalised = trace("normalised", (x - mean) / (variance + self.eps).sqrt())
        return trace("output", normalised * self.gain + self.shift)

    @property
    def variant(self) -> Variant:
        return variant(running=not self.training)

    def _statistics(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if not self.training:
            return self.running_mean, self.running_variance
        if mask is None or self.count_padding:
            mask = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        weight = mask.unsqueeze(-1).to(x.dtype)  # (batch, length, 1)
        axes = tuple(range(x.dim() - 1))
        count = weight.sum().clamp(min=1)
        mean = (x * weight).sum(dim=axes) / count  # (d_model,)
        variance = ((x - mean).square() * weight).sum(dim=axes) / count
        with torch.no_grad():  # torch.nn.BatchNorm1d keeps the unbiased variance; so do we
            unbiased = variance * count / (count - 1).clamp(min=1)
            self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
            self.running_variance.lerp_(unbiased.to(self.running_variance), self.momentum)
        return mean, variance


class NoNorm(nn.Module):
    """x, unchanged: the contrast."""

    variant = Variant(["none"])

    def forward(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        return trace("output", x)


class Standardise(nn.Module):
    """(x - mean) / deviation per input feature, measured once on the training data by `fit`."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))

    def fit(self, x: Tensor) -> None:
        """Measure mean and deviation of x (samples, features); a constant feature is only
        centred."""
        if not bool(torch.isfinite(x).all()):
            raise InputError("the inputs to standardise hold NaN or infinity; remove those rows")
        self.mean = x.mean(dim=0)
        deviation = x.std(dim=0, correction=0)
        self.deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        return trace("output", (x - self.mean) / self.deviation)


EPSILON: dict[NormName, float] = {"layer": 1e-5, "rms": 1e-6, "batch": 1e-5, "none": 0.0}


def make_norm(
    name: NormName,
    d_model: int,
    *,
    eps: float | None = None,
    bias: bool = True,
    count_padding: bool = False,
) -> nn.Module:
    """The norm of this name; eps None: the usual one of its kind."""
    eps = EPSILON[name] if eps is None else eps
    match name:
        case "layer":
            return LayerNorm(d_model, eps, bias=bias)
        case "rms":
            return RMSNorm(d_model, eps)
        case "batch":
            return BatchNorm(d_model, eps, count_padding=count_padding)
        case "none":
            return NoNorm()
