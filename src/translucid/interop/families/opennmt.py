"""Checkpoints of OpenNMT-py: Transformers, and recurrent networks with Luong's attention.

`opt` holds the options of training; sizes are those of the tensors. Read in OpenNMT/OpenNMT-py:
decoders/transformer.py at 0421281 (0.x) and 7c4e025 (2.x), encoders/transformer.py,
modules/position_ffn.py and rmsnorm.py at 0436cdd (3.x), embeddings.py and multi_headed_attn.py at
7bfc6b6, model_builder.py at 154fb5d (which reads the oldest norms, a_2 and b_2, into torch's), and
opts.py of 3.5 (two layouts of sinusoids, attention named by the kernel that computes it).
"""

import re
from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families.opennmt_recurrent import recurrent_network
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan, count_layers, rows_of, transformer
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import Rule, rule
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer_config import TransformerConfig

ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
NORMS = {"standard": "layer", "rms": "rms"}
LAYOUTS = {"SinusoidalInterleaved": "interleaved", "SinusoidalConcat": "fairseq"}
GATED = {"silu": "swiglu", "gated-silu": "swiglu", "gated-gelu": "geglu"}
MODEL = "model."  # what its tensors' names begin with, but for the output layer's
TABLES = {side: f"{MODEL}{side}.embeddings.make_embedding.emb_luts.0.weight"
          for side in ("encoder", "decoder")}  # fmt: skip
STACKS = {
    "encoder": f"{MODEL}encoder.transformer.",
    "decoder": f"{MODEL}decoder.transformer_layers.",
}
ATTENTION = {"query": "linear_query", "key": "linear_keys", "value": "linear_values",
             "output": "final_linear"}  # fmt: skip
IGNORED = (
    r"model\.(encoder|decoder)\.embeddings\.make_embedding\.pe\.pe",  # sinusoids, stored
    r"model\.decoder\.transformer_layers\.\d+\.mask",
    r"optim\..*",
)


def from_opennmt(config: Options, file: ModelFile) -> Plan:
    """config: the whole checkpoint but its tensors."""
    where, opt = config.where, config.part("opt")
    opt.must_be("copy_attn", False, "tokens copied from the source")
    opt.must_be("generator_function", "softmax", "another output than softmax")
    opt.must_be("model_type", "text", "sources that are no text")
    opt.must_be("model_task", "seq2seq", "a model that is no encoder-decoder")
    shared = opt.flag("share_embeddings", False)
    tied = opt.flag("share_decoder_embeddings", False)
    # The output layer is part of a sequence in older files.
    head = "generator.0" if "generator.0.weight" in file.tensors else "generator"
    common = {
        "shape": "encoder-decoder",
        "head": "language",
        "vocab": rows_of(file, TABLES["encoder"], where),
        "target_vocab": None if shared else rows_of(file, TABLES["decoder"], where),
        "d_model": file.tensors[TABLES["encoder"]].shape[-1],
        "head_bias": f"{head}.bias" in file.tensors,
        "tied": tied,
        "dropout": 0.0,
    }
    stacks = opt.text("encoder_type", "rnn"), opt.text("decoder_type", "rnn")
    made: TransformerConfig | RecurrentConfig
    match stacks:
        case "transformer", "transformer":
            made, rules = _transformer(opt, file, common)
        case (("rnn" | "brnn"), ("rnn" | "ifrnn")):
            made, rules = recurrent_network(opt, file, common)
        case _:
            raise InputError(
                f"{where}: encoder_type = {stacks[0][:40]!r} with decoder_type = "
                f"{stacks[1][:40]!r} cannot be computed here; transformer with transformer, and "
                "rnn or brnn with rnn can"
            )
    rules.append(rule(TABLES["encoder"], "encoder.embedding.table.weight"))
    ignored, notes = list(IGNORED), []
    if shared:
        ignored.append(re.escape(TABLES["decoder"]))
        notes.append("encoder and decoder have one embedding table")
    else:
        rules.append(rule(TABLES["decoder"], "decoder.embedding.table.weight"))
    if tied:
        ignored.append(re.escape(f"{head}.weight"))
        notes.append("the output head is the decoder's embedding table")
    else:
        rules.append(rule(f"{head}.weight", "head.linear.weight"))
    if made.head_bias:
        rules.append(rule(f"{head}.bias", "head.linear.bias"))
    family = f"OpenNMT-py {made.kind}"
    return Plan(family, "translate", made, rules, tuple(ignored), notes=tuple(notes))


