"""CTranslate2's translation and language models: Transformers whose sizes follow from the shapes of
their tensors. Options are stored as scalars among the tensors; a missing option has a fixed
default.

Without a table of positions, CTranslate2 computes sinusoids starting at position 1, unless
attention encodes positions. Its vocabularies do not store how texts are split: Translucid splits at
spaces, or between characters if all tokens are single characters.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, present, read_object
from translucid.data.tokenizers.special_tokens import Frame
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.interop.families.plan import (
    CONFIG,
    ForeignModel,
    ImportPlan,
    Options,
    Origin,
    alike,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.ctranslate2_file import read_ctranslate2
from translucid.interop.rules import WeightRule, rule
from translucid.interop.tokenizers import plain_vocabulary
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.interop.tokenizers.tokenizer_config import note_of
from translucid.interop.tokenizers.tokenizer_folder import read_tokenizers
from translucid.models.transformer_config import TransformerConfig

LAYOUT = "CTranslate2's format"
HEADS = {
    "TransformerBase": 8,
    "TransformerBig": 16,
}  # early files store only the name
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 4: "quick_gelu", 5: "tanh"}
GATED = {1: "geglu_tanh", 2: "swiglu", 3: "geglu"}
# Scalars that are read for a stack and for its attention, and those that do not affect the output.
READ = ("num_heads", "pre_norm", "activation", "scale_embeddings", "with_source_eos",
        "with_source_bos", "with_target_bos", "alibi")  # fmt: skip
OF_ATTENTION = ("rotary_dim", "rotary_interleave", "rotary_base", "rotary_scaling_type",
                "rotary_scaling_factor", "num_heads_kv", "head_dim")  # fmt: skip
NEUTRAL = ("alignment_layer", "alignment_heads", "embeddings_merge", "user_decoder_start_tokens",
           "alibi_use_positive_positions")  # fmt: skip
LINEAR = 0  # the supported type of rotary scaling
LAYER = {
    "attention_norm": "self_attention/layer_norm",
    "qkv": "self_attention/linear_0",
    "query_norm": "self_attention/q_norm",
    "key_norm": "self_attention/k_norm",
    "output": "self_attention/linear_1",
    "cross_norm": "attention/layer_norm",
    "cross_query": "attention/linear_0",
    "cross_kv": "attention/linear_1",
    "cross_output": "attention/linear_2",
    "feedforward_norm": "ffn/layer_norm",
    "up": "ffn/linear_0",
    "down": "ffn/linear_1",
}
GATE = {"gate": "ffn/linear_0", "up": "ffn/linear_0_noact"}
POSITIONS, EMBEDDING_NORM, FINAL_NORM = (
    "position_encodings/encodings", "layernorm_embedding", "layer_norm"
)  # fmt: skip
HEAD, HEAD_BIAS = "decoder/projection/weight", "decoder/projection/bias"
TABLES = {"encoder": "encoder/embeddings_0/weight", "decoder": "decoder/embeddings/weight"}
SIDES = ("encoder", "decoder")
SHARED = ("shared_vocabulary", "vocabulary")
UNKNOWN = "<unk>"
SPECIAL = 4  # the first tokens may be special tokens, with longer names
FILLER = re.compile(r"(<unused|madeupword)\d+>?")  # names of rows that no text produces


def read(origin: Origin) -> ForeignModel:
    folder = origin.path
    file = read_ctranslate2(inside(folder, "model.bin", "a model"))
    facts = dict(file.metadata)
    if present(folder / CONFIG):  # where newer models store some options
        facts |= read_object(inside(folder, CONFIG, "a model"))
    return ForeignModel("ctranslate2", folder, Options(facts, str(folder)), file)


def plan(model: ForeignModel) -> ImportPlan:
    config, tensors = model.config, model.tensors
    _check_scalars(model)
    layers = {side: count for side in SIDES if (count := model.count_layers(f"{side}/layer_", "/"))}
    if "decoder" not in layers:
        spec = model.file.metadata["spec"][:60]
        config.unsupported(f"{spec!r}, a model without a decoder,", "translation, language models")
    first = next(iter(layers))
    tables = {side: _embedding(model, side) for side in layers}
    vocab, d_model = tensors[tables[first]].shape
    translates = "encoder" in layers
    shared = translates and tensors[tables["encoder"]] is tensors[tables["decoder"]]
    layer = f"{first}/layer_0"
    gated = f"{layer}/{GATE['up']}/weight" in tensors
    plain_norm = f"{layer}/ffn/layer_norm/beta" in tensors
    activation = _alike(config, layers, "activation", 0)
    names = GATED if gated else ACTIVATIONS
    if activation not in names:
        config.unsupported(f"activation {activation}")
    usual = config.get("num_heads", HEADS.get(config.text("spec")))
    heads = _alike(config, layers, "num_heads", usual)
    made = model.transformer(
        shape="encoder-decoder" if translates else "decoder",
        head="language",
        vocab=vocab,
        target_vocab=None if shared or not translates else tensors[tables["decoder"]].shape[0],
        d_model=d_model,
        heads=heads,
        layers=layers[first],
        decoder_layers=layers["decoder"] if translates else None,
        d_ff=model.rows(f"{layer}/ffn/linear_0/weight"),
        activation=names[activation],
        norm="layer" if plain_norm else "rms",
        norm_eps=config.number("layer_norm_epsilon", 1e-5 if plain_norm else 1e-6),
        placement="pre" if _alike(config, layers, "pre_norm", 1) else "post",
        final_norm=f"{first}/{FINAL_NORM}/gamma" in tensors,
        embedding_norm=f"{first}/{EMBEDDING_NORM}/gamma" in tensors,
        embedding_scale=_embedding_scale(config, layers, d_model),
        qkv_bias=f"{layer}/self_attention/linear_0/bias" in tensors,
        attention_output_bias=f"{layer}/self_attention/linear_1/bias" in tensors,
        feedforward_bias=f"{layer}/ffn/linear_0/bias" in tensors,
        qk_norm=f"{layer}/self_attention/q_norm/gamma" in tensors,
        head_bias=HEAD_BIAS in tensors,
        tied=tensors.get(HEAD) is tensors[tables["decoder"]],
        dropout=0.0,
        **_attention(config, layers, d_model, heads),
        **_positions(config, layers, model),
    )
    rules = rules_of(made, tables)
    doubled = [re.escape(tables["decoder"])] * shared + [re.escape(HEAD)] * made.tied
    task = "translate" if translates else "language"
    return ImportPlan(
        config.text("spec"), task, made, rules, (r"decoder/alignment_heads", *doubled)
    )


def rules_of(config: TransformerConfig, tables: Mapping[str, str] = TABLES) -> list[WeightRule]:
    """The weight rules for a configuration. tables: names of the embedding tables, by stack."""
    translates = config.shape == "encoder-decoder"
    rules: list[WeightRule] = []
    for side in SIDES if translates else SIDES[1:]:
        layers = config.layers
        if translates and side == "decoder":
            layers = config.decoder_layers or config.layers
        modules = {role: f"{side}/layer_{{}}/{name}" for role, name in LAYER.items()}
        if config.activation in GATED.values():
            modules |= {role: f"{side}/layer_{{}}/{name}" for role, name in GATE.items()}
        modules["final_norm"] = f"{side}/{FINAL_NORM}"
        if config.embedding_norm:
            modules["embedding_norm"] = f"{side}/{EMBEDDING_NORM}"
        naming = Names(modules, weight="/weight", bias="/bias", gain="/gamma", shift="/beta")
        cross = translates and side == "decoder"
        rules += stack_rules(config, side, layers, naming, cross=cross)
        if not cross or config.target_vocab is not None:
            rules.append(rule(tables[side], f"{side}.embedding.table.weight"))
        if config.positions == "learned":
            rules.append(rule(f"{side}/{POSITIONS}", f"{side}.positions.table"))
    if not config.tied:
        rules.append(rule(HEAD, "head.linear.weight"))
    if config.head_bias:
        rules.append(rule(HEAD_BIAS, "head.linear.bias"))
    return rules


def scalars_of(c: TransformerConfig) -> dict[str, Any]:
    """The options of a model as scalars, as far as scalars can express them."""
    gated = c.activation in GATED.values()
    numbers = {name: number for number, name in (GATED if gated else ACTIVATIONS).items()}
    attention: dict[str, Any] = {}
    if c.kv_heads not in (None, c.heads):
        attention["num_heads_kv"] = np.int32(c.kv_heads)
    if c.head_size * c.heads != c.d_model:
        attention["head_dim"] = np.int32(c.head_size)
    cross = dict(attention)
    if c.positions == "rotary":
        turning = 0 if c.rotary_fraction == 1 else int(c.head_size * c.rotary_fraction)
        attention |= {
            "rotary_dim": np.int32(turning), "rotary_interleave": np.int8(1),
            "rotary_base": np.float32(c.rotary_base),
        }  # fmt: skip
        if c.rotary_scaling != 1:
            attention |= {
                "rotary_scaling_type": np.int8(LINEAR),
                "rotary_scaling_factor": np.float32(c.rotary_scaling),
            }
    scalars: dict[str, Any] = {}
    translates = c.shape == "encoder-decoder"
    for side in SIDES if translates else SIDES[1:]:
        scalars |= {
            f"{side}/num_heads": np.int16(c.heads),
            f"{side}/pre_norm": np.int8(c.placement == "pre"),
            f"{side}/activation": np.int8(numbers.get(c.activation, 0)),
            f"{side}/scale_embeddings": np.int8(c.embedding_scale),
        }
        decodes = side == "decoder"
        layers = (c.decoder_layers or c.layers) if decodes else c.layers
        for i in range(layers):
            own = f"{side}/layer_{i}/"
            scalars |= {f"{own}self_attention/{name}": value for name, value in attention.items()}
            if decodes and translates:
                scalars |= {f"{own}attention/{name}": value for name, value in cross.items()}
    if c.positions == "alibi" and not translates:
        scalars |= {"decoder/alibi": np.int8(1), "decoder/alibi_use_positive_positions": np.int8(1)}
    return scalars


def _check_scalars(model: ForeignModel) -> None:
    """Raise an error for unsupported scalars that change the model's output."""
    known = {*READ, *NEUTRAL, "spec", "revision"}
    for name, value in model.file.metadata.items():
        scope, _, last = name.rpartition("/")
        right = last in known or (last in OF_ATTENTION and scope.endswith("attention"))
        if not right and value:
            model.config.unsupported(f"{name[:100]} = {value!r}")


