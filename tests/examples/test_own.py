"""The examples of a task and of positions of one's own, through the command line as users type it.

One short run of each is trained; what the commands say of it must agree with the Python interface,
and the numbers with what the file itself computes.
"""

import io
import json
import math
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.forked import TRANSLUCID
from tests.own_code import forgetting_own_code

from translucid import cli
from translucid.core import extensions
from translucid.model import Model, load

ROOT = Path(__file__).parent.parent.parent
OWN_TASK, OWN_POSITION = (ROOT / "examples" / f"own_{n}.py" for n in ("task", "position"))
TINY = [
    "model.d_model=16", "model.layers=1", "model.heads=2", "model.dropout=0.0",
    "training.evaluate_every=10", "training.log_every=20", "training.save_every=10",
]  # fmt: skip


def process(*words: object) -> tuple[str, str]:
    """What a command says in a process of its own, where nothing is known yet."""
    line = [*TRANSLUCID, *map(str, words)]
    ran = subprocess.run(line, capture_output=True, encoding="utf-8", check=False, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


class Command:
    """The command line in this process, which forgets the user's code after each call."""

    def __init__(self, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.capture, self.patch = capture, patch

    def __call__(self, *words: object, stdin: str = "", fails: bool = False) -> tuple[str, str]:
        """Standard output and standard error."""
        self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        self.capture.readouterr()
        with forgetting_own_code(), pytest.raises(SystemExit) as end:
            cli.main([str(word) for word in words])
        out, err = self.capture.readouterr()
        assert end.value.code == (2 if fails else 0), err
        return out, err


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capsys, monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy data as the file itself makes it, and a model trained on it."""
    folder = tmp_path_factory.mktemp("own")
    with patch.object(sys, "argv", [str(OWN_TASK), str(folder / "all.tsv")]), forgetting_own_code():
        runpy.run_path(str(OWN_TASK), run_name="__main__")
    lines = (folder / "all.tsv").read_text("utf-8").splitlines(keepends=True)
    (folder / "pairs.tsv").write_text("".join(lines[:400]), "utf-8")
    (folder / "test.tsv").write_text("".join(lines[400:450]), "utf-8")
    said, _ = process(
        "train", OWN_TASK, "--train", folder / "pairs.tsv", "--out", folder / "run", *TINY,
        "training.steps=30",
    )  # fmt: skip
    assert (
        f"next: translucid predict {shlex.quote(str(folder / 'run'))} --code examples/own_task.py"
        in said
    )
    return folder


@pytest.fixture
def model(folder: Path) -> Model:
    extensions.load(OWN_TASK)
    return load(folder / "run")


def test_it_is_evaluated_and_answers_as_in_python(
    folder: Path, model: Model, command: Command
) -> None:
    test = folder / "test.tsv"
    said, _ = command("evaluate", folder / "run", "--data", test, "--json", "--code", OWN_TASK)
    score = json.loads(said)["scores"]
    assert score == pytest.approx(model.evaluate(str(test)).numbers)
    assert set(score) == {"pearson", "rmse"}

    lines = test.read_text("utf-8").splitlines()
    out, _ = command("predict", folder / "run", test, "--code", OWN_TASK)
    answers = [float(line) for line in out.splitlines()]
    gold = [float(line.split("\t")[2]) for line in lines]
    assert len(answers) == len(lines)
    squared = sum((a - g) ** 2 for a, g in zip(answers, gold, strict=True))
    assert (squared / len(gold)) ** 0.5 == pytest.approx(score["rmse"], rel=1e-4)
    typed = "the old dog sleeps ||| a red cat sings"
    out, _ = command("predict", folder / "run", "--json", "--code", OWN_TASK, stdin=typed)
    (same,) = model.predict([typed])
    assert json.loads(out) == {"text": typed, "answer": pytest.approx(same)}
    _, said = command("predict", folder / "run", "--code", OWN_TASK, stdin="one only", fails=True)
    assert "standard input:1: write two sentences with ||| between them, not 'one only'" in said


def test_the_folder_names_its_code_and_loads_none(
    folder: Path, tmp_path: Path, command: Command
) -> None:
    config = json.loads((folder / "run" / "best" / "config.json").read_text("utf-8"))
    (noted,) = config["code"]
    assert (noted["what"], noted["name"], noted["file"]) == ("task", "alike", "own_task.py")
    test = folder / "test.tsv"
    for words in (
        ["evaluate", folder / "run", "--data", test],
        ["predict", folder / "run", test],
        ["info", folder / "run"],
        ["explain", folder / "run", "a ||| b"],
        ["resume", folder / "run"],
    ):
        _, said = command(*words, fails=True)
        assert "its task 'alike' is defined in own_task.py" in said, words
        assert "--code own_task.py" in said
    changed = tmp_path / "own_task.py"
    changed.write_text(OWN_TASK.read_text("utf-8") + "# another line\n", "utf-8")
    out, said = process("info", folder / "run", "--code", changed)
    assert "task        alike" in out
    assert said.startswith("warning: ")
    assert "own_task.py has changed" in said
    assert len(said.splitlines()) == 1


@pytest.mark.slow
def test_it_is_checked_resumed_and_listed(folder: Path, tmp_path: Path, command: Command) -> None:
    files = ["--train", folder / "pairs.tsv", "--valid", folder / "test.tsv"]
    out, _ = command("check", OWN_TASK, *files, "--json")
    parts = json.loads(out)["parts"]
    assert parts["train"]["examples"] == 400
    assert set(parts["train"]["lengths"]) == {"left", "right"}
    out, _ = command("new", OWN_TASK)
    assert 'kind = "alike"' in out
    out, _ = command("recipe", "schema", "--code", OWN_TASK)
    assert "alike" in json.loads(out)["properties"]["task"]["properties"]["kind"]["enum"]

    # Stopped after 20 of 30 steps and gone on with: the same weights as in one go.
    run, cut = folder / "run", tmp_path / "cut"
    shutil.copytree(run, cut)
    for place in (cut / "state").glob("step-*"):
        if int(place.name.removeprefix("step-")) > 20:
            shutil.rmtree(place)
    command("resume", cut, "--code", OWN_TASK, "--quiet")
    weights = [(each / "last" / "model.safetensors").read_bytes() for each in (run, cut)]
    assert weights[0] == weights[1]


def test_an_own_task_is_traced_explained_and_ablated(
    folder: Path, model: Model, command: Command
) -> None:
    text = "the old dog sleeps ||| the old cat sleeps"
    reading: Any = model.trace(text)
    (answer,) = model.task.predict_lines(model.network, [text])
    assert reading["head.class_logits"].flatten().tolist() == pytest.approx([answer])
    out, _ = command("explain", folder / "run", text, "--json", "--code", OWN_TASK)
    assert json.loads(out)["stages"]
    out, _ = command("explain", folder / "run", text, "--code", OWN_TASK)
    assert "where a number comes from" not in out  # that is for networks without text
    file = folder / "seen.html"
    command("explore", folder / "run", "--save", file, "--text", text, "--code", OWN_TASK)
    assert file.stat().st_size > 100_000
    out, _ = command("ablate", folder / "run", "--data", folder / "test.tsv", "--of", "heads",
                     "--json", "--code", OWN_TASK)  # fmt: skip
    assert json.loads(out)["switches"]


@pytest.mark.slow
def test_own_positions_train_a_shipped_task(tmp_path: Path, command: Command) -> None:
    run = tmp_path / "run"
    words = ["train", "classify", "--toyland", "60", "--out", run, *TINY, "training.steps=4"]
    _, said = command(*words, "model.positions=ramp", fails=True)
    assert "model.positions = 'ramp': no such position" in said
    command(*words, "model.positions=ramp", "--code", OWN_POSITION)
    _, said = command("classify", run, stdin="a fine day", fails=True)
    assert "its position 'ramp' is defined in own_position.py" in said
    plain, _ = command("classify", run, "--code", OWN_POSITION, stdin="a fine day")
    extensions.load(OWN_POSITION)
    held = load(run)
    (found,) = held.classify(["a fine day"])
    assert plain == f"{found.label}\t{found.probability:.3f}\n"
    reading = held.trace("a fine day")
    tokens = reading["encoder.positions.encoding"].shape[-2]
    ramp = held.network.get_parameter("encoder.positions.w").detach()
    for place in range(tokens):
        wanted = ramp * math.log1p(place)
        assert reading["encoder.positions.encoding"][0, place].tolist() == pytest.approx(
            wanted.tolist()
        )
    assert (run / "code.json").is_file()
