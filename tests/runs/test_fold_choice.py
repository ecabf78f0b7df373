"""Few validation rows: five folds choose between the network and the baseline."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.in_process import run
from tests.runs.test_resume import after

from translucid.core.errors import Interrupted
from translucid.model import load
from translucid.models.linear import ridge
from translucid.runs import fold_choice
from translucid.runs.fold_choice import FOLDS, FoldChoice, choose, folds_of, joined
from translucid.runs.recipe import recipe
from translucid.runs.run import train_recipe
from translucid.runs.setup import Setup, set_up
from translucid.tasks.metrics import r_squared
from translucid.tasks.significance import of_lines, ratio, standard_error

CPU = torch.device("cpu")
STEPS = 7


def write(path: Path, rows: list[tuple[float, float]]) -> str:
    """A table of two numbers and their noisy sum."""
    rng = random.Random(path.name)
    lines = [f"{a:.4f},{b:.4f},{a + b + rng.gauss(0, 0.3):.4f}" for a, b in rows]
    path.write_text("\n".join(["a,b,y", *lines, ""]), "utf-8")
    return str(path)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def points(count: int, seed: int = 0) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    return [(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(count)]


def values(train: str, valid: str) -> dict[str, Any]:
    training = {
        "steps": 12,
        "evaluate_every": STEPS,
        "device": "cpu",
        "batch_tokens": 16,
        "seed": 5,
    }
    return {
        "task": {"kind": "regress"}, "model": {"hidden": [8], "dropout": 0.2},
        "data": {"train": [train], "valid": [valid], "standardise": False}, "training": training,
    }  # fmt: skip


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    train = write(tmp_path / "train.csv", points(40))
    valid = write(tmp_path / "valid.csv", points(15, seed=1))
    return set_up(recipe.parse(values(train, valid)), lambda line: None)


def test_the_score_of_the_baseline_is_that_of_ridge_regression_on_each_fold(setup: Setup) -> None:
    items = [*setup.items, *setup.valid]
    fold = folds_of(setup, items)
    x = torch.tensor([item.features for item in items]).double()
    y = torch.tensor([item.targets for item in items]).double()
    predicted, gold = list[float](), list[float]()
    for number in range(FOLDS):
        apart = torch.from_numpy(fold == number)
        weight, bias = ridge(x[~apart], y[~apart])
        predicted += (x[apart] @ weight + bias).flatten().tolist()
        gold += y[apart].flatten().tolist()
    chosen = choose(setup, STEPS, CPU)
    assert chosen.baseline == pytest.approx(r_squared(predicted, gold), abs=1e-5)
    assert chosen.rows == len(items) == 55
    assert chosen.metric == "r_squared"


def test_the_network_of_a_fold_is_that_of_a_run_on_its_rows(setup: Setup, tmp_path: Path) -> None:
    """A run that ends at the same step of the same schedule."""
    items = list(setup.items)[:30]
    lines = Path(setup.recipe.data.train[0]).read_text("utf-8").splitlines()
    (tmp_path / "rest.csv").write_text("\n".join([*lines[:31], ""]), "utf-8")
    own = fold_choice._network(setup, items, STEPS, CPU)
    chosen = recipe.parse(values(str(tmp_path / "rest.csv"), str(tmp_path / "valid.csv")))
    with pytest.raises(Interrupted):
        train_recipe(chosen, tmp_path / "run", quiet=True, interrupted=after(STEPS))
    train_recipe(chosen, tmp_path / "whole", quiet=True)  # ends later
    same, other = (weights_of(tmp_path / name / "last") for name in ("run", "whole"))
    for name, weight in own.state_dict().items():
        assert torch.equal(weight, same[name])
    assert any(not torch.equal(weight, other[name]) for name, weight in own.state_dict().items())


def test_rows_with_equal_inputs_are_in_the_same_fold(setup: Setup) -> None:
    items = list(setup.items)
    copies = [replace(item, targets=(9.0,)) for item in items]
    fold = folds_of(setup, [*items, *copies])
    assert (fold[:40] == fold[40:]).all()
    assert sorted(np.bincount(fold)) == [16] * FOLDS


def test_the_standard_error_is_that_of_the_mean_difference() -> None:
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(2, 400))
    losses[1] = losses[0] + 0.1 * losses[1]  # both models find the same rows difficult
    one, two = (
        of_lines(range(400), np.stack([row, np.ones(400)], axis=1), ratio) for row in losses
    )
    expected = np.std(losses[0] - losses[1], ddof=1) / 20
    assert standard_error(one, two) == pytest.approx(expected, rel=0.1)
    halves = [of_lines(range(200), part, ratio) for part in np.split(one.rows, 2)]
    assert joined(halves).value == pytest.approx(one.value)


@pytest.mark.parametrize(
    ("network", "baseline", "error", "higher", "better"),
    [(0.9, 0.8, 0.05, True, True), (0.9, 0.8, 0.2, True, False), (0.8, 0.9, 0.05, True, False),
     (0.8, 0.9, 0.05, False, True), (0.8, 0.9, 0.2, False, False), (0.9, 0.8, 0.05, False, False)],
)  # fmt: skip
def test_the_network_must_be_better_by_more_than_one_standard_error(
    network: float, baseline: float, error: float, higher: bool, better: bool
) -> None:
    choice = FoldChoice("loss", 50, network, baseline, error, higher)
    assert choice.network_is_better == better
    assert (" is better by more than" in choice.reason) == better


def test_folds_do_not_decide_with_many_rows_little_time_or_a_start_model(setup: Setup) -> None:
    assert fold_choice.applies(setup, 100, 1.0, 60.0)
    assert fold_choice.applies(setup, 4000, 1.0, 60.0)
    assert not fold_choice.applies(setup, 4001, 1.0, 60.0)
    assert not fold_choice.applies(setup, 100, 1.0, 4.0)
    assert not fold_choice.applies(replace(setup, valid=setup.valid * 100), 100, 1.0, 60.0)
    assert not fold_choice.applies(replace(setup, start={"path": "x"}), 100, 1.0, 60.0)
    assert not fold_choice.applies(replace(setup, baseline=None), 100, 1.0, 60.0)


def labelled(path: Path, count: int, *, linear: bool) -> str:
    rng = random.Random(path.name)
    lines = []
    for _ in range(count):
        a, b = rng.uniform(-1, 1), rng.uniform(-1, 1)
        value = a + b if linear else a * b
        value += rng.gauss(0, 0.4 if linear else 0.05)
        lines.append(f"{a:.4f},{b:.4f},{'yes' if value > 0 else 'no'}")
    path.write_text("\n".join(["a,b,label", *lines, ""]), "utf-8")
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("linear", [True, False])
def test_a_table_with_few_rows_gets_the_model_that_fits_its_rule(
    linear: bool, tmp_path: Path
) -> None:
    """The sign of a sum is linear; that of a product is not."""
    labelled(tmp_path / "t.csv", 120, linear=linear)
    done = run(
        "train", "table", "--train", "t.csv", "--out", "x", "training.device=cpu",
        "training.steps=200", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = done.stdout + done.stderr
    assert load(tmp_path / "x").network.fits == linear
    assert "in 5 folds of 120 rows, the network's loss " in printed
    assert ("x/best is the network: " in printed) != linear
    assert (tmp_path / "x/network").exists() == linear
