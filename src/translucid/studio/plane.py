"""Step-by-step training on the page: a perceptron or an MLP on points in two dimensions.

With two inputs and one output, the page can draw the whole function and its decision boundary. The
perceptron learns by its own rule, one point at a time; the MLP by gradient descent on all points.
Training is repeated from its seed, so every step is reproducible.
"""

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.data.features import Columns
from translucid.models import Network, build
from translucid.models.mlp import MLP, MLPConfig, Perceptron, PerceptronConfig
from translucid.studio.query_values import clipped
from translucid.tasks.base import Task
from translucid.tasks.regress import Regress
from translucid.tasks.row_task import RowItem
from translucid.training.optimizers import make_optimizer
from translucid.training.state import random_state_kept

Kind = Literal["perceptron", "mlp"]
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
PROBLEMS = {"and": (0, 0, 0, 1), "or": (0, 1, 1, 1), "xor": (0, 1, 1, 0)}  # targets at the corners
KINDS = ("perceptron", "mlp")
STEPS = 200  # maximum number of steps
SEEDS = 10  # number of seeds for an MLP's initial weights
SPREAD = 0.2  # maximum distance of a point from its corner, along each axis
POINTS = 40
TICKS, FINE = 33, 65  # grid points along each axis
LOW, HIGH = -0.5, 1.5
HIDDEN, RATE, SEED = 4, 0.1, 2


def points(problem: str, split: str = "train", count: int = POINTS) -> list[dict[str, float]]:
    """Random points around the corners of the unit square, with their targets."""
    draw = random.Random(f"corners {split}")
    rows = []
    for number in range(count):
        corner = CORNERS[number % 4]
        x1, x2 = (round(side + draw.uniform(-SPREAD, SPREAD), 3) for side in corner)
        rows.append({"x1": x1, "x2": x2, "y": float(PROBLEMS[problem][number % 4])})
    return rows


class Training:
    """A training run with its weights after every step so far."""

    def __init__(self, kind: Kind, problem: str, seed: int = SEED) -> None:
        self.kind, self.problem, self.seed = kind, problem, seed
        rows = points(problem)
        self.items = [RowItem((row["x1"], row["x2"]), (row["y"],)) for row in rows]
        self.task = Regress(Columns.numbers(("x1", "x2")))
        self.batch = self.task.collate(self.items)
        with random_state_kept():
            torch.manual_seed(seed)
            self.network: Network = build(
                PerceptronConfig(inputs=2)
                if kind == "perceptron"
                else MLPConfig(inputs=2, hidden=(HIDDEN,), outputs=1, activation="tanh")
            )
        self.optimizers = (
            make_optimizer(self.network, "sgd", learning_rate=RATE, weight_decay=0.0)
            if kind == "mlp"
            else []
        )
        self.weights = [self._copied()]  # by step
        self.wrong: list[bool | None] = [None]  # by step: whether the perceptron's point was wrong

    def _copied(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.network.state_dict().items()}

    def _step(self) -> None:
        self.network.load_state_dict(self.weights[-1])
        if isinstance(self.network, Perceptron):
            x, y = self.batch.inputs["x"], self.batch.targets[:, 0]
            at = (len(self.weights) - 1) % len(x)
            self.wrong.append(bool(self.network.learn(x[at : at + 1], y[at : at + 1])))
        else:
            with torch.enable_grad():
                loss = self.task.loss(self.network, self.batch) / self.batch.targets.numel()
                loss.backward()
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad()
            self.wrong.append(None)
        self.weights.append(self._copied())

    @torch.no_grad()
    def at(self, step: int) -> dict[str, Any]:
        """The state after `step` steps, for the page."""
        while len(self.weights) <= step:
            self._step()
        self.network.load_state_dict(self.weights[step])
        ticks = torch.linspace(LOW, HIGH, TICKS)
        second, first = torch.meshgrid(ticks, ticks, indexing="ij")
        grid = self.network(torch.stack([first, second], dim=-1).flatten(0, 1)).flatten()
        outputs = self.network(self.batch.inputs["x"]).flatten()
        coarse = torch.stack([first, second], dim=-1)[::2, ::2]
        hidden = (
            self.network.layers[0](coarse).movedim(-1, 0).tolist()
            if isinstance(self.network, MLP)
            else []
        )
        wanted = self.batch.targets[:, 0]
        mistakes = int(((outputs > 0.5) != (wanted > 0.5)).sum())
        return {
            "kind": self.kind, "problem": self.problem, "step": step, "last": STEPS,
            "seed": self.seed,
            "weights": {name: value.tolist() for name, value in self.weights[step].items()},
            "loss": float(0.5 * (outputs - wanted).square().mean()), "mistakes": mistakes,
            "points": [[*item.features, item.targets[0], float(y)]
                       for item, y in zip(self.items, outputs, strict=True)],
            "sample": None if self.kind == "mlp" or step == 0 else (step - 1) % len(self.items),
            "wrong": self.wrong[step],
            "ticks": ticks.tolist(), "grid": grid.unflatten(0, (TICKS, TICKS)).tolist(),
            "hidden": [[[round(value, 3) for value in row] for row in one] for one in hidden],
        }  # fmt: skip


