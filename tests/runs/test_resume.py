"""A resumed run is the uninterrupted run, to the bit: weights, moments, averages, log, choice."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.runs.test_runs import small

from translucid.core import atomic_files
from translucid.core.errors import InputError, Interrupted, TrainingError
from translucid.runs.batches import Stream
from translucid.runs.checkpoints import Checkpoints
from translucid.runs.recipe import recipe
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.run import resume_run, train_recipe


def after(steps: int) -> Callable[[], bool]:
    """Asks for a stop at its n-th question; one is put after every step."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == steps

    return stop


def same_runs(one: Path, other: Path) -> None:
    """Everything that a run computed is bit-equal; only the clock differs."""
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    for run in (one, other):
        assert atomic_files.fault(run / "best") is None
    for name in ("best", "last", "checkpoints"):
        assert atomic_files.digests(one / name) == atomic_files.digests(other / name), name
    steps = [Checkpoints(run).steps() for run in (one, other)]
    assert steps[0][0] == steps[1][0]
    place = Path("state", f"step-{steps[0][0]:08}")
    ours, theirs = (load_file(run / place / "tensors.safetensors") for run in (one, other))
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name
    numbers = [json.loads((run / place / "state.json").read_text("utf-8")) for run in (one, other)]
    for each in numbers:
        del each["state"]["seconds"]
    assert numbers[0] == numbers[1]
    for run in (one, other):
        assert (run / "test.json").exists()
    assert (one / "test.json").read_bytes() == (other / "test.json").read_bytes()
    kept, again = (
        {path.name: path.read_bytes() for path in run.glob("*.predictions.txt")}
        for run in (one, other)
    )
    assert kept == again


def stop_and_resume(chosen: Recipe, out: Path, stops: list[int]) -> None:
    with pytest.raises(Interrupted, match=r"translucid resume"):
        train_recipe(chosen, out, quiet=True, interrupted=after(stops[0]))
    for stop in stops[1:]:
        with pytest.raises(Interrupted):
            resume_run(out, quiet=True, interrupted=after(stop))
    resume_run(out, quiet=True)


RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "translate transformer, average": ("translate", "transformer", {"ema": 0.9}),
    "classify lstm, three batches a step, baseline": (
        "classify", "lstm", {"accumulate": 3, "baseline": True}),
    "language gru, best three, mean": (
        "language", "gru", {"keep_best": 3, "average_best": True, "evaluate_every": 2}),
    "classify transformer, sgd, patience, clipped values": (
        "classify", "transformer",
        {"optimizer": "sgd", "patience": 2, "evaluate_every": 3, "clip_value": 0.01}),
    "tag rnn, written aside, baseline": (
        "tag", "rnn", {"save_in_background": True, "save_every": 2, "baseline": True}),
    "tag gru, characters, hidden words": ("tag", "spelling", {}),
    "classify, three members, average": ("classify", "ensemble", {"ema": 0.9}),
    "regress mlp, lines of progress over three steps": (
        "regress", "mlp", {"log_every": 3, "optimizer": "adam", "schedule": "wsd"}),
}  # fmt: skip


# Those that take longest, and what the others have as well, are for CI.
LONG = [name for name in RUNS if name.startswith(("translate", "language", "tag gru"))]


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in RUNS],
)
def test_a_resumed_run_is_the_uninterrupted_run(case: str, tmp_path: Path) -> None:
    task, family, training = RUNS[case]
    settings = {"steps": 11, "batch_tokens": 700, "log_every": 1, "evaluate_every": 4}
    chosen = small(task, family, **(settings | training))
    train_recipe(chosen, tmp_path / "straight", quiet=True)
    stop_and_resume(chosen, tmp_path / "stopped", [3, 5])
    same_runs(tmp_path / "straight", tmp_path / "stopped")


def test_stream_continues_from_the_place_of_another() -> None:
    """At any place, in any epoch: the same batches come."""
    chosen = small("classify", "gru", batch_tokens=60)
    from translucid.runs.setup import set_up

    setting = set_up(chosen, lambda _: None)
    items = setting.items[:23]
    whole = Stream(setting.task, items, chosen)
    batches = [next(whole) for _ in range(40)]
    for taken in range(0, 40, 3):
        rest = Stream(setting.task, items, chosen, **whole.place(taken))
        for wanted in batches[taken:]:
            assert torch.equal(next(rest).inputs["ids"], wanted.inputs["ids"])
    assert whole.place(40)["epoch"] > 2


