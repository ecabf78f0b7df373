"""A BERT tagger whose tags depend only on the word, with logits set by a test."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tests.interop.encoders import SIZES
from tests.interop.reference import save, transformers

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def word_tagger(folder: Path, labels: Sequence[str], logits: Mapping[str, Sequence[float]]) -> Any:
    """Write the tagger into a folder. logits: by word of the vocabulary, one number for each
    label."""
    library = transformers()
    words = [*SPECIAL, *logits]
    config = library.BertConfig(
        vocab_size=len(words), id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)}, **SIZES,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = library.BertForTokenClassification(config).eval()
    with torch.no_grad():
        for name, weight in theirs.named_parameters():
            if "position_embeddings" in name or "token_type" in name or "output.dense" in name:
                weight.zero_()  # so that only the word itself reaches the head
        ids = torch.arange(len(SPECIAL), len(words))[:, None]
        states = theirs.bert(input_ids=ids).last_hidden_state[:, 0]  # (words, d_model)
        wanted = torch.tensor([*logits.values()], dtype=torch.float32)
        theirs.classifier.weight.copy_((torch.linalg.pinv(states) @ wanted).T)
        theirs.classifier.bias.zero_()
    save(theirs, folder)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "BertTokenizer", "do_lower_case": False, "cls_token": "[CLS]",
        "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]",
    }))  # fmt: skip
    return theirs
