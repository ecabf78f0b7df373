"""An export that our own readers do not open, or that answers something else, is an error, and
nothing is left under its name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tests.interop.own_models import own
from tests.interop.test_export_gguf import LLAMA
from tests.interop.tiny_foreign import written

from translucid.core.errors import InputError
from translucid.interop.export import exporting
from translucid.interop.export.exporting import export
from translucid.interop.export.reopening import sample
from translucid.interop.export.tokenizer_files import check_pieces
from translucid.interop.formats import gguf_file
from translucid.interop.importing import import_model
from translucid.interop.transformers_check import compare_answers
from translucid.tasks.model_folder import Bundle


def language() -> Bundle:
    return own("language", "bpe", **LLAMA)


def spoil_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.endswith("q_proj.weight"))
    tensors[name][0] += 1
    save_file(tensors, path, {"format": "pt"})


def spoil_tokenizer(folder: Path) -> None:
    """Two tokens change their places."""
    path = folder / "tokenizer.json"
    spec = json.loads(path.read_text("utf-8"))
    vocab = spec["model"]["vocab"]
    first, second = list(vocab)[-2:]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    path.write_text(json.dumps(spec), "utf-8")


def spoil_config(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 7}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [(spoil_weights, r"huggingface .*its outputs for"),
     (spoil_tokenizer, r"huggingface encodes the text .* as ids .* but the model encodes it as"),
     (spoil_config, r"huggingface cannot be reopened: .*final name.* do not fit")],
)  # fmt: skip
def test_a_wrong_export_is_an_error_and_leaves_nothing(
    tmp_path: Path, spoil: Callable[[Path], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, out = language(), tmp_path / "final name"
    exported = export(held, "huggingface", out)
    assert any("compared" in note for note in exported.notes)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    write = exporting.WRITERS["huggingface"]

    def spoiled(held: Bundle, weights: Any, folder: Path) -> list[str]:
        notes = write(held, weights, folder)
        spoil(folder)
        return notes

    monkeypatch.setitem(exporting.WRITERS, "huggingface", spoiled)  # type: ignore[arg-type]
    for name in ("final name", "new"):
        wanted = message.replace("final name", name)
        with pytest.raises(InputError, match=wanted):
            export(held, "huggingface", tmp_path / name, overwrite=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["final name"]


def test_a_wrong_gguf_export_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = gguf_file.write_gguf

    def shifted(path: Path, facts: dict[str, Any], tensors: dict[str, Any]) -> None:
        write(path, facts, tensors | {"output_norm.weight": 2 * tensors["output_norm.weight"]})

    monkeypatch.setattr("translucid.interop.export.gguf.write_gguf", shifted)
    with pytest.raises(InputError, match="export to gguf"):
        export(language(), "gguf", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_marian_with_pieces_outside_its_vocabulary(tmp_path: Path) -> None:
    """A tokenizer.json cannot express that pieces are read as unknown, or that only the other
    side's texts have them."""
    (tmp_path / "marian").mkdir()
    written("marian", tmp_path / "marian")
    held = import_model(tmp_path / "marian")
    assert any("are read as unknown" in note for note in held.facts["notes"])
    with pytest.raises(InputError, match=r"ctranslate2 encodes the text .* as ids"):
        export(held, "ctranslate2", tmp_path / "out")
    with pytest.raises(InputError, match=r"1 pieces .* not in the vocabulary of 27 tokens"):
        check_pieces(held.tokenizers["source"])
    assert [path.name for path in tmp_path.iterdir()] == ["marian"]
    export(held, "huggingface", tmp_path / "out")  # as MarianTokenizer has them
    again = import_model(tmp_path / "out")
    assert compare_answers(tmp_path / "out", again, ["the cats in", "is in Sun there"])
    for side, tokenizer in held.tokenizers.items():
        for text in sample(tokenizer):
            assert again.tokenizers[side].encode(text) == tokenizer.encode(text)
