"""From files to a trained model and its answers, through the real command line."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked import TRANSLUCID
from tests.in_process import run

from translucid.cli.train import stopping

TINY = ["model.d_model=16", "model.heads=2", "model.layers=1", "tokenizer.kind=word"]
QUICK = ["training.steps=3", "training.batch_tokens=500", "training.log_every=1"]


def process(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRANSLUCID, *words],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "toyland"
    made = run("data", "toyland", "--out", str(out), "--pairs", "300")
    assert made.returncode == 0, made.stderr
    first = shlex.quote(str(out / "train.en"))
    assert f"next: translucid train translate --train {first}" in made.stdout
    return out


@pytest.fixture(scope="module")
def translator(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "de"
    words = [f"--{part}={files / f'{part}.{side}'}" for part in ("train", "valid")
             for side in ("en", "de")]  # fmt: skip
    done = process("train", "translate", *words, "--out", str(out), *TINY, *QUICK)
    assert done.returncode == 0, done.stderr
    assert f"next: translucid translate {shlex.quote(str(out))}" in done.stdout
    assert "300 records" in done.stderr
    assert "step 3" in done.stderr
    return out


@pytest.mark.parametrize(
    ("rows", "words", "why"),
    [
        ("id,stars,words\n7,1,good film\n8,2,bad film\n", [], "which column holds the label?"),
        ("label,text\na,good film\nb,bad film\n" * 9, ["--probe", ""], "--probe"),
        ("label,text\na,good film\nb,bad film\n" * 9, [], ""),
    ],
)
def test_studio_address_is_printed_when_training_starts(
    rows: str, words: list[str], why: str, tmp_path: Path
) -> None:
    """And an address that died with the data was never given."""
    (tmp_path / "a.csv").write_text(rows, "utf-8")
    done = run("train", "classify", "--train", "a.csv", "--out", "run", "--studio", *words, *TINY,
               *QUICK, "training.device=cpu", cwd=tmp_path)  # fmt: skip
    assert done.returncode == (2 if why else 0), done.stderr
    assert ("studio: http" in done.stdout) == (not why)
    assert why in done.stderr
    assert (tmp_path / "run").exists() == (not why)


@pytest.mark.slow
def test_lines_come_back_in_order_and_empty_lines_stay_empty(translator: Path) -> None:
    done = process("translate", str(translator), "--json", stdin="The dog sleeps.\n\nI wait.\n")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["source"] for answer in answers] == ["The dog sleeps.", "", "I wait."]
    assert answers[1]["translation"] == ""
    assert len(run("translate", str(translator), stdin="a\n\nb\n").stdout.splitlines()) == 3


def test_evaluate_gives_scores_with_signatures(files: Path, translator: Path) -> None:
    pair = [f"--data={files / f'test.{side}'}" for side in ("en", "de")]
    done = run("evaluate", str(translator), *pair, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer["scores"]) == {"bleu", "chrf", "exact_match", "loss"}
    assert any("tok:13a" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["train", "translat"],
            "no such recipe: translat; did you mean translate",
        ),
        (["train", "tag", "--train", "no.conll"], "no.conll"),
        (["train", "tag"], "data.train is required, or data.toyland = 20000"),
        (["train", "tag", "--toyland", "9", "model.hedas=3"], "model.hedas: no such key; did you"),
        (["translate", "nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_mistakes_of_train_are_explained(words: list[str], message: str, tmp_path: Path) -> None:
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not any((tmp_path / "runs").glob("*")), "a run that never began left a folder"


def test_default_output_folder_is_that_of_the_help(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("".join(f"{n},{n * n}\n" for n in range(9)), "utf-8")
    said = " ".join(run("train", "--help").stdout.split())
    assert "default: runs/TASK, numbered" in said
    for name in ("runs/regress", "runs/regress-2"):
        words = ["--train", "a.csv", "--test", "a.csv", "training.steps=1"]
        done = run("train", "regress", *words, cwd=tmp_path)
        assert done.stdout.startswith(f"{name}: the best model is in {name}/best\n"), done.stderr
        assert (tmp_path / name / "test.json").is_file()


def test_unequal_files_are_refused(files: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.de"
    short.write_text(
        "".join((files / "train.de").read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8"
    )
    both = ["--train", str(files / "train.en"), "--train", str(short)]
    done = run("train", "translate", *both, "--out", str(tmp_path / "x"))
    assert done.returncode == 2
    assert "short.de" in done.stderr
    assert "299" in done.stderr


def test_stop_message_is_printed_while_another_line_is_written(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A signal may come while the log has the buffer of stderr, which then takes no other line."""

    class Busy(io.StringIO):
        def write(self, text: str) -> int:
            raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

    monkeypatch.setattr(sys, "stderr", Busy())
    with stopping() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request()
    assert "stopping after this step; " in capfd.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_ctrl_c_saves_the_model(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "classify", "--toyland", "200", "--out", str(out), *TINY]
    slow = ["training.steps=100000", "training.log_every=1", "training.batch_tokens=500"]
    running = subprocess.Popen(
        [*TRANSLUCID, *words, *slow],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert running.stderr is not None
    before = ""
    while "step 2 " not in before and (line := running.stderr.readline()):  # it trains
        before += line
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=300)
    assert running.returncode == 130, before + stderr
    assert "stopping after this step" in stderr
    assert "stopped and saved after step" in stdout
    assert f"resume with: translucid resume {shlex.quote(str(out))}" in stdout
    assert (out / "log.txt").read_text("utf-8").splitlines()[-1:] == stdout.splitlines()
    answer = run("classify", str(out), stdin="The food was good.\n")
    assert answer.stdout.split("\t")[0] in ("negative", "neutral", "positive")
