"""A fast decoding step of a Transformer: one token per row, without a trace.

The plain counterpart is `TransformerDecoder.step`, with the same weights, state and results. This
step reads the weights of a model but calls none of its parts, so it supports only the models that
`known` accepts. It needs fewer kernel launches and copies, and less time in Python. On a GPU, it
uses `fast.kernels` and can be captured as a graph. On a CPU, it uses `fast.cpu_kernels` if
available, else `fast.plain_kernels`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.device import has_triton
from translucid.fast import cpu_kernels, plain_kernels
from translucid.fast.layers_at_once import LayersAtOnce
from translucid.fast.packed_linear import Int8Linear, PackedLinear, PaddedLinear, of_rows
from translucid.fast.precision import Merged
from translucid.fast.unchanged import parts_of, unchanged
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.models.transformer import Layer, TransformerDecoder
from translucid.parts.attention import CrossAttention, MultiHead, SelfAttention
from translucid.parts.cache import DecoderState, EncoderOutput, KVCache, Timeline
from translucid.parts.embedding import LanguageHead
from translucid.parts.feedforward import FeedForward
from translucid.parts.lora import AdaptedLinear
from translucid.parts.norms import NoNorm, Residual
from translucid.parts.positions import Learned, Sinusoidal

ALIGNED = 64  # columns; on a GPU a product over an odd number of them is several times slower
D_HEADS = (16, 32, 64, 128)  # head sizes that the GPU kernels support


@dataclass(slots=True)
class Now:
    """Values that all layers of one step share."""

    state: DecoderState
    seen: Tensor | None  # visible slots, in the form of the kernels
    source_seen: Tensor | None
    index: Tensor | int  # slots of the newest tokens (beams,); on a CPU, only the first slot
    turn: tuple[Tensor, Tensor] | None  # cosines and sines of rotary positions
    # For few rows on a GPU, the kernel of a sub-layer's first linear layer also applies the norm
    # before it, and stores the result in `kept`; that of the last one adds the residual.
    norm: nn.Module | None = None
    kept: Tensor | None = None
    residual: Tensor | None = None


Branch = Callable[[Now, Tensor], Tensor]


class DecodeStep:
    """A fast `step` for a model that `fits`: one token per row, without padding."""

    def __init__(self, model: Any) -> None:
        self.merged = Merged(model)
        model = self.merged.model
        decoder, head = model.decoder, model.head
        assert isinstance(decoder, TransformerDecoder)
        assert isinstance(head, LanguageHead)
        self.model, self.decoder, self.head = model, decoder, head
        self.biased = decoder.positions.point == "bias"
        self.kernels = _kernels(model.device, decoder.embedding.table.weight.dtype, self.biased)
        self.table, self.factor = decoder.embedding.table.weight, decoder.embedding.factor
        self.logits_of = of_rows(head.linear)
        self.branches = self._branches()
        self.following = [norm for _, norm in self.branches[1:]] + [decoder.final_norm]
        self.last = None if isinstance(decoder.final_norm, NoNorm) else decoder.final_norm
        self.pre = decoder.blocks()[0].self_attention_residual.placement == "pre"
        self.parallel = decoder.blocks()[0].parallel
        self.at_once: LayersAtOnce | None = None
        if self.kernels is cpu_kernels and LayersAtOnce.fits(decoder):
            self.at_once = LayersAtOnce(decoder, [_scales(layer) for layer in decoder.blocks()])
        # `source_seen` is the mask of this encoder output. On a GPU it is the same tensor, so that
        # a captured graph reads its current values.
        self.encoder_output: EncoderOutput | None = None
        self.source_seen: Tensor | None = None
        self.sinusoids = torch.zeros(0)  # (positions, d_model)
        self.filled: Tensor | None = None
        if model.device.type == "cuda" and head.linear.weight.shape[0] % 8:
            weight = head.linear.weight
            self.filled = weight.new_zeros(
                -(-weight.shape[0] // ALIGNED) * ALIGNED, weight.shape[1]
            )
        self.refresh()

    @staticmethod
    def fits(model: object) -> bool:
        """Whether this step supports the model on its device."""
        network = known(model)
        if network is None or network.device.type != "cuda":
            return network is not None
        assert isinstance(network.decoder, TransformerDecoder)
        layers = network.decoder.blocks()
        if network.decoder.positions.point == "bias" or layers[0].parallel:
            return False  # the GPU kernels have no bias; parallel layers are untested in graphs
        sizes = {layer.self_attention.d_head for layer in layers}
        return sizes <= {*D_HEADS} and has_triton()

    def refresh(self) -> None:
        """Update the copies of weights, since the original weights may have been trained."""
        self.merged.refresh()
        if self.filled is not None:
            weight = self.head.linear.weight
            self.filled[: weight.shape[0]].copy_(weight.detach())

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Add new tokens (rows, 1) to the state and return their logits (rows, 1, vocab)."""
        timeline = state.timeline
        assert timeline is not None
        add_norm = self.kernels.add_norm
        positions, index = self.kernels.advance_one(timeline)
        x = self.kernels.embed(
            tokens, self.table, self.factor, positions, *self._encodings(timeline, tokens.device)
        )
        if self.decoder.embedding_norm is not None:
            x = add_norm(x, None, self.decoder.embedding_norm, keep_sum=False)
        state.length += 1
        now = self._now(state, index, positions, like=x)
        if self.at_once is not None:
            h = self.at_once(x, state, now.seen, timeline.taken - state.beams)
        elif self.parallel:
            h = self._side_by_side(now, x)
        elif x.shape[0] <= self.kernels.FEW:
            return self._few_rows(now, x)[:, None]
        elif self.pre:
            h = add_norm(x, None, self.branches[0][1], keep_sum=True)
            for (branch, _), norm in zip(self.branches, self.following, strict=True):
                h = add_norm(x, branch(now, h), norm, keep_sum=True)
        else:
            h = x
            for branch, norm in self.branches:
                h = add_norm(h, branch(now, h), norm, keep_sum=False)
            if self.last is not None:
                h = add_norm(h, None, self.last, keep_sum=False)
        if self.head.scale != 1:
            h = h * self.head.scale
        if self.filled is None:
            return self.logits_of(h)[:, None]
        logits = F.linear(h, self.filled)[:, : self.head.linear.weight.shape[0]]
        if self.head.linear.bias is not None:
            logits += self.head.linear.bias
        return logits[:, None]

    def _few_rows(self, now: Now, x: Tensor) -> Tensor:
        """The logits for few rows on a GPU, by kernels that each do as much as possible."""
        add_norm = self.kernels.add_norm
        norm: nn.Module | None = None  # still to be applied to x
        for branch, own in self.branches:
            now.norm, now.kept, now.residual = own if self.pre else norm, None, x
            if not self.pre and norm is not None:
                now.kept = now.residual = torch.empty_like(x)
            x, norm = branch(now, x), own
        if self.pre or (norm is not None and self.last is not None):
            if not self.pre:
                x = add_norm(x, None, norm, keep_sum=False)
            norm = self.last
        if self.head.scale != 1:
            x, norm = add_norm(x, None, norm, keep_sum=False) * self.head.scale, None
        return self.kernels.linear(self.head.linear, x, norm=norm)

    def _side_by_side(self, now: Now, x: Tensor) -> Tensor:
        """Apply layers with a parallel residual to x, which is changed in place; return the output
        after the final norm."""
        add_norm, count = self.kernels.add_norm, len(self.branches) // len(self.decoder.layers)
        for first in range(0, len(self.branches), count):
            *attentions, (alone, norm) = self.branches[first : first + count]
            start = add_norm(x, None, norm, keep_sum=True)
            for branch, own in attentions:
                x.add_(branch(now, add_norm(x, None, own, keep_sum=True)))
            x.add_(alone(now, start))
        return add_norm(x, None, self.decoder.final_norm, keep_sum=True)

    def _encodings(self, timeline: Timeline, device: torch.device) -> tuple[Tensor | None, int]:
        """The table of the position encodings, and the index of the first position. Sinusoids are
        computed once, for the whole capacity."""
        scheme = self.decoder.positions
        if isinstance(scheme, Learned):
            return scheme.table, scheme.first
        if not isinstance(scheme, Sinusoidal):
            return None, 0
        if self.sinusoids.shape[0] < timeline.capacity:
            every = torch.arange(timeline.capacity, device=device)
            self.sinusoids = scheme.encode(every).to(self.table.dtype)
        return self.sinusoids, 0

    def _turn(self, positions: Tensor) -> tuple[Tensor, Tensor] | None:
        """Cosines and sines for rotary positions, in float64 or, on a GPU, in float32: (rows,
        pairs)."""
        angles = self.decoder.positions.angles(positions.reshape(-1, 1))
        if angles is None:
            return None
        turns = angles.squeeze(1).cos(), angles.squeeze(1).sin()
        return (turns[0].float(), turns[1].float()) if positions.is_cuda else turns

    def _now(self, state: DecoderState, index: Tensor, positions: Tensor, like: Tensor) -> Now:
        timeline, encoder_output, kernels = state.timeline, state.encoder_output, self.kernels
        assert timeline is not None
        if encoder_output is not None and encoder_output is not self.encoder_output:
            self.encoder_output, self.source_seen = encoder_output, None
            if encoder_output.mask is not None:
                self.source_seen = kernels.visible_source(encoder_output.mask, like)
        seen = kernels.visible(timeline, like)
        if self.biased:  # added to the scores, like the mask
            keys = timeline.positions[:, : timeline.taken]
            bias = self.decoder.positions.bias(positions, keys)
            assert bias is not None
            seen = bias.to(like) if seen is None else bias.to(like) + seen
        return Now(
            state,
            seen,
            self.source_seen,
            timeline.taken - state.beams if _on_cpu(kernels) and index.dim() == 1 else index,
            self._turn(positions),
        )

    def _branches(self) -> list[tuple[Branch, nn.Module]]:
        """For each sub-layer, a function of the shared values and of its input, and the norm of the
        sub-layer."""
        branches: list[tuple[Branch, nn.Module]] = []
        for number, layer in enumerate(self.decoder.blocks()):
            own = _self(self.kernels, layer.self_attention, number)
            branches.append((own, layer.self_attention_residual.norm))
            if layer.cross_attention is not None:
                cross = _cross(self.kernels, layer.cross_attention, number)
                branches.append((cross, layer.cross_attention_residual.norm))
            alone = _alone(self.kernels, layer.feedforward)
            branches.append((alone, layer.feedforward_residual.norm))
        return branches


