"""Recurrent networks of OpenNMT-py: an encoder in one or both directions, whose last states the
decoder starts from layer by layer, and Luong's attention, whose output the decoder may be fed.

Read in OpenNMT/OpenNMT-py: decoders/decoder.py at ad3df21, encoders/rnn_encoder.py and
modules/global_attention.py at 0b19be4, modules/stacked_rnn.py at d30366e.
"""

from typing import Any

from translucid.core.errors import InputError
from translucid.interop.families.options import Options
from translucid.interop.families.plan import count_layers, recurrent, rows_of
from translucid.interop.formats.stored import ModelFile
from translucid.interop.rules import Rule, Transpose, constant, of_layers, rule
from translucid.models.recurrent import RecurrentConfig

CELLS = {"LSTM": "lstm", "GRU": "gru"}
KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
MODEL = "model."
ENCODER, DECODER, ATTENTION = (
    f"{MODEL}encoder.rnn.",
    f"{MODEL}decoder.rnn.",
    f"{MODEL}decoder.attn.",
)
FED = f"{DECODER}layers."  # cells of their own, where each step needs the output of the one before


def recurrent_network(
    opt: Options, file: ModelFile, common: dict[str, Any]
) -> tuple[RecurrentConfig, list[Rule]]:
    """common: keys that all networks of OpenNMT-py have."""
    tensors, where = file.tensors, opt.where
    opt.must_be("bridge", False, "a trained layer between encoder and decoder")
    opt.must_be("context_gate", None, "a gate between source and target")
    opt.must_be("coverage_attn", False, "attention that counts what it has read")
    opt.must_be("position_encoding", False, "positions in a recurrent network")
    opt.must_be("global_attention_function", "softmax", "another attention than softmax")
    attention = opt.text("global_attention", "general")
    if attention not in ("general", "dot", "none"):
        raise InputError(
            f"{where}: global_attention = {attention[:40]!r} cannot be computed here (its output "
            "has no tanh); general, dot and none can"
        )
    both = f"{ENCODER}weight_ih_l0_reverse" in tensors
    feeding = f"{FED}0.weight_ih" in tensors
    if feeding and attention == "none":
        raise InputError(
            f"{where}: input_feed = 1 with global_attention = 'none' (a decoder that is fed its "
            "own state) cannot be computed here; input_feed = 0 can"
        )
    gates = 4 if opt.choice("rnn_type", CELLS, "LSTM") == "lstm" else 3
    layers = sum(f"{ENCODER}weight_ih_l{i}" in tensors for i in range(len(tensors)))
    own = (
        count_layers(tensors, FED)
        if feeding
        else sum(f"{DECODER}weight_ih_l{i}" in tensors for i in range(len(tensors)))
    )
    if layers != own:
        raise InputError(
            f"{where}: {layers} layers in the encoder and {own} in the decoder; recurrent "
            "networks can be opened here whose stacks are equally deep"
        )
    first = f"{FED}0.weight_hh" if feeding else f"{DECODER}weight_hh_l0"
    made = recurrent(
        where,
        cell=opt.choice("rnn_type", CELLS, "LSTM"),
        hidden=rows_of(file, first, where) // gates,
        encoder_hidden=rows_of(file, f"{ENCODER}weight_hh_l0", where) // gates,
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
        # Their score is (W h) m, ours h (W m).
        key = "decoder.alignment.key.weight"
        general = rule(f"{ATTENTION}linear_in.weight", key, Transpose())
        rules += [
            general if attention == "general" else constant(key, "identity"),
            rule(f"{ATTENTION}linear_out.weight", "decoder.alignment.output.weight"),
            constant("decoder.alignment.output.bias", "zeros"),
        ]
    return made, rules
