"""What the gates of an LSTM do: forget, write, show. Gates are read and replaced in the trace.

Shapes: ids (rows, length); gates and states (rows, length, hidden), at one place (rows, hidden).
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from translucid.core.trace import Edit, Trace
from translucid.models import Network

LSTM = "encoder.recurrent.layers.0.lstm"
HIDDEN = 24
LEARNED = 0.9  # a net that is right less often has nothing to show


@torch.no_grad()
def gate_values(
    net: Network, ids: Tensor, edits: Mapping[str, Edit] | None = None
) -> dict[str, Tensor]:
    """Forget gate, cell and hidden state at every place."""
    points = ("forget_gate", "cell", "hidden")
    trace = Trace([f"{LSTM}.{point}" for point in points], edit=_at_lstm(edits or {}))
    net(ids, trace=trace)
    return {point: trace[f"{LSTM}.{point}"] for point in points}


def _at_lstm(edits: Mapping[str, Edit]) -> dict[str, Edit]:
    return {f"{LSTM}.{name}": edit for name, edit in edits.items()}


@torch.no_grad()
def edited_logits(net: Network, ids: Tensor, edits: Mapping[str, Edit]) -> Tensor:
    """The answers if gates are other than they are: name@place -> what to put there."""
    trace = Trace([], edit=_at_lstm(edits))
    logits: Tensor = net(ids, trace=trace)
    trace.check()
    return logits
