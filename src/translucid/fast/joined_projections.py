"""Keys and values of an encoder's output for all layers of a decoder, by one matrix multiplication.

Layer by layer there would be as many, and as many gradients of the encoder's output to add up. The
plain twin is `TransformerDecoder.project`.
"""

from contextlib import AbstractContextManager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.unchanged import swapped
from translucid.models.base import Encoded
from translucid.models.transformer import TransformerDecoder
from translucid.parts.attention import CrossAttention
from translucid.parts.cache import EncoderOutput


class JoinedProjections:
    """Within `used()` the decoders of a network project like that."""

    def __init__(self, network: nn.Module) -> None:
        """Decoders with parts that are not exactly ours are left alone."""
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
