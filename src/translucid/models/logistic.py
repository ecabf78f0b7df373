"""Multinomial logistic regression with an L2 penalty, on sparse features.

An example consists of units, such as words, which occur in many examples; a unit has features. So
the matrix of features is the product of two sparse matrices: (examples, units), (units, features).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

SEARCH, ITERATIONS = 20, 100  # maximum iterations for each penalty tried, and for the final fit
HISTORY = 8  # gradients that L-BFGS keeps
TOLERANCE = 1e-6  # of the largest gradient, and of the change in one iteration


@dataclass(frozen=True)
class Entries:
    """The entries of a sparse matrix that are not 0: row, column and value of each."""

    rows: Tensor
    columns: Tensor
    values: Tensor

    @classmethod
    def joined(cls, parts: "Sequence[Entries]") -> "Entries":
        pieces = [(part.rows, part.columns, part.values) for part in parts]
        return cls(*(torch.cat(one) for one in zip(*pieces, strict=True)))

    def of_rows(self, chosen: Tensor) -> "Entries":
        """The entries of the chosen rows, renumbered from 0. chosen: True for each row to keep."""
        kept, number = chosen[self.rows], chosen.cumsum(0) - 1
        return Entries(number[self.rows[kept]], self.columns[kept], self.values[kept])


class SparseMatrix:
    """A constant sparse matrix M and its transpose, by which dense matrices are multiplied."""

    def __init__(self, entries: Entries, shape: tuple[int, int]) -> None:
        self._forward = _by_row(entries.rows, entries.columns, entries.values, shape[0])
        self._backward = _by_row(entries.columns, entries.rows, entries.values, shape[1])

    def times(self, x: Tensor) -> Tensor:
        """M x."""
        return _product(self._forward, x)

    def transposed_times(self, x: Tensor) -> Tensor:
        """Mᵀ x."""
        return _product(self._backward, x)


def _by_row(rows: Tensor, columns: Tensor, values: Tensor, count: int) -> tuple[Tensor, ...]:
    order = rows.argsort(stable=True)
    starts = torch.searchsorted(rows[order], torch.arange(count, device=rows.device))
    return columns[order], starts, values[order]


def _product(matrix: tuple[Tensor, ...], x: Tensor) -> Tensor:
    columns, starts, values = matrix
    return F.embedding_bag(columns, x, starts, mode="sum", per_sample_weights=values)


class Objective(Protocol):
    """A classification problem: examples with their classes. `solve` minimizes the mean loss of
    these examples."""

    @property
    def classes(self) -> Tensor: ...  # (examples,)

    def start(self) -> Tensor:
        """Weights of 0: (features + 1, outputs); the last row is the bias."""
        ...

    def logits(self, weight: Tensor) -> Tensor:
        """The scores (examples, outputs)."""
        ...

    def loss_of(self, logits: Tensor) -> Tensor:
        """The mean loss of the examples. logits: the scores."""
        ...

    def gradient(self, error: Tensor) -> Tensor:
        """The gradient of the mean loss with respect to the weights, without the bias: (features,
        outputs). error: the gradient of the mean loss with respect to the scores, (examples,
        outputs)."""
        ...

    def weighted(self, error: Tensor) -> Tensor:
        """The errors times the weight of each example."""
        ...


@dataclass(frozen=True)
class DenseProblem:
    """A classification problem whose features are a dense matrix. importance: the weight of each
    example in the loss."""

    x: Tensor  # (examples, features)
    classes: Tensor  # (examples,)
    importance: Tensor  # (examples,)
    outputs: int

    def start(self) -> Tensor:
        return torch.zeros(self.x.shape[1] + 1, self.outputs).to(self.x)

    def logits(self, weight: Tensor) -> Tensor:
        return self.x @ weight[:-1] + weight[-1]

    def loss_of(self, logits: Tensor) -> Tensor:
        losses = F.cross_entropy(logits, self.classes, reduction="none")
        return (losses * self.importance).mean()

    def gradient(self, error: Tensor) -> Tensor:
        return self.x.T @ error

    def weighted(self, error: Tensor) -> Tensor:
        return error * self.importance[:, None]

    def loss(self, weight: Tensor) -> float:
        """The sum of the losses of all examples, each multiplied by its importance."""
        return float(self.loss_of(self.logits(weight))) * len(self.classes)


@dataclass(frozen=True)
class Problem:
    """A classification problem: examples, given by their features, and their classes. scale: a
    factor for each feature (features, 1)."""

    examples: SparseMatrix  # (examples, units)
    units: SparseMatrix  # (units, features)
    classes: Tensor  # (examples,)
    scale: Tensor
    outputs: int

    def logits(self, weight: Tensor) -> Tensor:
        """The scores (examples, outputs). weight: (features + 1, outputs); the last row is the
        bias."""
        return self.examples.times(self.units.times(weight[:-1] * self.scale)) + weight[-1]

    def start(self) -> Tensor:
        size = (len(self.scale) + 1, self.outputs)
        return torch.zeros(size, dtype=self.scale.dtype, device=self.scale.device)

    def loss_of(self, logits: Tensor) -> Tensor:
        return F.cross_entropy(logits, self.classes)

    def gradient(self, error: Tensor) -> Tensor:
        return self.units.transposed_times(self.examples.transposed_times(error)) * self.scale

    def weighted(self, error: Tensor) -> Tensor:
        return error

    def score(self, weight: Tensor) -> tuple[int, float]:
        """The number of wrong predictions, and the mean loss."""
        logits = self.logits(weight)
        wrong = int((logits.argmax(dim=-1) != self.classes).sum())
        return wrong, float(F.cross_entropy(logits, self.classes))


@torch.no_grad()
def solve(
    problem: Objective,
    penalty: float,
    start: Tensor | None = None,
    *,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Tensor:
    """The weights (features + 1, outputs) with the smallest mean loss plus penalty / 2 ‖W‖², by
    L-BFGS (Liu & Nocedal 1989). The bias has no penalty."""
    weight = problem.start()
    if start is not None:
        weight.copy_(start)
    count = len(problem.classes)

    def objective() -> float:
        logits = problem.logits(weight)
        error = logits.softmax(dim=-1)
        error[torch.arange(count, device=error.device), problem.classes] -= 1
        error = problem.weighted(error / count)
        gradient = problem.gradient(error) + penalty * weight[:-1]
        weight.grad = torch.cat([gradient, error.sum(dim=0, keepdim=True)])
        return float(problem.loss_of(logits) + penalty / 2 * weight[:-1].square().sum())

    torch.optim.LBFGS(
        [weight], max_iter=iterations, max_eval=2 * iterations, history_size=HISTORY,
        tolerance_grad=tolerance, tolerance_change=tolerance, line_search_fn="strong_wolfe",
    ).step(objective)  # fmt: skip
    return weight


def best_penalty(
    train: Problem, held_out: Problem, penalties: Sequence[float]
) -> tuple[float, Tensor]:
    """Choose the penalty with the fewest errors on held-out examples; if several are equal, the one
    with the lowest loss. Return the penalty and the weights fitted with it. penalties: strongest
    first; each is added to the summed loss, not to the mean loss."""
    tried: list[tuple[tuple[int, float], float, Tensor]] = []
    weight: Tensor | None = None
    for penalty in penalties:
        weight = solve(train, penalty / len(train.classes), weight, iterations=SEARCH)
        tried.append((held_out.score(weight), penalty, weight))
    _, penalty, weight = min(tried, key=lambda one: one[0])
    return penalty, weight
