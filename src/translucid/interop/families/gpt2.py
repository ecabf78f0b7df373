"""GPT-2: learned positions, layer norm before each sub-layer, a tied head.

Its linear layers keep their weights as (inputs, outputs), and one of them makes queries, keys and
values at once.
"""

from translucid.interop.families.options import ACTIVATIONS, Options, name_of
from translucid.interop.families.plan import (
    Description,
    Plan,
    check_layers,
    is_tied,
    tie_notes,
    transformer,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import rule
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.norms import EPSILON

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
# The causal mask, and what stands in the place of what it hides.
IGNORED = (r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)",)


def from_huggingface(config: Options, file: ModelFile) -> Plan:
    where, d_model = config.where, config.whole("n_embd", 768)
    config.must_be("scale_attn_weights", True, "scores that are not divided by sqrt(d_head)")
    config.must_be("scale_attn_by_inverse_layer_idx", False, "scores divided by the layer's number")
    config.must_be("reorder_and_upcast_attn", False, "attention in another order")
    config.must_be("add_cross_attention", False, "cross-attention in a decoder by itself")
    # Without its head, as the first files were, the model has no prefix.
    prefix = "" if "wte.weight" in file.tensors else "transformer."
    tied = is_tied(config, file, "lm_head.weight", f"{prefix}wte.weight", True)
    made = transformer(
        where,
        shape="decoder",
        head="language",
        vocab=config.whole("vocab_size", 50257),
        d_model=d_model,
        heads=config.whole("n_head", 12),
        layers=check_layers(config.whole("n_layer", 12), len(file.tensors), where),
        d_ff=config.whole("n_inner", 4 * d_model),
        activation=config.choice("activation_function", ACTIVATIONS, "gelu_new"),
        norm_eps=config.number("layer_norm_epsilon", 1e-5),
        positions="learned",
        max_length=config.whole("n_positions", 1024),
        embedding_scale=False,
        dropout=0.0,
        tied=tied,
    )
    modules = {role: prefix + name for role, name in MODULES.items()}
    rules = stack_rules(made, "decoder", made.layers, Names(modules, transposed=True))
    notes = ["weights of linear layers transposed: (inputs, outputs) there, (outputs, inputs) here"]
    if made.tied:
        return Plan(
            "gpt2", "language", made, rules, (*IGNORED, r"lm_head\.weight"),
            notes=(*notes, "the output head is the embedding table"),
        )  # fmt: skip
    rules.append(rule("lm_head.weight", "head.linear.weight"))
    notes += tie_notes(config, tied, True)
    return Plan("gpt2", "language", made, rules, IGNORED, notes=tuple(notes))


def to_huggingface(c: TransformerConfig, length: int) -> Description:
    """length: rows of the table of positions, where the model has none of its own."""
    return Description(
        {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": c.vocab,
            "n_embd": c.d_model,
            "n_inner": c.d_ff or 4 * c.d_model,
            "n_layer": c.layers,
            "n_head": c.heads,
            "n_positions": c.max_length if c.positions == "learned" else length,
            "activation_function": name_of(c.activation, ACTIVATIONS),
            "layer_norm_epsilon": c.norm_eps or EPSILON["layer"],
            "tie_word_embeddings": c.tied,
        }
    )
