"""Killed, out of space, damaged: a run goes on from its last save and ends as if nothing had been.

The processes are real and so is SIGKILL. Most are forked from one that has imported everything
(`bench/kill.py`, which does the same a thousand times); some are started as people start them.
"""

import errno
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from bench.kill import (
    RUNS,
    Aim,
    Damage,
    Life,
    Server,
    again,
    check_after_kill,
    hidden,
    noticed,
    some_aim,
    some_damage,
    steps,
    train_words,
    where,
    write_files,
)
from safetensors.torch import load_file, save_file
from tests.forked import TRANSLUCID
from tests.runs.test_resume import same_runs
from tests.tiny.dealt import chosen, dealt

import translucid as tl
from translucid.core import atomic_files
from translucid.runs.checkpoints import Checkpoints
from translucid.runs.log import RunLog

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="kills, forks and limits files"),
]
NAMES = list(RUNS)
GRU, ASIDE = NAMES[0], NAMES[2]


def more(*values: object) -> object:
    """More of the same, on demand."""
    return pytest.param(*values, marks=pytest.mark.thorough)


class House:
    """A server, the data, and for every kind of run one that nobody disturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(folder)
        self.server.finish(["--version"], folder)  # its imports are no part of what is timed
        write_files(folder)
        self._twins: dict[tuple[str, ...], tuple[Path, float]] = {}

    def words(self, name: str, run: Path, *more: str) -> list[str]:
        return train_words(self.folder, run, [*RUNS[name], *more])

    def twin(self, name: str, *more: str) -> tuple[Path, float]:
        """The run, and the seconds it took."""
        key = (name, *more)
        if key not in self._twins:
            run, began = self.folder / f"twin {len(self._twins)}", time.monotonic()
            self.server.finish(self.words(name, run, *more), run)
            self._twins[key] = run, time.monotonic() - began
        return self._twins[key]

    def killed(self, words: list[str], run: Path, aim: Aim) -> Life:
        """A process that is killed as aimed; what it leaves is looked at."""
        life = self.server.live(words, run, aim)
        assert life.code == -signal.SIGKILL, life.said
        check_after_kill(run, life)
        if life.models:
            assert tl.load(run).task.name == "classify"
        return life

    def same_end(self, run: Path, name: str, *more: str) -> str:
        """Resume; all is as in the undisturbed run, and nothing half-written stays."""
        life = self.server.finish(again(self.words(name, run, *more), run), run)
        same_runs(self.twin(name, *more)[0], run)
        assert not hidden(run)
        return life.said


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("house"))
    yield house
    house.server.close()


# Killed


def kill_often(house: House, name: str, run: Path, kills: int, rng: random.Random) -> None:
    seconds = house.twin(name)[1]
    done, life = 0, None
    while done < kills:
        words = again(house.words(name, run), run)
        life = house.server.live(words, run, some_aim(rng, seconds), before=life)
        if life.code == 0:  # it was faster: see how it ended, and begin another
            house.same_end(run, name)
            shutil.rmtree(run)
            life = None
            continue
        assert life.code == -signal.SIGKILL, life.said
        check_after_kill(run, life)
        if life.models:
            tl.load(run)
        done += 1
    house.same_end(run, name)


@pytest.mark.parametrize("name", chosen(NAMES, ASIDE))
def test_killed_at_random_moments_a_run_ends_the_same(
    name: str, house: House, tmp_path: Path
) -> None:
    kill_often(house, name, tmp_path / "run", 2, random.Random(name))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NAMES)
def test_killed_more_often(name: str, seed: int, house: House, tmp_path: Path) -> None:
    kill_often(house, name, tmp_path / "run", 12, random.Random(f"{name} {seed}"))


@pytest.mark.parametrize(
    ("aim", "place"),
    [
        (Aim("aside", 2), "inside a save"),
        more(Aim("aside", 5), "inside a save"),
        (Aim("renames", 1), "between the two renames"),
        more(Aim("renames", 2), "between the two renames"),
        more(Aim("renames", 3), "between the two renames"),
        (Aim("line", 3), "during an evaluation"),
        more(Aim("line", 7), "during an evaluation"),
        (Aim("checkpoint", 9), "during the test"),
        (Aim("operation", 12), "before the first save"),
    ],
    ids=str,
)
def test_killed_in_the_middle_of(aim: Aim, place: str, house: House, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for _ in range(5):  # what is watched from outside may be over before it is hit
        life = house.killed(house.words(GRU, run), run, aim)
        if place in where(run, life, 3):
            break
        shutil.rmtree(run)
    assert place in where(run, life, 3)
    house.same_end(run, GRU)


def test_killed_as_people_start_it(house: House, tmp_path: Path) -> None:
    """`python -m translucid`: while it starts, and while it saves."""
    run, rng = tmp_path / "run", random.Random(0)
    words = house.words(GRU, run)
    python, starts = [sys.executable, "-m", "translucid"], lambda: rng.random() < 0.01
    saves = lambda: bool(steps(run) and hidden(run))  # noqa: E731
    for command, moment in ((python, starts), (TRANSLUCID, saves)):
        running = start(command, again(words, run))
        while not moment() and running.poll() is None:
            time.sleep(0 if steps(run) else 0.005)
        running.kill()
        running.communicate()
        assert running.returncode == -signal.SIGKILL
    assert Checkpoints(run).newest(pytest.fail).step >= 1
    done = start(TRANSLUCID, again(words, run))
    _, said = done.communicate(timeout=300)
    assert done.returncode == 0, said
    same_runs(house.twin(GRU)[0], run)
    assert not hidden(run)


def start(command: list[str], words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def test_killed_before_it_knew_its_recipe_a_run_is_started_again(
    house: House, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for touch in (2, 4, 6, 8):
        house.killed(house.words(GRU, run), run, Aim("operation", touch))
        assert not (run / "recipe.toml").exists()
    house.same_end(run, GRU)


def test_killed_before_its_first_save_a_run_is_resumed_from_the_beginning(
    house: House, tmp_path: Path
) -> None:
    late, run = "training.save_every=9", tmp_path / "run"
    words = house.words(GRU, run, late)
    house.killed(words, run, Aim("line", 5))
    assert not steps(run)
    assert tl.load(run).facts["step"] == 3  # the model of the first evaluation is there
    refused = house.server.live(words, run)
    assert refused.code == 2
    assert (
        f"{run} already contains a run; resume it with: translucid resume {shlex.quote(str(run))}"
        in refused.said
    )
    life = house.server.finish(["resume", str(run)], run)
    assert f"{run} was stopped before its first checkpoint" in life.said
    same_runs(house.twin(GRU, late)[0], run)


def test_what_a_killed_process_left_is_swept(house: House, tmp_path: Path) -> None:
    """Also halves of what will not be written again, such as a save that Ctrl-C asked for."""
    run = tmp_path / "run"
    house.killed(house.words(GRU, run), run, Aim("save", 3))
    (run / "state/.step-00000003.writing").rename(run / "state/.step-00000077.writing")
    (run / ".test.json.writing").write_text("{")
    house.same_end(run, GRU)


# Out of space


def stopped(house: House, name: str, run: Path, step: int = 3) -> None:
    """A run that has the checkpoints of the two steps before, and the models of this one."""
    house.killed(house.words(name, run), run, Aim("save", step))
    atomic_files.sweep(run / "state")


def refused(house: House, run: Path, cause: int, *names: str, largest_file: int = 0) -> None:
    """The resume ends with what could not be written, why, what is there and what to type."""
    newest = max(steps(run))
    life = house.server.live(["resume", str(run)], run, largest_file=largest_file)
    assert life.code == 2, life.said
    error = life.said[life.said.index("error: ") :]
    assert "Traceback" not in life.said
    assert any(f"{run / name}" in error for name in names), error
    assert "could not be written" in error
    assert os.strerror(cause) in error
    step = max(steps(run))
    assert step >= newest
    assert f"the newest intact checkpoint is from step {step}" in error
    assert f"resume with: translucid resume {shlex.quote(str(run))}" in error
    assert not hidden(run)


LIMITS: dict[str, Callable[[Path], int]] = {
    "log.txt": lambda run: (run / "log.txt").stat().st_size + 9,
    "recipe.toml": lambda run: (run / "recipe.toml").stat().st_size // 2,
    "best": lambda run: (run / "last/model.safetensors").stat().st_size - 9,
    "state/step-": lambda run: next((run / "state").rglob("*.safetensors")).stat().st_size - 9,
}


@pytest.mark.parametrize(("what", "name"), dealt(LIMITS, [GRU, ASIDE], share=4))
def test_a_limit_on_files_ends_the_run_with_the_way_on(
    what: str, name: str, house: House, tmp_path: Path
) -> None:
    """As a quota does, at every kind of file in turn."""
    run = tmp_path / "run"
    stopped(house, name, run)
    refused(house, run, errno.EFBIG, what, largest_file=LIMITS[what](run))
    house.same_end(run, name)


def test_what_fails_behind_the_last_step_is_heard(house: House, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stopped(house, ASIDE, run, step=9)
    refused(house, run, errno.EFBIG, "state", largest_file=LIMITS["state/step-"](run))
    house.same_end(run, ASIDE)


def test_a_limit_from_the_start_leaves_nothing_behind(house: House, tmp_path: Path) -> None:
    run, alone = tmp_path / "run", "training.baseline=false"
    for limit in (
        4_000,
        LIMITS["best"](house.twin(GRU, alone)[0]),
        LIMITS["state/step-"](house.twin(GRU, alone)[0]),
    ):
        life = house.server.live(house.words(GRU, run, alone), run, largest_file=limit)
        assert life.code == 2, life.said
        assert "could not be written: " in life.said
        assert os.strerror(errno.EFBIG) in life.said
        if run.exists():  # a model was saved before the state could not be
            assert not hidden(run)
            assert f"start over with: translucid resume {shlex.quote(str(run))}" in life.said
            house.same_end(run, GRU, alone)
        else:
            assert "nothing was saved yet" in life.said
    assert run.exists()


@contextmanager
def mounted(*words: str, at: Path) -> Iterator[None]:
    done = subprocess.run(
        ["mount", *words, str(at)], capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


MAY_MOUNT = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="mounts a file system: needs root on Linux"
)


@MAY_MOUNT
@pytest.mark.parametrize(("free", "name"), dealt([0.0, 0.3, 0.9], [GRU, ASIDE], share=3))
def test_a_full_disk_ends_the_run_with_the_way_on(
    free: float, name: str, house: House, tmp_path: Path
) -> None:
    """Less is left than the tensors of a checkpoint need, so some write of a save fails."""
    with mounted("-t", "tmpfs", "-o", "size=64m", "none", at=tmp_path):
        run, ballast = tmp_path / "run", tmp_path / "ballast"
        stopped(house, name, run)
        fill(ballast, int(free * LIMITS["state/step-"](run)))
        refused(house, run, errno.ENOSPC, "")
        ballast.unlink()
        house.same_end(run, name)


def fill(ballast: Path, free: int) -> None:
    """Take up all of a disk but so many bytes."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    os.truncate(ballast, max(ballast.stat().st_size - free, 0))