def _kernels(device: torch.device, dtype: torch.dtype, biased: bool) -> ModuleType:
    if device.type == "cpu" and dtype == torch.float32 and not biased and cpu_kernels.available():
        return cpu_kernels
    if device.type != "cuda":
        return plain_kernels
    from translucid.fast import kernels  # on demand: needs Triton

    return kernels


def _self(kernels: Any, part: SelfAttention, number: int) -> Branch:
    qkv_of = _linear(kernels, part.qkv, last=False)
    output_of = _linear(kernels, part.output, last=True)
    scale = _scale(part)
    turned = part.heads + part.kv_heads
    norms = [
        (heads, norm)
        for heads, norm in ((part.heads, part.query_norm), (part.kv_heads, part.key_norm))
        if norm is not None
    ]
    widths = [n * part.d_head for n in (part.heads, part.kv_heads, part.kv_heads)]

    def run(now: Now, h: Tensor) -> Tensor:
        cache = now.state.layers[number]
        assert isinstance(cache, KVCache)
        qkv = qkv_of(now, h)
        if norms:
            plain_kernels.normalise_newest(qkv, norms)
        if now.turn is not None:
            kernels.rotate_newest(qkv, *now.turn, heads=turned, d_head=part.d_head)
        q, k, v = qkv.split(widths, 1)
        mixed = kernels.attend_newest(
            q, cache.keys, cache.values, beams=now.state.beams, scale=scale, seen=now.seen,
            new=(k, v, now.index),
        )  # fmt: skip
        return output_of(now, mixed)

    return run


