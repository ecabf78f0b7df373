"""Experiment trackers: TensorBoard, Weights & Biases and MLflow, if they are installed.

They write into the run folder. Nothing is sent anywhere unless you set the tracker's own variables
(WANDB_MODE, MLFLOW_TRACKING_URI).
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from translucid.core.atomic_files import saving
from translucid.core.errors import ConfigError
from translucid.training.config import TrackerName, TrainingConfig

PROJECT = "translucid"
FOLDERS = ("tensorboard", "wandb", "mlflow")  # in the run folder


def chosen(training: TrainingConfig) -> list[TrackerName]:
    """The trackers of a recipe, each once."""
    first: list[TrackerName] = ["tensorboard"] if training.tensorboard else []
    return list(dict.fromkeys([*first, *training.trackers]))


def check_installed(training: TrainingConfig) -> None:
    """Refuse trackers that are not installed."""
    for name in chosen(training):
        if find_spec(name) is None:
            key = "tensorboard = true" if training.tensorboard else f"trackers = [{name!r}]"
            raise ConfigError(
                f"training.{key}: the package {name} is not installed; pip install {name}"
            )


class Trackers:
    """The trackers of a run. One that fails is reported and dropped: metrics.jsonl has the same
    values."""

    def __init__(
        self, names: Sequence[TrackerName], folder: Path, step: int, settings: Mapping[str, Any],
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._say = say
        self._open: dict[str, Any] = {}
        for name in names:
            self._try(name, partial(self._begin, name, folder, step, settings))

    def _begin(
        self, name: TrackerName, folder: Path, step: int, settings: Mapping[str, Any]
    ) -> None:
        classes = {"tensorboard": TensorBoard, "wandb": Wandb, "mlflow": MLflow}
        self._open[name] = classes[name](folder, step, settings)

    def add(self, name: str, value: float, step: int) -> None:
        for key, tracker in [*self._open.items()]:
            self._try(key, partial(tracker.add, name, value, step))

    def close(self) -> None:
        for key, tracker in [*self._open.items()]:
            self._try(key, tracker.close)

    def _try(self, name: str, act: Callable[[], None]) -> None:
        if name == "tensorboard":  # part of the run, so its errors end the run
            act()
            return
        try:
            act()
        except Exception as error:  # of another package
            self._open.pop(name, None)
            self._say(
                f"{name} failed ({type(error).__name__}: {error}); the run continues without it"
            )


class TensorBoard:
    def __init__(self, folder: Path, step: int, settings: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = folder / "tensorboard"
        self._events: Any = SummaryWriter(str(self._folder), purge_step=step)

    def add(self, name: str, value: float, step: int) -> None:
        with saving(self._folder):
            self._events.add_scalar(name, value, step)

    def close(self) -> None:
        self._events.close()


class Wandb:
    """The Weights & Biases tracker; a resumed run keeps its id."""

    def __init__(self, folder: Path, step: int, settings: Mapping[str, Any]) -> None:
        wandb = import_module("wandb")
        place = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
        self._run: Any = wandb.init(
            project=PROJECT, name=folder.name, id=place, resume="allow",
            dir=str(folder.absolute()), config=dict(settings),
            mode=os.environ.get("WANDB_MODE", "offline"),
        )  # fmt: skip

    def add(self, name: str, value: float, step: int) -> None:
        self._run.log({name: value}, step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    def __init__(self, folder: Path, step: int, settings: Mapping[str, Any]) -> None:
        tracking = import_module("mlflow.tracking")
        place = folder.absolute() / "mlflow"
        place.mkdir(exist_ok=True)
        address = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{place / 'mlflow.db'}")
        self._client: Any = tracking.MlflowClient(tracking_uri=address)
        experiment = self._client.get_experiment_by_name(PROJECT)
        if experiment is None:
            artifacts = (place / "artifacts").as_uri()
            number = self._client.create_experiment(PROJECT, artifact_location=artifacts)
        else:
            number = experiment.experiment_id
        run = self._client.create_run(number, run_name=folder.name)
        self._run: str = run.info.run_id
        for key, value in settings.items():
            self._client.log_param(self._run, key, str(value)[:250])  # its maximum length

    def add(self, name: str, value: float, step: int) -> None:
        self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)
