"""Trackers are told what metrics.jsonl holds, change nothing, and cannot end a run."""

import json
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run
from tests.runs.test_runs import small

from translucid.core.errors import ConfigError
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.run import resume_run, train_recipe

# Packages of the same interface, which write down how they are called.
WANDB = """
import json, os
from pathlib import Path
FAILS = {fails!r}
class Run:
    def __init__(self, place): self.place = place
    def _note(self, call, *values):
        if call == FAILS: raise RuntimeError("no more")
        with (self.place / "calls.jsonl").open("a") as file:
            file.write(json.dumps([call, *values]) + "\\n")
    def log(self, values, step): self._note("log", values, step)
    def finish(self): self._note("finish")
def init(*, project, name, id, resume, dir, config, mode):
    place = Path(dir) / "wandb"
    place.mkdir(exist_ok=True)
    run = Run(place)
    if not (place / "latest-run").exists():
        os.symlink(place, place / "latest-run")  # as the real one does
    run._note("init", project, name, id, resume, config, mode)
    return run
"""
MLFLOW = """
import json
from pathlib import Path
from types import SimpleNamespace as Some
class MlflowClient:
    def __init__(self, tracking_uri):
        self.place = Path(tracking_uri.removeprefix("sqlite:///")).parent
        self.known = self.place / "experiment"
    def _note(self, call, *values):
        with (self.place / "calls.jsonl").open("a") as file:
            file.write(json.dumps([call, *values]) + "\\n")
    def get_experiment_by_name(self, name):
        return Some(experiment_id="7") if self.known.exists() else None
    def create_experiment(self, name, artifact_location):
        self.known.touch()
        self._note("create_experiment", name)
        return "7"
    def create_run(self, experiment_id, run_name):
        self._note("create_run", experiment_id, run_name)
        return Some(info=Some(run_id="r"))
    def log_param(self, run_id, key, value): self._note("log_param", run_id, key, value)
    def log_metric(self, run_id, key, value, step): self._note("metric", run_id, key, value, step)
    def set_terminated(self, run_id): self._note("set_terminated", run_id)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Put them where they are found."""
    place = tmp_path / "packages"
    for name in ("WANDB_MODE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)

    def install(fails: str = "") -> None:
        (place / "mlflow").mkdir(parents=True)
        (place / "wandb.py").write_text(WANDB.replace("{fails!r}", repr(fails)), "utf-8")
        (place / "mlflow/__init__.py").touch()
        (place / "mlflow/tracking.py").write_text(MLFLOW, "utf-8")
        monkeypatch.syspath_prepend(place)

    yield install
    for name in ("wandb", "mlflow", "mlflow.tracking"):
        sys.modules.pop(name, None)


def tracked(*names: str) -> Recipe:
    return small("classify", "still", trackers=names, steps=4, evaluate_every=2)


def calls(folder: Path, name: str) -> list[Any]:
    lines = (folder / name / "calls.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def numbers(folder: Path) -> list[tuple[str, float, int]]:
    """What they must be told."""
    told = []
    for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines():
        values = json.loads(line)
        if "valid" in values:
            told += [(f"valid/{k}", v, values["step"]) for k, v in values["valid"].items()]
        else:
            told += [
                (f"train/{key}", values[key], values["step"])
                for key in ("loss", "norm", "learning_rate")
            ]
    return told


def without_speed(told: list[tuple[str, float, int]]) -> list[tuple[str, float, int]]:
    return [row for row in told if row[0] != "train/targets_per_second"]


@pytest.mark.slow
def test_trackers_receive_the_curves_and_change_nothing(
    packages: Callable[..., None], tmp_path: Path
) -> None:
    packages()
    train_recipe(tracked(), tmp_path / "alone", quiet=True)
    train_recipe(tracked("wandb", "mlflow"), tmp_path / "run", quiet=True)
    expected = numbers(tmp_path / "alone")
    assert expected == numbers(tmp_path / "run")
    told = calls(tmp_path / "run", "wandb")
    assert told[0][:3] == ["init", "translucid", "run"]
    assert told[0][-1] == "offline"
    assert told[0][-2]["training.steps"] == 4
    assert told[-1] == ["finish"]
    rows = [(key, value, step) for _, pair, step in told[1:-1] for key, value in pair.items()]
    assert without_speed(rows) == expected
    told = calls(tmp_path / "run", "mlflow")
    assert told[:2] == [["create_experiment", "translucid"], ["create_run", "7", "run"]]
    assert ["log_param", "r", "training.steps", "4"] in told
    rows = [(key, value, step) for call, _, *row in told[2:-1] if call == "metric"
            for key, value, step in [row]]  # fmt: skip
    assert without_speed(rows) == expected
    assert told[-1] == ["set_terminated", "r"]
    weights = [(tmp_path / n / "best/model.safetensors").read_bytes() for n in ("alone", "run")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_resumed_run_keeps_its_tracker_run(packages: Callable[..., None], tmp_path: Path) -> None:
    """Although its tracker has put a link there."""
    packages()
    train_recipe(tracked("wandb", "mlflow"), tmp_path / "run", quiet=True)
    resume_run(tmp_path / "run", ["training.steps=6"], allow_changes=True, quiet=True)
    begun = [told for told in calls(tmp_path / "run", "wandb") if told[0] == "init"]
    assert len(begun) == 2
    assert begun[0][1:5] == begun[1][1:5]
    assert begun[0][4] == "allow"
    assert sum(told[0] == "create_experiment" for told in calls(tmp_path / "run", "mlflow")) == 1


def test_failing_tracker_is_reported_and_dropped(
    packages: Callable[..., None], tmp_path: Path
) -> None:
    packages(fails="log")
    train_recipe(tracked("wandb", "mlflow"), tmp_path / "run", quiet=True)
    said = (tmp_path / "run/log.txt").read_text("utf-8")
    assert said.count("wandb failed (RuntimeError: no more); the run continues without it") == 1
    assert [told[0] for told in calls(tmp_path / "run", "wandb")] == ["init"]
    assert calls(tmp_path / "run", "mlflow")[-1] == ["set_terminated", "r"]


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_missing_tracker_is_refused_at_once(name: str, tmp_path: Path) -> None:
    if find_spec(name) is not None:
        pytest.skip(f"the package {name} is installed")
    message = rf"training.trackers = \['{name}'\]: the package {name} is not installed; pip install"
    with pytest.raises(ConfigError, match=message):
        train_recipe(tracked(name), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    words = ["train", "regress", "--toyland", "60", f"training.trackers={name}"]
    assert f"pip install {name}" in run(*words, cwd=tmp_path).stderr


def test_unknown_tracker_is_refused(tmp_path: Path) -> None:
    asked = run("train", "regress", "--toyland", "9", "training.trackers=comet", cwd=tmp_path)
    assert asked.returncode == 2
    assert "input should be 'tensorboard', 'wandb' or 'mlflow'" in asked.stderr


@pytest.mark.filterwarnings("ignore")  # of mlflow's own packages
def test_the_real_mlflow_holds_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts of a training are two runs of one experiment."""
    tracking = pytest.importorskip("mlflow.tracking", reason="the package mlflow is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    train_recipe(tracked("mlflow"), tmp_path / "run", quiet=True)
    resume_run(tmp_path / "run", ["training.steps=6"], allow_changes=True, quiet=True)
    assert "mlflow failed" not in (tmp_path / "run/log.txt").read_text("utf-8")
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'run/mlflow/mlflow.db'}")
    (experiment,) = [e for e in client.search_experiments() if e.name == "translucid"]
    runs = client.search_runs([experiment.experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED"] * 2
    assert {run.data.params["training.steps"] for run in runs} == {"4", "6"}
    names = {name for name, _, _ in numbers(tmp_path / "run")}
    held = [
        (name, point.value, point.step)
        for run in runs
        for name in names
        for point in client.get_metric_history(run.info.run_id, name)
    ]
    assert sorted(held) == sorted(numbers(tmp_path / "run"))


@pytest.mark.filterwarnings("ignore")  # of wandb's own packages
def test_the_real_wandb_writes_into_the_run_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="the package wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    train_recipe(tracked("wandb"), tmp_path / "run", quiet=True)
    resume_run(tmp_path / "run", ["training.steps=6"], allow_changes=True, quiet=True)
    assert "wandb failed" not in (tmp_path / "run/log.txt").read_text("utf-8")
    written = [*(tmp_path / "run/wandb").glob("offline-run-*/run-*.wandb")]
    assert len({path.name for path in written}) == 1  # one id
    for name, _, _ in numbers(tmp_path / "run"):
        assert all(name.encode() in path.read_bytes() for path in written), name
