"""Checkpoints of fairseq: RoBERTa, and the Transformer encoder-decoder that BART's family was made
from, with the same names.

Options of training stand in `args`, or since version 0.10 in `cfg`; sizes are those of the tensors.
Read in facebookresearch/fairseq: models/transformer/transformer_decoder.py at 0e86c2b (scale,
positions, norms, tied head, the older name embed_out), transformer_encoder.py at 0066c08 and
transformer_config.py at 00b6434; models/roberta/model.py at b3fa510 and
modules/transformer_sentence_encoder.py at 00bc279 (its older stack); multihead_attention.py at
00bc279 (the older in_proj), gelu.py at 2519cd4. What is said there and cannot be computed here and
has tensors of its own (projected embeddings, base layers, noise by blocks) is refused by their
names, the rest by the option's.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families.bart import stack_modules
from translucid.interop.families.options import Options
from translucid.interop.families.plan import Plan, count_layers, rows_of, transformer
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import Place, Rule, rule
from translucid.models.transformer_config import TransformerConfig

ACTIVATIONS = {"relu": "relu", "relu_squared": "relu_squared", "gelu": "gelu", "tanh": "tanh",
               "gelu_accurate": "gelu_tanh", "gelu_fast": "gelu_tanh"}  # fmt: skip
PAD = 1  # the second of the four special tokens, in every dictionary
SIDES = ("encoder", "decoder")
MODEL = "model."  # what all its tensors' names begin with
STACKS = tuple(f"{MODEL}{side}.sentence_encoder." for side in SIDES)  # RoBERTa's, by version
IGNORED = (
    r"model\.(encoder|decoder)\.version",
    r"model\..*embed_positions\.(_float_tensor|weights)",  # sinusoids, or a trace of them
    r"model\.classification_heads\..*",
    r"(?!model\.).*",  # the state of training
)


def from_fairseq(config: Options, file: ModelFile) -> Plan:
    """config: the whole checkpoint but its tensors."""
    args = _arguments(config)
    args.must_be("quant_noise_scalar", 0, "weights that are rounded to 8 bits")
    for side in SIDES:
        args.must_be(f"{side}_layers_to_keep", None, "layers left out of those in the file")
        args.must_be(f"{side}_xformers_att_config", None, "another attention")
    for stack in STACKS:
        if f"{stack}embed_tokens.weight" in file.tensors:
            return _roberta(args, file, stack)
    if all(count_layers(file.tensors, f"{MODEL}{side}.layers.") for side in SIDES):
        return _encoder_decoder(args, file)
    raise InputError(
        f"{config.where}: arch = {str(args.get('arch', args.get('_name')))[:60]!r} cannot be "
        "computed here; RoBERTa and Transformer encoder-decoders of fairseq can"
    )


def _arguments(config: Options) -> Options:
    """Options of the model by their names on fairseq's command line."""
    if isinstance(config.get("args"), dict):
        return config.part("args")
    model = _plain(config.part("cfg").get("model"))
    if not isinstance(model, dict):
        raise InputError(f"{config.where}: neither args nor cfg says what the model is; copy the "
                         "file again, whole")  # fmt: skip
    for group in (*SIDES, "quant_noise"):  # the newest write them in groups
        if isinstance(model.get(group), dict):
            model |= {f"{group}_{name}": value for name, value in model[group].items()}
    return Options(model, config.where)


def _plain(value: Any, depth: int = 0) -> Any:
    """What OmegaConf's objects hold."""
    if isinstance(value, dict) and depth < 20:
        for inside in ("_content", "_val"):
            if inside in value:
                return _plain(value[inside], depth + 1)
        return {key: _plain(inner, depth + 1) for key, inner in value.items()}
    return value


def _roberta(args: Options, file: ModelFile, stack: str) -> Plan:
    tensors, where = file.tensors, args.where
    named = ("emb_layer_norm", "layernorm_embedding")  # older and newer
    pre = args.flag("encoder_normalize_before", False)
    missing = named[1] if args.flag("layernorm_embedding", not pre) else None
    norm = next((name for name in named if f"{stack}{name}.weight" in tensors), missing)
    head = stack.replace("sentence_encoder.", "lm_head.")
    activation = args.choice("activation_fn", ACTIVATIONS, "gelu")
    tied = not args.flag("untie_weights_roberta", False)
    made = transformer(
        where,
        shape="encoder",
        head="fill",
        head_dense=activation,
        vocab=rows_of(file, f"{stack}embed_tokens.weight", where),
        d_model=tensors[f"{stack}embed_tokens.weight"].shape[-1],
        heads=args.whole("encoder_attention_heads"),
        layers=count_layers(tensors, f"{stack}layers."),
        d_ff=rows_of(file, f"{stack}layers.0.fc1.weight", where),
        activation=activation,
        placement="pre" if pre else "post",
        embedding_norm=norm is not None,
        embedding_scale=not args.flag("no_scale_embedding", True),
        norm_eps=1e-5,
        tied=tied,
        dropout=0.0,
        **_positions(args, file, stack, learned=args.flag("encoder_learned_pos", True)),
    )
    modules = _modules(made, file, stack, cross=False) | {"embedding": f"{stack}embed_tokens"}
    if norm is not None:
        modules["embedding_norm"] = stack + norm
    rules = _named(stack_rules(made, "encoder", made.layers, Names(modules)))
    names: Mapping[str, str] = {
        "dense.weight": "dense.linear.weight", "dense.bias": "dense.linear.bias",
        "layer_norm.weight": "norm.gain", "layer_norm.bias": "norm.shift", "bias": "linear.bias",
        **({} if tied else {"weight": "linear.weight"}),
    }  # fmt: skip
    rules += [rule(head + theirs, f"head.{ours}") for theirs, ours in names.items()]
    ignored = (re.escape(f"{head}weight"),) if tied else ()
    return Plan("fairseq RoBERTa", "fill", made, rules, (*IGNORED, *ignored))


