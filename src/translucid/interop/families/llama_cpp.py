"""llama.cpp's GGUF files: Llama, Qwen2 and Qwen3, described by the header's metadata, with the
tokenizer in `tokenizer.ggml.*`."""

from typing import Any

import torch

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside
from translucid.data.tokenizers import patterns
from translucid.data.tokenizers.imported import MOST_TOKENS, Imported
from translucid.data.tokenizers.pipelines import WORD_START
from translucid.data.tokenizers.special_tokens import Frame, SpecialTokens
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families.llama import COMMON, PERMUTED
from translucid.interop.families.plan import (
    MIXTURE,
    TIED,
    Description,
    ForeignModel,
    ImportPlan,
    Options,
    Origin,
    check_family,
    described,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.gguf_file import read_gguf
from translucid.interop.rules import rule
from translucid.interop.tokenizers import sentencepiece
from translucid.interop.tokenizers.sentencepiece import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
)
from translucid.interop.tokenizers.specs import (
    Part,
    ReadTokenizers,
    added_token,
    bpe,
    byte_level,
    damaged,
    spec_text,
    split_on,
    word_piece_spec,
)
from translucid.interop.tokenizers.tokenizer_config import note_of
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.norms import EPSILON

LAYOUT = "GGUF"
ARCHITECTURES = ("llama", "qwen2", "qwen3")
MODULES = {
    "embedding": "token_embd",
    "final_norm": "output_norm",
    "attention_norm": "blk.{}.attn_norm",
    "query": "blk.{}.attn_q",
    "key": "blk.{}.attn_k",
    "value": "blk.{}.attn_v",
    "query_norm": "blk.{}.attn_q_norm",
    "key_norm": "blk.{}.attn_k_norm",
    "output": "blk.{}.attn_output",
    "feedforward_norm": "blk.{}.ffn_norm",
    "gate": "blk.{}.ffn_gate",
    "up": "blk.{}.ffn_up",
    "down": "blk.{}.ffn_down",
}
KEYS = {
    "d_model": "embedding_length",
    "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv",
    "d_head": "attention.key_length",
    "layers": "block_count",
    "d_ff": "feed_forward_length",
}
KEY = "tokenizer.ggml."
DIGITS = {"type": "Digits", "individual_digits": True}
GPT2 = [byte_level(use_regex=True)]
DIGITS_APART = [DIGITS, *GPT2]


def _pattern(pattern: str) -> list[Part]:
    return [split_on(pattern), byte_level(use_regex=False)]


# How text is split before BPE merges, by llama.cpp's name for the pattern.
PRE_TOKENIZERS: dict[str, list[Part]] = {
    **dict.fromkeys(("default", "gpt-2", "phi-2", "jina-es", "jina-de", "mpt", "olmo"), GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), DIGITS_APART),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "smaug-bpe", "dbrx"),
                    _pattern(patterns.CL100K)),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen"), _pattern(patterns.QWEN2)),
    **dict.fromkeys(("gpt-4o", "llama4"), _pattern(patterns.O200K)),
}  # fmt: skip


def read(origin: Origin) -> ForeignModel:
    """Read a .gguf file, or the only .gguf file of a folder."""
    path = origin.path
    if path.is_dir():
        path = inside(path, next(path.glob("*.gguf")).name, "a model")
    file = read_gguf(path)
    return ForeignModel("gguf", path, Options(file.metadata, str(path)), file)


