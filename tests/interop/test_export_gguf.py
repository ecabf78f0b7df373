"""Language models of ours as llama.cpp's file, read again here, and by the package gguf."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.own_models import ENGLISH, own

from translucid.core.errors import InputError
from translucid.core.weights import own_tensors
from translucid.interop.export.exporting import export
from translucid.interop.importing import import_model
from translucid.model import Model

LLAMA: dict[str, Any] = {"positions": "rotary", "norm": "rms", "activation": "swiglu"}
MODELS: dict[str, dict[str, Any]] = {
    "as in the recipes": LLAMA,
    "plain Llama": LLAMA | {"bias": False, "embedding_scale": False, "kv_heads": 2, "d_head": 6},
    "query norm": LLAMA | {"bias": False, "qk_norm": True, "tied": False, "rotary_base": 500.0},
    "scaled": LLAMA | {"rotary_scaling": 2.0, "d_ff": 45},
}
TEXTS = ("the dog's  cats", " größer 😀 12", "</s> <pad>x")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_import_of_an_export_has_equal_tensors(tmp_path: Path, name: str, kind: Any) -> None:
    held = own("language", kind, **MODELS[name])
    exported = export(held, "gguf", tmp_path / "out")
    again = import_model(tmp_path / "out" / "model.gguf")
    first, second = own_tensors(held.network), own_tensors(again.network)
    table = "decoder.embedding.table.weight"
    if held.network.config.embedding_scale:  # type: ignore[attr-defined]
        assert any("sqrt(d_model)" in note for note in exported.notes)
        assert torch.equal(second[table], first[table] * 32**0.5)
        assert torch.equal(
            second["head.linear.weight"], first.get("head.linear.weight", first[table])
        )
    else:
        assert first.keys() == second.keys()
        assert torch.equal(second[table], first[table])
    shared = first.keys() & second.keys() - {table}
    assert all(torch.equal(first[key], second[key]) for key in shared)
    ours, theirs = held.tokenizers["tokenizer"], again.tokenizers["tokenizer"]
    assert [theirs.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]
    texts = [
        Model(model).generate(list(ENGLISH), temperature=0, max_length=8) for model in (held, again)
    ]
    assert texts[0] == texts[1]


def test_other_readers(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    held = own("language", "bpe", spare=2, **MODELS["plain Llama"])
    export(held, "gguf", tmp_path / "out")
    reader = gguf.GGUFReader(tmp_path / "out" / "model.gguf")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    table = own_tensors(held.network)["decoder.embedding.table.weight"]
    assert torch.equal(torch.from_numpy(tensors["token_embd.weight"].data.copy()), table)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert fields["llama.attention.head_count_kv"] == 2
    assert fields["tokenizer.ggml.tokens"][:-2] == list(held.tokenizers["tokenizer"].vocab)
    types = fields["tokenizer.ggml.token_type"]
    assert types[:5] + types[-3:] == [3, 3, 3, 3, 1, 1, 5, 5]


def test_models_that_the_format_cannot_express_are_refused(tmp_path: Path) -> None:
    for task, kind, options, reason in (
        ("language", "bpe", {"positions": "rotary"}, r"activation = relu \(there: swiglu\)"),
        ("language", "bpe", LLAMA | {"window": 4}, "window = 4"),
        ("language", "bpe", LLAMA | {"rotary_fraction": 0.5}, r"rotary_fraction = 0.5 \(there: 1"),
        ("language", "word", LLAMA, "as this word tokenizer does"),
        ("translate", "bpe", LLAMA, "is an encoder-decoder with head language"),
    ):
        with pytest.raises(InputError, match=reason):
            export(own(task, kind, **options), "gguf", tmp_path / "out")  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())
