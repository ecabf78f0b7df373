"""OpenNMT-py checkpoints: Transformers, and recurrent networks with Luong's attention.

`opt` contains the training options; sizes follow from the tensors. Checkpoints saved with
`save_format: safetensors` or written by OpenNMT-py's converters have two files: NAME.pt contains
options and vocabularies, NAME.safetensors (or shards, NAME.00.safetensors and so on) the weights.
How texts are split is not stored: Translucid splits at spaces, or between characters if all tokens
are single characters.

Source, in OpenNMT/OpenNMT-py: models/model_saver.py and models/model.py of 3.x; for recurrent nets
decoders/decoder.py at ad3df21, encoders/rnn_encoder.py and modules/global_attention.py at 0b19be4,
modules/stacked_rnn.py at d30366e; for Transformers decoders/transformer.py at 0421281 (0.x) and
7c4e025 (2.x), encoders/transformer.py,
modules/position_ffn.py and rmsnorm.py at 0436cdd (3.x), embeddings.py and multi_headed_attn.py at
7bfc6b6, model_builder.py at 154fb5d (which reads the oldest norms, a_2 and b_2, into torch's), and
opts.py of 3.5 (two layouts of sinusoids, attention named by the kernel that computes it).
"""

from pathlib import Path
from typing import Any

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside
from translucid.interop.families.plan import (
    ForeignModel,
    ImportPlan,
    Options,
    Origin,
    shared_tables,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.stored import ModelFile, StoredTensor
from translucid.interop.rules import Transpose, WeightRule, constant, of_layers, rule
from translucid.interop.tokenizers import plain_vocabulary
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer_config import TransformerConfig

LAYOUT = "a checkpoint"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
NORMS = {"standard": "layer", "rms": "rms"}
LAYOUTS = {"SinusoidalInterleaved": "interleaved", "SinusoidalConcat": "fairseq"}
GATED = {"silu": "swiglu", "gated-silu": "swiglu", "gated-gelu": "geglu"}
MODEL = "model."  # prefix of all tensor names except those of the output layer
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
# Recurrent networks
CELLS = {"LSTM": "lstm", "GRU": "gru"}
KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
ENCODER, DECODER, LUONG = (f"{MODEL}{name}." for name in ("encoder.rnn", "decoder.rnn",
                                                          "decoder.attn"))  # fmt: skip
FED = f"{DECODER}layers."  # with input feeding, layers are stored as single cells
WEIGHTS, GENERATOR = "model", "generator"  # keys of the weights in a single file
SUFFIX = ".safetensors"
MAX_DEPTH = 12
LIST = "itos"  # torchtext's name for the list of tokens


def read(origin: Origin) -> ForeignModel:
    path, checkpoint = origin.path, origin.checkpoint
    assert checkpoint is not None
    options = Options(checkpoint.metadata, str(path))
    return ForeignModel("opennmt", path, options, with_weights(path, checkpoint))


def plan(model: ForeignModel) -> ImportPlan:
    opt = model.config.part("opt")
    opt.must_be("copy_attn", False, "tokens copied from the source")
    opt.must_be("generator_function", "softmax", "an output function other than softmax")
    opt.must_be("model_type", "text", "sources that are not text")
    opt.must_be("model_task", "seq2seq", "not an encoder-decoder")
    shared = opt.flag("share_embeddings", False)
    tied = opt.flag("share_decoder_embeddings", False)
    # In older files, the output layer is element 0 of a torch Sequential.
    head = "generator.0" if "generator.0.weight" in model.tensors else "generator"
    common = {
        "shape": "encoder-decoder",
        "head": "language",
        "vocab": model.rows(TABLES["encoder"]),
        "target_vocab": None if shared else model.rows(TABLES["decoder"]),
        "d_model": model.tensors[TABLES["encoder"]].shape[-1],
        "head_bias": f"{head}.bias" in model.tensors,
        "tied": tied,
        "dropout": 0.0,
    }
    stacks = opt.text("encoder_type", "rnn"), opt.text("decoder_type", "rnn")
    made: TransformerConfig | RecurrentConfig
    match stacks:
        case "transformer", "transformer":
            made, rules = _transformer(opt, model, common)
        case (("rnn" | "brnn"), ("rnn" | "ifrnn")):
            made, rules = _recurrent(opt, model, common)
        case _:
            opt.unsupported(
                f"encoder_type = {stacks[0][:40]!r} with decoder_type = {stacks[1][:40]!r}",
                "transformer with transformer, rnn or brnn with rnn",
            )
    if made.head_bias:
        rules.append(rule(f"{head}.bias", "head.linear.bias"))
    tables = shared_tables(TABLES, f"{head}.weight", shared=shared, tied=tied)
    return ImportPlan(f"OpenNMT-py {made.kind}", "translate", made, rules + tables.rules,
                      (*IGNORED, *tables.ignored), notes=tables.notes)  # fmt: skip


def _transformer(
    opt: Options, model: ForeignModel, common: dict[str, Any]
) -> tuple[TransformerConfig, list[WeightRule]]:
    tensors = model.tensors
    if opt.get("self_attn_type") != "scaled-dot-flash":  # the same computation with a faster kernel
        opt.must_be("self_attn_type", "scaled-dot", "a different kind of attention")
    opt.must_be("max_relative_positions", 0, "relative or rotary positions")
    opt.must_be("relative_positions_buckets", 0, "relative position biases")
    opt.must_be("num_experts", 0, "a mixture of experts")
    opt.must_be("parallel_residual", False, "attention and feed-forward in parallel")
    opt.must_be("sliding_window", 0, "sliding-window attention")
    layers = {side: model.count_layers(prefix) for side, prefix in STACKS.items()}
    first = STACKS["encoder"] + "0."
    gated = f"{first}feed_forward.w_3.weight" in tensors
    placed = opt.flag("position_encoding", False)
    heads = opt.whole("heads", 8)
    queries, keys = (model.rows(f"{first}self_attn.{ATTENTION[role]}.weight")
                     for role in ("query", "key"))  # fmt: skip
    made = model.transformer(
        heads=heads,
        kv_heads=None if keys == queries else heads * keys // max(queries, 1),
        layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_ff=model.rows(f"{first}feed_forward.w_1.weight"),
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
    rules: list[WeightRule] = []
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


def _recurrent(
    opt: Options, model: ForeignModel, common: dict[str, Any]
) -> tuple[RecurrentConfig, list[WeightRule]]:
    """A recurrent network: an encoder in one or both directions, a decoder that starts from the
    encoder's last states, and Luong's attention, optionally with input feeding."""
    tensors = model.tensors
    opt.must_be("bridge", False, "a trained layer between encoder and decoder")
    opt.must_be("context_gate", None, "a gate between source and target")
    opt.must_be("coverage_attn", False, "attention with coverage")
    opt.must_be("position_encoding", False, "positions in a recurrent network")
    opt.must_be("global_attention_function", "softmax", "attention without softmax")
    attention = opt.text("global_attention", "general")
    if attention not in ("general", "dot", "none"):
        opt.unsupported(f"global_attention = {attention[:40]!r} (without tanh in its output)",
                        "general, dot, none")  # fmt: skip
    both = f"{ENCODER}weight_ih_l0_reverse" in tensors
    feeding = f"{FED}0.weight_ih" in tensors
    if feeding and attention == "none":
        opt.unsupported("input_feed = 1 with global_attention = 'none'", "input_feed = 0")
    gates = 4 if opt.choice("rnn_type", CELLS, "LSTM") == "lstm" else 3
    layers = sum(f"{ENCODER}weight_ih_l{i}" in tensors for i in range(len(tensors)))
    own = (
        model.count_layers(FED)
        if feeding
        else sum(f"{DECODER}weight_ih_l{i}" in tensors for i in range(len(tensors)))
    )
    if layers != own:
        opt.unsupported(f"a recurrent network with {layers} layers in the encoder and {own} in the "
                        "decoder", "the same number in both")  # fmt: skip
    first = f"{FED}0.weight_hh" if feeding else f"{DECODER}weight_hh_l0"
    made = model.recurrent(
        cell=opt.choice("rnn_type", CELLS, "LSTM"),
        hidden=model.rows(first) // gates,
        encoder_hidden=model.rows(f"{ENCODER}weight_hh_l0") // gates,
        layers=layers,
        bidirectional=both,
        attention="none" if attention == "none" else "dot",
        bridge="copy",
        input_feeding=feeding,
        **common,
    )
    ways = ("", "_reverse") if both else ("",)
    per_layer = [
        rule(f"{ENCODER}{kind}_l{{}}{way}", f"encoder.recurrent.fused.{kind}_l{{}}{way}")
        for kind in KINDS
        for way in ways
    ]
    for kind in KINDS:
        theirs = f"{FED}{{}}.{kind}" if feeding else f"{DECODER}{kind}_l{{}}"
        per_layer.append(rule(theirs, f"decoder.recurrent.fused.{kind}_l{{}}"))
    rules = of_layers(per_layer, layers)
    if attention != "none":
        # OpenNMT-py computes the attention score as (W h) m, Translucid as h (W m).
        key = "decoder.alignment.key.weight"
        general = rule(f"{LUONG}linear_in.weight", key, Transpose())
        rules += [
            general if attention == "general" else constant(key, "identity"),
            rule(f"{LUONG}linear_out.weight", "decoder.alignment.output.weight"),
            constant("decoder.alignment.output.bias", "zeros"),
        ]
    return made, rules


def with_weights(path: Path, checkpoint: ModelFile) -> ModelFile:
    """Add the tensors of safetensors files, under the names that a single-file checkpoint uses."""
    if WEIGHTS in checkpoint.metadata:
        return checkpoint
    names = sorted(
        file.name
        for file in path.parent.iterdir()
        if file.name.startswith(f"{path.stem}.") and file.name.endswith(SUFFIX)
    )
    if not names:
        raise InputError(
            f"{path} contains options and vocabularies, but no weights; put {path.stem}{SUFFIX}, "
            f"or its shards {path.stem}.00{SUFFIX} and so on, into the same folder"
        )
    tensors: dict[str, StoredTensor] = {}
    for name in names:
        for key, tensor in read_safetensors(inside(path.parent, name, str(path))).tensors.items():
            placed = key if key.startswith(f"{GENERATOR}.") else f"{WEIGHTS}.{key}"
            if placed in tensors:
                raise InputError(
                    f"{path}: {key[:200]} is in {name} and again in one of "
                    f"{', '.join(names)[:200]}; keep only the files of one model"
                )
            tensors[placed] = tensor
    return ModelFile(checkpoint.metadata, checkpoint.tensors | tensors)


def tokenizers(model: ForeignModel, plan: ImportPlan) -> ReadTokenizers:
    """Make tokenizers from the vocabularies in the checkpoint: token lists inside torchtext
    objects."""
    held = model.config.get("vocab")
    if isinstance(held, list):  # pairs of a name and a vocabulary, in the oldest files
        held = {str(pair[0]): pair[1] for pair in held if isinstance(pair, list) and len(pair) == 2}
    sides = held if isinstance(held, dict) else {}
    source, target = (_tokens(sides.get(side)) for side in ("src", "tgt"))
    if source is None or target is None:
        raise InputError(
            f"{model.where}: its vocabularies (src and tgt) are missing; copy the complete file "
            "again"
        )
    start = sides.get("decoder_start_token")
    return plain_vocabulary.tokenizers(
        source,
        None if plan.shared and source == target else target,
        split=plain_vocabulary.split_of(source),
        target_split=plain_vocabulary.split_of(target),
        start=start if isinstance(start, str) and start in target else None,
        source_end=False,
        tool="OpenNMT-py",
        files=("its vocabulary (src)", "its vocabulary (tgt)"),
    )


def _tokens(value: Any, depth: int = 0) -> list[str] | None:
    """The first token list found inside the objects of a vocabulary."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, list) and value and all(isinstance(token, str) for token in value):
        return value if depth == 0 else None  # deeper lists may contain something else
    if isinstance(value, dict):
        inside = value.get(LIST)
        if isinstance(inside, list) and all(isinstance(token, str) for token in inside):
            return inside
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        tokens = _tokens(inner, depth + 1)
        if tokens is not None:
            return tokens
    return None
