"""A run from a token store on disk is the run from memory, to the bit; and it resumes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_resume import after

from translucid.core.atomic_files import digests
from translucid.core.errors import ConfigError, Interrupted
from translucid.data.toyland import Toyland
from translucid.runs.recipe import recipe
from translucid.runs.run import resume_run, train_recipe


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for part in ("train", "valid"):
        lines = [sentence.source for sentence in Toyland().sentences(part, 120)]
        (tmp_path / f"{part}.txt").write_text("\n".join(lines) + "\n\n", "utf-8")
    return tmp_path


def chosen(files: Path, **data: Any) -> recipe.Recipe:
    named = {"train": ["train.txt"], "valid": ["valid.txt"], "folder": str(files)}
    return recipe.parse(
        {
            "task": {"kind": "language"},
            "data": named | {"max_length": 16} | data,
            "tokenizer": {"kind": "word"},
            "model": {"kind": "recurrent", "cell": "gru", "d_model": 8, "hidden": 8},
            "training": {"steps": 9, "batch_tokens": 64, "log_every": 1, "evaluate_every": 4,
                         "device": "cpu"},
        }
    )  # fmt: skip


@pytest.mark.slow
def test_a_run_from_a_store_is_the_run_from_memory(files: Path) -> None:
    train_recipe(chosen(files), files / "memory", quiet=True)
    train_recipe(chosen(files, store=str(files / "ids")), files / "store", quiet=True)
    for name in ("best", "last"):
        assert digests(files / "memory" / name) == digests(files / "store" / name)
    texts = [(files / run / "metrics.jsonl").read_bytes() for run in ("memory", "store")]
    assert texts[0] == texts[1]
    said = (files / "store/log.txt").read_text("utf-8")
    assert f"built {files / 'ids'}" in said
    assert "train.txt: 120 records" in said
    assert "1 empty, left out" in said


@pytest.mark.slow
def test_store_is_reused_and_resumed(files: Path) -> None:
    whole = chosen(files, store=str(files / "ids"))
    train_recipe(whole, files / "straight", quiet=True)
    with pytest.raises(Interrupted):
        train_recipe(whole, files / "stopped", quiet=True, interrupted=after(5))
    resume_run(files / "stopped", quiet=True)
    said = (files / "stopped/log.txt").read_text("utf-8")
    assert said.count(f"reused {files / 'ids'}") == 2
    assert "built" not in said
    assert digests(files / "straight/best") == digests(files / "stopped/best")


def test_rows_are_held_out_where_no_validation_file_is_given(files: Path) -> None:
    train_recipe(chosen(files, store=str(files / "ids"), valid=[]), files / "run", quiet=True)
    assert "rows are held out for it" in (files / "run/log.txt").read_text("utf-8")
    lines = (files / "run/metrics.jsonl").read_text("utf-8").splitlines()
    assert any("valid" in json.loads(line) for line in lines)


@pytest.mark.parametrize(
    ("task", "data", "message"),
    [
        ("classify", {"train": ["x.tsv"]}, "data.store is only for task language, not classify"),
        ("language", {}, "data.store needs data.train"),
        ("language", {"train": ["x.tsv"], "text_column": 1}, "data.store requires plain text"),
    ],
)
def test_invalid_settings_of_a_store_are_refused(
    task: str, data: dict[str, Any], message: str, tmp_path: Path
) -> None:
    values = {"task": {"kind": task}, "data": data | {"store": str(tmp_path / "ids")}}
    with pytest.raises(ConfigError, match=message):
        train_recipe(recipe.parse(values), tmp_path / "run", quiet=True)
