"""Models of CTranslate2, translators and language models: Transformers whose sizes are those of
their tensors, and whose options are scalars beside them; what is missing has a fixed meaning.

Without a table of positions it computes sinusoids of its own, that of the first token being 1,
unless attention knows positions by itself.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from translucid.core.errors import InputError
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan, transformer
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import Rule, rule
from translucid.models.transformer_config import TransformerConfig

HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # first files say it by the name alone
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 4: "quick_gelu", 5: "tanh"}
GATED = {1: "geglu_tanh", 2: "swiglu", 3: "geglu"}
# Scalars that are read here, of a stack and of its attention, and those that change no number.
READ = ("num_heads", "pre_norm", "activation", "scale_embeddings", "with_source_eos",
        "with_source_bos", "with_target_bos", "alibi")  # fmt: skip
OF_ATTENTION = ("rotary_dim", "rotary_interleave", "rotary_base", "rotary_scaling_type",
                "rotary_scaling_factor", "num_heads_kv", "head_dim")  # fmt: skip
NEUTRAL = ("alignment_layer", "alignment_heads", "embeddings_merge", "user_decoder_start_tokens",
           "alibi_use_positive_positions")  # fmt: skip
LINEAR = 0  # the type of rotary scaling that is known here
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


def from_ctranslate2(config: Options, file: ModelFile) -> Plan:
    """config: the scalars, and what config.json beside the file holds."""
    where, tensors = config.where, file.tensors
    _check_scalars(file.metadata, where)
    layers = {side: count for side in SIDES if (count := _count_layers(file, side))}
    if "decoder" not in layers:
        raise InputError(
            f"{where}: {file.metadata['spec'][:60]!r} has no decoder; translation and language "
            "models of CTranslate2 can be opened"
        )
    first = next(iter(layers))
    tables = {side: _embedding(file, side, where) for side in layers}
    vocab, d_model = tensors[tables[first]].shape
    translates = "encoder" in layers
    shared = translates and tensors[tables["encoder"]] is tensors[tables["decoder"]]
    layer = f"{first}/layer_0"
    gated = f"{layer}/{GATE['up']}/weight" in tensors
    plain_norm = f"{layer}/ffn/layer_norm/beta" in tensors
    activation = _alike(config, layers, "activation", 0)
    names = GATED if gated else ACTIVATIONS
    if activation not in names:
        raise InputError(f"{where}: activation {activation} cannot be computed here")
    usual = config.get("num_heads", HEADS.get(config.text("spec")))
    heads = _alike(config, layers, "num_heads", usual)
    made = transformer(
        where,
        shape="encoder-decoder" if translates else "decoder",
        head="language",
        vocab=vocab,
        target_vocab=None if shared or not translates else tensors[tables["decoder"]].shape[0],
        d_model=d_model,
        heads=heads,
        layers=layers[first],
        decoder_layers=layers["decoder"] if translates else None,
        d_ff=_rows(file, f"{layer}/ffn/linear_0/weight", where),
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
        **_positions(config, layers, file),
    )
    rules = rules_of(made, tables)
    doubled = [re.escape(tables["decoder"])] * shared + [re.escape(HEAD)] * made.tied
    task = "translate" if translates else "language"
    return Plan(config.text("spec"), task, made, rules, (r"decoder/alignment_heads", *doubled))


def rules_of(config: TransformerConfig, tables: Mapping[str, str] = TABLES) -> list[Rule]:
    """tables: what the embedding of each stack is called."""
    translates = config.shape == "encoder-decoder"
    rules: list[Rule] = []
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
    """The options of a model as scalars, as near as they can say them."""
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


def _check_scalars(metadata: Mapping[str, object], where: str) -> None:
    """Refuse what says that something else is computed."""
    known = {*READ, *NEUTRAL, "spec", "revision"}
    for name, value in metadata.items():
        scope, _, last = name.rpartition("/")
        right = last in known or (last in OF_ATTENTION and scope.endswith("attention"))
        if not right and value:
            raise InputError(f"{where}: {name[:100]} = {value!r} cannot be computed here")


def _count_layers(file: ModelFile, side: str) -> int:
    pattern = re.compile(rf"{side}/layer_(\d+)/")
    return len({match[1] for name in file.tensors if (match := pattern.match(name))})


def _embedding(file: ModelFile, side: str, where: str) -> str:
    for name in (f"{side}/embeddings_0/weight", f"{side}/embeddings/weight"):
        if name in file.tensors and len(file.tensors[name].shape) == 2:
            return name
    raise InputError(f"{where}: {side}/embeddings/weight is missing; copy the file again, whole")


def _rows(file: ModelFile, name: str, where: str) -> int:
    if name not in file.tensors:
        raise InputError(f"{where}: {name} is missing; copy the file again, whole")
    return file.tensors[name].shape[0]


def _alike(config: Options, layers: Mapping[str, int], name: str, default: int | None) -> int:
    """A number that is the same in both stacks here."""
    values = [config.get(f"{side}/{name}", default) for side in layers]
    if not isinstance(values[0], int) or values[0] != values[-1]:
        raise InputError(
            f"{config.where}: {name} is {values[0]} in the encoder and {values[-1]} in the "
            "decoder; one whole number for both is needed"
        )
    return values[0]


def _attention(
    config: Options, layers: Mapping[str, int], d_model: int, heads: int
) -> dict[str, Any]:
    """Options of attention, which are the same in all layers here."""
    size = _of_layers(config, layers, "head_dim", d_model // heads if heads else 0)
    made: dict[str, Any] = {
        "kv_heads": _of_layers(config, layers, "num_heads_kv", heads), "d_head": int(size),
    }  # fmt: skip
    turning = _of_layers(config, layers, "rotary_dim", None)
    if turning is None:
        return made
    if not _of_layers(config, layers, "rotary_interleave", 1):
        raise InputError(
            f"{config.where}: rotary_interleave = 0 (halves of a head that turn) cannot be "
            "computed here; convert the model from its own format"
        )
    if turning:
        made["rotary_fraction"] = turning / size
    scaled = _of_layers(config, layers, "rotary_scaling_type", None)
    if scaled not in (None, LINEAR):
        raise InputError(f"{config.where}: rotary_scaling_type = {scaled} cannot be computed here")
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
        raise InputError(
            f"{config.where}: {name} differs from layer to layer ({', '.join(map(str, values))}), "
            "which cannot be computed here"
        )
    return next(iter(values))


def _positions(config: Options, layers: Mapping[str, int], file: ModelFile) -> dict[str, Any]:
    """Of a model whose attention knows none."""
    first = next(iter(layers))
    if config.get(f"{first}/layer_0/self_attention/rotary_dim") is not None:
        return {}
    if config.get("decoder/alibi", 0):
        return {"positions": "alibi"}
    if f"{first}/{POSITIONS}" in file.tensors:
        rows = _rows(file, f"{first}/{POSITIONS}", config.where)
        return {"positions": "learned", "max_length": rows}
    return {"positions": "sinusoidal", "sinusoid_layout": "fairseq", "first_position": 1}


def _embedding_scale(config: Options, layers: Mapping[str, int], d_model: int) -> bool:
    """A flag, or the factor itself."""
    factors = {config.get(f"{side}/scale_embeddings", 1) for side in layers}
    if len(factors) == 1:
        (factor,) = factors
        if isinstance(factor, int):
            return bool(factor)
        if factor == 1:
            return False
        if math.isclose(factor, math.sqrt(d_model), rel_tol=1e-6):
            return True
    raise InputError(
        f"{config.where}: scale_embeddings = {sorted(factors)} cannot be computed here; 1 or "
        f"sqrt({d_model}) in both stacks can"
    )
