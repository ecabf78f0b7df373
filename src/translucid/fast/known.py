"""The Transformers that `DecodeStep` can stand in for.

The step reads the weights of a decoder's parts and does by itself what they do. So each part must
be one that it knows, in a place where it expects it: a class says so itself, with `decode_slots`,
the names under which it may stand in the module around it. A subclass does not inherit this, for
it may compute something else.
"""

from torch import nn

from translucid.fast.packed_linear import Int8Linear, PackedLinear, PaddedLinear
from translucid.fast.unchanged import parts_of, unchanged
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.models.transformer import TransformerDecoder
from translucid.parts.lora import AdaptedLinear
from translucid.parts.norms import NoNorm, Residual

LINEAR = AdaptedLinear.decode_slots
# Classes of torch, and the linear layers of this folder.
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
    """The model, if its decoder and head are made of parts that the step knows, all unchanged."""
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
    """All norms stand on one side; before the sub-layers, one more stands behind the last."""
    placements = {part.placement for part in parts_of(decoder) if isinstance(part, Residual)}
    return placements == {"post"} or (
        placements == {"pre"} and type(decoder.final_norm) is not NoNorm
    )
