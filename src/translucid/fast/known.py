"""The Transformers that `DecodeStep` can stand in for: what may stand where, type by type.

The step reads the weights of these parts and does by itself what they do, so a part that is
anything else, if only a subclass, is not for it.
"""

from collections.abc import Collection

from torch import nn

from translucid.fast.packed_linear import Int8Linear, PackedLinear, PaddedLinear
from translucid.fast.unchanged import parts_of, unchanged
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.models.transformer import Layer, TransformerDecoder
from translucid.parts.attention import CrossAttention, SelfAttention
from translucid.parts.embedding import Embedding, LanguageHead
from translucid.parts.feedforward import FeedForward, GatedFeedForward
from translucid.parts.lora import AdaptedLinear, LoRA
from translucid.parts.norms import LayerNorm, NoNorm, RMSNorm
from translucid.parts.positions import Alibi, Learned, NoPositions, Rotary, Sinusoidal
from translucid.parts.relative import RelativeBias
from translucid.parts.residual import Residual

Kinds = Collection[type[nn.Module]]
LINEAR: Kinds = (nn.Linear, PaddedLinear, PackedLinear, Int8Linear, AdaptedLinear)
NORM: Kinds = (LayerNorm, RMSNorm)
DROPOUT: Kinds = (nn.Dropout,)
FRAME: Kinds = (Residual,)
BIASED = (Alibi, RelativeBias)  # positions that are told apart by what is added to the scores
FEEDFORWARD = {"expand": LINEAR, "output": LINEAR, "dropout": DROPOUT}

CHILDREN: dict[type[nn.Module], dict[str, Kinds]] = {
    TransformerDecoder: {
        "embedding": (Embedding,),
        "positions": (Sinusoidal, Learned, Rotary, NoPositions, *BIASED),
        "embedding_norm": NORM,
        "dropout": DROPOUT,
        "layers": (nn.ModuleList,),
        "final_norm": (*NORM, NoNorm),
    },
    Layer: {
        "self_attention": (SelfAttention,),
        "self_attention_residual": FRAME,
        "cross_attention": (CrossAttention,),
        "cross_attention_residual": FRAME,
        "feedforward": (FeedForward, GatedFeedForward),
        "feedforward_residual": FRAME,
    },
    SelfAttention: {
        "qkv": LINEAR,
        "output": LINEAR,
        "query_norm": (RMSNorm,),
        "key_norm": (RMSNorm,),
    },
    CrossAttention: {"query": LINEAR, "kv": LINEAR, "output": LINEAR},
    Residual: {"norm": NORM, "dropout": DROPOUT},
    FeedForward: FEEDFORWARD,
    GatedFeedForward: FEEDFORWARD,
    Embedding: {"table": (nn.Embedding,)},
    RelativeBias: {"table": (nn.Embedding,)},
    LanguageHead: {"linear": LINEAR},
    AdaptedLinear: {"base": (nn.Linear,), "lora": (LoRA,)},
    LoRA: {"down": (nn.Linear,), "up": (nn.Linear,), "dropout": DROPOUT},
}


def known(model: object) -> DecoderModel | EncoderDecoderModel | None:
    """The model, if its decoder and head are made of these parts, and all of them unchanged."""
    if type(model) is not DecoderModel and type(model) is not EncoderDecoderModel:
        return None
    assert isinstance(model, DecoderModel | EncoderDecoderModel)
    decoder, head = model.decoder, model.head
    if type(decoder) is not TransformerDecoder or type(head) is not LanguageHead:
        return None
    modules = [model, *parts_of(decoder), *parts_of(head)]
    fits = (
        all(map(_children_known, modules[1:]))
        and unchanged(modules)
        and decoder.window is None
        and decoder.embedding.table.max_norm is None
        and _one_placement(decoder)
    )
    return model if fits else None


def _children_known(module: nn.Module) -> bool:
    children = module._modules.items()
    if type(module) is nn.ModuleList:
        return all(type(child) is Layer for _, child in children)
    allowed = CHILDREN.get(type(module), {})
    return all(type(child) in allowed.get(name, ()) for name, child in children)


def _one_placement(decoder: TransformerDecoder) -> bool:
    """All norms stand on one side; before the sub-layers, one more stands behind the last."""
    placements = {part.placement for part in parts_of(decoder) if isinstance(part, Residual)}
    return placements == {"post"} or (
        placements == {"pre"} and type(decoder.final_norm) is not NoNorm
    )
