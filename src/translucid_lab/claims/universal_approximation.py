"""Approximation: stacked linear layers (C3), sums of sigmoids (C12, C13)."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.models import MLP, MLPConfig
from translucid.parts import ActivationName
from translucid.see import Axis, Bars, Lines
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.small_nets import layers_of, set_weights
from translucid_lab.engine.intervals import clearly, mean_of, ratio_of
from translucid_lab.engine.verdict import column, decide

# ---- C12: staircases ----


UNITS = (4, 8, 16, 32, 64, 128)
TRAINED = (2, 8, 32, 128)
TARGETS: dict[str, Callable[[Tensor], Tensor]] = {
    "sin 2πx": lambda x: torch.sin(2 * math.pi * x),
    "|x - ½|": lambda x: (x - 0.5).abs(),
    "√x": torch.sqrt,
}
SHOWN = (4, 8, 16)  # staircases in the picture
PLACES = 41


def _staircase(seed: int, quick: bool) -> Data:
    """Largest error of constructed staircases, and of trained networks."""
    grid = torch.linspace(0, 1, 2001, dtype=torch.float64)[:, None]
    coarse = torch.linspace(0, 1, PLACES, dtype=torch.float64)[:, None]
    wave = TARGETS["sin 2πx"]
    torch.manual_seed(seed)
    with torch.no_grad():
        built = {
            name: [float((staircase(f, n)(grid) - f(grid)).abs().max()) for n in UNITS]
            for name, f in TARGETS.items()
        }
        curves = [staircase(wave, n)(coarse)[:, 0].tolist() for n in SHOWN]
    steps = 150 if quick else 3000
    trained = [_trained_error(width, wave, grid, steps) for width in TRAINED]
    return {"built": built, "trained": trained, "curves": curves, "steps": steps}


def staircase(f: Callable[[Tensor], Tensor], units: int) -> MLP:
    """A staircase that approximates f: each step from f(k/N) to f((k+1)/N) is a steep sigmoid."""
    places = torch.arange(units + 1, dtype=torch.float64) / units
    heights, steep = f(places), 8.0 * units
    return sigmoids(
        [steep] * units, (-steep * (places[:-1] + 0.5 / units)).tolist(),
        heights.diff().tolist(), float(heights[0]),
    )  # fmt: skip


def sigmoids(
    slopes: Sequence[float], biases: Sequence[float], heights: Sequence[float], start: float = 0.0
) -> MLP:
    """A sum of sigmoids: start + Σ height · sigmoid(slope · x + bias)."""
    net = MLP(MLPConfig(inputs=1, hidden=(len(slopes),), activation="sigmoid")).double()
    set_weights(net, [[[slope] for slope in slopes], [heights]], [biases, [start]])
    return net


def _trained_error(width: int, f: Callable[[Tensor], Tensor], grid: Tensor, steps: int) -> float:
    net = MLP(MLPConfig(inputs=1, hidden=(width,), activation="sigmoid"))
    x = torch.linspace(0, 1, 128)[:, None]
    fit(net, lambda: (net(x) - f(x)).square().mean(), steps=steps, learning_rate=0.02)
    with torch.no_grad():
        return float((net(grid.float()) - f(grid)).abs().max())


def _judge_staircase(data: Sequence[Data]) -> Finding:
    errors = {name: np.array(data[0]["built"][name]) for name in TARGETS}  # no chance in these
    factors = {name: values[1:] / values[:-1] for name, values in errors.items()}
    falls = all((values < 0.9).all() for values in factors.values())
    stops = any(values[-1] > 0.99 for values in factors.values())
    trained = [mean_of(column(data, "trained", place), "log") for place in range(len(TRAINED))]
    summary = "; ".join(
        f"{name} {values[0]:.3g} to {values[-1]:.2g}" for name, values in errors.items()
    )
    learned = ", ".join(f"{width}: {value}" for width, value in zip(TRAINED, trained, strict=True))
    return decide(
        {"every doubling takes a tenth of the error or more": True if falls else
         False if stops else None},
        f"largest error of a staircase from {UNITS[0]} to {UNITS[-1]} sigmoids: {summary}. This is "
        f"what exists; what {data[0]['steps']} steps of training find for the first target, by "
        f"width: {learned}",
        {"built": {name: values.tolist() for name, values in errors.items()},
         "trained": [interval.mean for interval in trained]},
    )  # fmt: skip


def _draw_staircase(data: Sequence[Data]) -> Lines:
    wave = TARGETS["sin 2πx"](torch.linspace(0, 1, PLACES, dtype=torch.float64)).numpy()
    errors = dict(zip(UNITS, data[0]["built"]["sin 2πx"], strict=True))
    curves = np.mean([run["curves"] for run in data], axis=0)
    more = ", ".join(f"{n}: {error:.2g}" for n, error in errors.items() if n not in SHOWN)
    trained = np.mean([run["trained"] for run in data], axis=0)
    learned = ", ".join(f"{n}: {error:.2g}" for n, error in zip(TRAINED, trained, strict=True))
    return Lines(
        "Staircases of sigmoids", Axis("x", _tenths()),
        "output",
        {"sin 2πx": wave} | {f"{n} sigmoids, largest error {errors[n]:.2g}": curve
                             for n, curve in zip(SHOWN, curves, strict=True)},
        note=f"Largest error with more sigmoids: {more}. Nets trained for {data[0]['steps']} steps "
        f"instead: {learned}.",
    )  # fmt: skip


def _tenths() -> tuple[str, ...]:
    """Axis labels at every fourth point, to keep them readable."""
    return tuple(f"{x:.1f}" if i % 4 == 0 else "" for i, x in enumerate(np.linspace(0, 1, PLACES)))


staircases = Experiment.described(
    "staircases", _staircase, _draw_staircase, {"C12": _judge_staircase}
)


# ---- C13: steps ----


STEEPNESS = (10.0, 30.0, 100.0, 300.0, 1000.0)
NEAR = 0.01
# Places and heights of the jumps, the function's values there, and the end of the range.
STEPS: dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...], float]] = {
    "one step": ((0.5,), (1.0,), (1.0,), 1.0),
    "two steps": ((1.0, 2.0), (1.0, 2.0), (1.0, 1.0), 3.0),
}


def _steep(seed: int, quick: bool) -> Data:
    return {name: [_step_errors(name, steep) for steep in STEEPNESS] for name in STEPS}


@torch.no_grad()
def _step_errors(name: str, steep: float) -> dict[str, float]:
    """How well sigmoids approximate a step function: the largest error anywhere and the largest
    error away from the jumps, both relative to the largest jump, and the area between the two
    functions."""
    places, heights, values, end = STEPS[name]
    x = torch.arange(int(20_000 * end) + 1, dtype=torch.float64) / 20_000  # contains every jump
    wanted = torch.zeros_like(x)
    for place, height in zip(places, heights, strict=True):
        wanted += height * (x > place)
    for place, value in zip(places, values, strict=True):
        wanted[x == place] = value
    made = sigmoids([steep] * len(places), [-steep * place for place in places], heights)
    error = (made(x[:, None])[:, 0] - wanted).abs()
    away = torch.stack([(x - place).abs() > NEAR for place in places]).all(0)
    return {
        "anywhere": float(error.max()) / max(heights),
        "away": float(error[away].max()) / max(heights),
        "area": float(error.sum() / 20_000),
    }


def _judge_steep(data: Sequence[Data]) -> Finding:
    (only,) = data[:1]
    last = {name: only[name][-1] for name in STEPS}
    worst = max(values["anywhere"] for values in last.values())
    summary = "; ".join(
        f"{name}: {values['anywhere']:.3g} of the jump at it, {values['away']:.1e} from {NEAR} "
        f"away; area {values['area']:.2g}"
        for name, values in last.items()
    )
    return decide(
        {"the largest error goes to 0": True if worst < 0.01 else False if worst > 0.45 else None},
        f"largest error at steepness {STEEPNESS[-1]:g}, {summary}",
        last,
    )


def _draw_steep(data: Sequence[Data]) -> Lines:
    (only,) = data[:1]
    named = {"anywhere": "largest error, of the jump", "away": f"largest error {NEAR} off the jump",
             "area": "area between the two"}  # fmt: skip
    return Lines(
        "A steep sigmoid against a step", Axis("steepness", tuple(f"{m:g}" for m in STEEPNESS)),
        "error",
        {label: np.array([row[key] for row in only["one step"]]) for key, label in named.items()},
        logarithmic=True,
        note="At the jump itself the sigmoid is one half, however steep.",
    )  # fmt: skip


steep_sigmoids = Experiment.described("steep-sigmoids", _steep, _draw_steep, {"C13": _judge_steep})


DEPTHS = (1, 2, 4)
SAMPLES, WIDE = 64, 16


def _stack(seed: int, quick: bool) -> Data:
    """Errors of least squares, linear networks and a ReLU network on a curved target."""
    torch.manual_seed(seed)
    x = torch.randn(SAMPLES, 2, dtype=torch.float64)
    y = (torch.sin(2 * x[:, :1]) + x[:, :1] * x[:, 1:] + x[:, 1:]).detach()
    steps = 100 if quick else 400
    made = torch.cat([x, torch.ones_like(y)], dim=1)
    # Not lstsq: its last digit depends on memory alignment.
    left = y - made @ torch.linalg.solve(made.T @ made, made.T @ y)
    nets = [_fitted("identity", depth, x, y, steps) for depth in DEPTHS]
    return {
        "least_squares": float(left.square().mean()),
        "linear": [_error(net, x, y) for net in nets],
        "relu": _error(_fitted("relu", max(DEPTHS), x, y, steps), x, y),
        "collapse": max(_collapse_error(net, x) for net in nets),
    }


def _fitted(bend: ActivationName, depth: int, x: Tensor, y: Tensor, steps: int) -> MLP:
    net = MLP(MLPConfig(inputs=2, hidden=(WIDE,) * (depth - 1), activation=bend)).double()
    # Not an optimizer of the library: its line search evaluates the loss several times per step.
    optimiser = torch.optim.LBFGS(
        net.parameters(), max_iter=steps, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def again() -> Tensor:
        optimiser.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        return loss

    optimiser.step(again)
    return net


@torch.no_grad()
def _error(net: MLP, x: Tensor, y: Tensor) -> float:
    return float((net(x) - y).square().mean())


@torch.no_grad()
def _collapse_error(net: MLP, x: Tensor) -> float:
    """Distance of the network from the product of its layers."""
    weight, bias = collapsed(net)
    return float((net(x) - (x @ weight.T + bias)).abs().max())


def collapsed(net: MLP) -> tuple[Tensor, Tensor]:
    """The single affine layer equal to all layers: W = W_n ... W_1, and its bias."""
    weight = torch.eye(net.config.inputs, dtype=net.output.linear.weight.dtype)
    bias = torch.zeros(net.config.inputs, dtype=weight.dtype)
    for layer in layers_of(net):
        weight = layer.linear.weight @ weight
        bias = layer.linear.weight @ bias + layer.linear.bias
    return weight, bias


def _judge_stack(data: Sequence[Data]) -> Finding:
    floor = column(data, "least_squares")
    linear = [ratio_of(column(data, "linear", place), floor) for place in range(len(DEPTHS))]
    relu = ratio_of(column(data, "relu"), floor)
    collapse = max(column(data, "collapse"))
    beaten = any(interval.against(0.99) == "below" for interval in linear)
    arrived = all(interval.against(1.01) == "below" for interval in linear)
    summary = ", ".join(f"{depth}: {value}" for depth, value in zip(DEPTHS, linear, strict=True))
    return decide(
        {
            "no linear net does better than least squares": not beaten,
            "each one gets there": True if arrived else None,
            "the target is curved: a ReLU net leaves less than half":
                clearly(relu.against(0.5), "below") or None,
            "every linear net is one affine map": collapse < 1e-9,
        },
        f"error over that of least squares, for linear nets of depth {summary}; with ReLU {relu}; "
        f"linear nets and their collapsed matrix differ by at most {collapse:.1e}",
        {"linear": [interval.mean for interval in linear], "relu": relu.mean, "collapse": collapse},
    )  # fmt: skip


def _draw_stack(data: Sequence[Data]) -> Bars:
    linear = np.mean([run["linear"] for run in data], axis=0)
    ends = [np.mean(column(data, name)) for name in ("least_squares", "relu")]
    return Bars(
        "Linear layers on top of each other: no better than one", "mean squared error",
        ("least squares", *(f"{d} linear layer{'s' if d > 1 else ''}" for d in DEPTHS),
         f"{max(DEPTHS)} layers with ReLU"),
        np.array([ends[0], *linear, ends[1]]),
    )  # fmt: skip


linear_stack = Experiment.described("linear-stack", _stack, _draw_stack, {"C3": _judge_stack})
