"""Translation models of CTranslate2: Transformers whose sizes are those of their tensors, and whose
options are scalars beside them; what is missing has a fixed meaning.

Without a table of positions it computes sinusoids of its own, that of the first token being 1.
"""

import math
import re
from collections.abc import Mapping

from translucid.errors import InputError
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan, transformer
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import Rule, rule

HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # first files say it by the name alone
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 4: "quick_gelu", 5: "tanh"}
GATED = {1: "geglu_tanh", 2: "swiglu", 3: "geglu"}
# Scalars that are read here, and those that change no number.
READ = ("num_heads", "pre_norm", "activation", "scale_embeddings", "with_source_eos",
        "with_source_bos", "with_target_bos")  # fmt: skip
NEUTRAL = ("alignment_layer", "alignment_heads", "embeddings_merge", "user_decoder_start_tokens")
LAYER = {
    "attention_norm": "self_attention/layer_norm",
    "qkv": "self_attention/linear_0",
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
SIDES = ("encoder", "decoder")


def from_ctranslate2(config: Options, file: ModelFile) -> Plan:
    """config: the scalars, and what config.json beside the file holds."""
    where, tensors = config.where, file.tensors
    _check_scalars(file.metadata, where)
    layers = {side: _count_layers(file, side) for side in SIDES}
    if not all(layers.values()):
        raise InputError(
            f"{where}: {file.metadata['spec'][:60]!r} is no encoder-decoder; translation models of "
            "CTranslate2 can be opened"
        )
    tables = {side: _embedding(file, side, where) for side in SIDES}
    vocab, d_model = tensors[tables["encoder"]].shape
    shared = tensors[tables["encoder"]] is tensors[tables["decoder"]]
    gated = f"encoder/layer_0/{GATE['up']}/weight" in tensors
    biased = "encoder/layer_0/self_attention/linear_0/bias" in tensors
    plain_norm = "encoder/layer_0/ffn/layer_norm/beta" in tensors
    stored = f"encoder/{POSITIONS}" in tensors
    activation = _both(config, "activation", 0)
    names = GATED if gated else ACTIVATIONS
    if activation not in names:
        raise InputError(f"{where}: activation {activation} cannot be computed here")
    made = transformer(
        where,
        shape="encoder-decoder",
        head="language",
        vocab=vocab,
        target_vocab=None if shared else tensors[tables["decoder"]].shape[0],
        d_model=d_model,
        heads=_both(config, "num_heads", config.get("num_heads", HEADS.get(config.text("spec")))),
        layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_ff=_rows(file, "encoder/layer_0/ffn/linear_0/weight", where),
        activation=names[activation],
        norm="layer" if plain_norm else "rms",
        norm_eps=config.number("layer_norm_epsilon", 1e-5 if plain_norm else 1e-6),
        placement="pre" if _both(config, "pre_norm", 1) else "post",
        final_norm=f"encoder/{FINAL_NORM}/gamma" in tensors,
        embedding_norm=f"encoder/{EMBEDDING_NORM}/gamma" in tensors,
        embedding_scale=_embedding_scale(config, d_model),
        bias=biased,
        head_bias=HEAD_BIAS in tensors,
        tied=tensors.get(HEAD) is tensors[tables["decoder"]],
        dropout=0.0,
        **(
            {"positions": "learned", "max_length": _rows(file, f"encoder/{POSITIONS}", where)}
            if stored
            else {"positions": "sinusoidal", "sinusoid_layout": "fairseq", "first_position": 1}
        ),
    )
    rules: list[Rule] = []
    for side in SIDES:
        modules = {role: f"{side}/layer_{{}}/{name}" for role, name in LAYER.items()}
        if gated:
            modules |= {role: f"{side}/layer_{{}}/{name}" for role, name in GATE.items()}
        modules["final_norm"] = f"{side}/{FINAL_NORM}"
        if made.embedding_norm:
            modules["embedding_norm"] = f"{side}/{EMBEDDING_NORM}"
        naming = Names(modules, weight="/weight", bias="/bias", gain="/gamma", shift="/beta")
        rules += stack_rules(made, side, layers[side], naming, cross=side == "decoder")
        if side == "encoder" or not shared:
            rules.append(rule(tables[side], f"{side}.embedding.table.weight"))
        if stored:
            rules.append(rule(f"{side}/{POSITIONS}", f"{side}.positions.table"))
    if not made.tied:
        rules.append(rule(HEAD, "head.linear.weight"))
    if made.head_bias:
        rules.append(rule(HEAD_BIAS, "head.linear.bias"))
    doubled = [re.escape(tables["decoder"])] * shared + [re.escape(HEAD)] * made.tied
    return Plan(
        config.text("spec"), "translate", made, rules, (r"decoder/alignment_heads", *doubled)
    )


def _check_scalars(metadata: Mapping[str, object], where: str) -> None:
    """Refuse what says that something else is computed."""
    known = {*READ, *NEUTRAL, "spec", "revision"}
    for name, value in metadata.items():
        if name.rpartition("/")[2] not in known and value:
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


def _both(config: Options, name: str, default: int | None) -> int:
    """A number that is the same in both stacks here."""
    encoder, decoder = (config.get(f"{side}/{name}", default) for side in SIDES)
    if not isinstance(encoder, int) or encoder != decoder:
        raise InputError(
            f"{config.where}: {name} is {encoder} in the encoder and {decoder} in the decoder; "
            "one whole number for both is needed"
        )
    return encoder


def _embedding_scale(config: Options, d_model: int) -> bool:
    """A flag, or the factor itself."""
    factors = {config.get(f"{side}/scale_embeddings", 1) for side in SIDES}
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
