"""GPT-NeoX and Pythia: attention and feed-forward in parallel, rotary positions in a part of each
head, and one matrix for queries, keys and values, ordered by head."""

from translucid.interop.families.plan import (
    ACTIVATIONS,
    Description,
    ForeignModel,
    ImportPlan,
    described,
    effective,
    name_of,
)
from translucid.interop.families.rotary import rotary_keys, rotary_options
from translucid.interop.families.stack import Names, stack_rules
from translucid.models.transformer_config import TransformerConfig

NAMES = Names(
    {
        "embedding": "gpt_neox.embed_in",
        "final_norm": "gpt_neox.final_layer_norm",
        "attention_norm": "gpt_neox.layers.{}.input_layernorm",
        "qkv": "gpt_neox.layers.{}.attention.query_key_value",
        "output": "gpt_neox.layers.{}.attention.dense",
        "feedforward_norm": "gpt_neox.layers.{}.post_attention_layernorm",
        "up": "gpt_neox.layers.{}.mlp.dense_h_to_4h",
        "down": "gpt_neox.layers.{}.mlp.dense_4h_to_h",
    },
    halves=True,
    by_head=True,
)
KEYS = {
    "vocab": "vocab_size",
    "d_model": "hidden_size",
    "d_ff": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "norm_eps": "layer_norm_eps",
    "parallel_residual": "use_parallel_residual",
}
# Stored constants that are not weights: causal mask, value of masked scores, rotary frequencies.
IGNORED = (r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",)
NOTE = "rows of queries, keys and values reordered: GPT-NeoX orders them by head"


def from_huggingface(model: ForeignModel) -> ImportPlan:
    config = model.config
    config.ignore("max_position_embeddings", "is_decoder")
    rotary = rotary_options(config, partial=True)
    head = model.output_head("embed_out.weight", "gpt_neox.embed_in.weight", default=False)
    made = model.transformer(
        shape="decoder",
        head="language",
        activation=config.choice("hidden_act", ACTIVATIONS, "gelu"),
        qkv_bias=config.flag("attention_bias", True),
        attention_output_bias=config.flag("attention_bias", True),
        embedding_scale=False,
        dropout=0.0,
        tied=head.tied,
        **config.keys(KEYS, {"norm_eps": 1e-5, "parallel_residual": True}),
        **rotary,
    )
    rules = stack_rules(made, "decoder", made.layers, NAMES)
    return ImportPlan(
        "gpt_neox", "language", made, rules + head.rules, (*IGNORED, *head.ignored),
        notes=(NOTE, *head.notes),
    )  # fmt: skip


def to_huggingface(c: TransformerConfig, length: int) -> Description:
    """Describe a model as GPT-NeoX. length: the expected length of texts."""
    values = effective(c)
    return Description(
        {
            "model_type": "gpt_neox",
            "architectures": ["GPTNeoXForCausalLM"],
            **described(c, KEYS),
            "hidden_act": name_of(c.activation, ACTIVATIONS),
            "attention_bias": values["qkv_bias"] or values["attention_output_bias"],
            "tie_word_embeddings": c.tied,
            "max_position_embeddings": length,
            "rotary_pct": c.rotary_fraction,
            "rotary_emb_base": c.rotary_base,
            **rotary_keys(c),
        }
    )
