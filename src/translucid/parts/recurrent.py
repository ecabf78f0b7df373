"""Recurrent layers: a cell applied position after position.

The weights live in torch's own RNN, LSTM or GRU module, so they load from one and into one as
they are. When nobody looks, torch's fused kernel runs; when someone does, the cells below run,
one step at a time, with every gate in the open. Both give the same numbers and gradients.

Shapes: x (batch, length, inputs); hidden and cell (batch, hidden) within a step.
Conventions are torch's: the GRU's reset gate acts after the recurrent product, and its update gate
says how much of the OLD state stays.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.catalogue import Variant, variant
from translucid.core.trace import NO_TRACE, NoTrace
from translucid.parts.activations import SYMBOLS
from translucid.parts.cache import RecurrentState
from translucid.parts.dropout import make_dropout
from translucid.parts.recurrent_kernel import CellName as CellName
from translucid.parts.recurrent_kernel import run_layer, run_stack

Weights = tuple[
    Tensor, Tensor, Tensor, Tensor
]  # W (blocks * hidden, inputs), U, b and b' as torch keeps them
Step = tuple[Tensor, Tensor | None]  # hidden, and for an LSTM the cell
Stack = dict[tuple[int, str], Weights]  # by layer and direction


def rnn_step(
    x: Tensor,
    state: Step,
    weights: Weights,
    trace: NoTrace = NO_TRACE,
    act: Callable[[Tensor], Tensor] = torch.tanh,
) -> Step:
    """h' = tanh(W x + U h + b). Elman 1990."""
    w, u, b, b_hidden = weights
    total = trace("preactivation", F.linear(x, w, b) + F.linear(state[0], u, b_hidden))
    return trace("hidden", act(total)), None


def rnn_relu_step(x: Tensor, state: Step, weights: Weights, trace: NoTrace = NO_TRACE) -> Step:
    """h' = relu(W x + U h + b)."""
    return rnn_step(x, state, weights, trace, torch.relu)


def lstm_step(x: Tensor, state: Step, weights: Weights, trace: NoTrace = NO_TRACE) -> Step:
    """f, i, o = σ(W x + U h + b); g = tanh(W x + U h + b); c' = f ⊙ c + i ⊙ g; h' = o ⊙ tanh(c').

    Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """
    hidden, cell = state
    assert cell is not None, "an LSTM needs a cell state"
    w, u, b, b_hidden = weights
    total = F.linear(x, w, b) + F.linear(hidden, u, b_hidden)  # (batch, 4 * hidden)
    input_sum, forget_sum, candidate_sum, output_sum = total.chunk(4, dim=-1)
    forget = trace("forget_gate", torch.sigmoid(trace("forget_sum", forget_sum)))
    write = trace("input_gate", torch.sigmoid(trace("input_sum", input_sum)))
    candidate = trace("candidate", torch.tanh(trace("candidate_sum", candidate_sum)))
    show = trace("output_gate", torch.sigmoid(trace("output_sum", output_sum)))
    cell = trace("cell", forget * cell + write * candidate)
    return trace("hidden", show * torch.tanh(cell)), cell


def gru_step(x: Tensor, state: Step, weights: Weights, trace: NoTrace = NO_TRACE) -> Step:
    """r, z = σ(W x + U h + b); n = tanh(W x + b + r ⊙ (U h + b')); h' = (1 - z) ⊙ n + z ⊙ h. Cho
    et al. 2014."""
    hidden = state[0]
    w, u, b, b_hidden = weights
    from_x, from_h = F.linear(x, w, b), F.linear(hidden, u, b_hidden)  # (batch, 3 * hidden)
    x_reset, x_update, x_candidate = from_x.chunk(3, dim=-1)
    h_reset, h_update, h_candidate = from_h.chunk(3, dim=-1)
    reset = trace("reset_gate", torch.sigmoid(trace("reset_sum", x_reset + h_reset)))
    update = trace("update_gate", torch.sigmoid(trace("update_sum", x_update + h_update)))
    candidate_sum = trace("candidate_sum", x_candidate + reset * h_candidate)
    candidate = trace("candidate", torch.tanh(candidate_sum))
    return trace("hidden", (1 - update) * candidate + update * hidden), None


STEPS: dict[CellName, Callable[[Tensor, Step, Weights, NoTrace], Step]] = {
    "rnn": rnn_step,
    "rnn_relu": rnn_relu_step,
    "lstm": lstm_step,
    "gru": gru_step,
}
INSIDE: dict[CellName, tuple[str, ...]] = {
    "rnn": ("preactivation", "hidden"),
    "rnn_relu": ("preactivation", "hidden"),
    "lstm": (
        "forget_sum", "input_sum", "candidate_sum", "output_sum",
        "forget_gate", "input_gate", "candidate", "output_gate", "cell", "hidden",
    ),
    "gru": (
        "reset_sum", "update_sum", "candidate_sum",
        "reset_gate", "update_gate", "candidate", "hidden",
    ),
}  # fmt: skip


