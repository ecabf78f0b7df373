"""The bridge of a recurrent encoder-decoder: what its decoder begins with.

Shapes: a state is (layers * directions, rows, hidden).
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.trace import NO_TRACE, Edit, NoTrace
from translucid.parts.cache import RecurrentState
from translucid.parts.computation import Index, Scope
from translucid.parts.expression import Expression, Terms, apply
from translucid.parts.recurrent import Recurrent
from translucid.parts.switch import Switch

BridgeName = Literal["project", "copy", "last", "zero"]


def make_bridge(
    name: BridgeName, d_encoder: int, hidden: int, *, bidirectional: bool, with_cell: bool
) -> "Bridge | CopyBridge | None":
    """None: the decoder begins with zeros."""
    match name:
        case "project":
            return Bridge(d_encoder, hidden, with_cell=with_cell)
        case "copy" | "last":
            return CopyBridge(top=name == "last", bidirectional=bidirectional, with_cell=with_cell)
        case "zero":
            return None


class Bridge(nn.Module):
    """The decoder's first state: tanh(W s + b) of the encoder's last, both directions joined.

    Every decoder layer starts from the encoder's top layer, so the two may differ in depth.
    """

    def __init__(self, d_encoder: int, hidden: int, *, with_cell: bool) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_encoder, hidden)
        self.cell = nn.Linear(d_encoder, hidden) if with_cell else None

    def forward(
        self, state: RecurrentState, layers: int, trace: NoTrace = NO_TRACE
    ) -> RecurrentState:
        directions = self.hidden.in_features // state.hidden.shape[-1]
        hidden = trace(
            "hidden", torch.tanh(self.hidden(_top(state.hidden, directions)))
        )  # (sources, hidden)
        cell = None
        if self.cell is not None and state.cell is not None:
            cell = trace("cell", self.cell(_top(state.cell, directions))).repeat(layers, 1, 1)
        return RecurrentState(hidden.repeat(layers, 1, 1), cell)  # cuDNN wants them contiguous

    def state_terms(self, at: Scope, layer: int, row: int, point: str, label: str) -> Terms:
        """What a layer of the decoder starts from."""
        return at.run.vector(label, at.name(point), row, None)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, d = index
        letter = point[0]
        last = _last_states(at, -1, row, point)
        total = at.linear(point, d, last, f"W_{letter}", f"b_{letter}")
        return total if point == "cell" else apply("tanh", total)

    def switches(self, path: str) -> Iterator[Switch]:
        yield _off(path, ["hidden"] + (["cell"] if self.cell is not None else []))


class CopyBridge(nn.Module):
    """The decoder's first state is the encoder's last, both directions side by side: layer by
    layer, or that of the top layer for all of them."""

    def __init__(self, *, top: bool, bidirectional: bool, with_cell: bool) -> None:
        super().__init__()
        self.top, self.directions, self.with_cell = top, 2 if bidirectional else 1, with_cell

    @property
    def variant(self) -> Variant:
        return variant(top=self.top, bidirectional=self.directions == 2)

    def forward(
        self, state: RecurrentState, layers: int, trace: NoTrace = NO_TRACE
    ) -> RecurrentState:
        hidden = trace("copied_hidden", self._copy(state.hidden, layers))
        if state.cell is None:
            return RecurrentState(_layers_first(hidden))
        cell = trace("copied_cell", self._copy(state.cell, layers))
        return RecurrentState(_layers_first(hidden), _layers_first(cell))

    def _copy(self, states: Tensor, layers: int) -> Tensor:
        """From (layers * directions, rows, hidden) to (rows, layers, hidden of the decoder)."""
        joined = states.unflatten(0, (-1, self.directions)).permute(2, 0, 1, 3).flatten(2)
        if self.top:
            joined = joined[:, -1:].expand(-1, layers, -1)
        return joined

    def state_terms(self, at: Scope, layer: int, row: int, point: str, label: str) -> Terms:
        """What a layer of the decoder starts from."""
        return at.run.vector(label, at.name(f"copied_{point}"), row, layer, None)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        row, layer, d = index
        return _last_states(at, -1 if self.top else layer, row, point.removeprefix("copied_")).at(d)

    def switches(self, path: str) -> Iterator[Switch]:
        yield _off(path, ["copied_hidden"] + (["copied_cell"] if self.with_cell else []))


def _last_states(at: Scope, layer: int, row: int, point: str) -> Terms:
    """The states of a layer of the encoder after the last token; -1: of the top layer."""
    source = at.encoder.part("recurrent")
    part = source.module
    assert isinstance(part, Recurrent)
    return part.last_states(source, layer % part.layers, row, point, point[0])


def _off(path: str, points: Sequence[str]) -> Switch:
    edit: dict[str, Edit] = {f"{path}.{point}": 0.0 for point in points}
    return Switch(path, "decoder starts from nothing", "bridge", edit)


def _layers_first(states: Tensor) -> Tensor:
    """From (rows, layers, hidden) to (layers, rows, hidden)."""
    return states.transpose(0, 1).contiguous()


def _top(layers: Tensor, directions: int) -> Tensor:
    """The top layer of (layers * directions, rows, hidden), its directions side by side."""
    return torch.cat(list(layers[-directions:]), dim=-1)
