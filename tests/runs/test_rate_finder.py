"""`train --find-rate`: a learning rate range test."""

import re
from pathlib import Path

import pytest
import torch
from tests.in_process import run

from translucid.runs.forecast import trial_steps
from translucid.runs.rate_finder import BELOW, WINDOW, RateTest, diverged, find_rate, smoothed
from translucid.runs.recipe import recipe
from translucid.runs.setup import set_up

SMALL = [
    "tokenizer.kind=word", "training.batch_tokens=300", "training.device=cpu", "model.d_model=16",
    "model.layers=1", "model.heads=2", "training.steps=5",
]  # fmt: skip


def test_the_smoothed_loss_does_not_lag_behind() -> None:
    """The centred mean of a symmetric valley is smallest where the valley is."""
    valley = [abs(step - 40) / 10 for step in range(80)]
    means = smoothed(valley)
    assert means.index(min(means)) == 40
    test = RateTest(tuple(10 ** (step / 20 - 4) for step in range(80)), tuple(means))
    assert test.suggested == pytest.approx(10**-2 / BELOW, rel=0.05)


def test_only_a_rising_loss_has_diverged() -> None:
    """A loss that falls quickly once lay below the mean of the losses before it."""
    falling = [2.0 ** (-step / 3) for step in range(80)]
    assert not any(diverged(falling[:count]) for count in range(1, 81))
    rising = [*falling, *[4.0] * WINDOW]
    assert diverged(rising)


def test_the_name_of_the_picture_is_checked_before_training(tmp_path: Path) -> None:
    done = run("train", "toyland-regress-mlp", "--find-rate", "--out", "rate", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: rate: the file name must end in .svg, .png, .pdf\n"


def test_trial_steps_are_steps_of_gradient_descent() -> None:
    """One step of SGD without momentum, clipping or decay, computed by hand."""
    asked = recipe.parse(
        {"task": {"kind": "classify"}, "data": {"toyland": 60}},
        [*SMALL, "training.optimizer=sgd", "training.momentum=0", "training.weight_decay=0",
         "training.clip_norm=1e9", "model.dropout=0"],
    )  # fmt: skip
    setup, twin = (set_up(asked, lambda line: None) for _ in range(2))
    before = {name: p.detach().clone() for name, p in setup.network.named_parameters()}
    device = torch.device("cpu")
    (step,) = trial_steps(setup.network, asked, setup.task, setup.items, device, [0.5])

    from translucid.runs.batches import Stream

    batch = next(Stream(twin.task, twin.items, asked))
    loss = twin.task.loss(twin.network, batch) / batch.count
    loss.backward()
    assert step.loss == pytest.approx(float(loss.detach()), rel=1e-5)
    for name, parameter in twin.network.named_parameters():
        if parameter.grad is not None:
            moved = dict(setup.network.named_parameters())[name]
            torch.testing.assert_close(moved, before[name] - 0.5 * parameter.grad)


@pytest.mark.slow
def test_the_command_prints_a_rate_that_trains_and_draws_the_test(tmp_path: Path) -> None:
    words = ["train", "classify", "--toyland", "200", *SMALL]
    done = run(*words, "--find-rate", "--out", "rate.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rate = re.search(r"^training\.learning_rate=(\S+)$", done.stdout, re.M)
    assert rate is not None
    assert 1e-4 < float(rate[1]) < 1e-1
    assert "learning rate" in (tmp_path / "rate.svg").read_text("utf-8")
    assert f"training.learning_rate={rate[1]}" in done.stdout.splitlines()[-1], "the next command"
    assert not (tmp_path / "runs").exists(), "nothing was trained"
    again = run(*words, "--out", "run", f"training.learning_rate={rate[1]}", cwd=tmp_path)
    assert again.returncode == 0, again.stderr


def test_a_model_without_gradient_steps_has_no_rate(tmp_path: Path) -> None:
    asked = recipe.parse(
        {"task": {"kind": "regress"}, "data": {"toyland": 60}, "model": {"kind": "linear"}}
    )
    with pytest.raises(ValueError, match=r"--find-rate: model\.kind = linear"):
        find_rate(asked, lambda line: None)