def plan(model: ForeignModel) -> ImportPlan:
    """Make an import plan from the header. Rotary positions rotate pairs of dimensions: adjacent
    dimensions in Llama's files, and one dimension from each half of a head in the others."""
    kind = check_family(model.config, "general.architecture", ARCHITECTURES)
    own = Options(model.file.metadata, model.where, f"{kind}.")
    if own.get("expert_count", 0):
        own.unsupported(MIXTURE)
    heads = own.whole("attention.head_count")
    usual = max(own.whole("embedding_length") // heads, 1)
    d_head = own.whole("attention.key_length", usual)
    if own.get("attention.value_length", d_head) != d_head:
        own.unsupported("a model with keys and values of different sizes")
    table = model.tensors.get("token_embd.weight")
    made = model.transformer(
        vocab=table.shape[0] if table is not None and table.shape else own.whole("vocab_size"),
        activation="swiglu",
        norm_eps=round_off(own.number("attention.layer_norm_rms_epsilon")),
        qkv_bias="blk.0.attn_q.bias" in model.tensors,
        attention_output_bias="blk.0.attn_output.bias" in model.tensors,
        feedforward_bias="blk.0.ffn_up.bias" in model.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in model.tensors,
        tied="output.weight" not in model.tensors,
        window=own.get("attention.sliding_window"),
        **own.keys(KEYS, {"kv_heads": heads, "d_head": d_head}),
        **COMMON,
        **_gguf_rotary(own, model, d_head),
    )
    halves = kind != "llama"
    rules = stack_rules(made, "decoder", made.layers, Names(MODULES, halves=halves))
    if not made.tied:
        rules.append(rule("output.weight", "head.linear.weight"))
    return ImportPlan(
        kind, "language", made, rules, (r"rope_freqs\.weight",),
        notes=(*[PERMUTED] * halves, *[TIED] * made.tied),
    )  # fmt: skip


def tokenizers(model: ForeignModel, plan: ImportPlan) -> ReadTokenizers:
    return tokenizer(model.file.metadata)


def to_gguf(c: TransformerConfig, length: int) -> Description:
    """Describe a model as GGUF metadata. Only llama.cpp's Llama supports all biases."""
    kind = "qwen3" if c.qk_norm else "llama"
    turning = c.rotary_fraction if c.qk_norm else 1.0  # llama.cpp requires 1 for Llama
    facts: dict[str, Any] = {
        "context_length": length,
        **described(c, KEYS),
        "attention.value_length": c.head_size,
        "attention.layer_norm_rms_epsilon": c.norm_eps or EPSILON["rms"],
        "rope.dimension_count": int(c.head_size * turning),
        "rope.freq_base": c.rotary_base,
        "vocab_size": c.vocab,
    }
    if c.rotary_scaling != 1 and c.rotary_method in ("linear", "yarn"):
        facts |= {"rope.scaling.type": c.rotary_method, "rope.scaling.factor": c.rotary_scaling}
        if c.rotary_method == "yarn":
            facts |= {
                "rope.scaling.original_context_length": c.rotary_length,
                "rope.scaling.yarn_beta_slow": c.rotary.low,
                "rope.scaling.yarn_beta_fast": c.rotary.high,
            }
    named = {f"{kind}.{name}": value for name, value in facts.items()}
    places = {
        "blk.0.attn_q.bias": c.qkv_bias, "blk.0.attn_output.bias": c.attention_output_bias,
        "blk.0.ffn_up.bias": c.feedforward_bias,
    }  # fmt: skip
    names = [name for name, bias in places.items() if (c.bias if bias is None else bias)]
    if c.qk_norm:
        names.append("blk.0.attn_q_norm.weight")
    if not c.tied:
        names.append("output.weight")
    return Description({"general.architecture": kind} | named, tuple(names))


def round_off(value: float) -> float:
    """Undo the rounding of float32: 9.9999997e-06 is 1e-05."""
    return float(f"{value:.6g}")


def _gguf_rotary(own: Options, model: ForeignModel, d_head: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "positions": "rotary",
        "rotary_base": round_off(own.number("rope.freq_base", 10000.0)),
    }
    turning = own.whole("rope.dimension_count", d_head)
    if turning != d_head:
        made["rotary_fraction"] = turning / d_head
    if "rope_freqs.weight" in model.tensors:
        return made | _llama3_scaling(own, model, made["rotary_base"], turning)
    # rope.scale_linear is an older name. In llama.cpp, a missing value and 0 mean 1.
    named = [name for name in ("rope.scaling.factor", "rope.scale_linear") if own.get(name)]
    factor = round_off(own.number(named[0])) if named else 1.0
    method = own.text("rope.scaling.type", "linear")
    for name, plain in (("attn_factor", 1.0), ("yarn_ext_factor", 1.0), ("yarn_attn_factor", 1.0),
                        ("yarn_log_multiplier", 0.0)):  # fmt: skip
        own.must_be(f"rope.scaling.{name}", plain, "a different scaling of rotary positions")
    match method:
        case "none":
            return made
        case "linear":
            return made | {"rotary_scaling": factor}
        case "yarn":
            return made | {
                "rotary_method": "yarn",
                "rotary_scaling": factor,
                "rotary_length": own.whole("rope.scaling.original_context_length"),
                "rotary_low": round_off(own.number("rope.scaling.yarn_beta_slow", 1.0)),
                "rotary_high": round_off(own.number("rope.scaling.yarn_beta_fast", 32.0)),
            }
    own.unsupported(f"rope.scaling.type = {method[:40]!r}", "none, linear, yarn")


def _llama3_scaling(own: Options, model: ForeignModel, base: float, turning: int) -> dict[str, Any]:
    """Read the frequency factors in rope_freqs.weight as rotary options. Raises an error unless
    they are the factors of Llama 3 with an original context length of 8192."""
    factors = model.tensors["rope_freqs.weight"].read().double()
    options: dict[str, Any] = {
        "rotary_method": "llama3", "rotary_scaling": round_off(float(factors.max())),
        "rotary_length": 8192, "rotary_low": 1.0, "rotary_high": 4.0,
    }  # fmt: skip
    wave = 2 * torch.pi * base ** (torch.arange(0, turning, 2).double() / turning)
    smooth = ((8192 / wave - 1.0) / (4.0 - 1.0)).clamp(0, 1)
    expected = 1 / ((1 - smooth) / options["rotary_scaling"] + smooth)
    if factors.shape != expected.shape or not torch.allclose(factors, expected, rtol=1e-4):
        raise InputError(
            f"{own.where}: the factors in rope_freqs.weight are not those of Llama 3 with an "
            "original context length of 8192; use the model in Hugging Face's format"
        )
    return options


def tokenizer(metadata: dict[str, Any]) -> ReadTokenizers:
    """The tokenizer in the metadata of a GGUF file; other keys are ignored."""
    with damaged("the GGUF file"):
        return _read(metadata)


def _read(metadata: dict[str, Any]) -> ReadTokenizers:
    values = {k.removeprefix(KEY): v for k, v in metadata.items() if k.startswith(KEY)}
    kind, tokens = values.get("model"), values.get("tokens")
    if kind not in _MAKERS:
        raise InputError(f"{KEY}model = {kind!r} is not supported; supported: {', '.join(_MAKERS)}")
    whole = isinstance(tokens, list) and 0 < len(tokens) <= MOST_TOKENS
    if not whole or not all(isinstance(token, str) for token in tokens or ()):
        raise InputError(f"{KEY}tokens must be a list of at most {MOST_TOKENS:,} strings")
    pieces = _pieces(values, tokens or [])
    special = _roles(values, pieces, kind)
    made = Tokenizer.imported(_MAKERS[kind](values, pieces, special))
    notes, files = [note_of(special, tokens or [])], {"tokenizer": f"{KEY}tokens"}
    return ReadTokenizers({"tokenizer": made}, notes, "none", files)


def _pieces(values: dict[str, Any], tokens: list[str]) -> list[Piece]:
    scores = _numbers(values, "scores", len(tokens), 0.0)
    kinds = _numbers(values, "token_type", len(tokens), NORMAL)
    return [(t, float(s), int(k)) for t, s, k in zip(tokens, scores, kinds, strict=True)]


def _numbers(values: dict[str, Any], key: str, size: int, otherwise: float) -> list[float]:
    numbers = values.get(key)
    if numbers is None:
        return [otherwise] * size
    if not isinstance(numbers, list) or len(numbers) != size:
        length = len(numbers) if isinstance(numbers, list) else type(numbers).__name__
        raise InputError(
            f"{KEY}{key}: expected one number for each of {size:,} tokens, got {length}; the file "
            "is damaged"
        )
    if not all(isinstance(number, int | float) for number in numbers):
        raise InputError(f"{KEY}{key} contains something other than numbers; the file is damaged")
    return numbers


def _roles(values: dict[str, Any], pieces: list[Piece], kind: str) -> SpecialTokens:
    def role(*names: str) -> int | None:
        ids = (values.get(f"{name}_token_id") for name in names)
        right = (i for i in ids if isinstance(i, int) and 0 <= i < len(pieces))
        return next(right, None)

    bos, eos = role("bos", "cls"), role("eos")
    pad, mask, sep = role("padding"), role("mask"), role("seperator", "separator")
    numbers = (i for i, piece in enumerate(pieces) if piece[2] == UNKNOWN)
    unk = role("unknown") if role("unknown") is not None else next(numbers, None)
    if kind == "gpt2" or any(piece[2] == BYTE for piece in pieces):
        unk = None  # byte-level tokens can represent any text
    if kind == "bert":
        start, end = (next((i for i, p in enumerate(pieces) if p[0] == name), None)
                      for name in ("[CLS]", "[SEP]"))  # fmt: skip
        bos, eos = start if bos is None else bos, end if sep is None else sep
    add_bos = values.get("add_bos_token", kind in ("llama", "bert"))
    add_eos = values.get("add_eos_token", kind in ("bert", "t5"))
    prefix = () if bos is None or not add_bos else (bos,)
    suffix = () if eos is None or not add_eos else (eos,)
    return SpecialTokens(
        pad=pad, bos=bos, eos=eos, unk=unk, mask=mask, start=prefix,
        frame=Frame(prefix, suffix, suffix), never=() if pad in (None, eos) else (pad,),
        ends=tuple(i for i in (role("eot"), role("eom")) if i not in (None, eos)),
    )  # fmt: skip


def _sentencepiece(values: dict[str, Any], pieces: list[Piece], special: SpecialTokens) -> Imported:
    charsmap = values.get("precompiled_charsmap") or b""
    model = SentencePieceModel(
        pieces,
        kind="unigram" if values["model"] == "t5" else "bpe",
        byte_fallback=any(kind == BYTE for _, _, kind in pieces),
        charsmap=bytes(charsmap) if isinstance(charsmap, bytes | list) else b"",
        add_prefix=bool(values.get("add_space_prefix", True)),
        one_space=bool(values.get("remove_extra_whitespaces", False)),
    )
    return sentencepiece.imported(model, special, f"{KEY}model = {values['model']}")


def _byte_level(values: dict[str, Any], pieces: list[Piece], special: SpecialTokens) -> Imported:
    name = values.get("pre", "default")
    if name not in PRE_TOKENIZERS:
        raise InputError(
            f"{KEY}pre = {name!r} is not supported; supported: {', '.join(PRE_TOKENIZERS)}; use "
            "the model's Hugging Face folder with its tokenizer.json"
        )
    merges = values.get("merges")
    if not isinstance(merges, list) or not all(isinstance(m, str) and " " in m for m in merges):
        raise InputError(
            f"{KEY}merges must be a list of strings, each with two pieces and a space between "
            "them; the GGUF file is damaged: copy it again"
        )
    vocab = {piece: i for i, (piece, _, _) in enumerate(pieces)}
    text = spec_text(
        bpe(vocab, [merge.split(" ", 1) for merge in merges], whole_pieces=name == "llama-bpe"),
        pre_tokenizers=PRE_TOKENIZERS[name], decoders=[byte_level(use_regex=True)],
        control={i: piece for i, (piece, _, kind) in enumerate(pieces) if kind == CONTROL},
        added=[added_token(i, p) for i, (p, _, kind) in enumerate(pieces) if kind == USER_DEFINED],
    )  # fmt: skip
    return Imported(text, special)


def _word_piece(values: dict[str, Any], pieces: list[Piece], special: SpecialTokens) -> Imported:
    """Make a WordPiece tokenizer. GGUF marks the pieces that begin a word; WordPiece marks the
    pieces that continue one."""
    marked = any(piece.startswith(WORD_START) for piece, _, _ in pieces)
    tokens = [piece for piece, _, _ in pieces]
    control = {i: piece for i, (piece, _, kind) in enumerate(pieces) if kind in (CONTROL, UNKNOWN)}
    if marked:
        tokens = [
            piece if i in control
            else piece.removeprefix(WORD_START) if piece.startswith(WORD_START)
            else f"##{piece}"
            for i, piece in enumerate(tokens)
        ]  # fmt: skip
    unk = "[UNK]" if special.unk is None else tokens[special.unk]
    return Imported(word_piece_spec(tokens, unk=unk, control=control, lowercase=True), special)


_MAKERS = {
    "llama": _sentencepiece, "t5": _sentencepiece, "gpt2": _byte_level, "bert": _word_piece,
}  # fmt: skip
