"""Sizes that end within a stated time: as large as fit, said, and the run is that of its recipe."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.in_process import run

from translucid.runs import forecast
from translucid.runs.forecast import USED, Picks, fit, step_seconds
from translucid.runs.recipe import automatic_sizes, recipe
from translucid.runs.recipe.automatic_sizes import Amount
from translucid.runs.recipe.examples import load_examples, prepare
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.run import train_recipe
from translucid.runs.setup import set_up

Clock = Callable[[int], float]  # from d_model to the seconds of a step


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Clock, float], list[int]]:
    """A machine on which steps take as long as told; gives the sizes that were tried."""
    tried: list[int] = []

    def at(step: Clock, evaluation: float) -> list[int]:
        def seconds(network: Any, chosen: Recipe, *rest: Any) -> float:
            tried.append(chosen.model["d_model"])
            return step(chosen.model["d_model"])

        monkeypatch.setattr(forecast, "step_seconds", seconds)
        monkeypatch.setattr(forecast, "evaluation_seconds", lambda *rest: evaluation)
        return tried

    return at


def chosen(
    *overrides: str, minutes: float = 60, words: int = 10**7
) -> tuple[Picks, list[str], Recipe]:
    """What is picked, as if there were so many words."""
    asked = recipe.parse(
        {"task": {"kind": "classify"}, "data": {"toyland": 60}},
        [f"training.minutes={minutes}", "tokenizer.kind=word", "training.device=cpu", *overrides],
    )
    examples = load_examples(asked, lambda line: None)
    known = prepare(asked, examples)
    items = known.task.training_items(examples.train, asked.data)
    amount = Amount(60, words, 100)
    picks, lines = fit(asked, amount, known, items, items, torch.device("cpu"))
    return picks, lines, automatic_sizes.with_picks(asked, picks)[0]


def full_steps(words: int) -> int:
    """That the data asks for, of every size."""
    values = recipe.parse({"task": {"kind": "classify"}})
    picks = automatic_sizes.pick(values, Amount(60, words, 100), "cpu")
    steps: int = picks["training"]["steps"]
    return steps


def test_with_enough_time_the_size_fits_the_data(clocked: Any) -> None:
    tried = clocked(lambda d_model: 1e-6, 0.0)
    _, lines, filled = chosen()
    by_data = automatic_sizes.pick(filled, Amount(60, 10**7, 100), "cpu")
    assert tried == [64, 128, 256, 512]
    assert filled.model["d_model"] == by_data["model"]["d_model"] == 512
    assert filled.training.steps == by_data["training"]["steps"]
    assert len(lines) == 1
    assert lines[0].startswith("in 60 minutes here: d_model=512 layers=4, 0.001 ms a step, ")


@pytest.mark.slow
def test_largest_size_that_completes_half_of_its_steps_is_chosen(clocked: Any) -> None:
    """Twice as wide is four times as slow; 256 gets through seven tenths of its steps."""
    words, minutes = 10**7, 60.0
    full = full_steps(words)
    second = 60 * USED * minutes / (0.7 * full)  # of 256: seven tenths fit
    tried = clocked(lambda d_model: second * (d_model / 256) ** 2, 0.0)
    _, lines, filled = chosen(minutes=minutes, words=words)
    assert tried == [64, 128, 256, 512], "it is known only by trying"
    assert filled.model["d_model"] == 256
    assert filled.training.steps == pytest.approx(0.7 * full, abs=1)
    assert filled.training.warmup == filled.training.steps // 20
    assert filled.training.steps * second <= 60 * USED * minutes
    assert re.fullmatch(r"in 60 minutes here: d_model=256 layers=3, .* a step, [\d,]+ of the "
                        r"[\d,]+ steps intended for this data", lines[0])  # fmt: skip
    longer = int(re.fullmatch(r"  --minutes (\d+) would be enough for all of them", lines[1])[1])  # type: ignore[index]
    larger = int(re.fullmatch(
        r"  --minutes (\d+) would be enough for the next size, d_model=512 layers=4", lines[2])[1])  # type: ignore[index]  # fmt: skip
    _, lines, filled = chosen(minutes=longer, words=words)
    assert filled.training.steps == full, "what it says is true"
    _, lines, filled = chosen(minutes=larger, words=words)
    assert filled.model["d_model"] == 512
    assert filled.training.steps == full
    assert len(lines) == 1


def test_smallest_size_on_a_slow_machine(clocked: Any) -> None:
    tried = clocked(lambda d_model: 60.0, 0.0)
    _, _, filled = chosen(minutes=60)
    assert tried == [64]
    assert filled.model["d_model"] == 64
    assert filled.training.steps == int(60 * USED)


@pytest.mark.parametrize("evaluation", [0.0, 1.0, 60.0, 1e5])
def test_evaluations_leave_time_for_steps(evaluation: float, clocked: Any) -> None:
    clocked(lambda d_model: 1.0, evaluation)
    _, _, filled = chosen(minutes=60)
    training = filled.training
    evaluations = -(-training.steps // training.evaluate_every)
    budget = 60 * USED * 60
    if evaluation <= budget / 4:
        assert training.steps + evaluations * evaluation <= budget + evaluation
    else:
        assert evaluations == 1
    assert training.steps >= 0.7 * budget


def test_settings_of_the_user_are_kept(clocked: Any) -> None:
    tried = clocked(lambda d_model: d_model / 128, 0.0)
    _, lines, filled = chosen("training.steps=3000", minutes=60)
    assert filled.training.steps == 3000
    assert filled.model["d_model"] == 128, "the largest of which all 3000 fit into 3060 s"
    assert tried == [64, 128, 256]
    assert "3,000 of the 3,000 steps" in lines[0]


@pytest.mark.parametrize(
    ("overrides", "is_open"),
    [([], True), (["model.d_model=64"], False), (["model.layers=1"], False),
     (["training.steps=9"], True), (["model.dropout=0.1"], True)],
)  # fmt: skip
def test_sizes_set_by_the_user_are_not_chosen(overrides: list[str], is_open: bool) -> None:
    asked = recipe.parse({"task": {"kind": "tag"}}, ["training.minutes=3", *overrides])
    assert forecast.is_open(asked) == is_open
    assert not forecast.is_open(recipe.parse({"task": {"kind": "tag"}}, overrides))


def test_a_step_is_measured_by_taking_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first aside, at a learning rate of 0."""
    asked = recipe.parse(
        {"task": {"kind": "classify"}, "data": {"toyland": 60}, "tokenizer": {"kind": "word"},
         "model": {"d_model": 16, "heads": 2, "layers": 1}},
        ["training.batch_tokens=200", "training.device=cpu"],
    )  # fmt: skip
    setup = set_up(asked, lambda line: None)
    times = iter(range(0, 1000, 5))
    monkeypatch.setattr(forecast.time, "monotonic", lambda: float(next(times)))
    before = [p.clone() for p in setup.network.parameters()]
    seconds = step_seconds(setup.network, asked, setup.task, setup.items, torch.device("cpu"))
    assert seconds == 5.0
    assert all(torch.equal(a, b) for a, b in zip(before, setup.network.parameters(), strict=True))


@pytest.mark.slow
def test_timed_run_equals_the_run_of_its_recipe(tmp_path: Path) -> None:
    """Measuring leaves nothing behind: the recipe it wrote trains the same model to the bit."""
    words = ["train", "classify", "--toyland", "60", "--minutes", "9", "--out", "run",
             "tokenizer.kind=word", "training.batch_tokens=300", "training.device=cpu",
             "training.steps=3", "training.log_every=1"]  # fmt: skip
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "in 9 minutes here: d_model=128 layers=2, " in done.stderr
    assert "model.d_model=128 " in done.stderr
    resolved = recipe.read(tmp_path / "run/recipe.toml")
    assert resolved.training.minutes == 9
    train_recipe(resolved, tmp_path / "again", quiet=True)
    for name in ("metrics.jsonl", "last/model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
