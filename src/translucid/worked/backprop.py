"""Back through a network with one hidden layer: every gradient as a teacher writes it.

The formulas stand here; the numbers are autograd's, on the real model.
"""

import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.parts.activations import ACTIVATIONS, SYMBOLS, ActivationName
from translucid.worked.board import Board
from translucid.worked.descent import gradient, write_update
from translucid.worked.net import Net

_SLOPES: dict[ActivationName, str] = {
    "identity": "1",
    "sigmoid": r"\sigma(<z>) \odot (1 - \sigma(<z>))",
    "tanh": r"1 - \tanh(<z>)^2",
    "relu": r"\mathbf{1}(<z> > 0)",
    "gelu": "",  # no short form
    "silu": "",
    "gelu_tanh": "",
    "quick_gelu": "",
    "relu_squared": r"2 \max(0, <z>)",
}


def backward(board: Board, net: Net, trace: Trace, loss: Tensor, target: Tensor) -> None:
    """From the loss back to every parameter; fills their `.grad` for the step that follows."""
    z, h = trace["layers.0.dense.preactivation"], trace["layers.0.dense.activation"]
    out = trace["output.dense.preactivation"]
    d_out, d_h, d_z = (g[0] for g in torch.autograd.grad(loss, [out, h, z], retain_graph=True))
    (slope,) = torch.autograd.grad(ACTIVATIONS[net.activation](z).sum(), z, retain_graph=True)
    loss.backward()
    values: dict[str, Tensor | str] = {
        "x": net.x, "h": h[0].detach(), "z": z[0].detach(), "y": target, "out": out[0].detach(),
        "v": net.weights()[net.out], "delta": d_out, "dh": d_h, "dz": d_z, "slope": slope[0],
    }  # fmt: skip
    act = SYMBOLS[net.activation]
    symbols = {"delta": r"\delta", "out": r"\hat{y}", "slope": f"{act}'(z)", "v": net.out}
    symbols |= {"dh": gradient("h"), "dz": gradient("z")}

    def write(symbol: str, title: str, template: str, value: Tensor, name: str) -> None:
        board.step(title, symbol, template, value, values, symbols=symbols, name=name)

    def grad(of: str, title: str, template: str, value: Tensor) -> None:
        write(gradient(of), f"Gradient of ${of}$: {title}", template, value, f"dL/d{of}")

    slopes = net.slopes()
    board.section = "Backward"
    title = "Delta: how far the output is off, the gradient of the loss with respect to it"
    write(r"\delta", title, "<out> - <y>", d_out, "delta")
    template = "<delta> <h>" if net.one else r"<delta> <h>^{\top}"
    grad(net.out, "the error times what came in", template, slopes[net.out])
    grad("c", "the error itself", "<delta>", slopes["c"])
    template = "<delta> <v>" if net.one else r"<v>^{\top} <delta>"
    grad("h", "the error, sent back through the weights", template, d_h)
    title = "Slope of the activation at $z$"
    write(symbols["slope"], title, _SLOPES[net.activation], slope[0], "slope")
    grad("z", "through the activation, entry by entry", r"<dh> \odot <slope>", d_z)
    grad("W", "every pair of error and input", r"<dz> <x>^{\top}", slopes["W"])
    grad("b", "the same without the input", "<dz>", slopes["b"])


def descend(board: Board, net: Net, rate: Tensor) -> None:
    """One step of torch's own SGD, written down."""
    board.section = "One step of gradient descent"
    before, slopes = net.weights(), net.slopes()
    torch.optim.SGD(net.model.parameters(), lr=rate.item()).step()
    for name, after in net.weights().items():
        write_update(board, name, before[name], slopes[name], rate, after)