class Recurrent(nn.Module):
    """A stack of recurrent layers, in one or both directions.

    `dropout` acts between layers, `locked` as LockedDropout does. `weight_dropout` sets that
    fraction of U to 0 for a whole pass, so that the way from state to state is thinned alike at
    every position. Merity et al. 2018, https://arxiv.org/abs/1708.02182
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
            inputs,
            hidden,
            layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if layers > 1 else 0.0,
            **options,
        )
        self.between = make_dropout(dropout, locked=locked)
        self.locked, self.weight_dropout = locked, weight_dropout

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        state: RecurrentState | None = None,
        trace: NoTrace = NO_TRACE,
    ) -> tuple[Tensor, RecurrentState]:
        """Outputs of the top layer (batch, length, directions * hidden), and the state after the
        last token.

        Where `mask` (batch, length) is False, on either side or in between, the state passes
        unchanged and the output is zero.
        """
        state = state or self.zero_state(x.shape[0], x)
        if x.shape[1] == 0:  # no token in any text: nothing happens, and kernels want some
            nothing = x.new_zeros(x.shape[0], 0, len(self.directions) * self.hidden)
            return trace("output", nothing), state
        looked_at = any(
            self._scope(trace, layer, way).wants(*INSIDE[self.cell])
            for layer in range(self.layers)
            for way in self.directions
        )
        weights = self._thinned()
        output, after = (
            self._unroll(x, mask, state, weights, trace)
            if looked_at
            else self._fuse(x, mask, state, weights)
        )
        return trace("output", output), after

    @property
    def variant(self) -> Variant:
        act = SYMBOLS["relu" if self.cell == "rnn_relu" else "tanh"]
        return variant(symbols={"act": act}, bidirectional=len(self.directions) > 1)

    def zero_state(self, rows: int, like: Tensor) -> RecurrentState:
        zeros = like.new_zeros(self.layers * len(self.directions), rows, self.hidden)
        return RecurrentState(zeros, zeros.clone() if self.cell == "lstm" else None)

    def weights(self, layer: int, way: str) -> Weights:
        """The weights of one layer and direction, as the step functions take them."""
        suffix = f"l{layer}" + ("_reverse" if way == "backward" else "")
        names = ("weight_ih_", "weight_hh_", "bias_ih_", "bias_hh_")
        w, u, b, b_hidden = (getattr(self.fused, name + suffix) for name in names)
        return w, u, b, b_hidden

    def _thinned(self) -> Stack:
        """The weights of one pass: while training, part of each U is 0."""
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
        part = "rnn" if self.cell == "rnn_relu" else self.cell
        one_way = len(self.directions) == 1
        return trace.at(f"layers.{layer}.{part}" if one_way else f"layers.{layer}.{way}.{part}")

    # ---- by hand: one step at a time, every gate in the open ----

    def _unroll(
        self,
        x: Tensor,
        mask: Tensor | None,
        state: RecurrentState,
        weights: Stack,
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
        self, x: Tensor, mask: Tensor | None, now: Step, way: str, weights: Weights, scope: NoTrace
    ) -> tuple[Tensor, Step]:
        """One layer in one direction."""
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

    # ---- torch's kernel ----

    def _fuse(
        self, x: Tensor, mask: Tensor | None, state: RecurrentState, weights: Stack
    ) -> tuple[Tensor, RecurrentState]:
        if mask is None:
            return self._kernel(x, None, state, weights)

        # The kernel wants the real tokens of each row first; put them there, and back afterwards.
        order = (~mask).long().argsort(dim=1, stable=True)[..., None]  # (batch, length, 1)
        lengths = mask.sum(dim=1)
        justified, ran = self._kernel(
            x.gather(1, order.expand_as(x)),
            lengths.clamp(
                min=1
            ).cpu(),  # an empty row is run for one step, and that step is dropped below
            state,
            weights,
        )
        output = torch.zeros_like(justified).scatter(1, order.expand_as(justified), justified)
        filled = (lengths > 0)[None, :, None]
        hidden = torch.where(filled, ran.hidden, state.hidden)
        cell = (
            None
            if ran.cell is None or state.cell is None
            else torch.where(filled, ran.cell, state.cell)
        )
        return output * mask[..., None], RecurrentState(hidden, cell)

    def _kernel(
        self, x: Tensor, lengths: Tensor | None, state: RecurrentState, weights: Stack
    ) -> tuple[Tensor, RecurrentState]:
        """All layers in one call; one after the other where torch's own dropout is not meant."""
        if not self.training or not (self.locked or self.weight_dropout):
            return run_stack(self.fused, x, lengths, state)
        ways = len(self.directions)
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for layer in range(self.layers):
            rows = slice(layer * ways, (layer + 1) * ways)
            before = RecurrentState(
                state.hidden[rows], None if state.cell is None else state.cell[rows]
            )
            flat = [tensor for way in self.directions for tensor in weights[layer, way]]
            x, after = run_layer(self.cell, flat, x, lengths, before)
            hiddens.append(after.hidden)
            cells += [] if after.cell is None else [after.cell]
            if layer < self.layers - 1:
                x = self.between(x)
        return x, RecurrentState(torch.cat(hiddens), torch.cat(cells) if cells else None)
