"""Folders with a tiny tokenizer of each kind, and different values for the keys of
tokenizer_config.json.
"""

import json
import warnings
from pathlib import Path
from typing import Any

from tests.interop.encoders import MERGES, PIECES, write_byte_pairs, write_word_pieces
from tests.interop.reference import transformers
from tests.interop.tokenizer_files import BYTES, CONTROLS, LETTERS, WORDS, sentencepiece_model

from translucid.core.errors import TranslucidError
from translucid.interop.tokenizers import read_tokenizers

# By kind: texts whose characters are in its vocabulary.
TEXTS = {
    "bert": ("the dog", "The Dog.", "dÓg the", "a b ab", " a  b ", "dog中cat .", "the cat . dog"),
    "roberta": ("a b ab", "ab", "b a.", "a  b", " ab"), "gpt2": ("a b ab", "ab", "b a.", "a  b"),
    "llama": ("the cat in", "ab", "in the", "cat .", "a  b"),
    "t5": ("the cat in", "ab", "in the", "cat .", "a b"),
    "pegasus": ("the cat in", "ab", "in the", "cat .", "a b"),
}  # fmt: skip
SPM = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2), *WORDS, *LETTERS]


def _config(folder: Path, kind: str, **more: Any) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": kind} | more))


def _bert(folder: Path) -> None:
    _config(folder, "bert", pad_token_id=0)
    write_word_pieces(folder)


def _roberta(folder: Path) -> None:
    _config(folder, "roberta", pad_token_id=1)
    write_byte_pairs(folder)


def _gpt2(folder: Path) -> None:
    pieces = [p for p in PIECES if not (p.startswith("<") and len(p) > 1)] + ["<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
    (folder / "merges.txt").write_text(
        "".join(f"{m}\n" for m in ["#version: 0.2", *MERGES]), "utf-8"
    )
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    _config(folder, "gpt2", eos_token_id=len(pieces) - 1)


def _llama(folder: Path) -> None:
    raw = sentencepiece_model(
        [*CONTROLS, *BYTES, *WORDS, *LETTERS], kind=2, byte_fallback=1,
        remove_extra_whitespaces=0,
    )  # fmt: skip
    (folder / "tokenizer.model").write_bytes(raw)
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "LlamaTokenizer", "add_bos_token": true}'
    )
    _config(folder, "llama", bos_token_id=1, eos_token_id=2)


def _t5(folder: Path, kind: str = "t5") -> None:
    raw = sentencepiece_model(SPM, bos_id=-1, eos_id=1, unk_id=2, pad_id=0)
    (folder / "spiece.model").write_bytes(raw)
    name = {"t5": "T5Tokenizer", "pegasus": "PegasusTokenizer"}[kind]
    extra = {"extra_ids": 5} if kind == "t5" else {}
    held = {"tokenizer_class": name, "eos_token": "</s>", "pad_token": "<pad>"} | extra
    (folder / "tokenizer_config.json").write_text(json.dumps(held))
    _config(folder, kind, is_encoder_decoder=True, decoder_start_token_id=0, pad_token_id=0,
            eos_token_id=1)  # fmt: skip


def _pegasus(folder: Path) -> None:
    _t5(folder, "pegasus")


MAKERS = {"bert": _bert, "roberta": _roberta, "gpt2": _gpt2, "llama": _llama, "t5": _t5,
          "pegasus": _pegasus}  # fmt: skip
KEYS: dict[str, list[Any]] = {
    "do_lower_case": [True, False], "strip_accents": [True, False],
    "tokenize_chinese_chars": [True, False], "add_prefix_space": [True, False],
    "add_bos_token": [True, False], "add_eos_token": [True, False],
    "clean_up_tokenization_spaces": [True, False], "legacy": [True, False],
    "model_max_length": [3], "truncation_side": ["left"], "padding_side": ["left"],
    "split_special_tokens": [True], "do_basic_tokenize": [False], "never_split": [["Dog"]],
    "wordpieces_prefix": ["@@"], "trim_offsets": [False], "errors": ["ignore"],
    "sp_model_kwargs": [{"enable_sampling": True, "alpha": 0.1}], "keep_accents": [True],
    "offset": [7], "padding": [True],
    "extra_ids": [3], "additional_special_tokens": [["<new>"]], "extra_special_tokens": [["<new>"]],
    "src_lang": ["en_XX"], "tgt_lang": ["de_DE"], "chat_template": ["{{ messages }}"],
    "spaces_between_special_tokens": [False], "use_default_system_prompt": [True],
    "tokenizer_class": ["PreTrainedTokenizerFast"], "a_key_of_a_later_version": [3],
    "name_or_path": ["x"], "backend": ["tokenizers"], "is_local": [True], "max_length": [2],
    "truncation": [True], "stride": [1], "model_input_names": [["input_ids"]],
    "added_tokens_decoder": [{"900": {"content": "dog", "special": False, "lstrip": False,
                                      "rstrip": False, "normalized": True, "single_word": False}}],
}  # fmt: skip


def make(name: str, folder: Path, *, whole: bool) -> None:
    """Write the tokenizer folder `name`. whole: with a tokenizer.json, as transformers writes
    it."""
    folder.mkdir()
    MAKERS[name](folder)
    if whole:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            transformers().AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def edit(folder: Path, key: str, value: Any) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {key: value}))


def verdict(name: str, folder: Path, key: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = transformers().AutoTokenizer.from_pretrained(folder)
            ids = [theirs(text).input_ids for text in TEXTS[name]]
            texts = [theirs.decode(row, skip_special_tokens=True) for row in ids]
        except Exception:  # if the reference cannot open it, there is nothing to compare with
            return "no reference"
    try:
        read = read_tokenizers(folder)
    except TranslucidError as error:
        return "refused" if key in str(error) else f"wrong: not for this key: {error}"
    (ours,) = read.tokenizers.values()
    own = [ours.frame()(ours.encode(text)) for text in TEXTS[name]]
    back = [ours.decode(row) for row in own]
    for text, a, b in zip(TEXTS[name], own, ids, strict=True):
        if a != b:
            return f"wrong ids: {text!r} is {a} here, {b} there"
    for text, row, a, b in zip(TEXTS[name], own, back, texts, strict=True):
        if a != b and ours.unk_id not in row:  # Translucid shows <unk>, transformers omits it
            if any(key in note for note in read.notes):
                return "noted"
            return f"wrong text: {text!r} is {a!r} here, {b!r} there"
    return "equal"
