"""Recurrent layers: a cell applied position by position.

The weights are stored in torch's RNN, LSTM or GRU module. Without a trace, torch's fused kernel
runs; with one, the steps of `recurrent_cells` run, one token at a time, with every gate in the
trace. Both give the same numbers and gradients.

Shapes: x (batch, length, inputs); hidden and cell (batch, hidden) within a step.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.trace import NO_TRACE, Edit, NoTrace
from translucid.parts.activations import SYMBOLS
from translucid.parts.cache import RecurrentState
from translucid.parts.computation import Index, Scope
from translucid.parts.dropout import make_dropout
from translucid.parts.expression import Expression, Terms, apply, constant, dot, joined
from translucid.parts.recurrent_cells import (
    BLOCKS,
    GATES,
    INSIDE,
    STEPS,
    SUMS,
    CellName,
    Packed,
    Rows,
    Step,
    Weights,
    run_layer,
    run_stack,
)
from translucid.parts.switch import Switch, in_words

Stack = dict[tuple[int, str], Weights]  # weights by layer and direction


class Recurrent(nn.Module):
    """A stack of recurrent layers, in one or both directions.

    `dropout` acts between layers; with `locked`, one mask is used for all positions
    (LockedDropout). `weight_dropout` sets a fraction of the recurrent weights U to 0, the same ones
    at every position (DropConnect; Merity et al. 2018, https://arxiv.org/abs/1708.02182).
    """

    def __init__(
        self,
        cell: CellName,
        inputs: int,
        hidden: int,
        layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
        locked: bool = False,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.cell: CellName = cell
        self.hidden, self.layers = hidden, layers
        self.directions = ("forward", "backward") if bidirectional else ("forward",)
        kind = {"rnn": nn.RNN, "rnn_relu": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
        options = {"nonlinearity": "relu"} if cell == "rnn_relu" else {}
        self.fused: nn.RNNBase = kind(
            inputs, hidden, layers, batch_first=True, bidirectional=bidirectional,
            dropout=dropout if layers > 1 else 0.0, **options,
        )  # fmt: skip
        self.between = make_dropout(dropout, locked=locked)
        self.locked, self.weight_dropout = locked, weight_dropout
        self.packed: dict[tuple[int, str], Packed] = {}  # for decoding: see `pack`
        self.always_packed = False

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        state: RecurrentState | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> tuple[Tensor, RecurrentState]:
        """Return the outputs of the top layer (batch, length, directions * hidden) and the state
        after the last token. Where `mask` (batch, length) is False, the state is unchanged and
        the output is zero.
        """
        state = state or self.zero_state(x.shape[0], x)
        if x.shape[1] == 0:  # torch's kernels need at least one token
            nothing = x.new_zeros(x.shape[0], 0, len(self.directions) * self.hidden)
            return trace("output", nothing), state
        if self.packed and x.shape[1] == 1 and mask is None and trace is NO_TRACE:
            return self._one(x[:, 0], state)
        looked_at = any(
            self._scope(trace, layer, way).wants(*INSIDE[self.cell])
            for layer in range(self.layers)
            for way in self.directions
        )
        weights = self._thinned()
        if self.packed and (self.always_packed or x.shape[1] == 1):
            output, after = self._unroll(x, mask, state, self.packed, trace)
        elif looked_at:
            output, after = self._unroll(x, mask, state, weights, trace)
        else:
            output, after = self._fuse(x, mask, state, weights)
        return trace("output", output), after

    @property
    def variant(self) -> Variant:
        act = SYMBOLS["relu" if self.cell == "rnn_relu" else "tanh"]
        return variant(symbols={"act": act}, bidirectional=len(self.directions) > 1)

    def zero_state(self, rows: int, like: Tensor) -> RecurrentState:
        zeros = like.new_zeros(self.layers * len(self.directions), rows, self.hidden)
        return RecurrentState(zeros, zeros.clone() if self.cell == "lstm" else None)

    def weights(self, layer: int, way: str) -> Weights:
        """The weights of one layer and direction, as the step functions expect them."""
        suffix = f"l{layer}" + ("_reverse" if way == "backward" else "")
        names = ("weight_ih_", "weight_hh_", "bias_ih_", "bias_hh_")
        w, u, b, b_hidden = (getattr(self.fused, name + suffix) for name in names)
        return w, u, b, b_hidden

    def pack(self, pack: Callable[[nn.Linear], Rows], *, exact: bool) -> None:
        """Use packed copies of the weights: for single tokens if they are `exact`, since torch's
        kernel is faster for whole texts; else always, so that all lengths have the same result."""
        self.always_packed = not exact
        for layer in range(self.layers):
            for way in self.directions:
                w, u, b, b_hidden = self.weights(layer, way)
                packed = (pack(_linear(w, b)), pack(_linear(u, b_hidden)))
                self.packed[layer, way] = (*packed, None, None)

    def kind(self) -> str:
        """The name of this stack's cells in trace points, such as lstm."""
        return "rnn" if self.cell == "rnn_relu" else self.cell

    def cells(self, layer: int) -> list[str]:
        """The scopes of a layer's cells within this part, one for each direction."""
        if len(self.directions) == 1:
            return [f"layers.{layer}.{self.kind()}"]
        return [f"layers.{layer}.{way}.{self.kind()}" for way in self.directions]

    def _thinned(self) -> Stack:
        """The weights for one forward pass. In training, weight dropout has set a fraction of each
        U to 0."""
        stack = {
            (n, way): self.weights(n, way) for n in range(self.layers) for way in self.directions
        }
        if not self.training or self.weight_dropout == 0:
            return stack
        return {
            place: (w, F.dropout(u, self.weight_dropout), b, b_hidden)
            for place, (w, u, b, b_hidden) in stack.items()
        }

    def _scope(self, trace: NoTrace, layer: int, way: str) -> NoTrace:
        return trace.at(self.cells(layer)[self.directions.index(way)])

    # ---- step by step, with every gate in the trace ----

    def _unroll(
        self,
        x: Tensor,
        mask: Tensor | None,
        state: RecurrentState,
        weights: Mapping[tuple[int, str], Weights | Packed],
        trace: NoTrace,
    ) -> tuple[Tensor, RecurrentState]:
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for layer in range(self.layers):
            outputs = []
            for way in self.directions:
                row = len(hiddens)
                start = (state.hidden[row], None if state.cell is None else state.cell[row])
                output, (hidden, cell) = self._run(
                    x, mask, start, way, weights[layer, way], self._scope(trace, layer, way)
                )
                outputs.append(output)
                hiddens.append(hidden)
                cells += [] if cell is None else [cell]
            x = torch.cat(outputs, dim=-1)
            if layer < self.layers - 1:
                x = self.between(x)
        return x, RecurrentState(torch.stack(hiddens), torch.stack(cells) if cells else None)

    def _run(
        self,
        x: Tensor,
        mask: Tensor | None,
        now: Step,
        way: str,
        weights: Weights | Packed,
        scope: NoTrace,
    ) -> tuple[Tensor, Step]:
        """Run one layer in one direction, step by step."""
        step = STEPS[self.cell]
        times = range(x.shape[1]) if way == "forward" else range(x.shape[1] - 1, -1, -1)
        outputs: dict[int, Tensor] = {}
        for t in times:
            hidden, cell = step(x[:, t], now, weights, scope.step(t))
            if mask is None:
                outputs[t] = hidden
            else:
                here = mask[:, t, None]  # (batch, 1)
                outputs[t] = hidden * here
                hidden = torch.where(here, hidden, now[0])
                cell = None if cell is None or now[1] is None else torch.where(here, cell, now[1])
            now = (hidden, cell)
        return torch.stack([outputs[t] for t in range(x.shape[1])], dim=1), now

    def _one(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """`_unroll` for one token with packed weights, in less time. x: (batch, inputs)"""
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for layer in range(self.layers):
            outputs = []
            for way in self.directions:
                row = len(hiddens)
                start = (state.hidden[row], None if state.cell is None else state.cell[row])
                hidden, cell = STEPS[self.cell](x, start, self.packed[layer, way], NO_TRACE)
                outputs.append(hidden)
                hiddens.append(hidden)
                cells += [] if cell is None else [cell]
            x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
        after = RecurrentState(torch.stack(hiddens), torch.stack(cells) if cells else None)
        return x[:, None], after

    # ---- torch's kernel ----

    def _fuse(
        self, x: Tensor, mask: Tensor | None, state: RecurrentState, weights: Stack
    ) -> tuple[Tensor, RecurrentState]:
        if mask is None:
            return self._kernel(x, None, state, weights)

        # The kernel requires the real tokens of each row first. An empty row is run for one step,
        # whose result is discarded below.
        order = (~mask).long().argsort(dim=1, stable=True)[..., None]  # (batch, length, 1)
        lengths = mask.sum(dim=1)
        sorted_x = x.gather(1, order.expand_as(x))
        justified, ran = self._kernel(sorted_x, lengths.clamp(min=1).cpu(), state, weights)
        output = torch.zeros_like(justified).scatter(1, order.expand_as(justified), justified)
        filled = (lengths > 0)[None, :, None]
        hidden = torch.where(filled, ran.hidden, state.hidden)
        cell = None
        if ran.cell is not None and state.cell is not None:
            cell = torch.where(filled, ran.cell, state.cell)
        return output * mask[..., None], RecurrentState(hidden, cell)

    def _kernel(
        self, x: Tensor, lengths: Tensor | None, state: RecurrentState, weights: Stack
    ) -> tuple[Tensor, RecurrentState]:
        """Run all layers in one call of torch's kernel, or layer by layer if that kernel does not
        support the dropout."""
        if not self.training or not (self.locked or self.weight_dropout):
            return run_stack(self.fused, x, lengths, state)
        ways = len(self.directions)
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for layer in range(self.layers):
            rows = slice(layer * ways, (layer + 1) * ways)
            before_cell = None if state.cell is None else state.cell[rows]
            before = RecurrentState(state.hidden[rows], before_cell)
            flat = [tensor for way in self.directions for tensor in weights[layer, way]]
            x, after = run_layer(self.cell, flat, x, lengths, before)
            hiddens.append(after.hidden)
            cells += [] if after.cell is None else [after.cell]
            if layer < self.layers - 1:
                x = self.between(x)
        return x, RecurrentState(torch.cat(hiddens), torch.cat(cells) if cells else None)

    # ---- switches and terms ----

    def switches(self, path: str) -> Iterator[Switch]:
        for number in range(self.layers):
            layer = f"{path}.layers.{number}"
            scopes = [f"{path}.{cell}" for cell in self.cells(number)]
            silent: dict[str, Edit] = {f"{scope}.hidden": 0.0 for scope in scopes}
            yield Switch(layer, f"{in_words(layer)} is silent", "layers", silent, layer=number)
            for scope in scopes if len(scopes) > 1 else ():
                way, off = scope.rpartition(".")[0], f"{scope}.hidden"
                yield Switch(way, f"{in_words(way)} is silent", "layers", {off: 0.0}, layer=number)
            for scope in scopes:
                place = in_words(scope.rpartition(".")[0])
                for (gate, value), does in GATES.get(self.cell, {}).items():
                    point = f"{scope}.{gate}_gate"
                    yield Switch(
                        f"{point}={value:.0f}", f"{place}, {gate} gate = {value:.0f} ({does})",
                        "gates", {point: value}, layer=number,
                    )  # fmt: skip

    def states_at(self, at: Scope, layer: int, row: int, place: int, label: str) -> Terms:
        """The states of a layer at one position, both directions concatenated; 0 at padding."""
        if not at.is_token(row, place):
            return at.run.zeros(label, self.hidden * len(self.directions))
        names = (f"{at.path}.{cell}.hidden" for cell in self.cells(layer))
        return joined(*(at.run.vector(label, name, row, place, None) for name in names))

    def last_states(self, at: Scope, layer: int, row: int, point: str, label: str) -> Terms:
        """The states of a layer after the last token, both directions concatenated."""
        length = at.run.tensor(at.ids).shape[1]
        ends: list[Terms] = []
        for cell, way in zip(self.cells(layer), self.directions, strict=True):
            backward = way == "backward"
            place = at.token_before(row, -1 if backward else length, backward=backward)
            ends.append(
                at.run.zeros(label, self.hidden)
                if place is None
                else at.run.vector(label, f"{at.path}.{cell}.{point}", row, place, None)
            )
        return joined(*ends)

    def terms(self, at: Scope, point: str, index: Index) -> Expression:
        if at.scope == at.path:
            row, place, d = index
            return self.states_at(at, self.layers - 1, row, place, "h").at(d)
        if point in SUMS:
            letter = "_n" if (self.cell, point) == ("gru", "candidate_sum") else SUMS[point]
            return self._sum_terms(at, index, letter)
        match self.cell, point:
            case "rnn" | "rnn_relu", "hidden":
                act = "relu" if self.cell == "rnn_relu" else "tanh"
                return apply(act, at.number("preactivation", *index))
            case "lstm", "cell":
                before = self._state_before(at, index, "cell", "c_before").at(index[2])
                old = at.number("forget_gate", *index) * before
                new = at.number("input_gate", *index) * at.number("candidate", *index)
                return old + new
            case "lstm", "hidden":
                shown = apply("tanh", at.number("cell", *index))
                return at.number("output_gate", *index) * shown
            case "gru", "hidden":
                stays = at.number("update_gate", *index)
                new = (constant("1", 1) - stays) * at.number("candidate", *index)
                before = self._state_before(at, index, "hidden", "h_before").at(index[2])
                return new + stays * before
            case _, "candidate":
                return apply("tanh", at.number("candidate_sum", *index))
        return apply("sigmoid", at.number(point.replace("_gate", "_sum"), *index))

    def _sum_terms(self, at: Scope, index: Index, letter: str) -> Expression:
        """One value of W x + U h + b for the gate with this letter. In torch, b is the sum of two
        stored vectors."""
        row = BLOCKS[self.kind()].index(letter) * self.hidden + index[2]
        end = f"l{_layer(at)}" + ("_reverse" if ".backward." in at.scope else "")
        x, state = self._below(at, index), self._state_before(at, index, "hidden", "h_before")
        from_x = dot(at.weights(f"W{letter}", f"fused.weight_ih_{end}", row, None), x)
        from_h = dot(at.weights(f"U{letter}", f"fused.weight_hh_{end}", row, None), state)
        bias = at.weight(f"b{letter}", f"fused.bias_ih_{end}", row)
        if letter == "_n":
            other = at.weight("b_hn", f"fused.bias_hh_{end}", row)
            reset = at.number("reset_gate", *index)
            return at.run.total(from_x, bias, reset * at.run.total(from_h, other))
        other = at.weight(f"b{letter}", f"fused.bias_hh_{end}", row)
        return at.run.total(from_x, from_h, bias, other)

    def _below(self, at: Scope, index: Index) -> Terms:
        """The input vector of a layer at this token."""
        row, place, _ = index
        layer = _layer(at)
        if layer:
            return self.states_at(at, layer - 1, row, place, "x")
        return at.inputs(row, place, None)

    def _state_before(self, at: Scope, index: Index, point: str, label: str) -> Terms:
        """The state that a layer has before it reads this token: its state after the previous token
        or, at the first token, the initial state."""
        row, place, _ = index
        last = at.token_before(row, place, backward=".backward." in at.scope)
        if last is not None:
            return at.run.vector(label, at.name(point), row, last, None)
        reader = at.parent
        if isinstance(reader.module, InitialState):
            first = reader.module.initial_terms(reader, _layer(at), row, point, label)
            if first is not None:
                return first
        return at.run.zeros(label, self.hidden)


@runtime_checkable
class InitialState(Protocol):
    """A module that contains a recurrent stack and defines its initial state."""

    def initial_terms(
        self, at: Scope, layer: int, row: int, point: str, label: str
    ) -> Terms | None:
        """The hidden or cell state (`point`) from which a layer starts; None means zeros."""
        ...


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    return linear


def _layer(at: Scope) -> int:
    """The index of the layer whose cell traces under this scope."""
    return int(at.scope.partition(".layers.")[2].partition(".")[0])