def _cross(kernels: Any, part: CrossAttention, number: int) -> Branch:
    query_of = _linear(kernels, part.query, last=False)
    output_of = _linear(kernels, part.output, last=True)
    scale = _scale(part)

    def run(now: Now, h: Tensor) -> Tensor:
        assert now.state.encoder_output is not None
        keys, values = now.state.encoder_output.projected[number]
        mixed = kernels.attend_newest(
            query_of(now, h), keys, values, beams=now.state.beams, scale=scale,
            seen=now.source_seen,
        )  # fmt: skip
        return output_of(now, mixed)

    return run


def _alone(kernels: Any, part: nn.Module) -> Branch:
    if not _on_cpu(kernels) or not isinstance(part, FeedForward):
        return lambda now, h: kernels.feedforward(
            part, h, norm=now.norm, kept=now.kept, residual=now.residual, split=True
        )
    expand, output, activation = of_rows(part.expand), of_rows(part.output), part.activation
    if isinstance(expand, cpu_kernels.CompiledRows) and activation is torch.relu:
        both = expand.with_relu()
        return lambda now, h: output(both(h))
    return lambda now, h: output(activation(expand(h)))


def _linear(kernels: Any, layer: nn.Module, *, last: bool) -> Branch:
    """The first or the last linear layer of a sub-layer, as a function of rows. On a GPU it is
    Translucid's kernel, on a CPU a function without the overhead of calling a module."""
    if _on_cpu(kernels):
        rows = of_rows(layer)
        return lambda now, h: rows(h)
    if last:  # its output, or the parts of it, go to `add_norm`
        return lambda now, h: kernels.linear(layer, h, residual=now.residual, split=True)
    return lambda now, h: kernels.linear(layer, h, norm=now.norm, kept=now.kept)


