"""Ctrl-C and SIGTERM save within a step, in an evaluation too, and end with the signal's code; what
goes on afterwards is bit for bit the run that was never stopped."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.in_process import run
from tests.security.small_runs import TABLE, train_words
from tests.tiny.dealt import dealt

from translucid.runs import run as runs
from translucid.tasks.regress import Regress
from translucid.training.stop_request import StopRequest, StopRequested

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends signals")
MORE = ["training.log_every=1", "training.baseline=false", "--test", "table.csv"]


def killed_at(number: int, when: signal.Signals) -> Callable[..., Any]:
    """An evaluation that would take for ever, the n-th time: a signal comes while it goes on."""
    evaluate, times = Regress.evaluate, [0]

    def slow(self: Regress, *arguments: Any) -> Any:
        times[0] += 1
        if times[0] == number:
            os.kill(os.getpid(), when)
            deadline = time.process_time() + 20
            while time.process_time() < deadline:
                sum(range(1000))
            raise AssertionError("the evaluation went on")
        return evaluate(self, *arguments)

    return slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "table.csv").write_text(TABLE, "utf-8")
    assert run(*train_words("run", *MORE), cwd=folder).returncode == 0
    return folder / "run"


@pytest.mark.parametrize(  # 4: the last; 5: of the test data
    ("number", "when"),
    dealt([1, 2, 4, 5], [signal.SIGINT, signal.SIGTERM], share=2, rest=pytest.mark.slow),
)
def test_an_evaluation_is_left_and_made_up_for(
    tmp_path: Path, whole: Path, number: int, when: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.csv").write_text(TABLE, "utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(Regress, "evaluate", killed_at(number, when))
        answer = run(*train_words("run", *MORE), cwd=tmp_path)
    assert answer.returncode == 128 + when, answer.stderr
    assert (
        f"after step {min(2 * number, 8)} of 8; resume with: translucid resume run" in answer.stdout
    )
    answer = run("resume", "run", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    for name in ("metrics.jsonl", "test.json", "best/model.safetensors", "last/model.safetensors",
                 "best/config.json", "last/config.json"):  # fmt: skip
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes(), name


def test_what_is_not_yet_a_run_is_left_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table.csv").write_text(TABLE, "utf-8")

    def slow(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)

    monkeypatch.setattr(runs, "set_up", slow)
    answer = run(*train_words(), cwd=tmp_path)
    assert answer.returncode == 143
    assert "stopped before the first step" in answer.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_request_leaves_only_what_may_be_left() -> None:
    request = StopRequest()
    request.ask(signal.SIGTERM)
    assert request()
    with pytest.raises(StopRequested), request.leaving():
        raise AssertionError("it was asked before")
    request = StopRequest()
    with pytest.raises(StopRequested), request.leaving():
        request.ask(signal.SIGINT)
