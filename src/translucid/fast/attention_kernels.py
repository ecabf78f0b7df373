"""Faster attention in training on a GPU: choose kernels, and join projections."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.device import has_triton
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.unchanged import swapped
from translucid.models.base import Encoded
from translucid.models.transformer import TransformerDecoder
from translucid.parts.attention import CrossAttention, SelfAttention
from translucid.parts.cache import EncoderOutput

_LOCK = Lock()
_inside, _before = 0, True  # active callers of `without_plans`, and the setting before the first


@contextmanager
def without_plans(device: torch.device) -> Iterator[None]:
    """Within the block, disable cuDNN's attention on a GPU. cuDNN prepares a plan for every new
    batch shape, which takes 0.4 s. With these plans, training steps of a small Transformer took
    eleven times as long.

    The setting belongs to the process. It is restored when the last thread leaves its block.
    """
    global _inside, _before
    if device.type != "cuda":
        yield
        return
    with _LOCK:
        if _inside == 0:
            _before = torch.backends.cuda.cudnn_sdp_enabled()
            torch.backends.cuda.enable_cudnn_sdp(False)
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                torch.backends.cuda.enable_cudnn_sdp(_before)


@contextmanager
def with_plans(wanted: bool) -> Iterator[None]:
    """If `wanted`, enable cuDNN's attention within the block (inside `without_plans`), for a batch
    shape that recurs often."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(before or wanted)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


class ShortRows:
    """Within `used()`, attention over short rows is computed by `short_attention`, except in
    subclasses of the library's attention."""

    def __init__(self, network: nn.Module) -> None:
        kinds = (SelfAttention, CrossAttention)
        self._parts = [part for part in network.modules() if type(part) in kinds]

    @staticmethod
    def fit(device: torch.device) -> bool:
        return device.type == "cuda" and has_triton()

    @contextmanager
    def used(self) -> Iterator[None]:
        from translucid.fast.short_attention import short_attention  # on demand: needs Triton

        for part in self._parts:
            vars(part)["kernel"] = short_attention
        try:
            yield
        finally:
            for part in self._parts:
                del vars(part)["kernel"]


class JoinedProjections:
    """Within `used()`, a decoder computes the keys and values of all its cross-attention layers by
    one matrix multiplication.

    The plain counterpart is `TransformerDecoder.project`. A decoder that contains subclasses of the
    library's parts still uses it.
    """

    def __init__(self, network: nn.Module) -> None:
        decoders = [part for part in network.modules() if type(part) is TransformerDecoder]
        self._decoders = [decoder for decoder in decoders if _fits(decoder)]

    def used(self) -> AbstractContextManager[None]:
        return swapped(self._decoders, "project", _project)


def _attentions(decoder: TransformerDecoder) -> list[CrossAttention]:
    attentions = (layer.cross_attention for layer in decoder.blocks())
    return [attention for attention in attentions if attention is not None]


def _fits(decoder: TransformerDecoder) -> bool:
    attentions = _attentions(decoder)
    plain = all(
        type(a) is CrossAttention and type(a.kv) is nn.Linear and not a.kv._forward_hooks
        for a in attentions
    )
    return plain and len({(a.kv.weight.shape, a.kv.bias is None) for a in attentions}) == 1


def _project(
    decoder: TransformerDecoder, encoded: Encoded, trace: NoTrace = NO_TRACE
) -> EncoderOutput:
    attentions = _attentions(decoder)
    first = attentions[0]
    biases = tuple(a.kv.bias for a in attentions if a.kv.bias is not None)
    weight = torch.cat(tuple(a.kv.weight for a in attentions))
    joined = F.linear(encoded.outputs, weight, torch.cat(biases) if biases else None)
    heads = joined.unflatten(-1, (2 * len(attentions), first.kv_heads, first.d_head)).unbind(2)
    turned: list[Tensor] = [projected.transpose(1, 2) for projected in heads]
    return EncoderOutput(list(zip(turned[::2], turned[1::2], strict=True)), encoded.mask)
