"""bench/labels_elsewhere.py: a sentence encoder, tuned here as a classifier, says the same labels
in onnxruntime and in transformers."""

from pathlib import Path
from typing import Any

import pytest
from bench.labels_elsewhere import compare, main
from tests.interop.encoders import sentence_bert
from tests.interop.reference import transformers
from tokenizers import Tokenizer

import translucid as tl

REASON = "the package onnxruntime is not installed"
pytest.importorskip("onnxruntime", reason=REASON)
TEXTS = ["the dog runs.", "a cat sleeps", "the the b", "dog", "cat a b c runs. the dog", "b c d e"]


def tuned(folder: Path, **head: Any) -> tuple[tl.Model, Path]:
    (folder / "encoder").mkdir()
    sentence_bert(folder / "encoder")
    library = transformers()
    tokenizer = library.AutoTokenizer.from_pretrained(folder / "encoder").backend_tokenizer
    tokenizer.enable_padding(length=9)  # as published folders have it
    tokenizer.enable_truncation(4)
    tokenizer.save(str(folder / "encoder" / "tokenizer.json"))
    rows = [("in" if "cat" in text else "out", text) for text in TEXTS * 4]
    data = folder / "labels.tsv"
    data.write_text("".join(f"{label}\t{text}\n" for label, text in rows), "utf-8")
    model = tl.train(
        "classify", folder / "run", train=str(data), start_from=folder / "encoder", model=head,
        steps=3, learning_rate=1e-2, warmup=0, batch_tokens=200, device="cpu", quiet=True,
        data={"max_length": 16},
    )  # fmt: skip
    return model, data


@pytest.mark.slow
def test_the_same_labels_in_all_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = tuned(tmp_path, pooling="first", head_dense="tanh")
    results = compare(model, str(data), tmp_path)
    for format in ("onnx", "huggingface"):
        assert results[format]["agree"] == results[format]["texts"] == 24, results
        assert results[format]["largest_difference"] < 1e-5
    ids = Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json")).encode(TEXTS[4]).ids
    assert ids == model.task.encode_text(TEXTS[4])
    assert main([str(tmp_path / "run"), "--test", str(data)]) == 0
    assert "agree 24" in capsys.readouterr().out
