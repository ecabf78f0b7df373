"""Export a classifier to ONNX and to Hugging Face's layout, and compare its labels there.

    python bench/labels_elsewhere.py RUN --test FILE [--out scores.json] [--int8]

Every text of FILE (in the format of the run's training data) is labelled three times: by
Translucid, by onnxruntime and by transformers, each with the tokenizer of its own folder. Prints
how many labels agree, the largest difference of a logit, and the accuracy of each. The exit status
is 1 if a label differs. If a format cannot express the model, the reason is printed: for an export
to Hugging Face's BERT, train with model.pooling=first model.head_dense=tanh. Needs the packages
onnx, onnxruntime and transformers.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import translucid as tl
from translucid.core.errors import InputError
from translucid.data.readers.loading import Loading

BATCH = 32
Logits = list[np.ndarray]  # of each text


def here(model: tl.Model, texts: Sequence[str]) -> Logits:
    task: Any = model.task
    rows = []
    with torch.inference_mode():
        for text in texts:
            ids = torch.tensor([task.encode_text(text)])
            rows.append(model.network.cpu()(ids, torch.ones_like(ids, dtype=torch.bool))[0].numpy())
    return rows


def onnxruntime_logits(folder: Path, texts: Sequence[str]) -> Logits:
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    rows: Logits = []
    for start in range(0, len(texts), BATCH):
        encoded = tokenizer.encode_batch(list(texts[start : start + BATCH]))
        ids = np.array([text.ids for text in encoded])
        mask = np.array([text.attention_mask for text in encoded], dtype=bool)
        rows += list(session.run(["logits"], {"ids": ids, "mask": mask})[0])
    return rows


def transformers_logits(folder: Path, texts: Sequence[str]) -> Logits:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows: Logits = []
    with torch.inference_mode():
        for start in range(0, len(texts), BATCH):
            part = list(texts[start : start + BATCH])
            inputs = tokenizer(part, padding=True, return_tensors="pt")
            rows += list(model(**inputs).logits.numpy())
    return rows


ELSEWHERE: dict[str, Callable[[Path, Sequence[str]], Logits]] = {
    "onnx": onnxruntime_logits,
    "huggingface": transformers_logits,
}


def compare(
    model: tl.Model, test: str, folder: Path, *, int8: bool = False
) -> dict[str, dict[str, Any]]:
    """By format: the number of texts, of labels that agree, accuracies and the largest difference;
    or why the format cannot express the model."""
    records = list(model.task.read([test], model.evaluation_settings().data, Loading()))
    texts, gold = [r.text for r in records], [r.label for r in records]
    ours = here(model, texts)
    labels = list(model.task.label_names)
    chosen = [labels[int(row.argmax())] for row in ours]
    results: dict[str, dict[str, Any]] = {}
    for format, run in ELSEWHERE.items():
        try:
            model.export(format, folder / format, int8=int8 and format == "onnx")
        except InputError as error:
            results[format] = {"refused": str(error)}
            continue
        names = json.loads((folder / format / "config.json").read_text("utf-8"))["id2label"]
        theirs = run(folder / format, texts)
        said = [names[str(int(row.argmax()))] for row in theirs]
        results[format] = {
            "texts": len(texts),
            "agree": sum(a == b for a, b in zip(chosen, said, strict=True)),
            "accuracy_here": sum(a == b for a, b in zip(chosen, gold, strict=True)) / len(texts),
            "accuracy_there": sum(a == b for a, b in zip(said, gold, strict=True)) / len(texts),
            "largest_difference": float(
                max(np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True))
            ),
        }
    return results


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", help="a run folder of a classifier")
    parser.add_argument("--test", required=True, help="texts and labels, as the training data")
    parser.add_argument("--out", type=Path, help="also write the numbers as JSON")
    parser.add_argument("--int8", action="store_true", help="quantise the ONNX graph")
    options = parser.parse_args(words)
    model = tl.load(options.run)
    with tempfile.TemporaryDirectory() as folder:
        results = compare(model, options.test, Path(folder), int8=options.int8)
    for format, result in results.items():
        print(f"{format}: " + ", ".join(f"{key} {value}" for key, value in result.items()))
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    return int(any(r["agree"] < r["texts"] for r in results.values() if "agree" in r))


if __name__ == "__main__":
    sys.exit(main())
