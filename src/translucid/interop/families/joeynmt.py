"""Transformers of JoeyNMT: the checkpoint holds the tensors, config.yaml beside it the options.

Read in joeynmt/joeynmt: model.py at 0d63508 (tied tables, the head in the decoder), decoders.py at
e0cfa7d (layer_norm, no bias in the head), encoders.py at c6f2ab9 and transformer_layers.py at
c5ec042 (1.x: always pre-norm) and 0d6d2b9 (2.x: alpha, pre or post), vocabulary.py at 0ae2902.
"""

from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families.options import ACTIVATIONS, Options
from translucid.interop.families.plan import Plan, count_layers, rows_of, transformer
from translucid.interop.families.stack import Names, stack_rules
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import Rule, rule

MODEL = "model_state."
TABLES = {"encoder": f"{MODEL}src_embed.lut", "decoder": f"{MODEL}trg_embed.lut"}
HEAD = f"{MODEL}decoder.output_layer.weight"
OF_ATTENTION = {"query": "q_layer", "key": "k_layer", "value": "v_layer", "output": "output_layer"}
ATTENTION = {"encoder": "src_src_att", "decoder": "trg_trg_att"}
IGNORED = (
    rf"{MODEL}(encoder|decoder)\.pe\.pe",  # sinusoids, stored
    rf"(?!{MODEL}).*",  # the state of training
)


def from_joeynmt(config: Options, file: ModelFile) -> Plan:
    """config: what config.yaml holds."""
    tensors, model = file.tensors, config.part("model")
    stacks = {side: model.part(side) for side in TABLES}
    for side, options in stacks.items():
        kind = options.text("type", "recurrent")
        if kind != "transformer":
            raise InputError(
                f"{config.where}: model.{side}.type = {kind[:40]!r} cannot be opened here; "
                "transformer can"
            )
        if options.get("alpha", 1.0) != 1:
            raise InputError(
                f"{config.where}: model.{side}.alpha = {str(options.get('alpha'))[:40]} (a weight "
                "of the residual connection) cannot be computed here; 1.0 can"
            )
    layers = {side: count_layers(tensors, f"{MODEL}{side}.layers.") for side in TABLES}
    # One matrix for both vocabularies, and one for the decoder's input and output.
    shared, tied = (model.flag(name, False) for name in ("tied_embeddings", "tied_softmax"))
    first = f"{MODEL}encoder.layers.0."
    made = transformer(
        config.where,
        shape="encoder-decoder",
        head="language",
        vocab=rows_of(file, f"{TABLES['encoder']}.weight", config.where),
        target_vocab=None if shared else rows_of(file, f"{TABLES['decoder']}.weight", config.where),
        d_model=tensors[f"{TABLES['encoder']}.weight"].shape[-1],
        heads=_both(stacks, "num_heads", 8),
        layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        d_ff=rows_of(file, f"{first}feed_forward.pwff_layer.0.weight", config.where),
        activation=ACTIVATIONS.get(_both(stacks, "activation", "relu"), "?"),
        norm_eps=1e-6,
        placement=_placement(stacks, last=f"{MODEL}encoder.layer_norm.weight" in tensors),
        positions="sinusoidal",
        embedding_scale=_scaled(stacks),
        tied=tied,
        dropout=0.0,
    )
    rules: list[Rule] = [rule(f"{TABLES['encoder']}.weight", "encoder.embedding.table.weight")]
    for side in TABLES:
        layer = f"{MODEL}{side}.layers.{{}}."
        modules = {r: f"{layer}{ATTENTION[side]}.{name}" for r, name in OF_ATTENTION.items()}
        modules |= {f"cross_{r}": f"{layer}src_trg_att.{name}" for r, name in OF_ATTENTION.items()}
        modules |= {
            "attention_norm": f"{layer}{'layer_norm' if side == 'encoder' else 'x_layer_norm'}",
            "cross_norm": f"{layer}dec_layer_norm",
            "feedforward_norm": f"{layer}feed_forward.layer_norm",
            "up": f"{layer}feed_forward.pwff_layer.0",
            "down": f"{layer}feed_forward.pwff_layer.3",
            "final_norm": f"{MODEL}{side}.layer_norm",
        }
        rules += stack_rules(made, side, layers[side], Names(modules), cross=side == "decoder")
    ignored = list(IGNORED)
    if shared:
        ignored.append(rf"{MODEL}trg_embed\.lut\.weight")
    else:
        rules.append(rule(f"{TABLES['decoder']}.weight", "decoder.embedding.table.weight"))
    if tied:
        ignored.append(rf"{MODEL}decoder\.output_layer\.weight")
    else:
        rules.append(rule(HEAD, "head.linear.weight"))
    return Plan("JoeyNMT Transformer", "translate", made, rules, tuple(ignored))


def _placement(stacks: dict[str, Options], *, last: bool) -> str:
    """last: a norm follows the stacks, as it does only in pre-norm ones."""
    if last:
        return "pre"
    if _both(stacks, "layer_norm", None) is None:
        # Versions 2.0 to 2.2 take it for post; 2.3 takes the encoder for pre without a last norm.
        raise InputError(
            f"{stacks['encoder'].where} names no layer_norm for encoder and decoder, and versions "
            "of JoeyNMT take that differently; write layer_norm: post into both of them if the "
            "model was trained with a version from 2.0 to 2.2"
        )
    return "post"


def _scaled(stacks: dict[str, Options]) -> bool:
    embeddings = {side: options.part("embeddings") for side, options in stacks.items()}
    return bool(_both(embeddings, "scale", False))


def _both(stacks: dict[str, Options], name: str, default: Any) -> Any:
    """An option that is the same in both stacks here."""
    encoder, decoder = (options.get(name, default) for options in stacks.values())
    if encoder != decoder:
        raise InputError(
            f"{stacks['encoder'].where}: {name} = {str(encoder)[:40]}, in the decoder "
            f"{str(decoder)[:40]}; one value for both is needed"
        )
    return encoder
