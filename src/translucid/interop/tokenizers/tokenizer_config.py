"""Read the files next to a Hugging Face tokenizer: the roles of special tokens, and
tokenizer_config.json. Every key is applied, known to be irrelevant, or rejected with an error that
names it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.surface import steps

Config = Mapping[str, Any]
MOST_AROUND = 64  # special tokens before or after a text
NAMES = {
    "pad": ("<pad>", "[pad]", "<blank>", "<|pad|>"),
    "bos": ("<s>", "<bos>", "<sos>", "[bos]", "<|startoftext|>"),
    "eos": ("</s>", "<eos>", "[eos]", "<|endoftext|>"),
    "unk": ("<unk>", "[unk]", "<|unk|>"),
    "mask": ("<mask>", "[mask]"),
}


@dataclass
class RoleFiles:
    """The contents of config.json, generation_config.json, tokenizer_config.json and
    special_tokens_map.json; empty if a file does not exist."""

    config: Config = field(default_factory=dict)
    generation: Config = field(default_factory=dict)
    tokenizer: Config = field(default_factory=dict)
    special_map: Config = field(default_factory=dict)

    def name(self, role: str) -> str | None:
        """The token that the tokenizer's files assign to a role, such as eos."""
        for source in (self.tokenizer, self.special_map):
            token = source.get(f"{role}_token")
            token = token.get("content") if isinstance(token, Mapping) else token
            if isinstance(token, str):
                return token
        return None

    def ids(self, key: str) -> list[int]:
        """The token ids under a key of config.json or generation_config.json; a model may have
        several end tokens."""
        for source in (self.generation, self.config):
            value = source.get(key)
            ids = value if isinstance(value, list) else [value]
            whole = [i for i in ids if isinstance(i, int) and not isinstance(i, bool) and i >= 0]
            if whole:
                return whole
        return []

    def generating(self, key: str) -> Any:
        """The value of a generation key: from generation_config.json if that exists, otherwise from
        config.json."""
        return (self.generation or self.config).get(key)

    def decoder_start(self) -> list[int]:
        """The first tokens of a decoder: its start token, then the forced BOS token, if any."""
        start = self.ids("decoder_start_token_id")[:1] or self.ids("bos_token_id")[:1]
        forced = self.generating("forced_bos_token_id") is not None
        return [*start, *(self.ids("forced_bos_token_id")[:1] if forced else [])]

    def flag(self, key: str) -> bool | None:
        value = self.tokenizer.get(key)
        return value if isinstance(value, bool) else None


def by_name(tokens: Sequence[str], role: str) -> int | None:
    """The id of the token with the usual name of a role."""
    lowered = {token.lower(): i for i, token in reversed(list(enumerate(tokens)))}
    return next((lowered[name] for name in NAMES[role] if name in lowered), None)


def first_ids(tokens: Sequence[str]) -> dict[str, int]:
    """The id of each token; for duplicates, the first."""
    return dict(zip(reversed(tokens), reversed(range(len(tokens))), strict=True))


def special_tokens(
    tokens: Sequence[str], files: RoleFiles, frame: Frame | None, *, spells_all: bool,
    fixed: bool = False,
) -> SpecialTokens:  # fmt: skip
    """Determine the roles of special tokens. frame: the tokens around a text in the tokenizer's
    template, if it has one. spells_all: the tokens can represent any text, so nothing is unknown.
    fixed: the frame comes from a tokenizer.json."""
    ids = first_ids(tokens)

    def role(name: str) -> int | None:
        named = files.name(name)
        if named is not None and named in ids:
            return ids[named]
        numbers = [i for i in files.ids(f"{name}_token_id") if i < len(tokens)]
        return numbers[0] if numbers else None

    pad, bos, eos = (role(name) for name in ("pad", "bos", "eos"))
    cls, sep = (ids.get(files.name(name) or "") for name in ("cls", "sep"))
    eos_ids = [i for i in files.ids("eos_token_id") if i < len(tokens)]
    if eos is None and eos_ids:
        eos = eos_ids[0]
    if eos_ids and eos not in eos_ids:  # the model's files determine how its texts end
        eos = eos_ids[0]
    unk = None if spells_all else role("unk")
    fixed = fixed or (cls is not None and sep is not None)
    if frame is None:
        frame = _frame(files, cls=cls, sep=sep, bos=bos, eos=eos)
    fixed = fixed or bool(files.config.get("is_encoder_decoder"))
    frame = _with_flags(frame, files, bos, eos, fixed=fixed)
    _check_language(frame, files, ids)
    decoder = files.config.get("is_encoder_decoder")
    start = files.decoder_start() if decoder else list(frame.prefix)
    if wrong := [i for i in start if i >= len(tokens)]:
        raise InputError(
            f"the model starts its texts with token {wrong[0]}, but the tokenizer has "
            f"{len(tokens):,} tokens; the files do not belong together"
        )
    ends = tuple(i for i in eos_ids if i != eos)
    never = [] if pad is None or pad in (eos, *ends) else [pad]
    for bad in files.generating("bad_words_ids") or []:
        if isinstance(bad, list) and len(bad) == 1 and isinstance(bad[0], int):
            never.append(bad[0])
    return SpecialTokens(
        pad=pad, bos=bos, eos=eos, unk=unk, mask=role("mask"), start=tuple(start), frame=frame,
        ends=ends, never=tuple(dict.fromkeys(i for i in never if 0 <= i < len(tokens))),
    )  # fmt: skip


