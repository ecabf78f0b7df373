"""One decoding step of a Transformer with nothing in the way: one token a row, and nobody looks.

The same weights, the same state, the same numbers as `TransformerDecoder.step`, which is its plain
twin. What it saves is launches, copies and Python: on a GPU it runs on the kernels of
`parts.kernels` and is made to be captured as a graph; elsewhere on those of `parts.plain_kernels`.
"""

import math
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.models.transformer import TransformerDecoder
from translucid.parts import plain_kernels
from translucid.parts.attention import CrossAttention, MultiHead, SelfAttention
from translucid.parts.cache import DecoderState, KVCache
from translucid.parts.embedding import LanguageHead
from translucid.parts.norms import LayerNorm, RMSNorm
from translucid.parts.positions import Alibi, Rotary
from translucid.trace import NO_TRACE

ALIGNED = 64  # columns; on a GPU a product over an odd number of them is several times slower
D_HEADS = (16, 32, 64, 128)  # for which the GPU's kernels are made

Branch = Callable[[Tensor], Tensor]


class LeanStep:
    """`step` of a model, for one token in each row, none of them padding."""

    def __init__(self, model: DecoderModel | EncoderDecoderModel) -> None:
        decoder, head = model.decoder, model.head
        assert isinstance(decoder, TransformerDecoder)
        assert isinstance(head, LanguageHead)
        self.model, self.decoder, self.head = model, decoder, head
        self.kernels = _kernels(model.device)
        self.layers = decoder.each()
        self.pre = self.layers[0].self_attention_residual.placement == "pre"
        self.filled: Tensor | None = None
        weight = head.linear.weight
        if model.device.type == "cuda" and weight.shape[0] % 8:
            self.filled = weight.new_zeros(
                -(-weight.shape[0] // ALIGNED) * ALIGNED, weight.shape[1]
            )
        self.refresh()

    @staticmethod
    def fits(model: object) -> bool:
        """Whether this model can be stepped like that on its device."""
        if not isinstance(model, DecoderModel | EncoderDecoderModel) or model.training:
            return False
        decoder = model.decoder
        if not isinstance(decoder, TransformerDecoder):
            return False
        first = decoder.each()[0]
        on_gpu = model.device.type == "cuda"
        return (
            isinstance(model.head, LanguageHead)
            and isinstance(first.self_attention_residual.norm, LayerNorm | RMSNorm)
            and not isinstance(decoder.positions, Alibi)
            and decoder.window is None
            and (not on_gpu or first.self_attention.d_head in D_HEADS)
            and (not on_gpu or find_spec("triton") is not None)
        )

    def refresh(self) -> None:
        """Take over the weights of which a copy is kept; they may have been trained since."""
        if self.filled is not None:
            weight = self.head.linear.weight
            self.filled[: weight.shape[0]].copy_(weight.detach())

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Logits (rows, 1, vocab) for the newest tokens (rows, 1); the state moves on."""
        timeline = state.timeline
        assert timeline is not None
        positions = timeline.counts.clone()  # (sources, beams)
        index = timeline.advance_one()
        state.length += 1
        folded = tokens.view(-1, state.beams)
        x = self.decoder.embed(folded, positions, NO_TRACE).reshape(tokens.shape[0], -1)
        branches = self._branches(state, index, self._turn(positions), like=x)
        add_norm = self.kernels.add_norm
        if self.pre:
            following = [norm for _, norm in branches[1:]] + [self.decoder.final_norm]
            h = add_norm(x, None, branches[0][1], keep_sum=True)
            for (branch, _), norm in zip(branches, following, strict=True):
                h = add_norm(x, branch(h), norm, keep_sum=True)
        else:
            h = x
            for branch, norm in branches:
                h = add_norm(h, branch(h), norm, keep_sum=False)
        if self.filled is None:
            return self.head(h)[:, None]
        logits = F.linear(h, self.filled)[:, : self.head.linear.weight.shape[0]]
        if self.head.linear.bias is not None:
            logits += self.head.linear.bias
        return logits[:, None]

    def _turn(self, positions: Tensor) -> tuple[Tensor, Tensor] | None:
        """Cosines and sines for rotary positions, in float64: (rows, d_head / 2)."""
        if not isinstance(self.decoder.positions, Rotary):
            return None
        angles = self.decoder.positions.angles(positions.reshape(-1, 1)).squeeze(1)
        return angles.cos(), angles.sin()

    def _branches(
        self,
        state: DecoderState,
        index: Tensor,
        turn: tuple[Tensor, Tensor] | None,
        *,
        like: Tensor,
    ) -> list[tuple[Branch, nn.Module]]:
        """Every sub-layer as a function of its input, and its norm."""
        assert state.timeline is not None
        kernels: Any = self.kernels
        seen = kernels.visible(state.timeline, like)
        memory, memory_seen = state.memory, None
        if memory is not None and memory.mask is not None:
            memory_seen = kernels.visible_memory(memory.mask, like)
        found: list[tuple[Branch, nn.Module]] = []
        for number, layer in enumerate(self.layers):
            cache = state.layers[number]
            assert isinstance(cache, KVCache)
            own = partial(
                _self, kernels, layer.self_attention, cache, state.beams, seen, index, turn
            )
            found.append((own, layer.self_attention_residual.norm))
            if layer.cross_attention is not None:
                assert memory is not None
                cross = partial(
                    _cross, kernels, layer.cross_attention, memory.projected[number], state.beams,
                    memory_seen,
                )  # fmt: skip
                found.append((cross, layer.cross_attention_residual.norm))
            found.append((
                partial(kernels.feedforward, layer.feedforward), layer.feedforward_residual.norm
            ))  # fmt: skip
        return found


def lean_step(model: Any) -> LeanStep | None:
    """The lean step of a model, if it has one."""
    return LeanStep(model) if LeanStep.fits(model) else None


def _kernels(device: torch.device) -> ModuleType:
    if device.type != "cuda":
        return plain_kernels
    from translucid.parts import kernels  # here, since it needs Triton

    return kernels


def _self(
    kernels: Any,
    part: SelfAttention,
    cache: KVCache,
    beams: int,
    seen: Tensor | None,
    index: Tensor,
    turn: tuple[Tensor, Tensor] | None,
    h: Tensor,
) -> Tensor:
    qkv = kernels.linear(part.qkv, h)
    if turn is not None:
        kernels.rotate_newest(qkv, *turn, heads=part.heads + part.kv_heads)
    q, k, v = qkv.split([n * part.d_head for n in (part.heads, part.kv_heads, part.kv_heads)], 1)
    mixed = kernels.attend_newest(
        q, cache.keys, cache.values, beams=beams, scale=_scale(part), seen=seen, new=(k, v, index)
    )
    return kernels.linear(part.output, mixed)


def _cross(
    kernels: Any,
    part: CrossAttention,
    memory: tuple[Tensor, Tensor],
    beams: int,
    seen: Tensor | None,
    h: Tensor,
) -> Tensor:
    query = kernels.linear(part.query, h)
    mixed = kernels.attend_newest(query, *memory, beams=beams, scale=_scale(part), seen=seen)
    return kernels.linear(part.output, mixed)


def _scale(part: MultiHead) -> float:
    return 1 / math.sqrt(part.d_head) if part.scaled else 1.0
