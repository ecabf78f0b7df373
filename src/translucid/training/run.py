"""A recipe, start to finish: read, tokenize, build, train, test, and leave a run folder.

recipe.toml      the resolved recipe, every key explained
metrics.jsonl    what was computed on the way    timing.jsonl    how fast    log.txt    all lines
best/, last/     the model with the best validation score, and the newest
state/           what an exact resume needs      test.json       the score at the end
checkpoints/, tensorboard/                       on request
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from translucid.errors import InputError, Interrupted
from translucid.tasks.base import Score
from translucid.training import bundle, recipe, told
from translucid.training.annotate import dump
from translucid.training.bundle import Bundle
from translucid.training.checkpoint import Checkpoint, Checkpoints
from translucid.training.folders import write_whole
from translucid.training.items import Stream
from translucid.training.journal import Journal
from translucid.training.keeper import Keeper
from translucid.training.recipe import Recipe
from translucid.training.setting import Setting, set_up
from translucid.training.state import State
from translucid.training.trainer import Watchers, train


def train_recipe(
    recipe: Recipe,
    out: Path,
    *,
    pick: bool = False,
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
) -> Bundle:
    """Train as the recipe says, into a new folder, and return the best model.

    With `pick`, keys that the recipe does not set are chosen to fit the data, and said. A run that
    `interrupted` stops is saved, and raises Interrupted.
    """
    _check_new(out)
    new = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        journal = Journal(out, quiet=quiet)
    except OSError as error:
        raise InputError(
            f"{out}: cannot be made ({error.strerror}); choose another folder with --out"
        ) from None
    try:
        setting = set_up(recipe, journal.say, pick=pick)
        (out / "recipe.toml").write_text(dump(setting.recipe), "utf-8")
        write_whole(out / "state" / "tokenizers", setting.save_tokenizers)
        return _Run(out, setting, journal, interrupted).go()
    except BaseException:
        if not any((out / "state").glob("step-*")):  # nothing was saved: leave all as it was
            _clear(out, new)
        raise
    finally:
        journal.close()


def _check_new(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; choose a folder with --out")
    if any((out / "state").glob("step-*")):
        raise InputError(
            f"{out} holds a run already; go on with it: translucid resume {out}, or choose another "
            "folder with --out"
        )
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; choose another folder with --out, or remove it")


def _clear(out: Path, new: Sequence[Path]) -> None:
    """Remove what a run wrote before it failed, and the folders that were made for it."""
    shutil.rmtree(out)
    if out not in new:
        out.mkdir()
    for folder in new[1:]:
        with suppress(OSError):  # not empty: somebody else uses it by now
            folder.rmdir()


def resume_run(
    out: Path,
    overrides: Iterable[str] = (),
    *,
    allow_changes: bool = False,
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
) -> Bundle:
    """Go on with a run from its newest whole checkpoint, as if it had never stopped."""
    if not (out / "recipe.toml").is_file():
        raise InputError(f"{out} is no run folder: it holds no recipe.toml")
    journal = Journal(out, quiet=quiet)
    try:
        found = Checkpoints(out).newest(journal.say)
        chosen = recipe.read(out / "recipe.toml", overrides)
        reachable = _where_the_files_are(chosen, found.numbers["told"]["folder"])
        setting = set_up(reachable, journal.say, tokenizers=out / "state" / "tokenizers")
        run = _Run(out, setting, journal, interrupted)
        changed = told.changes(found.numbers["told"], run.told)
        if changed and not allow_changes:
            raise InputError(
                f"{out} cannot go on as it was, since this changed: {'; '.join(changed)}. Put it "
                "back, or go on knowingly with --allow-changes"
            )
        for words in (*changed, *told.circumstances(found.numbers["told"], run.told)):
            journal.say(f"not bit for bit as before: {words}")
        (out / "recipe.toml").write_text(dump(chosen), "utf-8")
        run.put_back(found)
        journal.say(f"resumed at step {found.step:,} of {chosen.training.steps:,}")
        return run.go()
    finally:
        journal.close()


def _where_the_files_are(chosen: Recipe, folder: str) -> Recipe:
    """Names of files are as seen from where the run began; a resume may begin elsewhere."""
    data = chosen.data
    files = [file for part in (data.train, data.valid, data.test) for file in data.paths(part)]
    if all(Path(file).exists() for file in files):
        return chosen
    there = data.model_copy(update={"folder": str(Path(folder, data.folder))})
    return chosen.model_copy(update={"data": there})


class _Run:
    """One sitting of a run: the parts that training changes, and where they are kept."""

    def __init__(
        self, out: Path, setting: Setting, journal: Journal, interrupted: Callable[[], bool]
    ) -> None:
        self.out, self.setting, self.journal = out, setting, journal
        self.interrupted = interrupted
        training, task = setting.recipe.training, setting.task
        self.checkpoints = Checkpoints(out, aside=training.save_aside)
        self.keeper = Keeper(out, task, training.keep_best)
        self.state = State(setting.network, training, higher_is_better=task.higher_is_better)
        self.stream = Stream(task, setting.items, setting.recipe)
        self.told = told.what_was_told(setting)

    def put_back(self, found: Checkpoint) -> None:
        try:
            self.state.put_back(found.tensors, found.numbers["state"])
        except (KeyError, RuntimeError, ValueError) as error:
            raise InputError(
                f"the checkpoint of step {found.step:,} does not fit the model any more: {error}; "
                "train into a new folder"
            ) from error
        place = found.numbers["place"]
        self.stream = Stream(self.setting.task, self.setting.items, self.setting.recipe, **place)
        self.keeper.put_back(found.numbers["kept"])
        self.journal.go_back(found.numbers["metrics"])

    def go(self) -> Bundle:
        """Train to the end, then test."""
        setting, training = self.setting, self.setting.recipe.training
        self.journal.begin(self.state.step, training.steps, tensorboard=training.tensorboard)
        watchers = Watchers(
            self.journal.progress, self._keep, self._save, self.interrupted, self.journal.say
        )
        with _kernels(training.deterministic):
            ending = train(self.state, setting.task, self.stream, setting.valid, training, watchers)
        self.checkpoints.wait()
        if ending == "interrupted":
            raise Interrupted(
                f"stopped and saved after step {self.state.step:,} of {training.steps:,}; "
                f"go on with: translucid resume {self.out}"
            )
        if training.average_best:
            self.keeper.try_average(setting.valid, self.state.device, self.journal.say)
        return self._test()

    def _bundle(self, facts: dict[str, object]) -> Bundle:
        p = self.setting
        facts = {"step": self.state.step} | facts
        return Bundle(p.network, p.recipe.task.kind, p.tokenizers, p.labels, facts)

    def _keep(self, step: int, score: Score, best: bool) -> None:
        self.journal.evaluated(step, score, best)
        self.keeper.keep(self._bundle({"valid": score.numbers}), score, best)

    def _save(self) -> None:
        if not (self.out / "last").exists():  # stopped before the first evaluation
            self.keeper.keep_last(self._bundle({}))
        numbers = {
            "state": self.state.numbers(),
            "place": self.stream.place(self.state.batches),
            "kept": self.keeper.numbers(),
            "metrics": self.journal.length(),
            "told": self.told,
        }
        self.checkpoints.save(self.state.step, self.state.tensors(), numbers)

    def _test(self) -> Bundle:
        best = bundle.load(self.out / "best", str(self.state.device))
        if self.setting.test and not (self.out / "test.json").exists():
            score = self.setting.task.evaluate(best.network, self.setting.test)
            self.journal.say("test: " + "  ".join([score.line(), *score.notes]))
            examples = len(self.setting.test)
            result = {"test": score.numbers, "notes": score.notes, "examples": examples}
            aside = self.out / ".test.json"
            aside.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
            aside.replace(self.out / "test.json")
        return best


@contextmanager
def _kernels(deterministic: bool) -> Iterator[None]:
    """Only kernels that repeat to the bit, if asked: some of a GPU's add in any order."""
    before = torch.are_deterministic_algorithms_enabled()
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
