"""Every key of tokenizer_config.json is honoured, known to be irrelevant, or refused by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.tokenizers.surface import steps
from translucid.interop.tokenizers.roles import RoleFiles

FILE = "tokenizer_config.json"
# Keys that are read where the tokenizer is made.
HONOURED = frozenset({
    "add_bos_token", "add_eos_token", "add_prefix_space", "added_tokens_decoder",
    "clean_up_tokenization_spaces", "do_lower_case", "extra_ids", "mask_token_sent", "offset",
    "src_lang", "strip_accents", "tokenize_chinese_chars", "tokenizer_class",
})  # fmt: skip
# Keys that change neither the ids of a text nor the text of ids. Special tokens are never found in
# texts here, so it does not matter which of them there are, and what is beside them.
IRRELEVANT = frozenset({
    "_commit_hash", "additional_special_tokens", "backend", "chat_template", "device_map",
    "errors", "extra_special_tokens", "from_slow", "full_tokenizer_file", "is_fast", "is_local",
    "keep_accents", "language_codes", "legacy", "legacy_behaviour", "local_files_only",
    "max_len", "max_length", "merges_file", "model_input_names", "model_max_length",
    "model_specific_special_tokens", "name_or_path", "num_madeup_words", "pad_to_multiple_of",
    "pad_token_type_id", "padding", "padding_side", "processor_class", "response_schema",
    "return_tensors", "return_token_type_ids", "separate_vocabs", "source_lang",
    "sp_model_file", "spaces_between_special_tokens", "special_tokens",
    "special_tokens_map_file", "split_special_tokens", "stride", "target_lang", "tgt_lang",
    "tokenizer_file", "tokenizer_type", "tool_parser_type", "transformers_version",
    "trim_offsets", "truncation", "truncation_side", "truncation_strategy", "unk_id",
    "unsloth_version", "use_default_system_prompt", "use_fast", "verbose", "vocab_file",
})  # fmt: skip
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "do_basic_tokenize": (True,), "never_split": ([],), "sp_model_kwargs": ({},),
    "wordpieces_prefix": ("##",), "clean_text": (True,), "remove_space": (True,),
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": (False,),
}  # fmt: skip
# Classes whose ids follow from the files alone; others split texts in ways of their own.
OF_FILES: Mapping[str, tuple[str, ...]] = {
    "vocab.txt": ("Bert", "DistilBert", "Electra"),
    "merges.txt": ("GPT2", "Roberta", "Bart", "Longformer", "LED"),
    "a sentencepiece model": ("Llama", "CodeLlama", "T5", "MT5", "Pegasus"),
}
SPLITS_OTHERWISE = ("qwen2", "qwen3")  # model types whose pattern is not GPT-2's


def check_keys(held: Mapping[str, Any], folder: Path) -> None:
    """Refuse keys of unknown meaning."""
    unknown = {
        key: value
        for key, value in held.items()
        if value is not None
        and key not in HONOURED | IRRELEVANT
        and not key.endswith("_token")
        and value not in NEUTRAL.get(key, ())
    }
    if unknown:
        shown = ", ".join(f"{key} = {str(value)[:60]!r}" for key, value in unknown.items())
        raise InputError(
            f"{folder / FILE}: {shown[:400]}: Translucid does not know what this does to texts, "
            "which might get other ids; if you know that it changes none, remove it from a copy of "
            "the file"
        )


def check_class(files: RoleFiles, kind: str, folder: Path) -> None:
    """Refuse a class that splits texts otherwise, where there is no tokenizer.json that says how.
    kind: a key of OF_FILES."""
    name = str(files.tokenizer.get("tokenizer_class") or "")
    known = OF_FILES[kind]
    plain = name.removesuffix("Fast").removesuffix("Tokenizer")
    model_type = str(files.config.get("model_type"))
    otherwise = kind == "merges.txt" and model_type in SPLITS_OTHERWISE
    if otherwise or (name and plain not in known):
        option = f"model_type = {model_type!r}" if otherwise else f"tokenizer_class = {name[:60]!r}"
        raise InputError(
            f"{folder / FILE}: {option} with {kind} alone: how it splits texts is not in these "
            "files; save the tokenizer again with transformers, which writes tokenizer.json"
        )


def with_options(data: dict[str, Any], files: RoleFiles, folder: Path) -> dict[str, Any]:
    """A tokenizer.json with the options that tokenizer_config.json gives for its steps."""
    options = {
        ours: value
        for theirs, ours in (("do_lower_case", "lowercase"), ("strip_accents", "strip_accents"),
                             ("tokenize_chinese_chars", "handle_chinese_chars"))
        if isinstance(value := files.tokenizer.get(theirs), bool)
    }  # fmt: skip
    if options and (data.get("normalizer") or {}).get("type") == "BertNormalizer":
        data = data | {"normalizer": data["normalizer"] | options}
    wanted, actual = files.tokenizer.get("add_prefix_space"), _adds_space(data)
    if isinstance(wanted, bool) and actual is not None and wanted != actual:
        if data["pre_tokenizer"] is None or data["pre_tokenizer"]["type"] != "ByteLevel":
            raise InputError(
                f"{folder / FILE}: add_prefix_space = {wanted}, but the tokenizer's own file puts "
                f"{'a' if actual else 'no'} space in front of a text; make them agree"
            )
        data = data | {"pre_tokenizer": data["pre_tokenizer"] | {"add_prefix_space": wanted}}
    return data


def _adds_space(data: Mapping[str, Any]) -> bool | None:
    """Whether a text gets a space in front; None: spaces are no part of its tokens."""
    adds: bool | None = None
    for step in (*steps(data.get("normalizer")), *steps(data.get("pre_tokenizer"))):
        match step.get("type"):
            case "ByteLevel":
                adds = bool(adds) or bool(step.get("add_prefix_space"))
            case "Metaspace":
                adds = bool(adds) or step.get("prepend_scheme", "always") != "never"
            case "Prepend":
                adds = True
            case "Replace" if step.get("content") == "\u2581":
                adds = bool(adds)
    return adds


def clean_up_note(data: Mapping[str, Any], files: RoleFiles) -> list[str]:
    """transformers applies it to WordPiece, which does the same by itself, and to Unigram."""
    on = files.tokenizer.get("clean_up_tokenization_spaces") is True
    if not on or data["model"]["type"] not in ("Unigram", "WordLevel"):
        return []
    return [
        f"{FILE}: clean_up_tokenization_spaces = true is not applied: a space that the model "
        "writes in front of . , ? ! or 's stays"
    ]
