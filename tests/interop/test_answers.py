"""The first opening of a folder compares ids and answers with transformers, and stores the result;
`import --verify` compares more."""

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.encoders import bert, roberta, sentence_bert
from tests.interop.reference import transformers
from tests.interop.tiny_foreign import written
from typer.testing import CliRunner

import translucid as tl
from translucid.cli import app
from translucid.core.errors import InputError
from translucid.interop import transformers_check
from translucid.interop.importing import import_model
from translucid.interop.kinds import read_source
from translucid.interop.transformers_check import NotCompared, compare_answers
from translucid.tasks.model_folder import Bundle

MADE: dict[str, Callable[[Path], Any]] = {
    **{name: lambda folder, name=name: written(name, folder)  # type: ignore[misc]
       for name in ("classifier", "tagger", "gpt2", "marian", "t5")},
    "fill": bert, "embed": sentence_bert, "roberta": roberta,
}  # fmt: skip


@pytest.fixture
def compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As for a user: the comparison is on. The cache folder."""
    transformers()
    monkeypatch.delenv(transformers_check.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache of a user"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield tmp_path / "cache of a user"


def made(name: str, tmp_path: Path) -> Path:
    folder = tmp_path / f"a {name}"
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MADE[name](folder)
    return folder


def opened(folder: Path) -> str:
    """The last note."""
    notes: list[str] = []
    tl.load(folder, say=notes.append)
    return notes[-1]


def other_labels(held: Bundle) -> Bundle:
    return replace(held, labels=held.labels[::-1])


def other_weights(held: Bundle) -> Bundle:
    with torch.no_grad():
        for name, weight in held.network.named_parameters():
            if name.endswith("feedforward.output.weight"):
                weight.mul_(-3)
    return held


FAULTS: dict[str, tuple[str, Callable[[Bundle], Bundle], str]] = {
    "labels": ("classifier", other_labels, r"with score 0\.\d+ in transformers, but"),
    "scores": ("classifier", other_weights, r"with score 0\.\d+ in transformers, but 0\.\d+ in Tr"),
    "tags": ("tagger", other_labels, r"token .* of .* is .* in transformers, but"),
    "masks": ("fill", other_weights, r"at the mask in .* transformers predicts .* but Translucid"),
    "texts": ("gpt2", other_weights, r"continues with .*ids .* in transformers, but with"),
    "translations": ("t5", other_weights, r"continues with .*ids .* in transformers, but with"),
    "embeddings": ("embed", other_weights, r"embedding of .* differs from"),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_every_task_agrees_with_transformers(tmp_path: Path, compares: Path, name: str) -> None:
    folder = made(name, tmp_path)
    assert "the same ids as transformers for 2 texts" in opened(folder)
    lines = compare_answers(folder, import_model(folder), ["ab", "the dog, cats"])
    assert any(line.startswith("the same") and "ids" not in line for line in lines), lines


@pytest.mark.parametrize("fault", FAULTS)
def test_a_difference_shows_both_outputs(tmp_path: Path, compares: Path, fault: str) -> None:
    name, spoil, message = FAULTS[fault]
    folder = made(name, tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        compare_answers(folder, spoil(import_model(folder)), ["the dog.", "cats in the sun"])
    assert "verify=False" in str(caught.value)


def test_padding_generated_by_transformers_is_not_a_difference(
    tmp_path: Path, compares: Path
) -> None:
    folder = made("marian", tmp_path)
    theirs = transformers().MarianMTModel.from_pretrained(folder)
    theirs.final_logits_bias[:, theirs.config.pad_token_id] = 1e4
    theirs.save_pretrained(folder)
    assert "the same ids as transformers for 2 texts" in opened(folder)


def test_different_ids_are_an_error_with_a_remedy(
    tmp_path: Path, compares: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tokens of the vocabulary have changed places here, and not in transformers."""
    folder = made("classifier", tmp_path)
    real = transformers_check._opened

    def other(clean: Path, task: str) -> Any:
        lines = (clean / "vocab.txt").read_text("utf-8").splitlines()
        lines[5], lines[10] = lines[10], lines[5]
        (clean / "vocab.txt").unlink()
        (clean / "vocab.txt").write_text("\n".join(lines) + "\n", "utf-8")
        return real(clean, task)

    monkeypatch.setattr(transformers_check, "_opened", other)
    with pytest.raises(InputError, match=r"ids of 'The dog sleeps\.' are \[.*\] in transf.* but"):
        tl.load(folder)
    assert not list(compares.rglob("*.json"))
    assert tl.load(folder, verify=False).task.name == "classify"
    monkeypatch.setenv(transformers_check.VARIABLE, "off")
    assert tl.load(folder).task.name == "classify"


