"""How long a run will take: said early, near enough, and without changing what it computes."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.test_runs import small

from translucid.core.errors import Interrupted
from translucid.runs import forecast
from translucid.runs.forecast import Forecast, Pace, evaluation_seconds
from translucid.runs.run import resume_run, train_recipe
from translucid.runs.setup import set_up
from translucid.training import loop
from translucid.training.config import TrainingConfig
from translucid.training.state import StepPlan


def files(folder: Path) -> dict[str, bytes]:
    """All that a run computes."""
    names = ["metrics.jsonl", "best/model.safetensors", "last/model.safetensors"]
    newest = max((folder / "state").glob("step-*"))
    tensors = [path.relative_to(folder).as_posix() for path in newest.glob("*.safetensors")]
    return {name: (folder / name).read_bytes() for name in [*names, *tensors]}


PAIRS = [
    ("classify", "lstm"),
    pytest.param("translate", "transformer", marks=pytest.mark.slow),
    pytest.param("language", "ensemble", marks=pytest.mark.thorough),
]


@pytest.mark.parametrize(("task", "family"), PAIRS)
def test_measuring_changes_nothing(
    task: str, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an average of the weights and dropout, measured after the third step."""
    chosen = small(task, family, steps=8, evaluate_every=3, ema=0.9)
    train_recipe(chosen, tmp_path / "plain", quiet=True)
    assert "a step" not in (tmp_path / "plain/log.txt").read_text("utf-8"), (
        "it is too quick for that"
    )
    monkeypatch.setattr(forecast, "QUICK", 0.0)
    monkeypatch.setattr(forecast, "FIRST_SECONDS", 0.0)
    train_recipe(chosen, tmp_path / "told", quiet=True)
    log = (tmp_path / "told/log.txt").read_text("utf-8")
    assert re.search(
        r"^about .* for 8 steps: .* a step, 3 evaluations of .*, one every .*; first checkpoint",
        log, re.MULTILINE,
    )  # fmt: skip
    assert files(tmp_path / "plain") == files(tmp_path / "told")


def simulated(done: int, steps: int, every: int, step: float, evaluation: float) -> float:
    seconds = 0.0
    for number in range(done + 1, steps + 1):
        seconds += step
        if number % every == 0 or number == steps:
            seconds += evaluation
    return seconds


@pytest.mark.parametrize("done", [0, 1, 7, 10, 99, 100])
@pytest.mark.parametrize("every", [1, 7, 10, 30, 1000])
def test_forecast_counts_the_steps_and_evaluations_of_a_run(done: int, every: int) -> None:
    forecast = Forecast(0.5, 3.0)
    assert forecast.seconds(done, 100, every) == simulated(done, 100, every, 0.5, 3.0)
    for seconds in (0.0, 4.0, 20.0, 1e9):
        reached = forecast.steps_in(seconds, done, 100, every)
        assert reached == 100 or simulated(done, reached, every, 0.5, 3.0) > seconds
        before = max(reached - 1, done)
        assert simulated(done, before, every, 0.5, 3.0) <= max(seconds, 0.0) or before == done


def told(training: TrainingConfig, seconds: float, done: int = 0, spent: float = 0.0) -> list[str]:
    """By steps that all take so long, the first ten times."""
    lines: list[str] = []
    steps = Pace(training, done, spent, lambda: 12.0, lines.append)
    assert steps.left(done) is None
    steps.ticked(done + 1, 10 * seconds)
    left = steps.left(done + 1)
    assert left is not None, "from the first step"
    assert left > 0
    for step in range(done + 2, done + 30):
        steps.ticked(step, seconds)
    expected = Forecast(seconds, 12.0 if lines else 0.0)
    assert steps.left(done + 29) == pytest.approx(
        expected.seconds(done + 29, training.steps, training.evaluate_every)
    )
    return lines


def test_forecast_line() -> None:
    training = TrainingConfig(steps=1000, evaluate_every=100)
    (line,) = told(training, 1.0)
    assert line == (
        "about 18 min 49 s for 1,000 steps: 1.0 s a step, 10 evaluations of 12.0 s, one every "
        "1 min 40 s; first checkpoint after 1 min 52 s"
    )
    (line,) = told(training, 10.0)
    assert line.endswith("one every 16 min 40 s; first checkpoint after 5 min 0 s")
    assert told(training, 0.001) == [], "it is over before anybody has read it"