def test_stream_may_start_after_the_end_of_an_epoch() -> None:
    """As that of a run that was told to go on with larger batches: the next epoch begins."""
    from translucid.runs.setup import set_up

    setting = set_up(small("classify", "gru", batch_tokens=60), lambda _: None)
    items = setting.items[:23]
    stream = Stream(setting.task, items, setting.recipe, batches=130, epoch=1, index=99)
    wanted = Stream(setting.task, items, setting.recipe, batches=130, epoch=2, index=0)
    for taken in range(131, 145):
        assert torch.equal(next(stream).inputs["ids"], next(wanted).inputs["ids"])
        assert stream.place(taken) == wanted.place(taken)


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    train_recipe(small("classify", "gru"), tmp_path / "run", quiet=True)
    before = atomic_files.digests(tmp_path / "run" / "best")
    metrics = (tmp_path / "run/metrics.jsonl").read_bytes()
    (tmp_path / "run/test.json").unlink()  # as if it had been killed before its last line
    resume_run(tmp_path / "run", quiet=True)
    assert atomic_files.digests(tmp_path / "run" / "best") == before
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == metrics
    assert (tmp_path / "run/test.json").exists()
    log = (tmp_path / "run" / "log.txt").read_text("utf-8")
    assert log.count("to train longer: translucid resume ") == 1
    assert "training.steps=... --allow-changes" in log


def test_finished_run_continues_with_more_steps(tmp_path: Path) -> None:
    train_recipe(small("classify", "gru"), tmp_path / "run", quiet=True)
    resume_run(tmp_path / "run", ["training.steps=5"], allow_changes=True, quiet=True)
    lines = [
        json.loads(x) for x in (tmp_path / "run/metrics.jsonl").read_text("utf-8").splitlines()
    ]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5]
    assert Checkpoints(tmp_path / "run").steps()[0] == 5
    assert (tmp_path / "run/test.json").exists()


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run from a file, stopped after five of nine steps, saved after each."""
    lines = "".join(f"{'good' if i % 3 else 'bad'}\ta day {i}\n" for i in range(40))
    (tmp_path / "train.tsv").write_text(lines, "utf-8")
    values = {
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "train.tsv")]},
        "tokenizer": {"kind": "word"},
        "model": {"kind": "recurrent", "cell": "gru", "d_model": 8, "hidden": 8},
        "training": {
            "steps": 9,
            "save_every": 1,
            "log_every": 1,
            "batch_tokens": 60,
            "device": "cpu",
        },
    }
    with pytest.raises(Interrupted):
        train_recipe(recipe.parse(values), tmp_path / "run", quiet=True, interrupted=after(5))
    return tmp_path / "run"


def test_what_changed_is_named_and_refused(stopped: Path) -> None:
    data = stopped.parent / "train.tsv"
    whole = data.read_text("utf-8")
    data.write_text(whole.replace("day 7", "day 8"), "utf-8")
    with pytest.raises(InputError, match=r"this changed: the content of .*train.tsv"):
        resume_run(stopped, quiet=True)
    shutil.rmtree(stopped / "state/tokenizers")  # then it is made again, from other words
    data.write_text(whole.replace("day 7", "night 7"), "utf-8")
    with pytest.raises(InputError, match=r"the vocabulary of tokenizer"):
        resume_run(stopped, quiet=True)
    data.write_text(whole, "utf-8")
    with pytest.raises(
        InputError, match=r"training.learning_rate was 0.001, is 0.5\. .*--allow-changes"
    ):
        resume_run(stopped, ["training.learning_rate=0.5"], quiet=True)
    text = (stopped / "recipe.toml").read_text("utf-8")
    (stopped / "recipe.toml").write_text(text.replace("steps = 9 ", "steps = 12 "), "utf-8")
    with pytest.raises(InputError, match=r"training.steps was 9, is 12"):
        resume_run(stopped, quiet=True)
    resume_run(stopped, allow_changes=True, quiet=True)
    assert Checkpoints(stopped).steps()[0] == 12
    assert "from an uninterrupted run: training.steps was 9, is 12" in (
        stopped / "log.txt"
    ).read_text("utf-8")


def test_a_model_that_no_longer_fits_is_refused(stopped: Path) -> None:
    with pytest.raises(InputError, match=r"step 5 no longer fits the model: .*new folder"):
        resume_run(stopped, ["model.d_model=4"], allow_changes=True, quiet=True)


def test_resume_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    Path("t.tsv").write_text("label\ttext\n" + "good\tday\nbad\tnight\n" * 10)
    values = {"task": {"kind": "classify"}, "data": {"train": ["t.tsv"]},
              "tokenizer": {"kind": "word"}, "training": {"steps": 4, "device": "cpu"},
              "model": {"d_model": 8, "heads": 2, "layers": 1}}  # fmt: skip
    with pytest.raises(Interrupted):
        train_recipe(recipe.parse(values), Path("run"), quiet=True, interrupted=after(2))
    monkeypatch.chdir(tmp_path)
    resume_run(Path("a/run"), quiet=True)
    assert Checkpoints(Path("a/run")).steps()[0] == 4


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a flipped bit": lambda p: p.write_bytes(bytes([p.read_bytes()[0] ^ 1]) + p.read_bytes()[1:]),
    "cut short": lambda p: p.write_bytes(p.read_bytes()[:-9]),
    "emptied": lambda p: p.write_bytes(b""),
    "removed": lambda p: p.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json", "manifest.json"])
def test_damaged_checkpoint_falls_back_to_the_previous_one(
    damage: str, file: str, stopped: Path
) -> None:
    newest, before = Checkpoints(stopped).steps()
    DAMAGE[damage](stopped / f"state/step-{newest:08}" / file)
    said: list[str] = []
    found = Checkpoints(stopped).newest(said.append)
    assert found.step == before
    (line,) = said
    assert f"step-{newest:08}" in line
    assert line.endswith("falling back to the checkpoint before it")
    DAMAGE[damage](stopped / f"state/step-{before:08}" / file)
    with pytest.raises(InputError, match="no intact checkpoint"):
        Checkpoints(stopped).newest(said.append)


def test_failed_save_is_reported_and_keeps_the_last_checkpoint(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the second save: the run ends, the older checkpoints stay."""
    write_manifest = atomic_files.write_manifest

    def full(folder: Path) -> None:
        if "00000007" in folder.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_manifest(folder)

    monkeypatch.setattr(atomic_files, "write_manifest", full)
    with pytest.raises(TrainingError) as told:
        resume_run(stopped, quiet=True)
    assert "step-00000007 could not be written" in str(told.value)
    assert "the newest intact checkpoint is from step 6" in str(told.value)
    assert "translucid resume" in str(told.value)


