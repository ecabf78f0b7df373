"""Linear models, fitted to all examples at once: strong baselines that train in seconds.

Shapes: x (batch, inputs); outputs (batch, outputs).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import model_validator
from torch import Tensor, nn

from translucid.core.config import Config, key
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.models import inputs
from translucid.models.base import Network
from translucid.models.logistic import SEARCH, DenseProblem, solve
from translucid.parts.computation import Scope
from translucid.parts.feedforward import Dense

PENALTIES = tuple(10.0**power for power in range(-6, 4))  # of ridge regression, per example
# Of logistic regression, times the number of examples; strongest first.
CLASS_PENALTIES = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
FOLDS = 5  # of the cross-validation that chooses it


class LinearConfig(Config):
    """Configuration of a linear model."""

    kind: Literal["linear"] = "linear"
    inputs: int | None = key(None, "for numbers: input dimensions", gt=0)
    outputs: int = key(1, "output dimensions, classes or tags", gt=0)
    shape: Literal["encoder"] | None = key(None, "for text: encoder")
    head: Literal["classify", "tag"] | None = key(
        None, "output head, for text or for labels of numbers"
    )
    vocab: int | None = key(None, "for text: vocabulary size", gt=0)
    features: int = key(1 << 18, "for text: rows of each hashed feature table", gt=0)

    @model_validator(mode="after")
    def _numbers_or_text(self) -> "LinearConfig":
        text = {"shape": self.shape, "head": self.head, "vocab": self.vocab}
        present = [name for name, value in text.items() if value is not None]
        if self.inputs is not None and present == ["head"] and self.head == "classify":
            return self  # labels of rows of numbers
        if self.inputs is not None and present:
            raise ValueError(
                f"{present[0]} is for models that read text, but inputs is for models that read "
                "numbers; set only one of them"
            )
        if self.inputs is None and len(present) < len(text):
            missing = next(name for name in text if name not in present)
            raise ValueError(
                f"{missing} is missing; for a model that reads text, set shape, head and vocab; "
                "for one that reads numbers, set inputs"
            )
        return self

    @property
    def characters(self) -> int:
        """1 if the network reads the characters of each word; 0 if it reads numbers."""
        return int(self.inputs is None)


class LinearNumbers(Network):
    """ŷ = W x + b."""

    fits = True
    config: LinearConfig

    def __init__(self, config: LinearConfig) -> None:
        super().__init__()
        self.config = config
        assert config.inputs is not None, "the config was validated"
        self.output = Dense(config.inputs, config.outputs)
        nn.init.zeros_(self.output.linear.weight)
        nn.init.zeros_(self.output.linear.bias)

    def forward(self, x: Tensor, trace: NoTrace = NO_TRACE) -> Tensor:
        inputs.check_trace(trace)
        inputs.check_numbers(x, self.output.linear.in_features)
        return self.output(x, trace.at("output.dense"))

    @property
    def output_point(self) -> str:
        return "output.dense.activation"

    def feeds(self, part: str, at: Scope) -> str | None:
        return "x"


class LinearRegression(LinearNumbers):
    """ŷ = W x + b, by ridge regression: W and b minimise the squared error plus a penalty on ‖W‖²
    (Hoerl & Kennard 1970). Of several penalties, the one with the smallest leave-one-out error is
    used."""

    @torch.no_grad()
    def fit(self, batches: Sequence[tuple[Mapping[str, Tensor], Tensor]]) -> None:
        x = torch.cat([batch["x"] for batch, _ in batches]).double()
        y = torch.cat([targets for _, targets in batches]).double()
        weight, bias = ridge(x, y)
        self.output.linear.weight.copy_(weight.T)
        self.output.linear.bias.copy_(bias)


class LinearScores(LinearNumbers):
    """The scores of the labels, W x + b, by logistic regression with a penalty on ‖W‖². The penalty
    with the smallest loss in cross-validation is chosen; then W and b are fitted to all rows."""

    class_weights: Sequence[float] = ()  # of each label in the loss; empty: all 1

    @torch.no_grad()
    def fit(self, batches: Sequence[tuple[Mapping[str, Tensor], Tensor]]) -> None:
        x = torch.cat([batch["x"] for batch, _ in batches]).double()
        y = torch.cat([targets for _, targets in batches])
        mean, deviation = x.mean(dim=0), x.std(dim=0, correction=0)
        deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
        z = (x - mean) / deviation
        importance = torch.tensor(self.class_weights or [1.0] * self.config.outputs).double()[y]

        def problem(chosen: Tensor) -> DenseProblem:
            return DenseProblem(z[chosen], y[chosen], importance[chosen], self.config.outputs)

        fold = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)) % FOLDS
        losses = torch.zeros(len(CLASS_PENALTIES), dtype=torch.float64)
        for number in range(min(FOLDS, len(y))):
            apart, weight = problem(fold == number), None
            for place, penalty in enumerate(CLASS_PENALTIES):
                rest = problem(fold != number)
                weight = solve(rest, penalty / len(rest.classes), weight, iterations=SEARCH)
                losses[place] += apart.loss(weight)
        penalty = CLASS_PENALTIES[int(losses.argmin())]
        weight = solve(problem(torch.ones_like(y, dtype=torch.bool)), penalty / len(y))
        own = weight[:-1] / deviation[:, None]
        self.output.linear.weight.copy_(own.T)
        self.output.linear.bias.copy_(weight[-1] - mean @ own)


def ridge(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The weights (inputs, outputs) and biases (outputs,) of ridge regression on standardised
    inputs. The penalty is the one in PENALTIES with the smallest leave-one-out error."""
    mean, deviation = x.mean(dim=0), x.std(dim=0, correction=0)
    deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
    z, centre = (x - mean) / deviation, y.mean(dim=0)
    values, vectors = torch.linalg.eigh(z.T @ z)
    turned = z @ vectors  # (examples, inputs)
    along = turned.T @ (y - centre)
    best: tuple[float, Tensor] | None = None
    for penalty in PENALTIES:
        shrunk = values.clamp(min=0) + penalty * len(x)
        solution = along / shrunk[:, None]
        leverage = (turned.square() / shrunk).sum(dim=1) + 1 / len(x)
        left_out = (y - centre - turned @ solution) / (1 - leverage).clamp(min=1e-9)[:, None]
        error = float(left_out.square().mean())
        if best is None or error < best[0]:
            best = error, vectors @ solution
    assert best is not None
    weight = best[1] / deviation[:, None]
    return weight, centre - mean @ weight
