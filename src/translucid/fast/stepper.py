"""Which step a search takes: the plain one when anyone looks, else the fastest that fits.

Generation asks here, and nowhere else.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from translucid.fast.decode_step import DecodeStep
from translucid.fast.unchanged import parts_of, unchanged
from translucid.models.autoregressive import AutoregressiveModel
from translucid.models.base import DecoderModel, EncoderDecoderModel
from translucid.models.transformer import TransformerDecoder
from translucid.trace import NO_TRACE, NoTrace

Step = Callable[[Tensor, Any], Tensor]  # the newest tokens (rows, 1) and the state to logits


def stepper(model: AutoregressiveModel[Any], trace: NoTrace = NO_TRACE) -> Step:
    """How to take one step after the other from the state that a model has started. The same
    numbers whichever it is, up to rounding."""
    if trace is not NO_TRACE:
        return partial(model.step, trace=trace)
    return DecodeStep(model).step if DecodeStep.fits(model) else model.step


def can_be_captured(model: AutoregressiveModel[Any], trace: NoTrace = NO_TRACE) -> bool:
    """Whether a whole search of this model can be replayed as CUDA graphs."""
    return (
        trace is NO_TRACE
        and isinstance(model, DecoderModel | EncoderDecoderModel)
        and model.device.type == "cuda"
        and isinstance(model.decoder, TransformerDecoder)
        and unchanged(parts_of(model))
    )
