"""`translucid ablate` through the real command line, on small models that it trains first."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.forked import TRANSLUCID
from tests.in_process import run

from translucid.parts.switch import KINDS

EN, DE = "the dog sleeps\na cat eats\n" * 6, "der Hund schläft\neine Katze frisst\n" * 6
LABELLED = "good\ta fine day\nbad\ta poor day\n" * 6
SMALL = ["model.d_model=8", "tokenizer.kind=word", "training.steps=2", "training.device=cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator in `t`, a classifier with a GRU in `c`, and their files."""
    made = tmp_path_factory.mktemp("ablate")
    for name, text in (("a.en", EN), ("a.de", DE), ("a.tsv", LABELLED)):
        (made / name).write_text(text, "utf-8")
    heads = ["model.heads=2", "model.layers=1", "decoding.beam_size=1"]
    gates = ["model.kind=recurrent", "model.cell=gru", "model.hidden=8"]
    for words in (
        ["translate", "--train", "a.en", "a.de", "--out", "t", *heads],
        ["classify", "--train", "a.tsv", "--out", "c", *gates],
    ):
        done = run("train", *words, "--quiet", *SMALL, cwd=made)
        assert done.returncode == 0, done.stderr
    return made


@pytest.mark.slow
def test_ablation_of_a_translator_prints_rows_a_figure_and_the_next_command(folder: Path) -> None:
    words = ["ablate", "t", "--data", "a.en", "a.de", "--of", "heads,layers", "--limit", "5"]
    done = run(*words, "--figure", "f.svg", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["switched", "off", "loss", "change"]
    names = [line.partition("   ")[0] for line in lines[2:10]]
    assert "encoder layer 0, head 1" in names
    assert "decoder layer 0, cross-attention head 0" in names
    assert lines[-1] == "next: translucid ablate t --data a.en a.de --metric"
    assert "the first 5 of 12 examples" in done.stderr
    assert "8 parts to switch off, on 5 examples" in done.stderr
    assert "f.svg: how much the loss grows without each head" in done.stderr
    words = re.sub(r"<[^>]*>|\s", "", (folder / "f.svg").read_text("utf-8"))
    assert "attentioncross-decoder" in words  # lines of one label, the last first
    assert "decoder layer 0" in (folder / "f-parts.svg").read_text("utf-8")


@pytest.mark.slow
def test_json_has_the_scores_of_evaluate(folder: Path) -> None:
    for model, files, metric in (("t", ["a.en", "a.de"], "bleu"), ("c", ["a.tsv"], "accuracy")):
        of = ["--of", "heads" if model == "t" else "gates"]
        done = run("ablate", model, "--data", *files, "--metric", "--json", *of, cwd=folder)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        scored = json.loads(run("evaluate", model, "--data", *files, "--json", cwd=folder).stdout)
        assert told["metric"] == metric
        assert told["whole"]["metric"] == pytest.approx(scored["scores"][metric])
        if model == "t":
            assert told["whole"]["loss"] == pytest.approx(scored["scores"]["loss"])
        assert told["complete"]
        for row in told["switches"]:
            assert row["loss_change"] == pytest.approx(row["loss"] - told["whole"]["loss"])
        kinds = {row["kind"] for row in told["switches"]}
        assert kinds == {of[1]}


def test_metric_is_computed_by_default_except_for_translation(folder: Path) -> None:
    shown = run("ablate", "c", "--data", "a.tsv", "--of", "layers", cwd=folder)
    assert "accuracy" in shown.stdout.splitlines()[0]
    assert shown.stdout.splitlines()[-1] == (
        "next: translucid ablate c --data a.tsv --figure ablation.svg"
    )
    quick = run("ablate", "c", "--data", "a.tsv", "--of", "layers", "--no-metric", cwd=folder)
    assert "accuracy" not in quick.stdout
    assert "encoder layer 0 is silent" in quick.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["c", "--data", "no.tsv"], "no.tsv"),
        (["t", "--data", "a.en", "a.de", "a.tsv"], "task translate reads 2 files, but got a.en"),
        (["c", "--data", "a.tsv", "a.en"], "task classify reads 1 file, but got a.tsv, a.en"),
        (
            ["c", "--data", "a.tsv", "--of", "gate"],
            "did you mean gates?",
        ),
        (["c", "--data", "a.tsv", "--of", "heads"], "no heads to switch off; it has layers, gates"),
        (
            ["c", "--data", "a.tsv", "--figure", "f.gif"],
            "f.gif: the file name must end in .svg, .png, .pdf",
        ),
        (["c", "--data", "a.tsv", "--limit", "0"], "--limit"),
        (["nowhere", "--data", "a.tsv"], "nowhere"),
    ],
)
def test_mistakes_are_reported(folder: Path, words: list[str], message: str) -> None:
    done = run("ablate", *words, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_names_every_kind() -> None:
    said = run("ablate", "--help").stdout
    listed = re.search(r"by commas: (.*?)\.", " ".join(said.split()))
    assert listed is not None
    assert tuple(listed[1].split(", ")) == KINDS


def test_interrupted_ablation_prints_the_finished_rows(folder: Path) -> None:
    for name, text in (("long.en", EN), ("long.de", DE)):
        (folder / name).write_text(text * 200, "utf-8")
    words = ["ablate", "t", "--data", "long.en", "long.de", "--device", "cpu"]
    with subprocess.Popen(
        [*TRANSLUCID, *words], cwd=folder, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("1 of "):
                process.send_signal(signal.SIGINT)
                break
        out, rest = process.communicate(timeout=300)
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    lines = out.splitlines()
    assert lines[1].startswith("nothing ")
    assert lines[2].startswith("encoder positions ")
    stopped = re.fullmatch(r"stopped after (\d+) of (\d+)", lines[-1])
    assert stopped is not None
    assert 1 <= int(stopped[1]) < int(stopped[2])
