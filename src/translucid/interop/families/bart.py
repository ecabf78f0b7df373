"""BART and relatives that differ only in options: mBART, Marian (OPUS-MT), Pegasus, M2M100 (NLLB).
All use fairseq's module names for a Transformer encoder-decoder.
"""

from collections.abc import Mapping
from typing import Any

from translucid.interop.families.plan import (
    ACTIVATIONS,
    Description,
    ForeignModel,
    ImportPlan,
    Options,
    alike,
    name_of,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.rules import OneRow, WeightRule, rule
from translucid.models.transformer_config import TransformerConfig

FAMILIES: Mapping[str, Mapping[str, Any]] = {
    # The first two rows of the position table are never read.
    "bart": {"placement": "post", "embedding_norm": True, "positions": "learned",
             "first_position": 2},
    "mbart": {"placement": "pre", "embedding_norm": True, "positions": "learned",
              "first_position": 2},
    "marian": {"placement": "post", "positions": "sinusoidal", "sinusoid_layout": "halves"},
    "pegasus": {"placement": "pre", "positions": "sinusoidal", "sinusoid_layout": "halves"},
    "m2m_100": {"placement": "pre", "positions": "sinusoidal", "sinusoid_layout": "fairseq"},
}  # fmt: skip
LAYER = {
    "attention_norm": "self_attn_layer_norm",
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "output": "self_attn.out_proj",
    "cross_norm": "encoder_attn_layer_norm",
    "cross_query": "encoder_attn.q_proj",
    "cross_key": "encoder_attn.k_proj",
    "cross_value": "encoder_attn.v_proj",
    "cross_output": "encoder_attn.out_proj",
    "feedforward_norm": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
}
SIDES = ("encoder", "decoder")
HEAD, BIAS = "lm_head.weight", "final_logits_bias"
COMPUTED = r"(model\.)?(encoder|decoder)\.embed_positions\.weights?"  # sinusoids
TABLES = r"(model\.)?(shared|(encoder|decoder)\.embed_tokens)\.weight"


def stack_modules(made: TransformerConfig, stack: str) -> dict[str, str]:
    """Fairseq's names for the modules of an encoder or decoder, except its embedding. stack: their
    common prefix."""
    modules = {role: f"{stack}layers.{{}}.{name}" for role, name in LAYER.items()}
    modules["final_norm"] = f"{stack}layer_norm"
    if made.embedding_norm:
        modules["embedding_norm"] = f"{stack}layernorm_embedding"
    if made.positions == "learned":
        modules["positions"] = f"{stack}embed_positions"
    return modules


def from_huggingface(model: ForeignModel) -> ImportPlan:
    """Make an import plan from a config.json; `model_type` sets the defaults."""
    config, kind = model.config, model.config.text("model_type")
    many = kind == "m2m_100"
    config.ignore("max_position_embeddings", "add_bias_logits", "extra_pos_embeddings",
                  "student_encoder_layers", "student_decoder_layers", "save_step",
                  *["decoder_vocab_size"] * (kind == "marian"))  # fmt: skip
    config.same_as({"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
                    "num_hidden_layers": "encoder_layers"})  # fmt: skip
    declared_tied = config.flag("tie_word_embeddings", True)
    # Early BART files contain no output head, and their tensor names no prefix.
    prefix = "" if any(name.startswith("encoder.layers.") for name in model.tensors) else "model."
    separate = _separate(config, model, prefix, tied=declared_tied)
    table = _shared_table(model, prefix, tied=declared_tied)
    embedding = f"{prefix}decoder.embed_tokens.weight" if separate else table
    head = model.output_head(HEAD, embedding, default=True)
    for side in () if separate else SIDES:
        model.check_copy(f"{prefix}{side}.embed_tokens.weight", table)
    vocab = config.whole("vocab_size")
    options = dict(FAMILIES[kind])
    for name, usual in _fixed(options).items():
        config.must_be(name, usual, f"unusual for a {kind} model")
    if many:
        options["first_position"] = config.id("pad_token_id", 1) + 1
    if options["positions"] == "learned":
        options["max_length"] = config.whole("max_position_embeddings", 1024)
    made = model.transformer(
        shape="encoder-decoder",
        head="language",
        vocab=vocab,
        target_vocab=config.whole("decoder_vocab_size", vocab) if separate else None,
        d_model=config.whole("d_model", 1024),
        heads=_alike(config, "attention_heads", 16),
        layers=config.whole("encoder_layers", 12),
        decoder_layers=config.whole("decoder_layers", 12),
        d_ff=_alike(config, "ffn_dim", 4096),
        activation=config.choice("activation_function", ACTIVATIONS, "relu" if many else "gelu"),
        norm_eps=1e-5,
        embedding_scale=config.flag("scale_embedding", many),
        head_bias=BIAS in model.tensors,
        dropout=0.0,
        tied=head.tied,
        **options,
    )
    rules: list[WeightRule] = []
    for side, layers in (("encoder", made.layers), ("decoder", made.decoder_layers or 0)):
        modules = stack_modules(made, f"{prefix}{side}.")
        if separate:
            modules["embedding"] = f"{prefix}{side}.embed_tokens"
        rules += stack_rules(made, side, layers, Names(modules), cross=side == "decoder")
    notes: list[str] = []
    if not separate:
        rules.append(rule(table, "encoder.embedding.table.weight"))
        notes.append("encoder and decoder share one embedding table")
    notes += head.notes
    rules += head.rules
    if made.head_bias:
        rules.append(rule(BIAS, "head.linear.bias", OneRow()))
    ignored = [TABLES, *head.ignored]
    if made.positions == "sinusoidal":
        ignored.append(COMPUTED)
    return ImportPlan(kind, "translate", made, rules, tuple(ignored), notes=tuple(notes))


def _fixed(options: Mapping[str, Any]) -> dict[str, bool]:
    """Return the options that old configs of these families contain, each with the only value that
    Translucid accepts. Old versions used one class for all families."""
    before = options["placement"] == "pre"
    return {
        "normalize_before": before,
        "add_final_layer_norm": before,
        "normalize_embedding": options.get("embedding_norm", False),
        "static_position_embeddings": options["positions"] == "sinusoidal",
    }


def _separate(config: Options, model: ForeignModel, prefix: str, *, tied: bool) -> bool:
    """Whether encoder and decoder have separate embedding tables."""
    if not config.flag("share_encoder_decoder_embeddings", True):
        return True
    own = (f"{prefix}{side}.embed_tokens.weight" for side in SIDES)
    return not tied and all(name in model.tensors for name in own)


def _shared_table(model: ForeignModel, prefix: str, *, tied: bool) -> str:
    """The name of the shared embedding table: the first of its possible names that the file
    contains."""
    usual = f"{prefix}shared.weight"
    names = [usual, *(f"{prefix}{side}.embed_tokens.weight" for side in SIDES)]
    return next((name for name in [*names, *[HEAD] * tied] if name in model.tensors), usual)


def _alike(config: Options, name: str, default: int) -> int:
    """A size that must be the same in encoder and decoder."""
    names = [f"{side}_{name}" for side in SIDES]
    return int(alike(config.where, {name: config.whole(name, default) for name in names}))


ARCHITECTURES = {
    "bart": "BartForConditionalGeneration", "mbart": "MBartForConditionalGeneration",
    "marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration",
    "m2m_100": "M2M100ForConditionalGeneration",
}  # fmt: skip


def to_huggingface(c: TransformerConfig, length: int, kind: str) -> Description:
    """Describe a model as one of these families. length: the expected length of texts."""
    described: dict[str, Any] = {
        "model_type": kind,
        "architectures": [ARCHITECTURES[kind]],
        "is_encoder_decoder": True,
        "vocab_size": c.vocab,
        "d_model": c.d_model,
        "activation_function": name_of(c.activation, ACTIVATIONS),
        "scale_embedding": c.embedding_scale,
        "tie_word_embeddings": c.tied,
        "max_position_embeddings": c.max_length if c.positions == "learned" else length,
    }
    layers = {"encoder": c.layers, "decoder": c.decoder_layers or c.layers}
    for side, count in layers.items():
        described |= {
            f"{side}_layers": count,
            f"{side}_attention_heads": c.heads,
            f"{side}_ffn_dim": c.d_ff or 4 * c.d_model,
        }
    if kind == "m2m_100":
        described["pad_token_id"] = max(c.first_position - 1, 1)
    if kind == "marian":
        described["share_encoder_decoder_embeddings"] = c.target_vocab is None and c.tied
        described["decoder_vocab_size"] = c.target_vocab or c.vocab
    names = [BIAS, *[HEAD] * (not c.tied)] if kind != "m2m_100" else [HEAD] * (not c.tied)
    if not c.tied:  # in these families, either all tables are shared or none
        names += [f"model.{side}.embed_tokens.weight" for side in layers]
    return Description(described, tuple(names))