def _frame(
    files: RoleFiles, *, cls: int | None, sep: int | None, bos: int | None, eos: int | None
) -> Frame:
    """The special tokens around a text if no template defines them."""
    if cls is not None and sep is not None:
        return Frame((cls,), (sep,), (sep,))
    if files.config.get("is_encoder_decoder"):
        end = () if eos is None else (eos,)
        return Frame((), end, end)
    return Frame()


def _with_flags(
    frame: Frame, files: RoleFiles, bos: int | None, eos: int | None, *, fixed: bool
) -> Frame:
    """Apply `add_bos_token` and `add_eos_token` to a frame. fixed: the frame comes from a file, and
    these options must agree with it, since versions of transformers differ in which they use."""
    prefix, suffix = frame.prefix, frame.suffix
    add_bos, add_eos = files.flag("add_bos_token"), files.flag("add_eos_token")
    if add_bos is not None and bos is not None:
        prefix = (bos,) if add_bos else tuple(i for i in prefix if i != bos)
    if add_eos is not None and eos is not None:
        suffix = (eos,) if add_eos else tuple(i for i in suffix if i != eos)
    if fixed and (prefix, suffix) != (frame.prefix, frame.suffix):
        raise InputError(
            f"tokenizer_config.json: add_bos_token = {add_bos}, add_eos_token = {add_eos}, but the "
            "tokenizer's own template adds different tokens to a text; make them agree"
        )
    return Frame(prefix, suffix, frame.between)


def _check_language(frame: Frame, files: RoleFiles, ids: Mapping[str, int]) -> None:
    """Raise an error if the token of the source language is not in the frame."""
    language = files.tokenizer.get("src_lang")
    if not isinstance(language, str):
        return
    number = ids.get(language)
    if number is not None and number not in (*frame.prefix, *frame.suffix):
        raise InputError(
            f"tokenizer_config.json: src_lang = {language[:60]!r}, but the tokenizer's own "
            "template does not add this token; save the tokenizer again with that language"
        )


def template(processor: Any, ids: Mapping[str, int]) -> Frame | None:
    """The frame that the post-processor of a tokenizer.json defines, if any."""
    if not isinstance(processor, Mapping):
        return None
    match processor.get("type"):
        case "Sequence":
            frames = [template(part, ids) for part in processor.get("processors") or []]
            return next((frame for frame in frames if frame is not None), None)
        case "BertProcessing" | "RobertaProcessing" as kind:
            cls, sep = (processor.get(name) for name in ("cls", "sep"))
            start, end = (_numbered(token) for token in (cls, sep))
            return Frame((start,), (end,), (end,) if kind == "BertProcessing" else (end, end))
        case "TemplateProcessing":
            single = _around(processor, "single", ids)
            pair = _around(processor, "pair", ids)
            between = tuple(pair[1]) if len(pair) == 3 else ()
            return Frame(tuple(single[0]), tuple(single[-1]), between)
    return None


def _around(processor: Mapping[str, Any], key: str, ids: Mapping[str, int]) -> list[list[int]]:
    """The special tokens before, between and after the texts of a template."""
    groups: list[list[int]] = [[]]
    table = processor.get("special_tokens") or {}
    for part in processor.get(key) or []:
        if "Sequence" in part:
            groups.append([])
        else:
            name = part.get("SpecialToken", {}).get("id")
            known = table.get(name, {}).get("ids") if isinstance(table, Mapping) else None
            numbers = known or ([ids[name]] if name in ids else [])
            groups[-1] += [i for i in numbers if isinstance(i, int)]
    if any(len(group) > MOST_AROUND for group in groups):
        raise InputError(
            f"the tokenizer's template adds more than {MOST_AROUND} tokens to a text; it is "
            "damaged: copy it again"
        )
    return groups


