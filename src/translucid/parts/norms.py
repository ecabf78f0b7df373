"""Norms over the features of a token (layer, RMS) or over a batch, and residual connections.

Shapes: x (batch, length, d_model). `mask` is the token mask (batch, length), which only batch norm
needs.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.errors import InputError
from translucid.core.trace import NO_TRACE, Edit, NoTrace
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, Terms, apply, constant

NormName = Literal["layer", "rms", "batch", "none"]
Placement = Literal["pre", "post"]
Statistic = Callable[[str], Tensor]  # the statistics of x, by the name of their trace point


class Norm(nn.Module):
    """Base class of all norms: compute statistics of x, then apply a trained gain and optionally a
    shift."""

    eps: float
    gain: nn.Parameter
    # Values of the statistics with which the norm only applies gain and shift.
    neutral: ClassVar[Mapping[str, float]] = {"mean": 0.0, "variance": 1.0}

    def off(self, scope: str) -> dict[str, Edit]:
        """The trace edit that switches normalisation off. Gain and shift are still applied."""
        return {f"{scope}.{statistic}": value for statistic, value in self.neutral.items()}

    def linearised(self, direction: Tensor, statistic: Statistic) -> tuple[Tensor, float]:
        """Return d and c such that norm(x) · direction = x · d + c. This is exact while the
        statistics are fixed, because a norm is then an affine map."""
        raise NotImplementedError

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        """One value of a trace point of the norm, as an expression. The base class covers the
        output; subclasses add their statistics."""
        scaled = at.weight("gain", "gain", index[-1]) * at.number("normalised", *index)
        if getattr(self, "shift", None) is None:
            return scaled
        return scaled + at.weight("beta", "shift", index[-1])

    def _standardised(self, at: Scope, index: Index) -> Expression:
        """(x - mean) / sqrt(variance + eps)"""
        centred = at.input(*index) - at.number("mean", *index)
        variance = at.number("variance", *index) + constant("epsilon", self.eps)
        return centred / apply("sqrt", variance)


class LayerNorm(Norm):
    """(x - mean) / sqrt(variance + eps) * gain + shift, over the features of each token.

    Ba, Kiros & Hinton 2016, https://arxiv.org/abs/1607.06450; without `bias` there is no shift.
    """

    decode_slots = ("norm", "embedding_norm", "final_norm")

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

    def linearised(self, direction: Tensor, statistic: Statistic) -> tuple[Tensor, float]:
        shifted = 0.0 if self.shift is None else float(self.shift.detach().double() @ direction)
        scale = (statistic("variance") + self.eps).sqrt()
        direction = self.gain.detach().double() * direction / scale
        return direction - direction.mean(-1, keepdim=True), shifted  # centring is symmetric

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        *place, _ = index
        match point:
            case "mean":
                x = at.inputs(*place, None)
                return at.run.total(x) / constant("n", len(x.values))
            case "variance":
                x, mean = at.inputs(*place, None), at.number("mean", *index)
                squares = Terms(
                    (x.values - x.values.mean()) ** 2,
                    lambda i: apply("^", x.at(i) - mean, constant("2", 2)),
                )
                return at.run.total(squares) / constant("n", len(x.values))
            case "normalised":
                return self._standardised(at, index)
        return super().terms(at, point, index)


class RMSNorm(Norm):
    """x / sqrt(mean(x²) + eps) * gain: normalises the scale, but not the mean.

    Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467
    """

    variant = Variant(["rms"], absent=["beta"])
    neutral: ClassVar[Mapping[str, float]] = {"rms": 1.0}
    decode_slots = ("norm", "embedding_norm", "final_norm", "query_norm", "key_norm")

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

    def linearised(self, direction: Tensor, statistic: Statistic) -> tuple[Tensor, float]:
        return self.gain.detach().double() * direction / statistic("rms"), 0.0

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        *place, _ = index
        match point:
            case "rms":
                x = at.inputs(*place, None)
                squares = Terms(x.values**2, lambda i: apply("^", x.at(i), constant("2", 2)))
                mean = at.run.total(squares) / constant("n", len(x.values))
                return apply("sqrt", mean + constant("epsilon", self.eps))
            case "normalised":
                return at.input(*index) / at.number("rms", *index)
        return super().terms(at, point, index)


class BatchNorm(Norm):
    """(x - mean) / sqrt(variance + eps) * gain + shift, per feature over all tokens of the batch.

    Training uses the statistics of the batch and updates running averages of them, which evaluation
    uses. `count_padding=True` includes padding in the statistics: a classic mistake, kept to
    demonstrate its effect.
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
        with torch.no_grad():  # as torch.nn.BatchNorm1d, with the unbiased variance
            unbiased = variance * count / (count - 1).clamp(min=1)
            self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
            self.running_variance.lerp_(unbiased.to(self.running_variance), self.momentum)
        return mean, variance

    def linearised(self, direction: Tensor, statistic: Statistic) -> tuple[Tensor, float]:
        shifted = float(self.shift.detach().double() @ direction)
        scale = (statistic("variance") + self.eps).sqrt()
        direction = self.gain.detach().double() * direction / scale
        return direction, shifted - float(statistic("mean") @ direction)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        match point:
            case "mean" | "variance":
                return at.weight(point, f"running_{point}", index[-1])
            case "normalised":
                return self._standardised(at, index)
        return super().terms(at, point, index)


