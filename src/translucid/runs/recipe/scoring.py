"""The examples and settings with which a model is scored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.core.config import unknown_key
from translucid.core.errors import ConfigError, InputError
from translucid.core.spelling import quoted
from translucid.data.readers.loading import Loading
from translucid.runs.recipe.examples import Part, load_held_out, read_records
from translucid.runs.recipe.own_files import unchanged
from translucid.runs.recipe.recipe import of_run
from translucid.tasks.model_folder import Bundle, place
from translucid.tasks.options import PLACES, WRITTEN, DataConfig, DecodingConfig
from translucid.tasks.registry import TASKS


@dataclass(frozen=True)
class ScoringSettings:
    """The sections data and decoding for scoring a model."""

    data: DataConfig
    decoding: DecodingConfig
    values: dict[str, Any]  # the keys that affect the score and are set
    changed: dict[str, Any]  # the values of the run, for keys that differ

    def line(self) -> str:
        """Describe the settings."""
        as_trained = "scored as in training"
        shown = " ".join(f"{key}={_shown(value)}" for key, value in self.values.items())
        if self.changed:
            was = ", ".join(f"{key} was {_shown(value)}" for key, value in self.changed.items())
            as_trained = f"not scored as in training ({was})"
        return f"{as_trained}: {shown}" if shown else as_trained


def settings_of(held: Bundle, options: Mapping[str, Any]) -> ScoringSettings:
    """The settings of the model's run, overridden by options; raise an error for options without
    effect."""
    task = TASKS[held.task]
    keys = (*task.traits.data_keys, *task.traits.decoding_keys)
    allowed = (*keys, *WRITTEN)
    mistakes = [_without_effect(key, held.task, allowed) for key in options if key not in allowed]
    if mistakes:
        raise ConfigError(*mistakes)
    # Older models read every word as a label.
    read = {"long": task.long, "missing_labels": ()} | held.data
    run = DataConfig(**read), DecodingConfig(**held.decoding)
    data = DataConfig(**(read | _chosen(options, (*task.traits.data_keys, *WRITTEN))))
    decoding = DecodingConfig(**(held.decoding | _chosen(options, task.traits.decoding_keys)))
    before, now = (
        _chosen(one.model_dump() | other.model_dump(), keys)
        for one, other in (run, (data, decoding))
    )
    values = {key: value for key, value in now.items() if value is not None and value != ()}
    if "max_length" not in {**held.data, **options}:  # all that the network can read
        values.pop("max_length", None)
    changed = {key: before[key] for key, value in now.items() if value != before[key]}
    return ScoringSettings(data, decoding, values, changed)


def _chosen(values: Mapping[str, Any], keys: Any) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _without_effect(key: str, task: str, keys: tuple[str, ...]) -> str:
    if key not in DataConfig.model_fields and key not in DecodingConfig.model_fields:
        return unknown_key(key, keys)
    return f"{key} has no effect on scores for task {task}; keys with an effect: {', '.join(keys)}"


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


NAMES: dict[Part, str] = {"test": "test", "valid": "validation"}


def run_of(folder: Path | None, file: str) -> Path | None:
    """The run folder that a model folder belongs to, if the run folder contains `file`; otherwise
    None."""
    run = None if folder is None else place(folder).parent
    return run if run is not None and (run / file).is_file() else None


@dataclass(frozen=True)
class ScoredExamples:
    """The examples to score a model on. folder: the model's folder."""

    held: Bundle
    folder: Path | None

    def records(
        self,
        files: Sequence[str | Sequence[str]],
        data: DataConfig,
        limit: int | None,
        say: Callable[[str], None],
        needed: int | None = None,
        part: Part = "test",
        loading: Loading | None = None,
    ) -> tuple[Sequence[Any], str]:
        """The examples of the files or, without files, of the model's run; and a name for them.
        Pairs of files may be nested, as for `train`. needed: if the run generates its examples,
        generate at most this many. loading: collects notes."""
        records: Sequence[Any]
        names = [name for file in files for name in ([file] if isinstance(file, str) else file)]
        if names:
            loading, name = loading or Loading(expected=self.held.columns), names[0]
            records = read_records(self.held.task, names, data, say, loading)
        else:
            records = self._own(part, data, say, needed, loading)
            name = f"the {NAMES[part]} data"
        if limit is not None and limit < len(records):
            say(f"the first {limit:,} of {len(records):,} examples")
            records = records[:limit]
        return records, name

    def _own(
        self,
        part: Part,
        data: DataConfig,
        say: Callable[[str], None],
        needed: int | None,
        loading: Loading | None,
    ) -> list[Any]:
        """The examples of the model's run."""
        run = run_of(self.folder, "recipe.toml")
        if run is None:
            raise InputError(
                "this model is not in a run folder, so it has no test data; pass a file in the "
                "format of the training data, as in: translucid evaluate MODEL FILE"
            )
        chosen = of_run(run)
        held_out = chosen.data.test if part == "test" else chosen.data.valid or chosen.data.train
        if chosen.data.toyland is None and held_out:
            chosen = unchanged(chosen, held_out, run, say)
        places = chosen.data.model_dump(include={*PLACES, *WRITTEN})
        data = DataConfig(**(places | data.reading()))
        chosen = chosen.model_copy(update={"data": data})
        read = Loading(expected=self.held.columns)
        records = load_held_out(chosen, part, say, needed, read)
        if loading is not None:
            loading.add(read)
        if not records:
            raise InputError(
                f"the recipe of {run} names no {NAMES[part]} data; pass a file in the format of "
                f"the training data, as in: translucid evaluate {quoted(str(run))} FILE"
            )
        return records