def _numbered(token: Any) -> int:
    if isinstance(token, list) and len(token) == 2 and isinstance(token[1], int):
        return token[1]
    raise InputError(f"the tokenizer's template contains {str(token)[:80]}; expected a token "
                     "and its id")  # fmt: skip


def note_of(special: SpecialTokens, tokens: Sequence[str], side: str = "") -> str:
    """A note on the tokens that are added to a text."""

    def named(ids: Sequence[int]) -> str:
        return " ".join(f"{tokens[i]} ({i})" for i in ids)

    frame = special.frame or Frame()
    around = [
        f"begin with {named(frame.prefix)}" if frame.prefix else "get no token before them",
        f"end with {named(frame.suffix)}" if frame.suffix else "",
    ]
    what = f"{side} texts" if side else "texts"
    line = f"{what} {' and '.join(filter(None, around))}, as set in the tokenizer's files"
    if special.start and special.start != frame.prefix:
        line += f"; a decoder starts with {named(special.start)}"
    return line


FILE = "tokenizer_config.json"
# Keys that are read when the tokenizer is built.
HONOURED = frozenset({
    "add_bos_token", "add_eos_token", "add_prefix_space", "added_tokens_decoder",
    "clean_up_tokenization_spaces", "do_lower_case", "extra_ids", "mask_token_sent", "offset",
    "src_lang", "strip_accents", "tokenize_chinese_chars", "tokenizer_class",
})  # fmt: skip
# Keys that change neither encoding nor decoding. Translucid never matches special tokens in texts,
# so it does not matter which exist, and how spaces around them are treated.
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
# Classes whose ids follow from the files alone; others split texts differently.
OF_FILES: Mapping[str, tuple[str, ...]] = {
    "vocab.txt": ("Bert", "DistilBert", "Electra"),
    "merges.txt": ("GPT2", "Roberta", "Bart", "Longformer", "LED"),
    "a sentencepiece model": ("Llama", "CodeLlama", "T5", "MT5", "Pegasus"),
}
SPLITS_OTHERWISE = ("qwen2", "qwen3")  # model types whose pattern is not GPT-2's


def check_keys(held: Mapping[str, Any], folder: Path) -> None:
    """Raise an error for unknown keys of tokenizer_config.json."""
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
            f"{folder / FILE}: {shown[:400]} is unknown and might change token ids; if you know "
            "that it does not, remove it from a copy of the folder"
        )


def check_class(files: RoleFiles, kind: str, folder: Path) -> None:
    """Raise an error for a tokenizer class that splits texts in its own way, if no tokenizer.json
    describes how. kind: a key of OF_FILES."""
    name = str(files.tokenizer.get("tokenizer_class") or "")
    known = OF_FILES[kind]
    plain = name.removesuffix("Fast").removesuffix("Tokenizer")
    model_type = str(files.config.get("model_type"))
    otherwise = kind == "merges.txt" and model_type in SPLITS_OTHERWISE
    if otherwise or (name and plain not in known):
        option = f"model_type = {model_type!r}" if otherwise else f"tokenizer_class = {name[:60]!r}"
        raise InputError(
            f"{folder / FILE}: {option}, but the folder has only {kind}, which does not define how "
            "texts are split; save the tokenizer again with transformers, which writes "
            "tokenizer.json"
        )


def with_options(data: dict[str, Any], files: RoleFiles, folder: Path) -> dict[str, Any]:
    """A tokenizer.json with the options of tokenizer_config.json applied."""
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
                f"{folder / FILE}: add_prefix_space = {wanted}, but the tokenizer's own file adds "
                f"{'a' if actual else 'no'} space before a text; make them agree"
            )
        data = data | {"pre_tokenizer": data["pre_tokenizer"] | {"add_prefix_space": wanted}}
    return data


def _adds_space(data: Mapping[str, Any]) -> bool | None:
    """Whether a space is added before a text; None if spaces are not part of tokens."""
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
    """A note on clean_up_tokenization_spaces, which transformers applies to Unigram tokenizers and
    Translucid does not; WordPiece needs no note."""
    on = files.tokenizer.get("clean_up_tokenization_spaces") is True
    if not on or data["model"]["type"] not in ("Unigram", "WordLevel"):
        return []
    return [
        f"{FILE}: clean_up_tokenization_spaces = true is not applied: spaces that the model "
        "generates before . , ? ! or 's remain"
    ]