class NoNorm(Norm):
    """No normalisation: returns x unchanged."""

    variant = Variant(["none"])
    neutral: ClassVar[Mapping[str, float]] = {}
    decode_slots = ("final_norm",)

    def forward(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        return trace("output", x)

    def linearised(self, direction: Tensor, statistic: Statistic) -> tuple[Tensor, float]:
        return direction, 0.0

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        return at.input(*index)


class Standardise(nn.Module):
    """(x - mean) / deviation per input feature, measured once on the training data by `fit`."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))

    def fit(self, x: Tensor) -> None:
        """Measure mean and standard deviation of x (samples, features). Constant features are only
        centred."""
        if not bool(torch.isfinite(x).all()):
            raise InputError("the inputs to standardize contain NaN or infinity; remove those rows")
        self.mean = x.mean(dim=0)
        deviation = x.std(dim=0, correction=0)
        self.deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        return trace("output", (x - self.mean) / self.deviation)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        mean, deviation = (at.weight(name, name, index[-1]) for name in ("mean", "deviation"))
        return (at.input(*index) - mean) / deviation


EPSILON: dict[NormName, float] = {"layer": 1e-5, "rms": 1e-6, "batch": 1e-5, "none": 0.0}


def make_norm(
    name: NormName,
    d_model: int,
    *,
    eps: float | None = None,
    bias: bool = True,
    count_padding: bool = False,
) -> Norm:
    """Build a norm by name. eps: default depends on the norm."""
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


class Residual(nn.Module):
    """The residual connection of a sub-layer f: `leave(x, f(enter(x)))`.

    "post" is the original order, norm(x + f(x)); "pre" is x + f(norm(x)), which keeps an identity
    path from the output to every layer and trains without warm-up (Xiong et al. 2020,
    https://arxiv.org/abs/2002.04745).
    """

    decode_slots = (
        "self_attention_residual", "cross_attention_residual", "feedforward_residual",
    )  # fmt: skip

    def __init__(self, norm: Norm, placement: Placement, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.placement = norm, placement
        self.dropout = nn.Dropout(dropout)

    def enter(self, x: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE) -> Tensor:
        """Compute the input of the sub-layer: with pre-norm norm(x), otherwise x."""
        return self.norm(x, mask, trace.at("norm")) if self.placement == "pre" else x

    def leave(
        self, x: Tensor, branch: Tensor, mask: Tensor | None = None, trace: NoTrace = NO_TRACE
    ) -> Tensor:
        """Add the sub-layer's output (`branch`) to x; with post-norm, normalise the sum."""
        total = trace("sum", trace("skip", x) + trace("branch", self.dropout(branch)))
        return self.norm(total, mask, trace.at("norm")) if self.placement == "post" else total

    @property
    def output_point(self) -> str:
        return "norm.output" if self.placement == "post" else "sum"

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        match point:
            case "skip":
                return at.input(*index)
            case "branch":
                sublayer = at.path.removesuffix("_residual")
                return at.run.number("f", f"{sublayer}.output", *index)
        return at.number("skip", *index) + at.number("branch", *index)
