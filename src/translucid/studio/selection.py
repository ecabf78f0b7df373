"""The trace of a run: all points, or as many as fit into memory."""

import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from translucid.core.trace import Edit
from translucid.studio.layer_inputs import (
    KernelReading,
    LayerInputs,
    passed_over_before,
    pattern_bytes,
)
from translucid.studio.page_model import PageModel
from translucid.tasks.example import Example

BUDGET = 2**28  # bytes kept per run; the rest is computed again when requested


class Selection(KernelReading):
    """A trace that meets every point and keeps as many as fit into the budget.

    Points outside the layers that need at most a sixteenth of the budget come first, together with
    the layers' inputs; then small points before large ones, attention weights before the tables
    they come from, and late layers before early ones. If the weights of all heads do not fit,
    attention uses the fused kernel.
    """

    def __init__(self, opened: PageModel, example: Example, edit: Mapping[str, Edit]) -> None:
        model = opened.model
        # by_hand: the numbers of a point must not depend on which other points are kept.
        super().__init__(
            model.network, model.task, example, edit=edit, budget_bytes=None, by_hand=True
        )
        self.by_kernel = pattern_bytes(model.network, example) > BUDGET
        self.inputs = LayerInputs(model.network)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.logits: Tensor | None = None
        self._output = model.network.output_point
        self._last: dict[str, tuple[Any, ...]] = {}  # rank of kept points; the largest is dropped
        self._held: set[int] = set()

    def read(self) -> None:
        """Run the network on the text."""
        with torch.no_grad(), self.inputs.noted() if self.by_kernel else nullcontext():
            self.network(**self.example.inputs_for(self.network), trace=self)
        self._make_room()

    def wants(self, *names: str) -> bool:
        return super().wants(*names) if self.by_kernel else True

    def keeps(self, name: str, position: int | None, value: Tensor) -> None:
        shape = tuple(value.shape)
        if position is not None:
            # A backward layer starts at the last position.
            steps = max(position + 1, self.shapes[name][1] if name in self.shapes else 0)
            shape = (shape[0], steps, *shape[1:])
        if self.by_kernel:
            self.shapes |= passed_over_before(name, self.shapes, self.network)
        known = name in self.shapes
        self.shapes[name] = shape
        if name == self._output and position is None:
            self.logits = value
        if known and name not in self:
            return  # its first steps did not fit
        super().keeps(name, position, value)
        size = math.prod(shape)
        later = "layers" in name.split(".") or size > BUDGET // 64
        self._last[name] = later, size, not name.endswith(".pattern"), -len(self.shapes)
        # A small point may be the input of the next layer, which is not known yet.
        self._make_room(spare=name if size <= BUDGET // 16 else None)

    def _make_room(self, spare: str | None = None) -> None:
        while self.bytes > BUDGET:
            gone = max(self._last.keys() - {spare}, key=self._last.__getitem__)
            rank, value = self._last.pop(gone), self[gone]
            if rank[0] and self.inputs.goes_in(value) and id(value) not in self._held:
                self._held.add(id(value))  # a layer's input stays in memory anyway
                self._last[gone] = False, *rank[1:]
            else:
                self.drop(gone)
