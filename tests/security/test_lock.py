"""One process at a time changes a run folder, and what fails removes only what it made."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.in_process import run
from tests.security.small_runs import TABLE, small_run, train_words
from tests.security.test_run_folders import MORE, everything

from translucid.core.errors import InputError
from translucid.runs import run as runs
from translucid.runs.folder import LOCK, locked

QUICK = ["--set", "training.steps=4", "--set", "training.evaluate_every=4"]


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = small_run(tmp_path)
    with locked(folder):
        before = everything(folder)
        for words in (["resume", "run", *MORE], train_words(), ["demo", "--out", "run"]):
            answer = run(*words, cwd=tmp_path)
            assert answer.returncode == 2
        answer = run("resume", "run", *MORE, cwd=tmp_path)
        assert f"process {os.getpid()} on " in answer.stderr
        assert " since 20" in answer.stderr
        assert everything(folder) == before
    assert not (folder / LOCK).exists()


def test_a_second_training_does_not_remove_the_first_ones_folder(tmp_path: Path) -> None:
    """Before the first one has a recipe: the second fails, whatever is wrong with it."""
    (tmp_path / "table.csv").write_text(TABLE, "utf-8")
    out = tmp_path / "run"
    out.mkdir()
    with locked(out):
        for name in ("metrics.jsonl", "timing.jsonl", "log.txt"):
            (out / name).touch()
        before = everything(out)
        answer = run(*train_words("run", "model.hidden=[0]"), cwd=tmp_path)
        assert answer.returncode == 2
        answer = run(*train_words(), cwd=tmp_path)
        assert "is in use" in answer.stderr
        assert everything(out) == before


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends SIGKILL")
def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    folder = small_run(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from translucid.runs.folder import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == b"held\n"
        answer = run("resume", "run", *MORE, cwd=tmp_path)
        assert f"process {held.pid} on " in answer.stderr
        held.send_signal(signal.SIGKILL)
    assert (folder / LOCK).exists()
    answer = run("resume", "run", *MORE, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert not (folder / LOCK).exists()


@pytest.mark.parametrize("kind", ["here", "link", "there", "new"])
def test_a_run_that_fails_leaves_all_as_it_was(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "table.csv").write_text(TABLE, "utf-8")
    out = {"here": ".", "link": "../link", "there": "../there", "new": "../a/b/c"}[kind]
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    before = everything(tmp_path)
    words = [word.replace("table.csv", "../table.csv") for word in train_words(out)]
    answer = run(*words, "data.text_column=nothing", "model.hidden=[-4]", cwd=work)
    assert answer.returncode == 2
    assert "hidden" in answer.stderr
    assert everything(tmp_path) == before

    def fail(*_: object, **__: object) -> None:
        (Path(out) / "mine.txt").write_text("put there meanwhile")
        raise InputError("the true error")

    monkeypatch.setattr(runs, "set_up", fail)
    answer = run(*words, cwd=work)
    assert answer.stderr.endswith("error: the true error\n")
    assert [path.name for path in (work / out).iterdir()] == ["mine.txt"]


def test_again_removes_what_a_demo_wrote_and_nothing_else(tmp_path: Path) -> None:
    words = ["demo", "--task", "regress", "--out", "d", *QUICK]
    folder = small_run(tmp_path)
    before = everything(folder)
    answer = run("demo", "--task", "regress", "--out", "run", "--again", *QUICK, cwd=tmp_path)
    assert answer.returncode == 2
    assert "is not a demo" in answer.stderr
    assert everything(folder) == before

    (tmp_path / "d").mkdir()
    (tmp_path / "d" / ".demo").touch()
    (tmp_path / "d" / "metrics.jsonl").touch()
    (tmp_path / "d" / "thesis.txt").write_text("years of work\n")
    (tmp_path / "d" / "best").symlink_to(folder)
    answer = run(*words, "--again", cwd=tmp_path)
    assert answer.returncode == 2
    assert "is not empty" in answer.stderr
    assert everything(tmp_path / "d") == {"thesis.txt": b"years of work\n"}
    assert everything(folder) == before


def test_a_lock_says_who_and_since_when(tmp_path: Path) -> None:
    with locked(tmp_path):
        told = json.loads((tmp_path / LOCK).read_text("utf-8"))
        assert told["process"] == os.getpid()
        assert told["since"][:10] == time.strftime("%Y-%m-%d")
        with pytest.raises(InputError, match="is in use"), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass
