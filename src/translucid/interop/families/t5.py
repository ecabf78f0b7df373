"""T5, T5 1.1 (Flan-T5) and mT5: relative position biases, RMS norm before each sub-layer, scores
not divided by sqrt(d_head), linear layers without bias.

The original T5 has a tied output head, and scales the head's input; T5 1.1 has a separate head and
a gated feed-forward layer.
"""

import re

from translucid.interop.families.plan import (
    ACTIVATIONS,
    GATED,
    TIED,
    Description,
    ForeignModel,
    ImportPlan,
    Options,
    described,
    name_of,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.rules import rule
from translucid.models.transformer_config import TransformerConfig

ATTENTION = {
    "attention_norm": "layer.0.layer_norm",
    "query": "layer.0.SelfAttention.q",
    "key": "layer.0.SelfAttention.k",
    "value": "layer.0.SelfAttention.v",
    "output": "layer.0.SelfAttention.o",
}
CROSS = {
    "cross_norm": "layer.1.layer_norm",
    "cross_query": "layer.1.EncDecAttention.q",
    "cross_key": "layer.1.EncDecAttention.k",
    "cross_value": "layer.1.EncDecAttention.v",
    "cross_output": "layer.1.EncDecAttention.o",
}
PLAIN = {"up": "wi", "down": "wo"}
GATE = {"gate": "wi_0", "up": "wi_1", "down": "wo"}
SHARED, HEAD = "shared.weight", "lm_head.weight"
KEYS = {
    "vocab": "vocab_size",
    "d_model": "d_model",
    "heads": "num_heads",
    "d_head": "d_kv",
    "layers": "num_layers",
    "decoder_layers": "num_decoder_layers",
    "d_ff": "d_ff",
    "norm_eps": "layer_norm_epsilon",
    "relative_buckets": "relative_attention_num_buckets",
    "relative_distance": "relative_attention_max_distance",
}
USUAL = {"vocab": 32128, "d_model": 512, "heads": 8, "d_head": 64, "layers": 6, "d_ff": 2048,
         "norm_eps": 1e-6, "relative_buckets": 32, "relative_distance": 128}  # fmt: skip
USUAL_MT5 = USUAL | {"vocab": 250112, "heads": 6, "layers": 8, "d_ff": 1024}
IGNORED = (
    r"(encoder|decoder)\.embed_tokens\.weight",  # copies of the shared table
    # A bias of cross-attention in old files, which is never read.
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",
)


def from_huggingface(model: ForeignModel) -> ImportPlan:
    config, kind = model.config, model.config.text("model_type")
    multilingual = kind == "mt5"
    # mT5 is tied if its head equals the table, regardless of this key.
    config.ignore("n_positions", *["tie_word_embeddings"] * multilingual)
    config.same_as({"hidden_size": "d_model", "num_attention_heads": "num_heads",
                    "head_dim": "d_kv", "num_hidden_layers": "num_layers"})  # fmt: skip
    activation, gated = _activation(config, "gated-gelu" if multilingual else "relu")
    # transformers 5 always writes tie_word_embeddings = true; scale_decoder_outputs replaces it.
    scaled = not multilingual and config.flag(
        "scale_decoder_outputs", config.flag("tie_word_embeddings", True)
    )
    usual = USUAL_MT5 if multilingual else USUAL
    layers = config.whole("num_layers", usual["layers"])
    sizes = config.keys(KEYS, usual | {"decoder_layers": layers})
    made = model.transformer(
        shape="encoder-decoder",
        head="language",
        activation=activation,
        norm="rms",
        placement="pre",
        positions="relative",
        embedding_scale=False,
        scaled=False,
        bias=False,
        logit_scale=sizes["d_model"] ** -0.5 if scaled else 1.0,
        dropout=0.0,
        tied=model.are_equal(HEAD, SHARED),
        **sizes,
    )
    for side in ("encoder", "decoder"):
        model.check_copy(f"{side}.embed_tokens.weight", SHARED)
    rules = [rule(SHARED, "encoder.embedding.table.weight")]
    for side, count, cross in (
        ("encoder", made.layers, {}),
        ("decoder", made.decoder_layers or 0, CROSS),
    ):
        forward = f"layer.{2 if cross else 1}"
        names = ATTENTION | cross | {"feedforward_norm": f"{forward}.layer_norm"}
        for role, name in (GATE if gated else PLAIN).items():
            names[role] = f"{forward}.DenseReluDense.{name}"
        modules = {role: f"{side}.block.{{}}.{name}" for role, name in names.items()}
        modules["final_norm"] = f"{side}.final_layer_norm"
        rules += stack_rules(made, side, count, Names(modules), cross=bool(cross))
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rules.append(rule(table, f"{side}.positions.table.weight"))
    if not made.tied:
        rules.append(rule(HEAD, "head.linear.weight"))
    return ImportPlan(
        kind, "translate", made, rules, (*IGNORED, *[re.escape(HEAD)] * made.tied),
        notes=("encoder and decoder share one embedding table", *[TIED] * made.tied),
    )  # fmt: skip


def _activation(config: Options, default: str) -> tuple[str, bool]:
    """Translucid's name of the activation, and whether it is gated. "gated-gelu" means the tanh
    approximation."""
    name = config.text("feed_forward_proj", default)
    gate, _, kind = name.rpartition("-")
    kind = "gelu_new" if name == "gated-gelu" else kind
    names = GATED if gate else ACTIVATIONS
    if gate not in ("", "gated") or kind not in names:
        allowed = [*ACTIVATIONS, *(f"gated-{one}" for one in GATED)]
        config.refuse("feed_forward_proj", name[:60], f"one of {', '.join(allowed)}")
    # transformers also stores and uses these two keys, so they must agree.
    config.must_be("dense_act_fn", kind, f"differs from {name} in feed_forward_proj")
    config.must_be("is_gated_act", bool(gate), f"differs from {name} in feed_forward_proj")
    return names[kind], bool(gate)


def to_huggingface(c: TransformerConfig, length: int) -> Description:
    """Describe a model as T5. length: the expected length of texts."""
    gated = c.activation in GATED.values()
    names = {"gelu_new": "geglu_tanh"} | GATED if gated else ACTIVATIONS
    kind = name_of(c.activation, names)
    scaled = c.logit_scale != 1
    config = {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        **described(c, KEYS),
        "feed_forward_proj": f"gated-{'gelu' if kind == 'gelu_new' else kind}" if gated else kind,
        "scale_decoder_outputs": scaled,
        "tie_word_embeddings": scaled,
        "n_positions": length,
    }
    return Description(config, () if c.tied else (SHARED, HEAD))