@lru_cache(maxsize=16)
def training(kind: Kind, problem: str, seed: int) -> Training:
    return Training(kind, problem, seed)


def start(kind: Kind) -> dict[str, Any]:
    """The points by problem and the initial weights by seed, for pages that train without a
    server."""
    return {
        "kind": kind, "steps": STEPS, "seed": SEED,
        "points": {problem: [list(row.values()) for row in points(problem)]
                   for problem in PROBLEMS},
        "weights": [
            {name: value.tolist() for name, value in training(kind, "xor", seed).weights[0].items()}
            for seed in range(SEEDS)
        ],
    }  # fmt: skip


def answer(kind: str, problem: str, step: int, seed: int = SEED) -> dict[str, Any]:
    """The state of training after `step` steps, for the page."""
    if kind not in KINDS:
        raise InputError(f"kind: must be one of {', '.join(KINDS)}, not {clipped(kind)}")
    if problem not in PROBLEMS:
        raise InputError(f"problem: must be one of {', '.join(PROBLEMS)}, not {clipped(problem)}")
    return training("perceptron" if kind == "perceptron" else "mlp", problem, seed).at(step)


def outputs(models: Sequence[tuple[Task[Any, Any], Network]]) -> dict[str, Any]:
    """The outputs of models with two inputs and one output over the same part of the plane: two
    standard deviations around their training data, or around the corners of the unit square."""
    areas = [_area(task, network) for task, network in models]
    low, high = (
        [side(area[end][axis] for area in areas) for axis in (0, 1)]
        for end, side in enumerate((min, max))
    )
    x1, x2 = (torch.linspace(low[axis], high[axis], FINE).tolist() for axis in (0, 1))
    grids = []
    for task, network in models:
        assert isinstance(task, Regress)
        items = [task.row_item((first, second), "the plane") for second in x2 for first in x1]
        values = [float(f"{value:.5g}") for (value,) in task.predict(network, items)]
        grids.append([values[row : row + FINE] for row in range(0, len(values), FINE)])
    return {"ticks": [x1, x2], "grids": grids}


def _area(task: Task[Any, Any], network: Network) -> tuple[list[float], list[float]]:
    """The lowest and the highest values of the two inputs."""
    sizes = [getattr(network.config, name, 1) for name in ("inputs", "outputs")]
    scale = task.columns.scale if isinstance(task, Regress) and sizes == [2, 1] else None
    if scale is None:
        raise InputError(
            "only models with two inputs, both numbers, and one output can be drawn in the plane"
        )
    lows, highs = zip(
        *((mean - 2 * side, mean + 2 * side) if (mean, side) != (0.0, 1.0) else (LOW, HIGH)
          for mean, side in scale),
        strict=True,
    )  # fmt: skip
    return [*lows], [*highs]
