"""The same model through torch.compile, where that works."""

from collections.abc import Callable

import torch
from torch import nn


class Compiled(nn.Module):
    """Called like the model. Where it cannot be compiled (no compiler, say) the first call finds
    out, says so, and the plain model goes on."""

    def __init__(self, model: nn.Module, say: Callable[[str], None]) -> None:
        super().__init__()
        self._call: Callable[..., torch.Tensor] = self._first_call
        self._plain, self._say = [model], say  # in a list: its weights belong to one module only

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return self._call(**inputs)

    def _first_call(self, **inputs: torch.Tensor) -> torch.Tensor:
        fast = torch.compile(self._plain[0].forward, dynamic=True)
        try:
            outputs = fast(**inputs)
            self._call = fast
        except Exception as error:
            outputs = self._plain[0](**inputs)  # a fault of the model itself shows here
            self._call = self._plain[0].__call__
            reason = str(error).strip().splitlines()[0][:200]
            self._say(f"torch.compile does not work here, going on without ({reason})")
        return outputs