def test_earlier_time_limit_is_reported_with_a_remedy() -> None:
    training = TrainingConfig(steps=1000, evaluate_every=100, minutes=5)
    (line,) = told(training, 1.0)
    found = re.search(
        r"training.minutes = 5 ends training at about step (\d+): set training.steps=\1 ", line
    )
    assert found
    assert 250 < int(found[1]) < 300
    (line,) = told(TrainingConfig(steps=1000, evaluate_every=100, minutes=60), 1.0)
    assert "minutes" not in line
    (line,) = told(TrainingConfig(steps=1000, evaluate_every=100, minutes=60), 1.0, 500, 3500.0)
    assert "for 500 steps" in line
    assert "training.minutes = 60 ends training at about step 589: " in line


@pytest.mark.parametrize("ending", [0.0, 40.0])
@pytest.mark.parametrize("factor", [0.25, 1.0, 3.0, 20.0])
def test_steps_adapt_to_a_machine_that_changes_speed(factor: float, ending: float) -> None:
    """Simulate a run whose steps become slower by this factor after 60 s, for another 120 s."""
    training = TrainingConfig(steps=2000, evaluate_every=200, minutes=5, most_steps=20_000)
    plan = StepPlan(training.steps, training.steps)
    lines: list[str] = []
    pace = Pace(training, 0, 0.0, lambda: 12.0, lines.append, ending=lambda took: ending)
    step, seconds, evaluated, places = 0, 0.0, 0, [0.0]
    while step < plan.end:
        step += 1
        took = 0.08 * (factor if 60 < seconds < 180 else 1.0)
        seconds += took
        pace.ticked(step, took)
        if plan.due(step, training.evaluate_every) or step == plan.end:
            evaluated += 1
            seconds += 12.0
            pace.evaluated(12.0)
        if step < plan.end and (end := pace.new_end(plan, step, seconds)):
            plan = plan.ending(end, step)
        places.append(plan.at(step))
    assert 0.9 * 300 < seconds + ending <= 300, "the time limit is used and not exceeded"
    assert pace.limit == 300 - 12 - ending
    assert evaluated == 10, "as planned"
    assert places == sorted(places), "the learning rate schedule never goes back"
    assert places[-1] == pytest.approx(training.steps)
    assert max(np.diff(places)) < 2 * max(factor, 1.0)
    changes = [line for line in lines if " in place of " in line]
    assert bool(changes) == (factor != 1.0) or ending
    # A number of steps that the user set is kept.
    fixed = Pace(
        training.model_copy(update={"most_steps": None}), 0, 0.0, lambda: 12.0, lines.append
    )
    for number in range(1, 100):
        fixed.ticked(number, 3.0)
    assert fixed.new_end(plan, 100, 299.0) is None


def test_a_slow_end_of_the_run_leaves_time_for_training() -> None:
    """After a set-up of 30 s of a minute, with a test that takes longer than the limit."""
    training = TrainingConfig(steps=1000, evaluate_every=100, minutes=1, most_steps=1000)
    pace = Pace(training, 0, 30.0, lambda: 1.0, lambda line: None, ending=lambda took: 100.0)
    assert pace.limit == 54.0
    for step in range(1, 25):
        pace.ticked(step, 0.1)
    end = pace.new_end(StepPlan(1000, 1000), 25, 32.4)
    assert end is not None
    assert 100 < end < 600


def test_slow_evaluations_are_reported_with_a_remedy() -> None:
    (line,) = told(TrainingConfig(steps=1000, evaluate_every=10), 0.1)
    share, every = re.search(
        r"; evaluations take (\d+)% of that time, or at most 20% with "
        r"training.evaluate_every=(\d+)$",
        line,
    ).groups()  # type: ignore[union-attr]
    whole, without = simulated(0, 1000, 10, 0.1, 12.0), simulated(0, 1000, 10, 0.1, 0.0)
    assert int(share) == pytest.approx(100 * (1 - without / whole), abs=1)
    rarely = simulated(0, 100_000, int(every), 0.1, 12.0), simulated(0, 100_000, 1, 0.1, 0.0)
    assert 0.1 < 1 - rarely[1] / rarely[0] <= 0.2
    (line,) = told(TrainingConfig(steps=1000, evaluate_every=200), 0.1)
    assert "training.evaluate_every" not in line, "five of them, a third of the time"
    (line,) = told(TrainingConfig(steps=300, evaluate_every=10), 0.1)
    assert line.endswith("training.evaluate_every=300"), "no more than there are steps"


