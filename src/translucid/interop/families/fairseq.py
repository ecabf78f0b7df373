"""fairseq checkpoints: RoBERTa, and the Transformer encoder-decoder whose tensor names BART and its
relatives use.

Training options are in `args`, or since version 0.10 in `cfg`; sizes follow from the tensors. How
texts are split is not stored: Translucid splits at spaces, or between characters if all tokens are
single characters.
Source, in facebookresearch/fairseq: models/transformer/transformer_decoder.py at
0e86c2b (scale, positions, norms, tied head, the older name embed_out), transformer_encoder.py at
0066c08 and transformer_config.py at 00b6434; models/roberta/model.py at b3fa510 and
modules/transformer_sentence_encoder.py at 00bc279 (its older stack); multihead_attention.py at
00bc279 (the older in_proj), gelu.py at 2519cd4. Projected embeddings, base layers and block noise
are not supported; the error names their tensors or, if there are none, the option.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families.bart import stack_modules
from translucid.interop.families.plan import (
    ForeignModel,
    ImportPlan,
    Options,
    Origin,
    alike,
    shared_tables,
)
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.rules import Place, WeightRule, rule
from translucid.interop.tokenizers import plain_vocabulary
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.interop.tokenizers.tokenizer_config import note_of
from translucid.models.transformer_config import TransformerConfig

ACTIVATIONS = {"relu": "relu", "relu_squared": "relu_squared", "gelu": "gelu", "tanh": "tanh",
               "gelu_accurate": "gelu_tanh", "gelu_fast": "gelu_tanh"}  # fmt: skip
LAYOUT = "a checkpoint"
PAD = 1  # id of the padding token: the second of four special tokens in every dictionary
SIDES = ("encoder", "decoder")
MODEL = "model."  # prefix of all tensors
STACKS = tuple(f"{MODEL}{side}.sentence_encoder." for side in SIDES)  # RoBERTa, by version
IGNORED = (
    r"model\.(encoder|decoder)\.version",
    r"model\..*embed_positions\.(_float_tensor|weights)",  # sinusoids, or a placeholder for them
    r"model\.classification_heads\..*",
    r"(?!model\.).*",  # the state of training
)
DICTIONARY = "dict.txt"
START = "</s>"  # the first token of a decoder
MASK = "<mask>"  # in masked language models, the row after those of the dictionary


def read(origin: Origin) -> ForeignModel:
    file = origin.checkpoint
    assert file is not None
    return ForeignModel("fairseq", origin.path, Options(file.metadata, str(origin.path)), file)


def plan(model: ForeignModel) -> ImportPlan:
    args = _arguments(model.config)
    args.must_be("quant_noise_scalar", 0, "weights that are rounded to 8 bits")
    for side in SIDES:
        args.must_be(f"{side}_layers_to_keep", None, "some layers of the file are not used")
        args.must_be(f"{side}_xformers_att_config", None, "a different kind of attention")
    for stack in STACKS:
        if f"{stack}embed_tokens.weight" in model.tensors:
            return _roberta(args, model, stack)
    if all(model.count_layers(f"{MODEL}{side}.layers.") for side in SIDES):
        return _encoder_decoder(args, model)
    arch = str(args.get("arch", args.get("_name")))[:60]
    args.unsupported(f"arch = {arch!r}", "fairseq's RoBERTa and Transformer encoder-decoders")


def _arguments(config: Options) -> Options:
    """The model's options, named as on fairseq's command line."""
    if isinstance(config.get("args"), dict):
        return config.part("args")
    model = _plain(config.part("cfg").get("model"))
    if not isinstance(model, dict):
        raise InputError(
            f"{config.where}: neither args nor cfg describes the model; copy the file again"
        )
    for group in (*SIDES, "quant_noise"):  # nested groups in the newest files
        if isinstance(model.get(group), dict):
            model |= {f"{group}_{name}": value for name, value in model[group].items()}
    return Options(model, config.where)


def _plain(value: Any, depth: int = 0) -> Any:
    """Unwrap the values inside OmegaConf objects."""
    if isinstance(value, dict) and depth < 20:
        for inside in ("_content", "_val"):
            if inside in value:
                return _plain(value[inside], depth + 1)
        return {key: _plain(inner, depth + 1) for key, inner in value.items()}
    return value


def _roberta(args: Options, model: ForeignModel, stack: str) -> ImportPlan:
    tensors = model.tensors
    named = ("emb_layer_norm", "layernorm_embedding")  # older and newer
    pre = args.flag("encoder_normalize_before", False)
    missing = named[1] if args.flag("layernorm_embedding", not pre) else None
    norm = next((name for name in named if f"{stack}{name}.weight" in tensors), missing)
    head = stack.replace("sentence_encoder.", "lm_head.")
    activation = args.choice("activation_fn", ACTIVATIONS, "gelu")
    tied = not args.flag("untie_weights_roberta", False)
    made = model.transformer(
        shape="encoder",
        head="fill",
        head_dense=activation,
        vocab=model.rows(f"{stack}embed_tokens.weight"),
        d_model=tensors[f"{stack}embed_tokens.weight"].shape[-1],
        heads=args.whole("encoder_attention_heads"),
        layers=model.count_layers(f"{stack}layers."),
        d_ff=model.rows(f"{stack}layers.0.fc1.weight"),
        activation=activation,
        placement="pre" if pre else "post",
        embedding_norm=norm is not None,
        embedding_scale=not args.flag("no_scale_embedding", True),
        norm_eps=1e-5,
        tied=tied,
        dropout=0.0,
        **_positions(args, model, stack, learned=args.flag("encoder_learned_pos", True)),
    )
    modules = _modules(made, model, stack, cross=False) | {"embedding": f"{stack}embed_tokens"}
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
    return ImportPlan("fairseq RoBERTa", "fill", made, rules, (*IGNORED, *ignored))


def _encoder_decoder(args: Options, model: ForeignModel) -> ImportPlan:
    tensors = model.tensors
    args.must_be("adaptive_softmax_cutoff", None, "an adaptive softmax")
    args.must_be("cross_self_attention", False, "self-attention and cross-attention combined")
    args.must_be("no_cross_attention", False, "layers without cross-attention")
    layers = {side: model.count_layers(f"{MODEL}{side}.layers.") for side in SIDES}
    names = {side: f"{MODEL}{side}.embed_tokens.weight" for side in SIDES}
    shared = args.flag("share_all_embeddings", False)
    tied = shared or args.flag("share_decoder_input_output_embed", False)
    made = model.transformer(
        shape="encoder-decoder",
        head="language",
        vocab=model.rows(names["encoder"]),
        target_vocab=None if shared else model.rows(names["decoder"]),
        d_model=tensors[names["encoder"]].shape[-1],
        heads=_both(args, "attention_heads", None),
        layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_ff=model.rows(f"{MODEL}encoder.layers.0.fc1.weight"),
        activation=args.choice("activation_fn", ACTIVATIONS, "relu"),
        placement="pre" if _both(args, "normalize_before", False) else "post",
        norm_eps=1e-5,
        embedding_norm=f"{MODEL}encoder.layernorm_embedding.weight" in tensors,
        embedding_scale=not args.flag("no_scale_embedding", False),
        tied=tied,
        dropout=0.0,
        **_positions(args, model, f"{MODEL}encoder.", learned=_both(args, "learned_pos", False)),
    )
    heads = (f"{MODEL}decoder.output_projection.weight", f"{MODEL}decoder.embed_out")
    head = next((name for name in heads if name in tensors and not tied), heads[0])
    tables = shared_tables(names, head, shared=shared, tied=tied)
    rules: list[WeightRule] = []
    for side in SIDES:
        cross = side == "decoder"
        modules = _modules(made, model, f"{MODEL}{side}.", cross=cross)
        rules += _named(stack_rules(made, side, layers[side], Names(modules), cross=cross))
    return ImportPlan("fairseq Transformer", "translate", made, rules + tables.rules,
                      (*IGNORED, *tables.ignored), notes=tables.notes)  # fmt: skip


def _positions(args: Options, model: ForeignModel, stack: str, *, learned: bool) -> dict[str, Any]:
    """The position options of an encoder or decoder."""
    if args.flag("no_token_positional_embeddings", False):
        return {"positions": "none"}
    if learned:
        rows = model.rows(f"{stack}embed_positions.weight") - PAD - 1
        return {"positions": "learned", "first_position": PAD + 1, "max_length": rows}
    return {"positions": "sinusoidal", "sinusoid_layout": "fairseq", "first_position": PAD + 1}


def _modules(
    made: TransformerConfig, model: ForeignModel, stack: str, *, cross: bool
) -> dict[str, str]:
    """Names of the modules of a stack, except its embedding, in the fairseq version that wrote the
    file."""
    modules, layer = stack_modules(made, stack), f"{stack}layers.{{}}."
    first = layer.replace("{}", "0")
    if f"{first}self_attn.in_proj_weight" in model.tensors:
        modules |= {"qkv": f"{layer}self_attn.in_proj", "cross_qkv": f"{layer}encoder_attn.in_proj"}
    if f"{first}layer_norms.0.weight" in model.tensors:
        norms = ("attention_norm", *["cross_norm"] * cross, "feedforward_norm")
        modules |= {role: f"{layer}layer_norms.{i}" for i, role in enumerate(norms)}
    return modules


def _named(rules: list[WeightRule]) -> list[WeightRule]:
    """Fix the names of in_proj, which in fairseq is not a module but the prefix of two tensors:
    in_proj_weight and in_proj_bias."""

    def named(place: Place) -> Place:
        return replace(place, name=re.sub(r"in_proj\.(?=\w+$)", "in_proj_", place.name))

    return [replace(one, theirs=tuple(map(named, one.theirs))) for one in rules]


def _both(args: Options, name: str, default: Any) -> Any:
    names = [f"{side}_{name}" for side in SIDES]
    return alike(args.where, {name: args.get(name, default) for name in names})


def tokenizers(model: ForeignModel, plan: ImportPlan) -> ReadTokenizers:
    """Read dict.txt, or one dictionary for each language."""
    languages = _languages(model.config)
    if languages is None:
        return _masked(model, plan.rows("source"))
    files = [f"dict.{language}.txt" for language in languages]
    source, target = (
        _tokens(model, file, plan.rows(side))
        for file, side in zip(files, ("source", "target"), strict=True)
    )
    if plan.shared and source != target:
        raise InputError(
            f"{model.folder}: the source and target dictionaries differ, but the model has one "
            "embedding table; copy the dictionaries that belong to this model"
        )
    split = plain_vocabulary.split_of([*source, *target])
    return plain_vocabulary.tokenizers(
        source, None if plan.shared else target, split=split, start=START, tool="fairseq",
        files=files,
    )  # fmt: skip


def _masked(model: ForeignModel, rows: int) -> ReadTokenizers:
    tokens = _tokens(model, DICTIONARY, rows)
    if MASK not in tokens and len(tokens) + 1 == rows:
        tokens.append(MASK)
    split = plain_vocabulary.split_of(tokens)
    read = plain_vocabulary.tokenizers(tokens, split=split, tool="fairseq", files=[DICTIONARY])
    made = read.tokenizers["tokenizer"]
    assert made.special.frame is not None, "a plain vocabulary has one"
    frame = replace(made.special.frame, prefix=(0,))  # <s>, the first of every dictionary
    special = replace(made.special, frame=frame)
    notes = [note_of(special, tokens), *read.notes[1:]]
    return read._replace(tokenizers={"tokenizer": made.with_special(special)}, notes=notes)


def _languages(config: Options) -> tuple[str, str] | None:
    """Source and target language; None if the model has only one language."""
    groups = [config.get("args"), config.get("cfg")]
    if isinstance(groups[1], dict):
        groups += [groups[1].get(name) for name in ("task", "model")]
    for group in groups:
        if isinstance(group, dict):
            pair = group.get("source_lang"), group.get("target_lang")
            if isinstance(pair[0], str) and isinstance(pair[1], str):
                return pair[0], pair[1]
    return None


def _tokens(model: ForeignModel, name: str, rows: int) -> list[str]:
    remedy = "copy the dictionaries that fairseq-preprocess wrote into the checkpoint's folder"
    return plain_vocabulary.read_fairseq(model.need(name, remedy), rows)