def _on_cpu(kernels: Any) -> bool:
    return kernels is plain_kernels or kernels is cpu_kernels


def _scales(layer: Layer) -> tuple[float, float]:
    """The factors that multiply the scores of self-attention and of cross-attention."""
    cross = layer.cross_attention
    return _scale(layer.self_attention), 1.0 if cross is None else _scale(cross)


def _scale(part: MultiHead) -> float:
    return (1 / math.sqrt(part.d_head) if part.scaled else 1.0) * part.factor


# The step computes what the parts of a decoder compute, so it must know each part and its role. The
# parts that it knows declare their roles in `decode_slots`: the names that they may have in the
# module that contains them. Subclasses, which may compute something else, do not inherit these.
# `SLOTS` adds the roles of torch's classes and of the linear layers of `fast.packed_linear`.
LINEAR = AdaptedLinear.decode_slots
SLOTS: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Linear: (*LINEAR, "base", "down", "up"),
    PaddedLinear: LINEAR,
    PackedLinear: LINEAR,
    Int8Linear: LINEAR,
    nn.Embedding: ("table",),
    nn.Dropout: ("dropout",),
    nn.ModuleList: ("layers",),
}


def known(model: object) -> DecoderModel | EncoderDecoderModel | None:
    """Return the model if the step knows all parts of its decoder and head and they are unchanged;
    else None."""
    if type(model) is not DecoderModel and type(model) is not EncoderDecoderModel:
        return None
    assert isinstance(model, DecoderModel | EncoderDecoderModel)
    decoder, head = model.decoder, model.head
    if not _fits(decoder, "decoder") or not _fits(head, "head"):
        return None
    assert isinstance(decoder, TransformerDecoder)
    modules = [model, *parts_of(decoder), *parts_of(head)]
    fits = (
        all(map(_children_fit, modules[1:]))
        and unchanged(modules)
        and decoder.window is None
        and decoder.embedding.table.max_norm is None
        and _one_placement(decoder)
    )
    return model if fits else None


def _children_fit(module: nn.Module) -> bool:
    if type(module) is nn.ModuleList:
        return all(_fits(child, "layer") for child in module)
    return all(_fits(child, name) for name, child in module._modules.items())


def _fits(part: nn.Module | None, slot: str) -> bool:
    if part is None:
        return False
    kind = type(part)
    return slot in (SLOTS.get(kind) or vars(kind).get("decode_slots", ()))


def _one_placement(decoder: TransformerDecoder) -> bool:
    """Whether all norms of the decoder have the same placement. With pre-norm, there must also be a
    final norm."""
    placements = {part.placement for part in parts_of(decoder) if isinstance(part, Residual)}
    return placements == {"post"} or (
        placements == {"pre"} and type(decoder.final_norm) is not NoNorm
    )
