"""C4, C7: gradients through twenty layers.

Shapes: x (batch, width).
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from translucid import Trace
from translucid.models import MLP, MLPConfig
from translucid.parts import ACTIVATIONS, ActivationName
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.small_nets import layers_of
from translucid_lab.engine.intervals import clearly, mean_of, median_of
from translucid_lab.engine.verdict import column, decide

LAYERS, WIDTH, BATCH = 20, 64, 16
HE = math.sqrt(2)  # compensates for the half that ReLU removes: He et al. 2015
GAINS: dict[ActivationName, tuple[float, ...]] = {
    "sigmoid": (1.0, 4.0, 16.0),
    "tanh": (0.5, 1.0, 2.0),
    "relu": (0.5, HE, 3.0),
}
SETTINGS = tuple((name, gain) for name, gains in GAINS.items() for gain in gains)
DRAWN = tuple(setting for setting in SETTINGS if setting not in (("tanh", 0.5), ("tanh", 2.0)))
RATES = (0.01, 0.15)  # a usual one, and one that is too large
UNITS = 32


def _gradients(seed: int, quick: bool) -> Data:
    """Measure the gradient norm at every layer, and the factor by which one layer is expected to
    change the norm: the gain times the size of the activation's slopes. Also count the dead units
    of trained ReLU networks."""
    torch.manual_seed(seed)
    nets = 1 if quick else 8
    measured: dict[str, Data] = {}
    for name, gain in SETTINGS:
        rows = [_gradient_by_layer(name, gain) for _ in range(nets)]
        measured[_setting(name, gain)] = {
            "norms": np.mean(
                [row[0] for row in rows], axis=0
            ).tolist(),  # log10; of the input first
            "factor": float(np.mean([row[1] for row in rows])),
        }
    dead = [_dead_units(rate, 100 if quick else 500) for rate in RATES]
    return {"settings": measured, "dead": dead}


def _setting(name: str, gain: float) -> str:
    return f"{name}, gain {gain:.3g}"


def slope(name: ActivationName, z: Tensor) -> Tensor:
    """The derivative of an activation, by autograd."""
    z = z.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(ACTIVATIONS[name](z).sum(), z)
    return gradient


def deep_net(name: ActivationName, gain: float) -> MLP:
    """A deep network whose weights have standard deviation gain / √width: with unit slopes a layer
    multiplies by the gain."""
    config = MLPConfig(inputs=WIDTH, hidden=(WIDTH,) * LAYERS, activation=name)
    net = MLP(config).double()
    for layer in layers_of(net):
        nn.init.normal_(layer.linear.weight, std=gain / math.sqrt(WIDTH))
    return net


def gradient_norms(net: MLP, x: Tensor) -> tuple[Tensor, Tensor]:
    """The norms (log10) of d output / d h over the batch, for the input and every hidden layer.
    Also the size (root mean square) of the slopes of every layer's activation."""
    x = x.requires_grad_()
    trace = Trace("layers.*")
    output = net(x, trace=trace)
    hidden = [trace[f"layers.{i}.dense.activation"] for i in range(len(net.layers))]
    before = [trace[f"layers.{i}.dense.preactivation"] for i in range(len(net.layers))]
    gradients = torch.autograd.grad(output.sum(), [x, *hidden])
    norms = torch.stack([(gradient.norm() / math.sqrt(len(x))).log10() for gradient in gradients])
    slopes = [slope(net.config.activation, z).square().mean().sqrt() for z in before]
    return norms.detach(), torch.stack(slopes)


def _gradient_by_layer(name: ActivationName, gain: float) -> tuple[list[float], float]:
    x = torch.randn(BATCH, WIDTH, dtype=torch.float64)
    norms, slopes = gradient_norms(deep_net(name, gain), x)
    return norms.tolist(), gain * float(slopes.log().mean().exp())


def _dead_units(rate: float, steps: int) -> int:
    """Hidden ReLU units that are inactive for all samples after training."""
    x = torch.randn(128, 8)
    y = torch.sin(x.sum(dim=1, keepdim=True))
    net = MLP(MLPConfig(inputs=8, hidden=(UNITS,)))
    fit(net, lambda: (net(x) - y).square().mean(), steps=steps, learning_rate=rate,
        optimizer="sgd")  # fmt: skip
    trace = Trace("*.activation")
    with torch.no_grad():
        net(x, trace=trace)
    asleep = trace["layers.0.dense.activation"] <= 0  # (samples, units); NaN is not dead
    return int(asleep.all(dim=0).sum())


