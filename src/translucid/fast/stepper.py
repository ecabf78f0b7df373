"""Choose the step function of a search: the plain one with a trace, else the fastest that fits."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.decode_step import DecodeStep
from translucid.models.autoregressive import AutoregressiveModel

Step = Callable[[Tensor, Any], Tensor]  # the newest tokens (rows, 1) and the state to logits


def stepper(model: AutoregressiveModel[Any], trace: NoTrace = NO_TRACE) -> Step:
    """The step function for states of this model; all have the same results up to rounding."""
    if trace is not NO_TRACE:
        return partial(model.step, trace=trace)
    return DecodeStep(model).step if DecodeStep.fits(model) else model.step