def test_the_result_is_stored_until_a_file_changes(
    tmp_path: Path, compares: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made("classifier", tmp_path)
    calls = []
    real = transformers_check.compare_answers
    monkeypatch.setattr(
        transformers_check, "compare_answers", lambda *a: calls.append(1) or real(*a)
    )
    first = opened(folder)
    assert opened(folder) == first
    assert len(calls) == 1
    config = json.loads((folder / "config.json").read_text("utf-8"))
    labels = {str(i): f"label {i}" for i in range(3)}
    numbers = {label: int(i) for i, label in labels.items()}
    other = config | {"id2label": labels, "label2id": numbers}
    (folder / "config.json").write_text(json.dumps(other))
    opened(folder)
    assert len(calls) == 2
    stored = list(compares.rglob("*.json"))
    assert len(stored) == 2
    for file in stored:
        file.write_text("{")  # damaged: as if it were not there
    opened(folder)
    assert len(calls) == 3


def test_models_that_cannot_be_compared_open_with_a_note(
    tmp_path: Path, compares: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made("classifier", tmp_path)
    monkeypatch.setattr(transformers_check, "MOST_BYTES", 100)
    assert re.search(
        "not compared with transformers: weights take .* MB; .*--verify", opened(folder)
    )
    monkeypatch.undo()
    monkeypatch.delenv(transformers_check.VARIABLE)
    compares.write_text("")  # no folder: nothing can be stored there
    monkeypatch.setenv("XDG_CACHE_HOME", str(compares))

    def fails(*_: Any) -> None:
        raise RuntimeError("a fault of the other library")

    monkeypatch.setattr(transformers_check, "compare_answers", fails)
    assert "(a fault of the other library)" in opened(folder)


def test_code_of_the_folder_is_never_executed(tmp_path: Path, compares: Path) -> None:
    """Code, pickles, tokenizers of other classes and files that Translucid does not read stay
    unread; a pipe among them stops nothing."""
    folder, marker = made("classifier", tmp_path), tmp_path / "was here"
    code = f"open({str(marker)!r}, 'w')\nclass C: pass\n"
    (folder / "code.py").write_text(code)
    os.mkfifo(folder / "chat_template.jinja")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    named = {"AutoConfig": "code.C", "AutoModelForSequenceClassification": "code.C",
             "AutoTokenizer": ["code.C", "code.C"]}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": named}))
    compare_answers(folder, import_model(folder))
    held = import_model(folder)
    (folder / "config.json").write_text(json.dumps(config | {"num_labels": 1 << 40}))
    with pytest.raises(NotCompared, match="num_labels = 1,099,511,627,776"):
        compare_answers(folder, held)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "TransfoXLX"}))
    with pytest.raises(NotCompared, match="tokenizer_class = TransfoXLX is not"):
        compare_answers(folder, held)
    (folder / "tokenizer_config.json").unlink()
    state = {name: stored.read().clone() for name, stored in
             read_source(folder).file.tensors.items()}  # fmt: skip
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(NotCompared, match="safetensors"):
        compare_answers(folder, import_model(folder))
    assert not marker.exists()


def test_import_follows_the_verify_option(
    tmp_path: Path, compares: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made("classifier", tmp_path)
    run = CliRunner()

    def said(out: str, *options: str) -> str:
        result = run.invoke(app, ["import", str(folder), str(tmp_path / out), *options])
        assert result.exit_code == 0, result.output
        return result.output

    assert "ids as transformers for 2 texts" in said("a")
    assert "transformers" not in said("b", "--no-verify")
    whole = said("c", "--verify")
    assert "after layer 0" in whole
    assert "ids as transformers for 4 texts" in whole
    assert "the same label and score" in whole