@MAY_MOUNT
def test_a_disk_that_is_full_from_the_start(house: House, tmp_path: Path) -> None:
    with mounted("-t", "tmpfs", "-o", "size=64k", "none", at=tmp_path):
        fill(tmp_path / "ballast", 0)
        run = tmp_path / "run"
        life = house.server.live(house.words(GRU, run), run)
        assert life.code == 2, life.said
        assert os.strerror(errno.ENOSPC) in life.said
        assert not run.exists()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    if os.geteuid() != 0:
        folder.chmod(0o555)
        try:
            yield
        finally:
            folder.chmod(0o755)
        return
    with mounted("--bind", str(folder), at=folder):  # root may write anywhere but there
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield


@pytest.mark.parametrize("what", ["state", ""])
def test_a_folder_that_is_read_only(what: str, house: House, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stopped(house, GRU, run)
    cause = errno.EROFS if os.geteuid() == 0 else errno.EACCES
    with read_only(run / what):
        refused(house, run, cause, what)
    house.same_end(run, GRU)


def test_errors_of_the_writing_thread_are_raised(tmp_path: Path) -> None:
    keeping = Checkpoints(tmp_path, aside=True)
    keeping.save(1, {"x": torch.zeros(3)}, {"not for JSON": object()})
    with pytest.raises(TypeError, match="JSON"):
        keeping.wait()
    assert not hidden(tmp_path)


# Damaged


def test_flipped_bits_and_cut_files_are_noticed(house: House, tmp_path: Path) -> None:
    run, rng = tmp_path / "run", random.Random(0)
    shutil.copytree(house.twin(GRU)[0], run)
    newest = run / "state" / f"step-{max(steps(run)):08}"
    for number in range(300):
        damage = some_damage(newest if number % 4 else run / "best", rng)
        before = damage.do()
        assert noticed(run, damage), damage
        damage.file.write_bytes(before)
    for file in ("manifest.json", "state.json", "tensors.safetensors"):  # the smallest cut of all
        damage = Damage("truncation", newest / file, (newest / file).stat().st_size - 1)
        before = damage.do()
        assert noticed(run, damage), damage
        damage.file.write_bytes(before)


@pytest.mark.parametrize("seed", [0, more(1), more(2)])
def test_a_run_with_a_damaged_checkpoint_ends_the_same(
    seed: int, house: House, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    stopped(house, GRU, run)
    newest = run / "state" / f"step-{max(steps(run)):08}"
    damage = some_damage(newest, random.Random(seed))
    damage.do()
    said = house.same_end(run, GRU)
    assert f"{newest}" in said
    assert "falling back to the checkpoint before it" in said


def test_damaged_tokenizers_are_trained_again(house: House, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stopped(house, GRU, run)
    damage = some_damage(run / "state/tokenizers", random.Random(1))
    damage.do()
    assert "training the tokenizer again" in house.same_end(run, GRU)


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_shard_that_is_missing_or_cut(damage: str, house: House, tmp_path: Path) -> None:
    """The tensors of a checkpoint in two files, as several processes write them."""
    run = tmp_path / "run"
    stopped(house, GRU, run)
    newest = run / "state" / f"step-{max(steps(run)):08}"
    tensors = load_file(newest / "tensors.safetensors")
    (newest / "tensors.safetensors").unlink()
    shards = [newest / f"shard-{n:05}-model-00001-of-00001.safetensors" for n in (1, 2)]
    for shard, first in zip(shards, (0, 1), strict=True):
        save_file({name: tensors[name] for name in sorted(tensors)[first::2]}, shard)
    atomic_files.write_manifest(newest)
    found = {name: torch.full_like(tensor, 9) for name, tensor in tensors.items()}
    Checkpoints(run).newest(pytest.fail).fill(found)
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    if damage == "missing":
        shards[1].unlink()
    else:
        Damage("truncation", shards[1], shards[1].stat().st_size // 2).do()
    words = "is missing" if damage == "missing" else "is damaged or was changed"
    assert f"{shards[1]} {words}; falling back" in house.same_end(run, GRU)


def test_lost_metrics_are_reported(house: House, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stopped(house, GRU, run)
    whole = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(whole[: whole.index(b"\n") + 5])
    life = house.server.finish(["resume", str(run)], run)
    assert "metrics.jsonl has" in life.said
    assert "lines are lost" in life.said
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert lines[0]["step"] == 1
    assert lines[-1]["step"] == 9
    assert atomic_files.digests(run / "best") == atomic_files.digests(house.twin(GRU)[0] / "best")


def test_half_a_line_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("one\ntw")
    run_log = RunLog(tmp_path, quiet=True)
    run_log.say("three")
    run_log.close()
    assert (tmp_path / "log.txt").read_text("utf-8") == "one\nthree\n"