def _transformer(
    opt: Options, file: ModelFile, common: dict[str, Any]
) -> tuple[TransformerConfig, list[Rule]]:
    tensors, where = file.tensors, opt.where
    if opt.get("self_attn_type") != "scaled-dot-flash":  # the same, by another kernel
        opt.must_be("self_attn_type", "scaled-dot", "another attention")
    opt.must_be("max_relative_positions", 0, "positions relative to each other, or rotary")
    opt.must_be("relative_positions_buckets", 0, "a bias by distance")
    opt.must_be("num_experts", 0, "a mixture of experts")
    opt.must_be("parallel_residual", False, "attention and feed-forward side by side")
    opt.must_be("sliding_window", 0, "a window of attention")
    layers = {side: count_layers(tensors, prefix) for side, prefix in STACKS.items()}
    first = STACKS["encoder"] + "0."
    gated = f"{first}feed_forward.w_3.weight" in tensors
    placed = opt.flag("position_encoding", False)
    heads = opt.whole("heads", 8)
    queries, keys = (rows_of(file, f"{first}self_attn.{ATTENTION[role]}.weight", where)
                     for role in ("query", "key"))  # fmt: skip
    made = transformer(
        where,
        heads=heads,
        kv_heads=None if keys == queries else heads * keys // max(queries, 1),
        layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_ff=rows_of(file, f"{first}feed_forward.w_1.weight", where),
        activation=opt.choice(
            "pos_ffn_activation_fn", GATED if gated else ACTIVATIONS, "silu" if gated else "relu"
        ),
        norm=opt.choice("layer_norm", NORMS, "standard"),
        norm_eps=opt.number("norm_eps", 1e-6),
        placement="pre",
        positions="sinusoidal" if placed else "none",
        sinusoid_layout=opt.choice("position_encoding_type", LAYOUTS, "SinusoidalInterleaved"),
        embedding_scale=placed,
        qkv_bias=f"{first}self_attn.linear_query.bias" in tensors,
        attention_output_bias=f"{first}self_attn.final_linear.bias" in tensors,
        feedforward_bias=f"{first}feed_forward.w_1.bias" in tensors,
        **common,
    )
    rules: list[Rule] = []
    for side, prefix in STACKS.items():
        modules = {role: f"{prefix}{{}}.self_attn.{name}" for role, name in ATTENTION.items()}
        modules |= {
            f"cross_{role}": f"{prefix}{{}}.context_attn.{name}" for role, name in ATTENTION.items()
        }
        modules |= {
            "attention_norm": f"{prefix}{{}}.layer_norm{'' if side == 'encoder' else '_1'}",
            "cross_norm": f"{prefix}{{}}.layer_norm_2",
            "feedforward_norm": f"{prefix}{{}}.feed_forward.layer_norm",
            "up": f"{prefix}{{}}.feed_forward.w_{3 if gated else 1}",
            "down": f"{prefix}{{}}.feed_forward.w_2",
            "final_norm": f"{MODEL}{side}.layer_norm",
        }
        if gated:
            modules["gate"] = f"{prefix}{{}}.feed_forward.w_1"
        old = f"{first}layer_norm.a_2" in tensors
        names = Names(modules, gain=".a_2", shift=".b_2") if old else Names(modules)
        rules += stack_rules(made, side, layers[side], names, cross=side == "decoder")
    return made, rules
