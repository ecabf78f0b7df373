"""Folders with tiny random encoders of transformers and their tokenizers."""

import json
from pathlib import Path
from typing import Any

from tests.interop.reference import randomised, save, transformers

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", ".", *"abcdefgh", "##b", "##c",
         "the", "dog", "cat", "sleeps", "runs", "##x", "##y", "##z"]  # fmt: skip
PIECES = ["<s>", "<pad>", "</s>", "<unk>", *"abcdefgh.<>/mskpnu", "Ġ", "Ġa", "Ġb", "ab", "Ġab",
          "<mask>"]  # fmt: skip
MERGES = ["Ġ a", "Ġ b", "a b", "Ġa b"]
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 20}  # fmt: skip


def write_word_pieces(folder: Path) -> None:
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "BertTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]",
        "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]",
    }))  # fmt: skip


def write_byte_pairs(folder: Path) -> None:
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(PIECES)}))
    (folder / "merges.txt").write_text(
        "".join(f"{pair}\n" for pair in ["#version: 0.2", *MERGES]), "utf-8"
    )
    flags = {"lstrip": True, "rstrip": False, "normalized": False, "single_word": False}
    mask = {"__type": "AddedToken", "content": "<mask>", "special": True} | flags
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "RobertaTokenizer", "mask_token": mask})
    )


def bert(folder: Path, head: str = "ForMaskedLM", **more: Any) -> Any:
    library = transformers()
    config = library.BertConfig(vocab_size=len(WORDS), **(SIZES | more))
    theirs = randomised(getattr(library, f"Bert{head}")(config))
    save(theirs, folder)
    write_word_pieces(folder)
    return theirs


def roberta(folder: Path, head: str = "ForMaskedLM", **more: Any) -> Any:
    library = transformers()
    sizes = SIZES | {"vocab_size": len(PIECES), "type_vocab_size": 1, "pad_token_id": 1}
    config = library.RobertaConfig(**(sizes | more))
    theirs = randomised(getattr(library, f"Roberta{head}")(config))
    save(theirs, folder)
    write_byte_pairs(folder)
    return theirs


def sentence_bert(folder: Path, longest: int | None = None) -> Any:
    """Write a sentence encoder into a folder, as sentence-transformers does."""
    theirs = bert(folder, "Model")
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    if longest is not None:
        sizes = {"max_seq_length": longest, "do_lower_case": False}
        (folder / "sentence_bert_config.json").write_text(json.dumps(sizes))
    return theirs