def test_train_refuses_an_existing_run(stopped: Path) -> None:
    chosen = recipe.read(stopped / "recipe.toml")
    with pytest.raises(InputError, match=r"run already contains a run; .*translucid resume"):
        train_recipe(chosen, stopped, quiet=True)
    with pytest.raises(InputError, match=r"not a run folder.*recipe\.toml"):
        resume_run(stopped.parent, quiet=True)


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_folder_is_replaced_atomically(moment: str, tmp_path: Path) -> None:
    """The two renames of a save, cut at each of their three moments."""
    folder = tmp_path / "best"
    atomic_files.write_whole(folder, lambda p: (p / "x").write_text("old") and None)
    old, aside = tmp_path / ".best.old", tmp_path / ".best.writing"
    shutil.copytree(folder, aside)
    if moment != "before":
        folder.rename(old)
    if moment == "after":
        aside.rename(folder)
    atomic_files.recover(folder)
    assert atomic_files.fault(folder) is None
    atomic_files.write_whole(folder, lambda p: (p / "x").write_text("new") and None)
    assert (folder / "x").read_text("utf-8") == "new"
    assert {p.name for p in tmp_path.iterdir()} == {"best"}


@pytest.mark.slow
def test_background_save_writes_the_values_at_its_start(tmp_path: Path) -> None:
    """Training changes the weights while they are being written; the file has the old ones."""
    weights = torch.zeros(20_000_000)
    keeping = Checkpoints(tmp_path, aside=True)
    keeping.save(1, {"weights": weights}, {})
    weights.fill_(1.0)
    keeping.wait()
    found = torch.full_like(weights, 2.0)
    keeping.newest(lambda _: None).fill({"weights": found})
    assert not found.any()
