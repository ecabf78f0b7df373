"""BART and its relatives, which differ in options only: mBART, Marian (OPUS-MT), Pegasus, M2M100
(NLLB). All have the modules of a Transformer encoder-decoder in fairseq under the same names.
"""

from collections.abc import Mapping
from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families.options import ACTIVATIONS, Options, name_of
from translucid.interop.families.plan import (
    Description,
    Plan,
    check_copies,
    check_layers,
    is_tied,
    tie_notes,
    transformer,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import OneRow, Rule, rule
from translucid.models.transformer_config import TransformerConfig

FAMILIES: Mapping[str, Mapping[str, Any]] = {
    # Two rows of their table of positions stand for padding, and are never read.
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
HEAD, BIAS = "lm_head.weight", "final_logits_bias"
COMPUTED = r"(model\.)?(encoder|decoder)\.embed_positions\.weights?"  # sinusoids, stored by some
TABLES = r"(model\.)?(shared|(encoder|decoder)\.embed_tokens)\.weight"  # one, under three names


def stack_modules(made: TransformerConfig, stack: str) -> dict[str, str]:
    """The modules of an encoder or decoder but its embedding, as fairseq first named them. stack:
    what their names begin with."""
    modules = {role: f"{stack}layers.{{}}.{name}" for role, name in LAYER.items()}
    modules["final_norm"] = f"{stack}layer_norm"
    if made.embedding_norm:
        modules["embedding_norm"] = f"{stack}layernorm_embedding"
    if made.positions == "learned":
        modules["positions"] = f"{stack}embed_positions"
    return modules


def from_huggingface(config: Options, file: ModelFile) -> Plan:
    """From config.json; `model_type` decides what its options leave open."""
    kind = config.text("model_type")
    many = kind == "m2m_100"
    declared_tied = config.flag("tie_word_embeddings", True)
    # Without its head, as BART was first published, the model has no prefix.
    prefix = "" if any(name.startswith("encoder.layers.") for name in file.tensors) else "model."
    separate = _separate(config, file, prefix, tied=declared_tied)
    table = _shared_table(file, prefix, tied=declared_tied)
    embedding = f"{prefix}decoder.embed_tokens.weight" if separate else table
    tied = is_tied(config, file, HEAD, embedding, True)
    for side in () if separate else ("encoder", "decoder"):
        check_copies(file, f"{prefix}{side}.embed_tokens.weight", table, config.where)
    vocab = config.whole("vocab_size")
    options = dict(FAMILIES[kind])
    for name, usual in _fixed(options).items():
        config.must_be(name, usual, f"not as a {kind} model is built")
    if many:
        options["first_position"] = config.id("pad_token_id", 1) + 1
    if options["positions"] == "learned":
        options["max_length"] = config.whole("max_position_embeddings", 1024)
    made = transformer(
        config.where,
        shape="encoder-decoder",
        head="language",
        vocab=vocab,
        target_vocab=config.whole("decoder_vocab_size", vocab) if separate else None,
        d_model=config.whole("d_model", 1024),
        heads=_alike(config, "attention_heads", 16),
        layers=_layers(config, "encoder", file),
        decoder_layers=_layers(config, "decoder", file),
        d_ff=_alike(config, "ffn_dim", 4096),
        activation=config.choice("activation_function", ACTIVATIONS, "relu" if many else "gelu"),
        norm_eps=1e-5,
        embedding_scale=config.flag("scale_embedding", many),
        head_bias=BIAS in file.tensors,
        dropout=0.0,
        tied=tied,
        **options,
    )
    rules: list[Rule] = []
    for side, layers in (("encoder", made.layers), ("decoder", made.decoder_layers or 0)):
        modules = stack_modules(made, f"{prefix}{side}.")
        if separate:
            modules["embedding"] = f"{prefix}{side}.embed_tokens"
        rules += stack_rules(made, side, layers, Names(modules), cross=side == "decoder")
    notes: list[str] = []
    if not separate:
        rules.append(rule(table, "encoder.embedding.table.weight"))
        notes.append("encoder and decoder have one embedding table")
    notes += tie_notes(config, tied, True)
    if tied:
        notes.append("the output head is the decoder's embedding table")
    else:
        rules.append(rule(HEAD, "head.linear.weight"))
    if made.head_bias:
        rules.append(rule(BIAS, "head.linear.bias", OneRow()))
    ignored = [TABLES, *[r"lm_head\.weight"] * tied]
    if made.positions == "sinusoidal":
        ignored.append(COMPUTED)
    return Plan(kind, "translate", made, rules, tuple(ignored), notes=tuple(notes))


def _fixed(options: Mapping[str, Any]) -> dict[str, bool]:
    """Keys of the first files, when one class was all these families; the name decides now."""
    before = options["placement"] == "pre"
    return {
        "normalize_before": before,
        "add_final_layer_norm": before,
        "normalize_embedding": options.get("embedding_norm", False),
        "static_position_embeddings": options["positions"] == "sinusoidal",
    }


def _separate(config: Options, file: ModelFile, prefix: str, *, tied: bool) -> bool:
    """Whether encoder and decoder have a table each."""
    if not config.flag("share_encoder_decoder_embeddings", True):
        return True
    own = (f"{prefix}{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
    return not tied and all(name in file.tensors for name in own)


def _shared_table(file: ModelFile, prefix: str, *, tied: bool) -> str:
    """The name that the table of both stands under; a file need not have all of them."""
    usual = f"{prefix}shared.weight"
    names = [usual, *(f"{prefix}{side}.embed_tokens.weight" for side in ("encoder", "decoder"))]
    return next((name for name in [*names, *[HEAD] * tied] if name in file.tensors), usual)


def _layers(config: Options, side: str, file: ModelFile) -> int:
    return check_layers(config.whole(f"{side}_layers", 12), len(file.tensors), config.where)


def _alike(config: Options, name: str, default: int) -> int:
    """A size that is the same in both stacks here."""
    encoder, decoder = (config.whole(f"{side}_{name}", default) for side in ("encoder", "decoder"))
    if encoder != decoder:
        raise InputError(
            f"{config.where}: encoder_{name} = {encoder}, decoder_{name} = {decoder}: stacks of "
            "different sizes cannot be computed here"
        )
    return encoder


ARCHITECTURES = {
    "bart": "BartForConditionalGeneration", "mbart": "MBartForConditionalGeneration",
    "marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration",
    "m2m_100": "M2M100ForConditionalGeneration",
}  # fmt: skip


def to_huggingface(c: TransformerConfig, length: int, kind: str) -> Description:
    """As one of the relatives. length: how far texts are meant to go."""
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
    if not c.tied:  # there, either all tables are one or none are
        names += [f"model.{side}.embed_tokens.weight" for side in layers]
    return Description(described, tuple(names))