def test_time_left_uses_the_last_evaluation() -> None:
    """Also in a run so quick that none was measured beforehand, and before it has a forecast."""
    steps = Pace(TrainingConfig(steps=100, evaluate_every=10), 0, 0.0, lambda: 12.0, print)
    steps.ticked(1, 0.05)
    steps.evaluated(1.0)
    assert steps.left(10) == pytest.approx(simulated(10, 100, 10, 0.05, 1.0))
    for step in range(2, 41):
        steps.ticked(step, 0.01)
    assert steps.left(40) == pytest.approx(simulated(40, 100, 10, 0.01, 1.0))
    steps.evaluated(2.0)
    assert steps.left(40) == pytest.approx(simulated(40, 100, 10, 0.01, 2.0))


def test_forecast_ignores_an_evaluation_before_the_first_steps() -> None:
    """It may have made kernels, which takes some seconds once."""
    lines: list[str] = []
    steps = Pace(TrainingConfig(steps=1000, evaluate_every=100), 0, 0.0, lambda: 12.0, lines.append)
    steps.evaluated(50.0)
    for step in range(1, 10):
        steps.ticked(step, 1.0)
    assert "10 evaluations of 12.0 s" in lines[0]


def test_every_evaluation_updates_the_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[float] = []
    monkeypatch.setattr(forecast.Pace, "evaluated", lambda self, seconds: taken.append(seconds))
    train_recipe(small("classify", "still", steps=8, evaluate_every=3), tmp_path, quiet=True)
    assert len(taken) == 3
    assert all(seconds > 0 for seconds in taken)


def test_an_evaluation_is_measured_on_some_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = set_up(small("classify", "still"), lambda line: None)
    clock, counts = [0.0], []
    monkeypatch.setattr(forecast.time, "monotonic", lambda: clock[0])

    def evaluate(network: Any, items: list[Any]) -> None:
        clock[0] += 0.02 * len(items) + 10 * (not counts)  # the first makes kernels, say
        counts.append(len(items))

    monkeypatch.setattr(setup.task, "evaluate", evaluate)
    valid = list(setup.valid) * 20
    seconds = evaluation_seconds(setup.task, setup.network, valid)
    assert seconds == pytest.approx(0.02 * len(valid))
    # Four times as many until it takes half a second, and then once more: what the first of a size
    # makes, the next uses again.
    assert counts == [4, 4, 16, 64, 64]
    assert evaluation_seconds(setup.task, setup.network, []) == 0.0
    counts.clear()
    assert evaluation_seconds(setup.task, setup.network, valid[:7]) == pytest.approx(0.14)
    assert counts == [4, 4, 7]


def stop_at(step: int, folder: Path) -> Callable[[], bool]:
    def asked() -> bool:
        return len((folder / "metrics.jsonl").read_text("utf-8").splitlines()) >= step

    return asked


@pytest.mark.slow
def test_first_checkpoint_is_early_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed after it loses no more."""
    chosen = small("classify", "still", steps=6, evaluate_every=5)
    train_recipe(chosen, tmp_path / "plain", quiet=True)
    monkeypatch.setattr(loop, "FIRST_SAVE", 0.0)
    with pytest.raises(Interrupted):
        train_recipe(chosen, tmp_path / "run", quiet=True, interrupted=stop_at(3, tmp_path / "run"))
    saves = sorted(path.name for path in (tmp_path / "run/state").glob("step-*"))
    assert saves == ["step-00000001", "step-00000003"], "the first, and that of the stop"
    shutil.rmtree(tmp_path / "run/state/step-00000003")
    resume_run(tmp_path / "run", quiet=True)
    assert files(tmp_path / "plain") == files(tmp_path / "run")
