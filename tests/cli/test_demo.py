"""Every demo in miniature, through the real command line."""

import subprocess
from pathlib import Path

import pytest
from tests.forked import TRANSLUCID
from tests.in_process import run

QUICK = ["--set=training.steps=3", "--set=training.evaluate_every=3", "--set=data.toyland=300"]


def process(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRANSLUCID, *words],
        capture_output=True, text=True, encoding="utf-8", check=False, timeout=300, cwd=cwd,
    )  # fmt: skip


# Task: what is asked, sizes, lines to be found, and the text to be explained next.
DEMOS = {
    "translate": (
        ["The dog sleeps."],
        ["model.d_model=16"],
        ["on 50 unseen examples: bleu ", "  The dog sleeps.\n  -> "],
        "The dog sees a cat.",
    ),
    "tag": (
        ["Peter xyzzy in Rome.", ""],
        ["model.d_model=8", "model.hidden=8"],
        ["on 50 unseen examples: span_f1 ", "baseline (", "  Peter xyzzy in Rome.\n  -> "],
        "Jordan waits in Madrid.",
    ),
    "classify": (
        ["The wine was bad."],
        ["model.d_model=8", "model.hidden=8"],
        ["on 50 unseen examples: accuracy ", "baseline (", "  The wine was bad.\n  -> "],
        "The film was never boring.",
    ),
    "language": (
        ["The dog"],
        ["model.d_model=16"],
        [" unseen examples: perplexity ", "baseline (", "  The dog\n  -> The dog"],
        "The children who",
    ),
    "regress": (
        ["0.5", "2", "--", "-0.25"],
        [],
        ["unseen examples: ", "r_squared ", "baseline (", "  -0.25\n  -> "],
        "0.5",
    ),
}


@pytest.mark.parametrize(
    "task",
    [
        "translate",
        *(
            pytest.param(task, marks=pytest.mark.slow)
            for task in sorted(DEMOS)
            if task != "translate"
        ),
    ],
)
def test_demo_trains_answers_and_explains(task: str, tmp_path: Path) -> None:
    asked, sizes, lines, following = DEMOS[task]
    chosen = [] if task == "translate" else ["--task", task]
    begin = process if task == "translate" else run
    settings = [*QUICK, *(f"--set={size}" for size in sizes)]
    done = begin("demo", *chosen, *settings, *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for line in lines:
        assert line in done.stdout
    out = Path("runs") / ("demo" if task == "translate" else f"demo-{task}")
    assert f"its explanation in {out / 'walk.html'}\n" in done.stdout
    assert asked[0] in (tmp_path / out / "walk.html").read_text("utf-8")
    probes = (tmp_path / out / "studio" / "probes.jsonl").read_text("utf-8").splitlines()
    assert len(probes) > 1  # the studio's Train view shows how it learnt
    page, last = done.stdout.splitlines()[-2:]
    assert page == f"to explore it in your browser: translucid explore {out}"
    assert last == f'next: translucid explain {out} "{following}"'
    if task == "tag":
        assert "xyzzy" in done.stderr  # a word that the vocabulary lacks
    answer = run("explain", str(out), following, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.slow
def test_trained_demo_is_reused_only_for_its_task(tmp_path: Path) -> None:
    words = ["demo", "--task", "regress", "--out", "mine", *QUICK]
    assert run(*words, cwd=tmp_path).returncode == 0
    before = (tmp_path / "mine" / "best" / "model.safetensors").stat().st_mtime_ns
    again = run(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "mine already contains a trained model; --again" in again.stdout
    assert (tmp_path / "mine" / "best" / "model.safetensors").stat().st_mtime_ns == before
    other = run("demo", "--task", "tag", "--out", "mine", *QUICK, cwd=tmp_path)
    assert other.returncode == 2
    assert "model for task regress, not tag; choose another folder" in other.stderr
    anew = run(*words, "--again", cwd=tmp_path)
    assert anew.returncode == 0, anew.stderr
    assert (tmp_path / "mine" / "best" / "model.safetensors").stat().st_mtime_ns != before


def test_again_removes_only_demos(tmp_path: Path) -> None:
    kept = tmp_path / "letters" / "mother.txt"
    kept.parent.mkdir()
    kept.write_text("dear")
    done = run("demo", "--out", "letters", "--again", *QUICK, cwd=tmp_path)
    assert done.returncode == 2
    assert "letters is not a demo (it contains no .demo)" in done.stderr
    assert kept.read_text("utf-8") == "dear"


@pytest.mark.parametrize("number", ["half", "nan", "1e999", ""])
def test_invalid_number_is_refused_before_training(number: str, tmp_path: Path) -> None:
    done = run("demo", "--task", "regress", "0.5", number, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{number!r} is not a number; give numbers such as 0.25" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_task_is_not_changed_by_the_recipe(tmp_path: Path) -> None:
    words = ["--task=regress", "--set=task.kind=tag", "--set=model.kind=recurrent"]
    done = run("demo", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "task.kind is tag; write --task tag instead" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_unknown_demo_task_is_refused(tmp_path: Path) -> None:
    done = run("demo", "--task", "tga", cwd=tmp_path)
    assert done.returncode == 2
    assert "tga" in done.stderr
    assert "regress" in done.stderr


@pytest.mark.slow
def test_a_demo_with_a_model_of_another_kind(tmp_path: Path) -> None:
    sizes = ["--set=model.kind=transformer", "--set=model.heads=2", "--set=model.layers=1"]
    done = run("demo", "--task=tag", *QUICK, *sizes, "--set=model.d_model=8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "self-attention</h3>" in (tmp_path / "runs/demo-tag/walk.html").read_text("utf-8")
