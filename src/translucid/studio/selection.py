"""What is kept of a text that was read: all of it, or as much as there is room for."""

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

BUDGET = 2**28  # bytes of a run that are kept; what is larger is computed again when asked for


class Selection(KernelReading):
    """Meets every point, and keeps as many as there is room for: what stands outside of the layers
    and takes a sixteenth of it at most, and what goes from layer to layer; then small ones before
    large ones, weights of attention before the tables they come from, late layers before early
    ones. Where the weights of all heads have no room, attention goes by the fused kernel."""

    def __init__(self, opened: PageModel, example: Example, edit: Mapping[str, Edit]) -> None:
        model = opened.model
        # By hand: what is kept of it must be the same numbers, whatever else is kept.
        super().__init__(
            model.network, model.task, example, edit=edit, budget_bytes=None, by_hand=True
        )
        self.by_kernel = pattern_bytes(model.network, example) > BUDGET
        self.inputs = LayerInputs(model.network)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.logits: Tensor | None = None
        self._output = model.network.output_point
        self._last: dict[str, tuple[Any, ...]] = {}  # of what is kept: the largest goes first
        self._held: set[int] = set()

    def read(self) -> None:
        """Let the network read the text."""
        with torch.no_grad(), self.inputs.noted() if self.by_kernel else nullcontext():
            self.network(**self.example.inputs_for(self.network), trace=self)
        self._make_room()

    def wants(self, *names: str) -> bool:
        return super().wants(*names) if self.by_kernel else True

    def keeps(self, name: str, position: int | None, value: Tensor) -> None:
        shape = tuple(value.shape)
        if position is not None:
            # A backward reader begins at the last position and ends at the first.
            steps = max(position + 1, self.shapes[name][1] if name in self.shapes else 0)
            shape = (shape[0], steps, *shape[1:])
        if self.by_kernel:
            self.shapes |= passed_over_before(name, self.shapes, self.network)
        known = name in self.shapes
        self.shapes[name] = shape
        if name == self._output and position is None:
            self.logits = value
        if known and name not in self:
            return  # there was no room for its first steps
        super().keeps(name, position, value)
        size = math.prod(shape)
        later = "layers" in name.split(".") or size > BUDGET // 64
        self._last[name] = later, size, not name.endswith(".pattern"), -len(self.shapes)
        # A small one may go into the next layer, which is known only then.
        self._make_room(spare=name if size <= BUDGET // 16 else None)

    def _make_room(self, spare: str | None = None) -> None:
        while self.bytes > BUDGET:
            gone = max(self._last.keys() - {spare}, key=self._last.__getitem__)
            rank, value = self._last.pop(gone), self[gone]
            if rank[0] and self.inputs.goes_in(value) and id(value) not in self._held:
                self._held.add(id(value))  # for the next layer anyway; one name of it is enough
                self._last[gone] = False, *rank[1:]
            else:
                self.drop(gone)
