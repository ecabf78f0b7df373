"""Input feeding: a recurrent decoder is told what its attention gave at the token before.

    x_t = [embedding_t; output_{t-1}]

So no position can be computed before the one in front of it is done, and a known target is read in
a loop. Luong, Pham & Manning 2015, https://arxiv.org/abs/1508.04025, section 3.3

Shapes: within the loop (rows, 1, features), as in a step; kept as (rows, features) for position t.
"""

from collections.abc import Collection

from torch import Tensor

from translucid.core.trace import NoTrace


class OneStep(NoTrace):
    """A trace for parts that read one token of a loop: what they write is for position t, but for
    the `known` points, which are the same at all of them and were written before the loop."""

    def __init__(self, trace: NoTrace, position: int, known: Collection[str] = ()) -> None:
        self._trace, self._position, self._known = trace, position, known

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if name in self._known:
            return value
        step = self._trace.step(self._position)
        if value.shape[1] != 1:  # several beams of a source
            return step(name, value)
        return step(name, value.squeeze(1)).unsqueeze(1)

    def at(self, scope: str) -> NoTrace:
        return OneStep(self._trace.at(scope), self._position, self._known)

    def step(self, position: int) -> NoTrace:
        """For a cell, whose loop has one token."""
        return self._trace.step(self._position + position)

    def wants(self, *names: str) -> bool:
        return self._trace.wants(*names)
