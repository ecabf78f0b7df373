"""Which step a search takes: the plain one when anyone looks, else the fastest that fits.

Generation asks here, and nowhere else.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from translucid.core.trace import NO_TRACE, NoTrace
from translucid.fast.decode_step import DecodeStep
from translucid.models.autoregressive import AutoregressiveModel

Step = Callable[[Tensor, Any], Tensor]  # the newest tokens (rows, 1) and the state to logits


def stepper(model: AutoregressiveModel[Any], trace: NoTrace = NO_TRACE) -> Step:
    """How to take one step after the other from the state that a model has started. The same
    numbers whichever it is, up to rounding."""
    if trace is not NO_TRACE:
        return partial(model.step, trace=trace)
    return DecodeStep(model).step if DecodeStep.fits(model) else model.step
