"""Folders that are no model: the message says what they hold, and what was perhaps meant."""

from pathlib import Path

import pytest
import torch
from tests.in_process import run

import translucid as tl
from translucid.core.errors import InputError
from translucid.interop import kinds


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], r"no config\.json, but nothing; .*written by training"),
        (["notes.txt"], r"but notes\.txt; "),
        (["a.Q4_0.gguf", "a.Q8_0.gguf"], r"but a\.Q4_0\.gguf, a\.Q8_0\.gguf; give one of its"),
        (["model.safetensors"], r"config\.json is missing next to .+model\.safetensors"),
        (["step_3.pt", "train.log"], r"give the checkpoint itself: .+step_3\.pt"),
        (["12000.ckpt"], r"config\.yaml of JoeyNMT is missing next to"),
        (["config.yaml"], r"checkpoints \(\.ckpt\) of JoeyNMT are missing"),
        (["stories.bin"], r"give the file itself: .+stories\.bin"),
        (["model.npz"], r"Marian's own"),
        (["tf_model.h5"], r"save the weights as safetensors"),
        (["weights.hdf5"], r"save the weights as safetensors"),
        (["toy/config.json", "other/x"], r"did you mean .+/toy\?"),
        (["converted/model.bin"], r"did you mean .+/converted\?"),
        (["toy/best/config.json"], r"did you mean .+/toy\?"),
        ([f"{i}.txt" for i in range(9)], r"5\.txt and 3 more;"),
    ],
)
def test_the_error_lists_the_folder_and_a_remedy(
    tmp_path: Path, files: list[str], message: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=message):
        tl.load(tmp_path)
    if not any("/" in name for name in files):
        done = run("import", str(tmp_path), str(tmp_path / "out"))
        assert done.returncode == 2
        assert "model folder" in done.stderr


def test_a_missing_folder_mentions_hub_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file or folder; .* hf:ORG/NAME"):
        tl.load(tmp_path / "org/name")


def test_a_checkpoint_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"model": {}, "args": {}}, tmp_path / "a.pt")
    parsed = []
    read = kinds.read_torch
    monkeypatch.setattr(kinds, "read_torch", lambda path: parsed.append(path) or read(path))
    assert kinds.read_source(tmp_path / "a.pt").kind == "fairseq"
    assert len(parsed) == 1


@pytest.mark.parametrize("name", ["weights.hdf5", "model.keras", "model.ckpt-20.index"])
def test_files_of_keras_and_tensorflow_are_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x89HDF\r\n")
    with pytest.raises(InputError, match="save the weights as safetensors"):
        tl.load(tmp_path / name)
