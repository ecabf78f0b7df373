"""Rewrite weights so that a format can express the model, without changing its function.

For example, a scale is multiplied into a table, a missing bias becomes zeros, computed positions
become a table, or dimensions of the residual stream are reordered. Two configurations compute the
same function if they have no `differences`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from translucid.interop.families.plan import Description, ImportPlan, effective
from translucid.interop.formats.stored import StoredTensor
from translucid.models.transformer_config import TransformerConfig
from translucid.parts.positions import Sinusoidal

LENGTH = 2048  # rows of a table that replaces computed positions
Differences = dict[str, tuple[object, object]]  # keys whose values differ, with both values
OF_TRAINING = (
    "dropout",
    "word_dropout",
    "bias",
)  # `bias` is a default for other keys
TABLES = ("encoder.embedding.table.weight", "decoder.embedding.table.weight")
HEAD = "head.linear.weight"
# The axis along which a weight reads or writes the residual stream; other weights have none.
STREAM = {
    0: (".gain", ".shift", ".output.weight", ".output.bias"),
    1: (".table.weight", ".positions.table", ".qkv.weight", ".query.weight", ".kv.weight",
        ".expand.weight", HEAD),
}  # fmt: skip
BIASES = ("qkv_bias", "attention_output_bias", "feedforward_bias", "head_bias", "norm_bias")
OF_HEADS = (".query_norm.gain", ".key_norm.gain")


@dataclass(frozen=True)
class Weights:
    """Configuration and tensors of a Transformer, and notes on rewrites."""

    config: TransformerConfig
    tensors: Mapping[str, Tensor]
    notes: tuple[str, ...] = ()

    def changed(
        self, tensors: Mapping[str, Tensor], note: str | None = None, **keys: Any
    ) -> "Weights":
        """A copy with changed configuration keys, and with tensors added or replaced."""
        config = TransformerConfig(**(self.config.model_dump() | keys))
        notes = self.notes if note is None or note in self.notes else (*self.notes, note)
        return Weights(config, {**self.tensors, **tensors}, notes)

    @property
    def output_table(self) -> str:
        """The name of the embedding table that a tied head uses."""
        own = self.config.shape == "encoder-decoder" and self.config.target_vocab is None
        return TABLES[0] if own or self.config.shape == "encoder" else TABLES[1]


def without_scale(weights: Weights) -> Weights:
    """Multiply the embedding table by sqrt(d_model). A tied head gets a separate copy of the
    original table."""
    if not weights.config.embedding_scale:
        return weights
    factor = math.sqrt(weights.config.d_model)
    scaled = {name: weights.tensors[name] * factor for name in TABLES if name in weights.tensors}
    if not (weights.config.tied and weights.config.head in ("language", "fill")):
        note = "the embedding table is multiplied by sqrt(d_model)"
        return weights.changed(scaled, note, embedding_scale=False)
    scaled[HEAD] = weights.tensors[weights.output_table]
    note = "the embedding table is multiplied by sqrt(d_model), so the tied output head is separate"
    return weights.changed(scaled, note, embedding_scale=False, tied=False)


def untied(weights: Weights) -> Weights:
    """Make the tied head a separate tensor."""
    table = weights.tensors[weights.output_table]
    return weights.changed({HEAD: table}, "the tied output head is written separately", tied=False)


def in_halves(weights: Weights) -> Weights:
    """Reorder the dimensions of the residual stream, even ones first: interleaved sines and cosines
    become all sines, then all cosines."""
    d = weights.config.d_model
    order = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])

    def reordered(name: str, tensor: Tensor) -> Tensor:
        for axis, endings in STREAM.items():
            if name.endswith(endings) and not name.endswith(OF_HEADS):
                return tensor.index_select(axis, order)
        return tensor

    tensors = {name: reordered(name, tensor) for name, tensor in weights.tensors.items()}
    note = "dimensions of the residual stream reordered: sines first, then cosines"
    return weights.changed(tensors, note, sinusoid_layout="halves")


def with_table(weights: Weights, length: int) -> Weights:
    """Store computed positions as a table with `length` rows; for a model without positions, a
    table of zeros."""
    c = weights.config
    if c.positions == "sinusoidal":
        scheme = Sinusoidal(c.d_model, layout=c.sinusoid_layout, first=c.first_position)
        rows = scheme.encode(torch.arange(length)).float()
        note = f"sinusoids are stored as a table of {length:,} positions"
    else:
        rows = torch.zeros(length, c.d_model)
        note = f"no positions: stored as a table of zeros for {length:,} positions"
    sides = ("encoder", "decoder") if c.shape == "encoder-decoder" else (c.shape,)
    tables = {f"{side}.positions.table": rows for side in sides}
    return weights.changed(tables, note, positions="learned", max_length=length, first_position=0)


def with_zeros(weights: Weights, key: str) -> Weights:
    """Add zeros for missing biases, or for missing shifts of norms."""
    modules = {
        "qkv_bias": (".qkv", ".query", ".kv"),
        "attention_output_bias": ("attention.output",),
        "feedforward_bias": (".expand", "feedforward.output"),
        "head_bias": ("head.linear",),
    }
    zeros: dict[str, Tensor] = {}
    if key == "norm_bias":
        for name, gain in weights.tensors.items():
            if name.endswith(".gain") and not name.endswith(OF_HEADS):
                zeros[name.removesuffix("gain") + "shift"] = torch.zeros_like(gain)
        return weights.changed(zeros, "shifts of the norms are written as zeros", norm_bias=True)
    for name, weight in weights.tensors.items():
        if name.endswith(".weight") and name.removesuffix(".weight").endswith(modules[key]):
            zeros[name.removesuffix("weight") + "bias"] = weight.new_zeros(len(weight))
    if key == "head_bias" and weights.config.tied:
        zeros["head.linear.bias"] = torch.zeros(len(weights.tensors[weights.output_table]))
    return weights.changed(zeros, f"{key.replace('_', ' ')} is written as zeros", **{key: True})


def with_all_heads(weights: Weights) -> Weights:
    """Repeat the weights of shared key/value heads, so that every query head has its own."""
    c = weights.config
    kept, times = c.kv_heads or c.heads, c.heads // (c.kv_heads or c.heads)

    def repeated(name: str, tensor: Tensor) -> Tensor:
        kind = name.rpartition(".")[0]
        if not kind.endswith((".qkv", ".kv")):
            return tensor
        query = c.heads * c.head_size if kind.endswith(".qkv") else 0
        rest = tensor[query:].unflatten(0, (2, kept, c.head_size))
        return torch.cat([tensor[:query], rest.repeat_interleave(times, dim=1).flatten(0, 2)])

    tensors = {name: repeated(name, tensor) for name, tensor in weights.tensors.items()}
    note = f"{kept} key/value heads written {times} times each"
    return weights.changed(tensors, note, kv_heads=c.heads)


def with_segments(weights: Weights, count: int) -> Weights:
    """Add a segment table of zeros."""
    table = torch.zeros(count, weights.config.d_model)
    note = "the segment table is written as zeros"
    return weights.changed({"encoder.segments.table.weight": table}, note, segments=count)


def with_two_tables(weights: Weights) -> Weights:
    """Copy a shared embedding table, so that encoder and decoder each have one."""
    table = weights.tensors[TABLES[0]].clone()
    note = "the shared embedding table is written twice, for encoder and decoder"
    return weights.changed({TABLES[1]: table}, note, target_vocab=weights.config.vocab)


def towards(weights: Weights, wanted: TransformerConfig, length: int) -> Weights:
    """Rewrite weights so that their configuration is as close to `wanted` as possible. length: rows
    of a table that replaces computed positions."""
    ours, theirs = meaning(weights.config), meaning(wanted)

    def differ(key: str, here: object, there: object) -> bool:
        return ours.get(key) == here and theirs.get(key) == there

    steps: list[tuple[bool, Callable[[Weights], Weights]]] = [
        (differ("embedding_scale", True, False), without_scale),
        (differ("sinusoid_layout", "interleaved", "halves"), in_halves),
        (not weights.config.tied and differ("target_vocab", None, ours["vocab"]), with_two_tables),
        (
            ours["segments"] == 0 and theirs["segments"] > 0,
            lambda now: with_segments(now, theirs["segments"]),
        ),
        (theirs["kv_heads"] == ours["heads"] != ours["kv_heads"], with_all_heads),
        (
            ours["positions"] in ("sinusoidal", "none") and theirs["positions"] == "learned",
            lambda now: with_table(now, length),
        ),
        *((differ(key, False, True), lambda now, key=key: with_zeros(now, key)) for key in BIASES),
    ]
    for needed, rewrite in steps:
        if needed:
            weights = rewrite(weights)
    if weights.config.tied and differ("tied", True, False):
        weights = untied(weights)
    return weights


# ---- fitting a model into a format ----


@dataclass(frozen=True)
class Fitted:
    """A model expressed in another format: its description, the rules for its tensors, and the
    rewritten weights."""

    description: Description
    plan: ImportPlan
    weights: Weights


def placeholder(shape: tuple[int, ...] = ()) -> StoredTensor:
    """A tensor with a shape, but without values."""
    return StoredTensor(shape, "", 0, lambda: torch.empty(0))


def fitted(
    weights: Weights,
    describe: Callable[[TransformerConfig, int], Description],
    read: Callable[[Description, Weights], ImportPlan],
    length: int = LENGTH,
) -> Fitted | Differences:
    """Describe a model in a format, and check that reading the description yields the same model.
    Returns the differences that rewriting cannot remove, if any."""
    wrong: Differences = {}
    for _ in range(3):  # a rewrite, such as untying the head, may change the description
        description = describe(weights.config, length)
        plan = read(description, weights)
        assert isinstance(plan.config, TransformerConfig)
        wrong = differences(weights.config, plan.config)
        if not wrong:
            return Fitted(description, plan, weights)
        weights = towards(weights, plan.config, length)
    return wrong


# ---- comparing configurations ----


def meaning(config: TransformerConfig) -> dict[str, Any]:
    """Every key that affects the output, with its effective value. Configurations that compute the
    same function have equal results."""
    c, values = config, effective(config)
    left_out = {*OF_TRAINING}
    if c.positions == "rotary":
        values |= {"rotary_high": c.rotary.high, "rotary_attention_factor": c.score_factor}
        if c.rotary_method == "linear":
            left_out |= {"rotary_length", "rotary_low", "rotary_high"}
    else:
        left_out |= {name for name in values if name.startswith("rotary_")}
    unread = {
        "max_length": c.positions != "learned",
        "first_position": c.positions not in ("learned", "sinusoidal"),
        "sinusoid_layout": c.positions != "sinusoidal",
        "relative_buckets": c.positions != "relative",
        "relative_distance": c.positions != "relative",
        "norm_bias": c.norm != "layer",
        "count_padding": c.norm != "batch",
        "decoder_layers": c.shape != "encoder-decoder",
        "pooling": c.head not in ("classify", "embed"),
        "tied": c.head not in ("language", "fill"),
    }
    left_out |= {name for name, never in unread.items() if never}
    return {name: value for name, value in values.items() if name not in left_out}


def differences(ours: TransformerConfig, theirs: TransformerConfig) -> Differences:
    """The configuration keys in which two models differ, with both values."""
    first, second = meaning(ours), meaning(theirs)
    return {
        name: (first.get(name), second.get(name))
        for name in [*first, *(name for name in second if name not in first)]
        if first.get(name) != second.get(name)
    }


def reasons(keys: Differences) -> str:
    """Differences as text for messages, without keys that only one of the models has."""
    shown = {key: both for key, both in keys.items() if None not in both} or keys
    return ", ".join(f"{key} = {ours} (there: {theirs})" for key, (ours, theirs) in shown.items())
