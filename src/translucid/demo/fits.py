"""Small networks on small problems: curves fitted by MLPs of growing width, and XOR.

They are built and trained as every model here is; the perceptron learns by its own rule.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor

from translucid.demo.quietly import train_quietly
from translucid.models import Network, build
from translucid.models.mlp import MLP
from translucid.models.perceptron import Perceptron, PerceptronConfig
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.regress import Regress, RegressItem

WIDTHS = (1, 2, 4, 8, 16, 32)
PASSES = 20  # of the perceptron over its four samples
CORNERS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))


def sine(x: float) -> float:
    """One wave on -1 to 1."""
    return math.sin(math.pi * x)


def staircase(x: float) -> float:
    """0, then 1, then 3, with jumps at 1 and 2."""
    return 0.0 if x < 1 else 1.0 if x < 2 else 3.0


@dataclass(frozen=True)
class Fit:
    """What one network makes of a curve."""

    width: int  # of its hidden layer
    y: list[float]  # at the curve's x
    rmse: float  # √ of the mean squared error there


@dataclass(frozen=True)
class Curve:
    """A function, and the networks that learnt it."""

    name: str
    x: list[float]
    target: list[float]
    fits: list[Fit]


def fit_curve(
    name: str,
    function: Callable[[float], float],
    ends: tuple[float, float],
    recipe: Recipe,
    widths: Sequence[int] = WIDTHS,
    points: int = 241,
) -> Curve:
    """One network for each width, trained on evenly spaced points as the recipe says."""
    low, high = ends
    x = [low + (high - low) * i / (points - 1) for i in range(points)]
    target = list(map(function, x))
    items = [RegressItem((a,), (b,), 0) for a, b in zip(x, target, strict=True)]
    fits = [measure(width, fit_mlp(items, width, recipe), items) for width in widths]
    return Curve(name, x, target, fits)


def fit_mlp(items: Sequence[RegressItem], width: int, recipe: Recipe) -> Network:
    """An MLP with one hidden layer of this width, else as the recipe says, on all items at once."""
    task = Regress()
    batch = task.collate(items)
    sizes = {"inputs": len(items[0].inputs), "outputs": len(items[0].targets)}
    chosen = recipe.model_copy(update={"model": {**recipe.model, "hidden": (width,)}})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.training.seed)
        network = build(chosen.model_config_for(sizes=sizes))
    if isinstance(network, MLP) and network.standardise is not None:
        network.standardise.fit(batch.inputs["x"])
    train_quietly(network, task, repeat(batch), items, recipe.training)
    return network


def measure(
    width: int, network: Network, items: Sequence[RegressItem], task: Regress | None = None
) -> Fit:
    """task: that knows the scale a network was trained at; not given: that of the data."""
    task = task or Regress()
    y = [row[0] for row in task.predict(network, items)]
    return Fit(width, y, task.evaluate(network, items).numbers["rmse"])


@dataclass(frozen=True)
class Boundary:
    """What a network says over the plane, and to the four corners it learnt from."""

    name: str
    ticks: list[float]  # of both axes
    outputs: list[list[float]]  # (second input, first input)
    corners: tuple[tuple[float, float], ...]
    wanted: list[float]  # 0 or 1 for each corner
    accuracy: float  # over the corners, an output over 0.5 counting as 1


def boundary(name: str, network: Network, wanted: Sequence[float], points: int = 13) -> Boundary:
    ticks = torch.linspace(-0.5, 1.5, points)
    second, first = torch.meshgrid(ticks, ticks, indexing="ij")
    outputs = _outputs(network, torch.stack([first, second], dim=-1).flatten(0, 1))
    answers = _outputs(network, torch.tensor(CORNERS))
    right = [(a > 0.5) == (b > 0.5) for a, b in zip(answers.tolist(), wanted, strict=True)]
    return Boundary(
        name,
        ticks.tolist(),
        outputs.unflatten(0, (points, points)).tolist(),
        CORNERS,
        list(wanted),
        sum(right) / len(right),
    )


@torch.no_grad()
def _outputs(network: Network, x: Tensor) -> Tensor:
    """(samples,): an MLP has a column of outputs, a perceptron just one for each sample."""
    return network(x).flatten()


@dataclass(frozen=True)
class Logic:
    """AND and XOR: what a line can part, and what it cannot."""

    boundaries: list[Boundary]
    mistakes: dict[str, list[int]]  # of the perceptron, pass by pass


def learn_logic(recipe: Recipe, width: int = 4) -> Logic:
    """AND and XOR by the perceptron, XOR by an MLP."""
    both = [float(a == b == 1) for a, b in CORNERS]
    either = [float(a != b) for a, b in CORNERS]
    boundaries, mistakes = [], {}
    for name, wanted in (("AND", both), ("XOR", either)):
        perceptron = build(PerceptronConfig(inputs=2))
        assert isinstance(perceptron, Perceptron)
        x, y = torch.tensor(CORNERS), torch.tensor(wanted)
        mistakes[name] = [perceptron.learn(x, y) for _ in range(PASSES)]
        boundaries.append(boundary(f"perceptron: {name}", perceptron, wanted))
    items = [RegressItem(xy, (y,), 0) for xy, y in zip(CORNERS, either, strict=True)]
    boundaries.append(boundary("MLP: XOR", fit_mlp(items, width, recipe), either))
    return Logic(boundaries, mistakes)
