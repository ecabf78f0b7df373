"""The examples that a model is scored on: those of files, or else those of its run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.readers.loading import Loading
from translucid.runs.recipe.examples import Part, load_held_out, read_records
from translucid.runs.recipe.own_files import unchanged
from translucid.runs.recipe.recipe import of_run
from translucid.tasks.model_folder import Bundle, place
from translucid.tasks.options import PLACES, WRITTEN, DataConfig

NAMES: dict[Part, str] = {"test": "test", "valid": "validation"}


def run_of(folder: Path | None, file: str) -> Path | None:
    """The run that a model folder is in, if it has this file."""
    run = None if folder is None else place(folder).parent
    return run if run is not None and (run / file).is_file() else None


@dataclass(frozen=True)
class ScoredExamples:
    """held: the model; folder: that it was read from."""

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
        """The examples of files, or else the run's own, `needed` of them at least; and what to
        call them. A pair of files may be one, as `train` takes it. loading: notes what happened
        while they were read."""
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
        """The examples of the run that this model is of."""
        run = run_of(self.folder, "recipe.toml")
        if run is None:
            raise InputError(
                "what to score on must be given: this model is not in a run folder, whose test "
                "data would be taken; give a file as in training, on the command line with --data"
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
                f"the recipe of {run} names no {NAMES[part]} data; give a file as in training, on "
                "the command line with --data"
            )
        return records
