"""Choose the function that runs the steps of a search: with a trace the plain one, otherwise the
fastest that supports the model."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.decode_step import DecodeStep
from translucid.models.autoregressive import AutoregressiveModel

Step = Callable[[Tensor, Any], Tensor]  # (newest tokens (rows, 1), state) -> logits


def stepper(model: AutoregressiveModel[Any], trace: NoTrace = NO_TRACE) -> Step:
    """The step function for a model. All step functions have the same results up to rounding."""
    if trace is not NO_TRACE:
        return partial(model.step, trace=trace)
    return DecodeStep(model).step if DecodeStep.fits(model) else model.step