def _encoder_decoder(args: Options, file: ModelFile) -> Plan:
    tensors, where = file.tensors, args.where
    args.must_be("adaptive_softmax_cutoff", None, "an output in parts")
    args.must_be("cross_self_attention", False, "one attention for both")
    args.must_be("no_cross_attention", False, "layers without cross-attention")
    layers = {side: count_layers(tensors, f"{MODEL}{side}.layers.") for side in SIDES}
    tables = {side: f"{MODEL}{side}.embed_tokens.weight" for side in SIDES}
    shared = args.flag("share_all_embeddings", False)
    tied = shared or args.flag("share_decoder_input_output_embed", False)
    made = transformer(
        where,
        shape="encoder-decoder",
        head="language",
        vocab=rows_of(file, tables["encoder"], where),
        target_vocab=None if shared else rows_of(file, tables["decoder"], where),
        d_model=tensors[tables["encoder"]].shape[-1],
        heads=_both(args, "attention_heads", None),
        layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_ff=rows_of(file, f"{MODEL}encoder.layers.0.fc1.weight", where),
        activation=args.choice("activation_fn", ACTIVATIONS, "relu"),
        placement="pre" if _both(args, "normalize_before", False) else "post",
        norm_eps=1e-5,
        embedding_norm=f"{MODEL}encoder.layernorm_embedding.weight" in tensors,
        embedding_scale=not args.flag("no_scale_embedding", False),
        tied=tied,
        dropout=0.0,
        **_positions(args, file, f"{MODEL}encoder.", learned=_both(args, "learned_pos", False)),
    )
    rules: list[Rule] = [rule(tables["encoder"], "encoder.embedding.table.weight")]
    for side in SIDES:
        cross = side == "decoder"
        modules = _modules(made, file, f"{MODEL}{side}.", cross=cross)
        rules += _named(stack_rules(made, side, layers[side], Names(modules), cross=cross))
    ignored, notes = [], []
    if shared:
        ignored.append(r"model\.decoder\.embed_tokens\.weight")
        notes.append("encoder and decoder have one embedding table")
    else:
        rules.append(rule(tables["decoder"], "decoder.embedding.table.weight"))
    heads = (f"{MODEL}decoder.output_projection.weight", f"{MODEL}decoder.embed_out")
    if tied:
        ignored.append(r"model\.decoder\.output_projection\.weight")
        notes.append("the output head is the decoder's embedding table")
    else:
        head = next((name for name in heads if name in tensors), heads[0])
        rules.append(rule(head, "head.linear.weight"))
    return Plan("fairseq Transformer", "translate", made, rules, (*IGNORED, *ignored),
                notes=tuple(notes))  # fmt: skip


def _positions(args: Options, file: ModelFile, stack: str, *, learned: bool) -> dict[str, Any]:
    """Options of ours."""
    if args.flag("no_token_positional_embeddings", False):
        return {"positions": "none"}
    if learned:
        rows = rows_of(file, f"{stack}embed_positions.weight", args.where) - PAD - 1
        return {"positions": "learned", "first_position": PAD + 1, "max_length": rows}
    return {"positions": "sinusoidal", "sinusoid_layout": "fairseq", "first_position": PAD + 1}


def _modules(
    made: TransformerConfig, file: ModelFile, stack: str, *, cross: bool
) -> dict[str, str]:
    """The modules of a stack but its embedding, as the version that wrote the file names them."""
    modules, layer = stack_modules(made, stack), f"{stack}layers.{{}}."
    first = layer.replace("{}", "0")
    if f"{first}self_attn.in_proj_weight" in file.tensors:
        modules |= {"qkv": f"{layer}self_attn.in_proj", "cross_qkv": f"{layer}encoder_attn.in_proj"}
    if f"{first}layer_norms.0.weight" in file.tensors:
        norms = ("attention_norm", *["cross_norm"] * cross, "feedforward_norm")
        modules |= {role: f"{layer}layer_norms.{i}" for i, role in enumerate(norms)}
    return modules


def _named(rules: list[Rule]) -> list[Rule]:
    """in_proj is no module there, but the beginning of two tensors' names."""

    def named(place: Place) -> Place:
        return replace(place, name=re.sub(r"in_proj\.(?=\w+$)", "in_proj_", place.name))

    return [replace(one, theirs=tuple(map(named, one.theirs))) for one in rules]


def _both(args: Options, name: str, default: Any) -> Any:
    """An option that is the same in both stacks here."""
    encoder, decoder = (args.get(f"{side}_{name}", default) for side in SIDES)
    if encoder != decoder or encoder is None:
        raise InputError(
            f"{args.where}: encoder_{name} = {str(encoder)[:40]}, decoder_{name} = "
            f"{str(decoder)[:40]}; one value for both is needed"
        )
    return encoder
