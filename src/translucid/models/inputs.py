"""Check the arguments of a network, with clearer messages than torch's."""

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import NoTrace
from translucid.models.autoregressive import GenerationInputs
from translucid.parts.embedding import out_of_range


def are_packed(*token_masks: Tensor | None) -> bool:
    """Whether all these masks hold the number of each token's text, instead of True and False
    (sequence packing)."""
    return all(isinstance(m, Tensor) and m.dtype is torch.long for m in token_masks)


def check_ids(
    ids: Tensor, mask: Tensor | None, vocab: int, what: str = "ids", *, packed: bool = False
) -> None:
    """Check that ids (batch, length) are below `vocab` and that the mask has the same shape.
    packed: whether the mask holds the number of each token's text."""
    if not isinstance(ids, Tensor) or ids.dtype not in (torch.long, torch.int):
        kind = f"a tensor of {ids.dtype}" if isinstance(ids, Tensor) else f"{type(ids).__name__}"
        raise InputError(f"{what}: got {kind}; expected a tensor of whole numbers (torch.long)")
    if ids.dim() != 2:
        raise InputError(
            f"{what} has shape {tuple(ids.shape)}; expected (batch, length); for one text use "
            f"{what}[None] or {what}.view(1, -1)"
        )
    if mask is not None:
        if not packed and (not isinstance(mask, Tensor) or mask.dtype != torch.bool):
            raise InputError(
                f"the mask of {what} must be boolean, True at real tokens, False at padding"
            )
        if mask.shape != ids.shape:
            raise InputError(
                f"the mask of {what} has shape {tuple(mask.shape)}, but {what} has shape "
                f"{tuple(ids.shape)}; make the two equal"
            )
    if (wrong := out_of_range(ids, vocab)) is not None:
        raise InputError(f"{what} contains {wrong}, but the vocabulary has ids 0 to {vocab - 1}")


def check_numbers(x: Tensor, inputs: int) -> None:
    """Check that x is floating-point (batch, inputs)."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = f"a tensor of {x.dtype}" if isinstance(x, Tensor) else f"{type(x).__name__}"
        raise InputError(f"x: got {kind}; expected a tensor of floating-point numbers")
    if x.dim() < 1 or x.shape[-1] != inputs:
        raise InputError(
            f"x has shape {tuple(x.shape)}, but the model takes {inputs} "
            f"input{'s' if inputs > 1 else ''}: (batch, {inputs})"
        )


def check_generation(inputs: GenerationInputs, *, with_source: bool) -> None:
    """Check that the inputs contain sources if `with_source` (for an encoder-decoder), and none
    otherwise."""
    if not isinstance(inputs, GenerationInputs):
        raise InputError(
            f"start() got {type(inputs).__name__}; expected GenerationInputs(rows), or for an "
            "encoder-decoder GenerationInputs.of(source, mask)"
        )
    if with_source and inputs.source is None:
        raise InputError("an encoder-decoder needs sources; pass GenerationInputs.of(source, mask)")
    if not with_source and inputs.source is not None:
        raise InputError("a decoder reads no source; pass GenerationInputs(rows)")


def check_trace(trace: NoTrace) -> None:
    """Raise an error if the argument `trace` of a call is not a trace."""
    if not isinstance(trace, NoTrace):
        raise InputError(f"trace = {trace!r} is not a Trace; pass one, such as trace=Trace()")
