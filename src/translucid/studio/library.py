"""The opened models and a cache of their recent runs.

A run never changes: its key is a hash of the model, the text and the parts switched off, so a link
to it always shows the same numbers.
"""

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase

from translucid.core.errors import InputError
from translucid.data import shipped_models
from translucid.interop.hub import repository_of
from translucid.see.edits import can_be_rows, read_edited
from translucid.studio.page_model import Load, PageModel, StudioModel
from translucid.studio.query_values import clipped
from translucid.studio.run_follower import RunFollower, is_run
from translucid.studio.text_runs import Run
from translucid.tasks.model_folder import CONFIG, place

MAX_CHARACTERS = 20_000  # maximum length of a text
KEPT = 24  # runs in the cache
PREFETCHED = 16  # maximum runs computed in one batch before they are requested
KEPT_BYTES = 2**30  # maximum memory for all runs together
ASKED = 500  # requests to remember, so that an evicted run can be recomputed

Question = tuple[str, str, str | None, tuple[str, ...]]


class Library:
    """The opened models and recent runs. Not thread-safe."""

    def __init__(self, models: Mapping[str, StudioModel | None], start: str = "") -> None:
        """models: the opened models by name; None for a training run that has not saved a model
        yet. start: part of every run's key, so that a browser does not reuse answers that it cached
        from an earlier server. If start is empty, the key contains fingerprints of the weights
        instead."""
        self.opened = {
            key: PageModel(key, name, model)
            for key, (name, model) in zip(ascii_lowercase, models.items(), strict=False)
            if model is not None
        }
        self.start = start
        self.runs: OrderedDict[str, Run] = OrderedDict()
        self.asked: OrderedDict[str, Question] = OrderedDict()

    def model(self, key: str) -> PageModel:
        if key not in self.opened:
            raise InputError(f"m: unknown model {clipped(key)}; expected {', '.join(self.opened)}")
        return self.opened[key]

    def run(self, m: str, text: str, target: str | None = None, off: Sequence[str] = ()) -> Run:
        """Run a model on a text; the same arguments return the same run."""
        opened = self.model(m)
        for name, value in (("text", text), ("target", target or "")):
            if len(value) > MAX_CHARACTERS:
                raise InputError(
                    f"{name}: {len(value):,} characters; the studio's limit is {MAX_CHARACTERS:,}"
                )
            if any("\ud800" <= character <= "\udfff" for character in value):
                raise InputError(f"{name} contains an invalid character (a lone surrogate)")
        if not text.strip():
            raise InputError("text is empty; type a sentence")
        question = (m, text, target, tuple(sorted(set(off))))
        key = self._key(question)
        if key not in self.runs:
            opened.model.task.check_line(text, "text", opened.model.network)
            self.runs[key] = Run(opened, key, *question[1:])
            self._make_room()
        self.asked[key] = question
        self.asked.move_to_end(key)
        while len(self.asked) > ASKED:
            self.asked.popitem(last=False)
        return self.kept_run(key)

    def prefetch(self, key: str, switched_off: Sequence[str]) -> None:
        """Compute the runs with each of these parts switched off in one batch, before they are
        requested. Runs that do not fit into the batch are computed on request."""
        plain = self.kept_run(key)
        if plain.off or not plain.whole:
            return
        edits = {off: plain.opened.edit([off]) for off in switched_off}
        rows = [off for off, edit in edits.items() if can_be_rows(plain.kept, edit)]
        rows = rows[: min(PREFETCHED, KEPT_BYTES // 4 // plain.bytes)]
        began = time.perf_counter()
        readings = read_edited(plain.kept, [edits[off] for off in rows])
        took = 1000 * (time.perf_counter() - began)
        for off, reading in zip(rows, readings, strict=True):
            question = (plain.opened.key, plain.text, plain.target, (off,))
            run = Run(plain.opened, self._key(question), *question[1:], (reading, plain.shapes))
            run.ms += took / len(rows)
            self.runs[run.key] = run
        self._make_room()

    def _key(self, question: Question) -> str:
        identity = [self.start or self.opened[question[0]].fingerprint, *question]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]

    def without(self, run: Run, off: Sequence[str]) -> Run | None:
        """The same run with these parts switched off as well, if it is in the cache; otherwise
        None."""
        switched = tuple(sorted({*run.off, *off}))
        return self.runs.get(self._key((run.opened.key, run.text, run.target, switched)))

    def kept_run(self, key: str) -> Run:
        if key not in self.asked:
            raise InputError(f"run {clipped(key)} has expired; request it again")
        if key not in self.runs:
            return self.run(*self.asked[key])
        self.runs.move_to_end(key)
        return self.runs[key]

    def _make_room(self) -> None:
        """Free memory: first drop what is quick to recompute, then the oldest runs, never the
        newest."""
        for run in [*self.runs.values()][:-1]:
            if sum(run.bytes for run in self.runs.values()) > KEPT_BYTES:
                run.forget()
        while len(self.runs) > KEPT or (
            len(self.runs) > 1 and sum(run.bytes for run in self.runs.values()) > KEPT_BYTES
        ):
            self.runs.popitem(last=False)


def open_folders(folders: Sequence[Path], load: Load) -> dict[str, StudioModel | None]:
    """Open the models of run folders. The keys are their names, with a number added to duplicate
    names. The value is None for a run that has not saved a model yet."""
    models: dict[str, StudioModel | None] = {}
    for folder in folders:
        base = name = (
            repository_of(folder) or shipped_models.name_of(folder) or folder.resolve().name
        )
        number = 2
        while name in models:
            name, number = f"{base} ({number})", number + 1
        young = is_run(folder) and not (place(folder) / CONFIG).is_file()
        models[name] = None if young else load(folder)
    return models


def followed_runs(folders: Sequence[Path], names: Iterable[str]) -> dict[str, RunFollower]:
    """The folders that contain a training run and not only a model, by model key."""
    return {
        key: RunFollower(folder, name)
        for key, folder, name in zip(ascii_lowercase, folders, names, strict=False)
        if is_run(folder)
    }