def _embedding(model: ForeignModel, side: str) -> str:
    for name in (f"{side}/embeddings_0/weight", f"{side}/embeddings/weight"):
        if name in model.tensors and len(model.tensors[name].shape) == 2:
            return name
    raise InputError(
        f"{model.where}: {side}/embeddings/weight is missing; copy the complete file again"
    )


def _alike(config: Options, layers: Mapping[str, int], name: str, default: int | None) -> int:
    names = [f"{side}/{name}" for side in layers]
    value = alike(config.where, {name: config.get(name, default) for name in names})
    if not isinstance(value, int):
        config.refuse(names[0], value, "a whole number")
    return value


def _attention(
    config: Options, layers: Mapping[str, int], d_model: int, heads: int
) -> dict[str, Any]:
    """The attention options, which must be the same in all layers."""
    size = _of_layers(config, layers, "head_dim", d_model // heads if heads else 0)
    made: dict[str, Any] = {
        "kv_heads": _of_layers(config, layers, "num_heads_kv", heads), "d_head": int(size),
    }  # fmt: skip
    turning = _of_layers(config, layers, "rotary_dim", None)
    if turning is None:
        return made
    if not _of_layers(config, layers, "rotary_interleave", 1):
        config.unsupported("rotary_interleave = 0 (rotary positions pair i with i + d/2)",
                           "the model in its original format")  # fmt: skip
    if turning:
        made["rotary_fraction"] = turning / size
    scaled = _of_layers(config, layers, "rotary_scaling_type", None)
    if scaled not in (None, LINEAR):
        config.unsupported(f"rotary_scaling_type = {scaled}")
    if scaled is not None:
        made["rotary_scaling"] = float(_of_layers(config, layers, "rotary_scaling_factor", 1.0))
    base = float(_of_layers(config, layers, "rotary_base", 10000.0))
    return made | {"positions": "rotary", "rotary_base": base}


def _of_layers(config: Options, layers: Mapping[str, int], name: str, default: Any) -> Any:
    values = {
        config.get(f"{side}/layer_{i}/self_attention/{name}", default)
        for side, count in layers.items()
        for i in range(count)
    }
    if len(values) > 1:
        config.unsupported(f"{name} that differs between layers ({', '.join(map(str, values))})")
    return next(iter(values))


def _positions(config: Options, layers: Mapping[str, int], model: ForeignModel) -> dict[str, Any]:
    """The position options of a model; empty if its positions are rotary."""
    first = next(iter(layers))
    if config.get(f"{first}/layer_0/self_attention/rotary_dim") is not None:
        return {}
    if config.get("decoder/alibi", 0):
        return {"positions": "alibi"}
    if f"{first}/{POSITIONS}" in model.tensors:
        rows = model.rows(f"{first}/{POSITIONS}")
        return {"positions": "learned", "max_length": rows}
    return {"positions": "sinusoidal", "sinusoid_layout": "fairseq", "first_position": 1}


def _embedding_scale(config: Options, layers: Mapping[str, int], d_model: int) -> bool:
    """Whether embeddings are scaled by sqrt(d_model). The file contains either a flag or the factor
    itself."""
    factors = {config.get(f"{side}/scale_embeddings", 1) for side in layers}
    if len(factors) == 1:
        (factor,) = factors
        if isinstance(factor, int):
            return bool(factor)
        if factor == 1:
            return False
        if math.isclose(factor, math.sqrt(d_model), rel_tol=1e-6):
            return True
    supported = f"1 or sqrt({d_model}) in both stacks"
    config.unsupported(f"scale_embeddings = {sorted(factors)}", supported)


def tokenizers(model: ForeignModel, plan: ImportPlan) -> ReadTokenizers:
    """Read the vocabularies next to model.bin, or a tokenizer.json if there is one."""
    folder, config, files = model.folder, model.config, _files(model)
    lists = {name: _tokens(path, plan.rows(name)) for name, path in files.items()}
    if model.find("tokenizer.json"):
        return _with_splitter(folder, config, lists, plan)
    source, target = lists.get("source") or lists["tokenizer"], lists.get("target")
    characters = all(_is_characters(tokens) for tokens in (source, target or source))
    made = plain_vocabulary.tokenizers(
        source,
        target,
        split="characters" if characters else "space",
        start=_start(config, target or source),
        source_end=_flag(config, "add_source_eos", "with_source_eos"),
        tool="CTranslate2",
        files=[path.name for path in files.values()],
    )
    if _flag(config, "add_source_bos", "with_source_bos"):
        side = "tokenizer" if target is None else "source"
        special = made.tokenizers[side].special
        if special.bos is None or special.frame is None:
            raise InputError(
                f"{folder}: sources must begin with <s>, which is not in the vocabulary"
            )
        frame = replace(special.frame, prefix=(special.bos,))
        made.tokenizers[side] = made.tokenizers[side].with_special(replace(special, frame=frame))
    return made


def _with_splitter(
    folder: Path, config: Options, lists: Mapping[str, Sequence[str]], plan: ImportPlan
) -> ReadTokenizers:
    """Use the tokenizer.json next to the vocabularies; CTranslate2's options determine which
    special tokens are added."""
    read = read_tokenizers(folder, {})
    whole = {side: _known_alone(tokenizer, lists.get(side) or next(iter(lists.values())))
             for side, tokenizer in read.tokenizers.items()}  # fmt: skip
    read = read._replace(tokenizers=whole)
    for side, tokenizer in read.tokenizers.items():
        tokens = lists.get(side) or next(iter(lists.values()))
        known, count = len(tokenizer), plan.rows(side)
        if len(tokens) != count:
            raise InputError(
                f"{folder}: the vocabulary ({side}) has {len(tokens):,} tokens, but the embedding "
                f"table has {count:,} rows; copy the complete vocabulary again"
            )
        if named := [token for token in tokens[known:] if not FILLER.fullmatch(token)]:
            raise InputError(
                f"{folder}: {read.files[side]} has {known:,} tokens, but the vocabulary next to it "
                f"({side}) has {len(tokens):,}, including {named[0][:60]!r}; copy both again"
            )
    if config.text("spec") == "TransformerDecoderSpec":  # the caller adds the first token
        return read
    made, notes = {}, []
    for side, tokenizer in read.tokenizers.items():
        special, names = tokenizer.special, list(tokenizer.vocab)
        prefix = [special.bos] * _flag(config, "add_source_bos", "with_source_bos")
        suffix = [special.eos] * _flag(config, "add_source_eos", "with_source_eos")
        around = Frame(*(tuple(i for i in ids if i is not None) for ids in (prefix, suffix)))
        start = None if side == "source" else _start(config, names)
        first = special.bos if start is None else names.index(start)
        starts = () if first is None or side == "source" else (first,)
        special = replace(special, frame=around, start=starts)
        made[side] = tokenizer.with_special(special)
        notes.append(note_of(special, names, "" if side == "tokenizer" else side))
    return ReadTokenizers(made, notes, files=read.files)


def _known_alone(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """Treat tokens that are not in the vocabulary as unknown, as CTranslate2 does."""
    source, size = tokenizer.source, len(tokens)
    if source is None or len(tokenizer) <= size or list(tokenizer.vocab)[:size] != [*tokens]:
        return tokenizer
    return Tokenizer.imported(replace(source, tokens=size))


def _files(model: ForeignModel) -> dict[str, Path]:
    """The vocabulary files by tokenizer name."""
    shared = _file(model, *SHARED)
    if shared is not None:
        return {"tokenizer": shared}
    files = {side: _file(model, f"{side}_vocabulary") for side in ("source", "target")}
    if None in files.values():
        raise InputError(
            f"{model.folder}: its vocabulary is missing; copy shared_vocabulary, or "
            "source_vocabulary and target_vocabulary (.json or .txt), into the same folder"
        )
    return {side: path for side, path in files.items() if path}


def _file(model: ForeignModel, *names: str) -> Path | None:
    paths = (model.find(name + suffix) for name in names for suffix in (".json", ".txt"))
    return next(filter(None, paths), None)


def _tokens(path: Path, rows: int) -> list[str]:
    """Read the tokens of a vocabulary file. If the file does not list the unknown token and the
    embedding table has a row for it, the unknown token is added as the last one."""
    tokens = plain_vocabulary.read_lines(path)
    return tokens if UNKNOWN in tokens or len(tokens) >= rows else [*tokens, UNKNOWN]


def _is_characters(tokens: Sequence[str]) -> bool:
    return all(len(token) == 1 for token in tokens[SPECIAL:] if token != UNKNOWN)


def _start(config: Options, target: Sequence[str]) -> str | None:
    """The token that a decoder starts with; None: the beginning-of-text token."""
    start = config.get("decoder_start_token")
    if start is None:
        return None if config.get("with_target_bos", 1) else "</s>"
    if start not in target:
        raise InputError(
            f"{config.where}: decoder_start_token = {str(start)[:60]!r} is not in the target "
            "vocabulary; the files do not belong together"
        )
    return str(start)


def _flag(config: Options, name: str, older: str) -> bool:
    return bool(config.get(name, config.get(older, 0)))
