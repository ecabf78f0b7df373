"""LSTM and GRU, one unit, step by step; and the gradient along the cell state.

Shapes: x (1, length, 1); traced gates (1, length, 1).
"""

import pytest
import torch
from tests.worked.helpers import numbers, same

from translucid import worked
from translucid.core.trace import Trace
from translucid.models import RecurrentConfig, build
from translucid.parts.cache import RecurrentState
from translucid.parts.recurrent import Recurrent

X = numbers("1 -0.5 2")[None, :, None]


def one_unit(cell, w, u, b):
    """A cell of one unit; all biases in the first of torch's two bias vectors."""
    layer = Recurrent(cell, 1, 1).double()
    values = (numbers(w)[:, None], numbers(u)[:, None], numbers(b), 0.0 * numbers(b))
    with torch.no_grad():
        for weight, value in zip(layer.weights(0, "forward"), values, strict=True):
            weight.copy_(value)
    return layer


def steps(layer, points):
    """The traced points over the three inputs, one row per point; the fused kernel agrees."""
    trace = Trace()
    layer(X, trace=trace)
    same(layer(X)[0], trace["output"].detach())
    return torch.stack([trace[f"layers.0.{layer.cell}.{point}"][0, :, 0] for point in points])


def slope_along_the_cell(layer, length, trace=None):
    """d c_T / d c_0 with all weights at zero, so that the cell state is the only path."""
    start = torch.ones(1, 1, 1, dtype=torch.float64, requires_grad=True)
    state = RecurrentState(torch.zeros_like(start), start)
    x = torch.zeros(1, length, 1, dtype=torch.float64)
    _, after = layer(x, state=state) if trace is None else layer(x, state=state, trace=trace)
    return torch.autograd.grad(after.cell.sum(), start)[0][0, 0, 0]


@pytest.mark.parametrize(
    ("gate", "slope"),
    [(0.5, 7.888609052210118e-31), (0.9, 2.6561398887587544e-05),
     (0.99, 0.3660323412732292), (1.0, 1.0)],
)  # fmt: skip
def test_w35_the_cell_path_is_a_product_of_forget_gates(gate, slope):
    layer = one_unit("lstm", "0 0 0 0", "0 0 0 0", "0 0 0 0")
    trace = Trace(edit={"*forget_gate": gate})
    same(slope_along_the_cell(layer, 100, trace), slope, atol=0.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("bias", "gate", "slope"),
    [(0.0, 0.5, 7.888609052210118e-31), (1.0, 0.7310585786300049, 2.4843785557240134e-14)],
)
def test_w35_the_forget_bias_decides_at_the_start(bias, gate, slope):
    # "LSTMs prevent vanishing" is too strong: with gates at 1/2 nothing is left after 100 steps.
    layer = one_unit("lstm", "0 0 0 0", "0 0 0 0", [0.0, bias, 0.0, 0.0])  # i, f, g, o
    trace = Trace()
    same(slope_along_the_cell(layer, 100, trace), slope, atol=0.0, rtol=1e-9)
    same(slope_along_the_cell(layer, 100), slope, atol=0.0, rtol=1e-9)
    same(trace["layers.0.lstm.forget_gate@0"][0, 0], gate)


def test_w35_a_fresh_lstm_starts_with_forget_bias_1():
    config = RecurrentConfig(
        shape="decoder", head="language", cell="lstm", vocab=5, d_model=4, hidden=4
    )
    recurrent = next(part for part in build(config).modules() if isinstance(part, Recurrent))
    _, _, b, b_hidden = recurrent.weights(0, "forward")
    assert torch.equal((b + b_hidden).chunk(4)[1], torch.ones(recurrent.hidden))


def test_w36_lstm_three_steps():
    # The example orders its blocks f, i, o, g; torch, and so the product, i, f, g, o.
    layer = one_unit("lstm", "-0.25 0.5 0.75 1", "0.2 0.1 0.4 -0.3", "0 1 0 0")
    points = ("forget_gate", "input_gate", "output_gate", "candidate", "cell", "hidden")
    same(
        steps(layer, points),
        """0.8175744761936437 0.6834822133889192 0.8809289586433369;
        0.43782349911420193 0.5410678701675284 0.3781315013005806;
        0.7310585786300049 0.3636715847723116 0.8804006779859607;
        0.6351489523872873 -0.28738657483020635 0.9060524965790361;
        0.2780831367929218 0.034569235883238986 0.3730600317562877;
        0.19821195156978297 0.012566843269889364 0.3140084482737174""",
    )


def test_w37_gru_three_steps():
    # The example's z is the share of the NEW state, h' = (1 - z) h + z n; torch's and the product's
    # is the share of the old. σ(-a) = 1 - σ(a): negate the weights of z and read 1 - z.
    layer = one_unit("gru", "-0.25 -0.5 0.75", "0.2 -0.1 0.4", "0 0 0")  # r, z, n
    found = steps(layer, ("update_gate", "reset_gate", "candidate", "hidden"))
    found[0] = 1 - found[0]
    same(
        found,
        """0.6224593312018546 0.44757722411478734 0.7328830537254079;
        0.43782349911420193 0.55084140142631 0.38192139230103656;
        0.6351489523872873 -0.2801906685285551 0.9076827606668524;
        0.39535439211654944 0.0929958091085579 0.6900660699968442""",
    )


def test_a_solution_says_what_the_cell_carries_back_beside_the_hidden_state():
    """dL/dh and dL/dc at the first step over the last, by the chain rule written out."""
    w, u, b = numbers("0.5 -0.25 0.75 1"), numbers("0.1 0.2 0.4 -0.3"), numbers("1 0 0 0")
    h, c = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    kept = []
    for x in X[0, :, 0]:
        f, i, g, o = w * x + u * h + b
        c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        tanh = torch.tanh(c_new)
        kept.append((f, i, g, o, c, tanh))
        h, c = torch.sigmoid(o) * tanh, c_new
    dh, dc = h - 1, torch.zeros_like(h)  # of half the squared error, at target 1
    seen = []
    for f, i, g, o, before, tanh in reversed(kept):
        gate = torch.sigmoid(torch.stack([f, i, o]))
        dc = dc + dh * gate[2] * (1 - tanh**2)
        seen.append((dh.abs(), dc.abs()))
        slopes = torch.stack([
            dc * before * gate[0] * (1 - gate[0]), dc * torch.tanh(g) * gate[1] * (1 - gate[1]),
            dc * gate[1] * (1 - torch.tanh(g) ** 2), dh * tanh * gate[2] * (1 - gate[2]),
        ])  # fmt: skip
        dh, dc = (u * slopes).sum(), dc * gate[0]
    hidden, cell = (float(seen[-1][k] / seen[0][k]) for k in (0, 1))
    soon = float(seen[1][0] / seen[0][0])
    closing = worked.lstm(target="1").text().replace("\n", " ")
    assert (
        f"the gradient at the hidden state (dL/dh) shrinks to {hidden:.4f} times its size "
        f"({soon:.4f} at step 2); at the cell (dL/dc), which carries it, it shrinks to {cell:.4f} "
        "times its size."
    ) in closing
