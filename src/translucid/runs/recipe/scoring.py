"""What decides a score beside the model: how examples are read and cut, how answers are found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from translucid.core.config import unknown_key
from translucid.core.errors import ConfigError
from translucid.tasks.model_folder import Bundle
from translucid.tasks.options import WRITTEN, DataConfig, DecodingConfig
from translucid.tasks.registry import TASKS


@dataclass(frozen=True)
class Settings:
    """The sections data and decoding that a model is scored with."""

    data: DataConfig
    decoding: DecodingConfig
    values: dict[str, Any]  # those of their keys that decide a score of this task, and are set
    changed: dict[str, Any]  # what the run had instead, of those that differ

    def line(self) -> str:
        """In words."""
        as_trained = "scored as in training"
        shown = " ".join(f"{key}={_shown(value)}" for key, value in self.values.items())
        if self.changed:
            was = ", ".join(f"{key} was {_shown(value)}" for key, value in self.changed.items())
            as_trained = f"scored otherwise than in training ({was})"
        return f"{as_trained}: {shown}" if shown else as_trained


def settings_of(held: Bundle, options: Mapping[str, Any]) -> Settings:
    """As in the run that made a model, but for the options; one without effect is refused."""
    task = TASKS[held.task]
    keys = (*task.data_keys, *task.decoding_keys)
    allowed = (*keys, *WRITTEN)
    mistakes = [_without_effect(key, held.task, allowed) for key in options if key not in allowed]
    if mistakes:
        raise ConfigError(*mistakes)
    # Older models took every word for a label.
    read = {"long": task.long, "missing_labels": ()} | held.data
    run = DataConfig(**read), DecodingConfig(**held.decoding)
    data = DataConfig(**(read | _chosen(options, (*task.data_keys, *WRITTEN))))
    decoding = DecodingConfig(**(held.decoding | _chosen(options, task.decoding_keys)))
    before, now = (
        _chosen(one.model_dump() | other.model_dump(), keys)
        for one, other in (run, (data, decoding))
    )
    values = {key: value for key, value in now.items() if value is not None and value != ()}
    if "max_length" not in {**held.data, **options}:  # all that the network can read
        values.pop("max_length", None)
    changed = {key: before[key] for key, value in now.items() if value != before[key]}
    return Settings(data, decoding, values, changed)


def _chosen(values: Mapping[str, Any], keys: Any) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _without_effect(key: str, task: str, keys: tuple[str, ...]) -> str:
    if key not in DataConfig.model_fields and key not in DecodingConfig.model_fields:
        return unknown_key(key, keys)
    return f"{key}: has no effect on a score of task {task}; what has: {', '.join(keys)}"


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
