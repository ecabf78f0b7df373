"""`translucid export` and `model.export`: what is written, replaced and refused, and the card."""

import json
from pathlib import Path

import pytest
from tests.interop.own_models import own
from typer.testing import CliRunner

import translucid as tl
from translucid.cli import app
from translucid.core.errors import ConfigError, InputError
from translucid.tasks import model_folder

TEST = {"test": {"bleu": 31.25}, "notes": ["nrefs:1|case:mixed"]}


def run_folder(path: Path) -> Path:
    held = own("translate", positions="rotary")
    model_folder.save(held, path / "best")
    (path / "recipe.toml").write_text('[data]\ntrain = ["news.en", "news.de"]\n')
    (path / "test.json").write_text(json.dumps(TEST))
    return path


def test_the_command_writes_a_folder_with_a_card(tmp_path: Path) -> None:
    run, out = run_folder(tmp_path / "run"), tmp_path / "out"
    words = ["export", str(run), "--to", "ctranslate2", "--out", str(out), "--licence", "mit"]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.output)
    assert "translate_batch(..., beam_size=4, length_penalty=1.0)" in summary["notes"][1]
    assert {"model.bin", "config.json", "README.md"} <= set(summary["files"])
    card = (out / "README.md").read_text("utf-8")
    for line in ('license: "mit"', "| bleu | 31.25 |", "`nrefs:1|case:mixed`", "news.de",
                 "pipeline_tag: translation", "ctranslate2.Translator(\"out\")",
                 "translate_batch([tokens], beam_size=4, length_penalty=1.0)[0]"):  # fmt: skip
        assert line in card


def test_a_folder_is_replaced_only_if_asked(tmp_path: Path) -> None:
    model = tl.load(run_folder(tmp_path / "run"))
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("kept")
    with pytest.raises(InputError, match="is not an empty folder"):
        model.export("ctranslate2", out)
    with pytest.raises(InputError, match="positions = rotary"):  # nothing is half replaced
        model.export("huggingface", out, overwrite=True)
    assert (out / "mine.txt").read_text("utf-8") == "kept"
    with pytest.raises(ConfigError, match="did you mean gguf"):
        model.export("ggufs", out)
    model.export("ctranslate2", out, overwrite=True)
    assert not (out / "mine.txt").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}


def test_other_networks_and_ensembles_are_refused(tmp_path: Path) -> None:
    for held, message in (
        (own("translate", recurrent=True, hidden=16), "RecurrentConfig"),
        (own("classify", ensemble_size=2), "an ensemble of 2 networks"),
    ):
        model_folder.save(held, tmp_path / held.task)
        words = ["export", str(tmp_path / held.task), "--to", "huggingface"]
        result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
        assert isinstance(result.exception, InputError)
        assert message in str(result.exception)
        assert not (tmp_path / "out").exists()


def test_the_command_replaces_a_folder_only_if_asked(tmp_path: Path) -> None:
    run, out = run_folder(tmp_path / "run"), tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("kept")
    words = ["export", str(run), "--to", "ctranslate2", "--out", str(out)]
    refused = CliRunner().invoke(app, words)
    assert "--overwrite" in str(refused.exception)
    assert (out / "mine.txt").read_text("utf-8") == "kept"
    assert CliRunner().invoke(app, [*words, "--overwrite"]).exit_code == 0
    assert not (out / "mine.txt").exists()
