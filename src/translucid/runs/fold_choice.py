"""Choose between the network and the baseline of a run by cross-validation.

A small validation set cannot show which of two good models is better. Both are therefore trained
again on some folds of the data and scored on the others. The baseline is the simpler model: the
network replaces it only if it is better by more than one standard error (the one-standard-error
rule of Breiman, Friedman, Olshen and Stone 1984, section 3.4.3).
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from translucid.models import ModelConfig, Network, build
from translucid.models.mlp import MLP
from translucid.runs.batches import Stream
from translucid.runs.recipe import baseline
from translucid.runs.setup import Setup
from translucid.tasks.base import Score
from translucid.tasks.significance import Sums, standard_error
from translucid.training.loop import Watchers, train
from translucid.training.state import State, StepPlan, random_state_kept, seed_generators

FOLDS = 5
FEW = 1000  # validation rows; with more, their score decides
# Of all folds: training steps, and rows times weights. With more, the validation score decides.
# These are not seconds, so that the choice does not depend on other processes.
MOST_STEPS, MOST_WORK = 20_000, 5e11


@dataclass(frozen=True)
class FoldChoice:
    """The scores of both models on rows that they were not trained on."""

    metric: str
    rows: int
    network: float
    baseline: float
    error: float  # standard error of their difference
    higher_is_better: bool

    @property
    def network_is_better(self) -> bool:
        """Whether the network is better by more than one standard error."""
        gain = self.network - self.baseline
        return (gain if self.higher_is_better else -gain) > self.error

    @property
    def reason(self) -> str:
        """The scores as the reason for the choice."""
        numbers = (
            f"network {self.network:.4g}, baseline {self.baseline:.4g}, standard error of the "
            f"difference {self.error:.2g}"
        )
        verdict = "is" if self.network_is_better else "is not"
        return (
            f"in {FOLDS} folds of {self.rows:,} rows, the network's {self.metric} {verdict} better "
            f"by more than one standard error ({numbers})"
        )


def applies(setup: Setup, steps: int, seconds: float, allowed: float) -> bool:
    """Whether to use folds for the choice. steps: the step at which the network was best; seconds:
    the time that this took; allowed: the time that is left."""
    rows = FOLDS * steps * setup.recipe.training.batch_tokens
    return (
        setup.task.traits.cross_validated
        and setup.baseline is not None
        and setup.start is None  # the folds' networks would not start from that model
        and len(setup.valid) < FEW
        and len(setup.items) + len(setup.valid) >= 2 * FOLDS
        and steps * FOLDS <= MOST_STEPS
        and rows * setup.network.parameters_count <= MOST_WORK
        and FOLDS * seconds <= allowed
    )


def choose(setup: Setup, steps: int, device: torch.device) -> FoldChoice:
    """Score the network and the baseline of a run by cross-validation with five folds of its
    training and validation rows.

    steps: the step at which the run's network was best. The networks of the folds stop there, so
    the rows on which a network is scored do not influence its training.
    """
    assert setup.baseline is not None
    items = [*setup.items, *setup.valid]
    config = cast(ModelConfig, setup.baseline.bundle.network.config)
    criterion = setup.task.criterion(setup.recipe.training.best_metric)
    fold = folds_of(setup, items)
    networks, baselines = list[Sums](), list[Sums]()
    with random_state_kept(device):
        for number in sorted(set(fold.tolist())):
            rest = [item for item, own in zip(items, fold, strict=True) if own != number]
            apart = [item for item, own in zip(items, fold, strict=True) if own == number]
            own = _network(setup, rest, steps, device)
            other = build(config)
            baseline.fit(other, setup.task, rest, setup.recipe.training.seed)
            for network, sums in ((own, networks), (other.to(device).eval(), baselines)):
                sums.append(setup.task.evaluate(network, apart).sums()[criterion.metric])
    one, two = joined(networks), joined(baselines)
    return FoldChoice(
        criterion.metric, len(items), one.value, two.value, standard_error(one, two),
        criterion.higher_is_better,
    )  # fmt: skip


def folds_of(setup: Setup, items: Sequence[Any]) -> NDArray[np.int64]:
    """The fold of each item. Items with equal inputs are in the same fold."""
    inputs = setup.task.collate(items).inputs["x"]
    groups = np.unique(inputs.numpy(), axis=0, return_inverse=True)[1].reshape(-1)
    random = np.random.default_rng(setup.recipe.training.seed)
    fold = random.permutation(int(groups.max()) + 1) % FOLDS
    return np.asarray(fold[groups], dtype=np.int64)


def joined(parts: Sequence[Sums]) -> Sums:
    """Join the sums of several disjoint sets of examples."""
    rows = np.concatenate([part.rows for part in parts])
    return Sums(tuple(range(len(rows))), rows, parts[0].metric)


def _network(setup: Setup, items: Sequence[Any], steps: int, device: torch.device) -> Network:
    """The run's network, trained on these items for this many steps."""
    changed = {"evaluate_every": setup.recipe.training.steps + 1, "save_every": None}
    changed |= {"patience": None, "minutes": None}
    training = setup.recipe.training.model_copy(update=changed)
    recipe = setup.recipe.model_copy(update={"training": training})
    seed_generators(training.seed, device)
    network = build(cast(ModelConfig, setup.network.config)).to(device)
    if isinstance(network, MLP) and network.standardise is not None:
        network.standardise.fit(setup.task.collate(items).inputs["x"])
    state = State(network, training)
    state.plan = StepPlan(training.steps, max(steps, 1))
    last: list[Network] = []

    def evaluated(_: nn.Module, __: Score, ___: bool) -> None:
        last.append(copy.deepcopy(network).eval())  # with averaged weights, if there are any

    few = items[:1]  # the loop scores its last step, but this score is not used
    batches = Stream(setup.task, items, recipe)
    train(state, setup.task, batches, few, training, Watchers(evaluated=evaluated))
    return last[-1]