def _fall(data: Sequence[Data], setting: str) -> list[float]:
    """log10 of the gradient at the input over that at the last hidden layer, seed by seed."""
    rows = [run["settings"][setting]["norms"] for run in data]
    return [row[0] - row[-1] for row in rows]


def _straightness(data: Sequence[Data], setting: str) -> float:
    """How close the logarithms lie to a line over the layers: their squared correlation."""
    norms = np.mean([run["settings"][setting]["norms"] for run in data], axis=0)
    return float(np.corrcoef(norms, np.arange(len(norms)))[0, 1] ** 2)


def _judge_vanishing(data: Sequence[Data]) -> Finding:
    shrinking, parts = {}, []
    for name, gain in SETTINGS:
        setting = _setting(name, gain)
        factor = mean_of(column(data, "settings", setting, "factor"))
        fall = mean_of(_fall(data, setting))
        parts.append(f"{setting}: factor {factor.mean:.2f}, 10^{fall.mean:.2g}")
        if factor.against(0.85) == "below":
            shrinking[setting] = (
                clearly(fall.against(-1.0), "below"), _straightness(data, setting) > 0.95,
            )  # fmt: skip
    small = {_setting("relu", 0.5), _setting("sigmoid", 1.0)}  # weights; slopes
    return decide(
        {
            "small weights alone and small slopes alone are among the cases":
                True if small <= set(shrinking) else None,
            **{f"{setting}: falls below a tenth": fell
               for setting, (fell, _) in shrinking.items()},
            **{f"{setting}: by a like factor in every layer": straight or None
               for setting, (_, straight) in shrinking.items()},
        },
        f"gain times slope, and the gradient at the input over that at layer {LAYERS}: "
        + "; ".join(parts),
    )  # fmt: skip


def _judge_relu(data: Sequence[Data]) -> Finding:
    falls = {gain: mean_of(_fall(data, _setting("relu", gain))) for gain in GAINS["relu"]}
    dead = [median_of([run["dead"][place] / UNITS for run in data]) for place in range(len(RATES))]
    kept = {f"at gain {gain:.3g}": clearly(fall.against(-1.0), "above")
            for gain, fall in falls.items()}  # fmt: skip
    alive = {f"at rate {rate:g}": clearly(interval.against(0.1), "below")
             for rate, interval in zip(RATES, dead, strict=True)}  # fmt: skip
    why = (
        f"log10 of the gradient at the input over that at layer {LAYERS}: "
        + ", ".join(f"gain {gain:.3g}: {fall}" for gain, fall in falls.items())
        + "; fraction of units dead after training: "
        + ", ".join(f"rate {rate:g}: {value}" for rate, value in zip(RATES, dead, strict=True))
    )
    on = [
        what
        for what, sides in (("the gain of the weights", kept), ("the learning rate", alive))
        if True in sides.values() and False in sides.values()
    ]
    if not any(side is not False for side in kept.values()):
        return Finding("refuted", f"{why}; it vanishes at every gain")
    if on:
        return Finding("depends", f"it depends on {' and on '.join(on)}: {why}")
    return decide(kept | alive, why)


def _draw_gradients(data: Sequence[Data]) -> Lines:
    return Lines(
        "The gradient on its way back through twenty layers",
        Axis("layer, counted from the input", tuple(str(i) for i in range(LAYERS + 1))),
        "norm of d output / d h",
        {
            _setting(name, gain): 10
            ** np.mean([run["settings"][_setting(name, gain)]["norms"] for run in data], axis=0)
            for name, gain in DRAWN
        },
        logarithmic=True,
        note="Weights have deviation gain / √width. Each layer multiplies by the gain times the "
        "size of the activation's slopes.",
    )


gradient_by_layer = Experiment.described(
    "gradient-by-layer", _gradients, _draw_gradients, {"C4": _judge_vanishing, "C7": _judge_relu}
)
