"""GPT-2: learned positions, layer norm before each sub-layer, a tied head.

Linear layers store their weights as (inputs, outputs). A single layer computes queries, keys and
values.
"""

from translucid.interop.families.plan import (
    ACTIVATIONS,
    Description,
    ForeignModel,
    ImportPlan,
    described,
    name_of,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.models.transformer_config import TransformerConfig

MODULES = {
    "embedding": "wte",
    "positions": "wpe",
    "final_norm": "ln_f",
    "attention_norm": "h.{}.ln_1",
    "qkv": "h.{}.attn.c_attn",
    "output": "h.{}.attn.c_proj",
    "feedforward_norm": "h.{}.ln_2",
    "up": "h.{}.mlp.c_fc",
    "down": "h.{}.mlp.c_proj",
}
KEYS = {
    "vocab": "vocab_size",
    "d_model": "n_embd",
    "d_ff": "n_inner",
    "layers": "n_layer",
    "heads": "n_head",
    "norm_eps": "layer_norm_epsilon",
    "max_length": "n_positions",
}
USUAL = {"vocab": 50257, "d_model": 768, "layers": 12, "heads": 12, "norm_eps": 1e-5,
         "max_length": 1024}  # fmt: skip
# Stored constants that are not weights: the causal mask, and the value of masked scores.
IGNORED = (r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)",)


def from_huggingface(model: ForeignModel) -> ImportPlan:
    config = model.config
    usual = USUAL | {"d_ff": 4 * config.whole("n_embd", USUAL["d_model"])}
    config.ignore("n_ctx", "summary_activation", "summary_proj_to_labels", "summary_type",
                  "summary_use_proj")  # fmt: skip
    config.same_as({"hidden_size": "n_embd", "max_position_embeddings": "n_positions",
                    "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"})  # fmt: skip
    config.must_be("scale_attn_weights", True, "scores not divided by sqrt(d_head)")
    config.must_be("scale_attn_by_inverse_layer_idx", False, "scores divided by the layer's number")
    config.must_be("reorder_and_upcast_attn", False, "attention computed in a different order")
    config.must_be("add_cross_attention", False, "cross-attention without an encoder")
    # Early files contain no output head, and their tensor names no prefix.
    prefix = "" if "wte.weight" in model.tensors else "transformer."
    head = model.output_head("lm_head.weight", f"{prefix}wte.weight", default=True)
    made = model.transformer(
        shape="decoder",
        head="language",
        activation=config.choice("activation_function", ACTIVATIONS, "gelu_new"),
        positions="learned",
        embedding_scale=False,
        dropout=0.0,
        tied=head.tied,
        **config.keys(KEYS, usual),
    )
    modules = {role: prefix + name for role, name in MODULES.items()}
    rules = stack_rules(made, "decoder", made.layers, Names(modules, transposed=True))
    note = "weights of linear layers transposed: GPT-2 stores (inputs, outputs)"
    return ImportPlan(
        "gpt2", "language", made, rules + head.rules, (*IGNORED, *head.ignored),
        notes=(note, *head.notes),
    )  # fmt: skip


def to_huggingface(c: TransformerConfig, length: int) -> Description:
    """Describe a model as GPT-2. length: the number of rows of the position table that a model
    without such a table gets."""
    return Description(
        {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            **described(c, KEYS),
            "n_positions": c.max_length if c.positions == "learned" else length,
            "activation_function": name_of(c.activation, ACTIVATIONS),
            "tie_word_embeddings": c.tied,
        }
    )
