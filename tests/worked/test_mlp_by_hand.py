"""The 3-2-1 network that the source differentiates by hand, with L = (y - ŷ)² / 2.

Shapes: x (batch, 3); hidden (batch, 2).
"""

import pytest
import torch
from tests.worked.helpers import mlp, numbers, prints_as, same

from translucid.core.trace import Trace

X, Y = numbers("1 0 2")[None], 3.0
W, B, V, C = "1 -1 0; 0 2 1", "0 1", "2 -1", [0.0]
W1, B1, V1, C1 = "1.16 -1 0.32; -0.08 2 0.84", "0.16 0.92", "2.08 -0.76", [0.08]
ETA = 0.02


def network(w=W, b=B, v=V, c=C):
    return mlp((w, b), (v, c), inputs=3)


def loss_of(model, trace=None):
    """The loss on the one sample, and ŷ."""
    y_hat = model(X, trace)[0, 0] if trace is not None else model(X)[0, 0]
    return (Y - y_hat) ** 2 / 2, y_hat


def weights(model):
    hidden, output = model.layers[0].linear, model.output.linear
    return hidden.weight, hidden.bias, output.weight, output.bias


def test_w07_forward_pass_at_step_0():
    trace = Trace()
    loss, y_hat = loss_of(network(), trace)
    same(trace["layers.0.dense.preactivation"], numbers("1 3")[None])
    same(trace["layers.0.dense.activation"], numbers("1 3")[None])
    same(y_hat, -1.0)
    same(loss, 8.0)
    (delta,) = torch.autograd.grad(loss, y_hat)
    same(delta, -4.0)


def test_w08_gradients_by_backpropagation():
    model, trace = network(), Trace()
    loss, _ = loss_of(model, trace)
    hidden = trace["layers.0.dense.activation"]
    *gradients, of_hidden = torch.autograd.grad(loss, [*weights(model), hidden])
    for gradient, wanted in zip(
        gradients, ["-8 0 -16; 4 0 8", "-8 4", numbers("-4 -12")[None], [-4.0]], strict=True
    ):
        same(gradient, wanted)

    # The printed formula dL/dv = δ v is wrong, though its numbers are right: dL/dv = δ h, and
    # δ v = [-8, 4] is dL/dh.
    same(of_hidden, numbers("-8 4")[None])
    assert not torch.allclose(gradients[2], of_hidden)
    same(-4.0 * hidden, gradients[2])


def test_w09_one_step_of_gradient_descent():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=ETA)
    loss_of(model)[0].backward()
    optimizer.step()
    for weight, wanted in zip(weights(model), [W1, B1, numbers(V1)[None], C1], strict=True):
        same(weight, wanted)


def test_w10_forward_pass_after_the_step():
    trace = Trace()
    loss, y_hat = loss_of(network(W1, B1, V1, C1), trace)
    same(trace["layers.0.dense.preactivation"], numbers("1.96 2.52")[None])
    same(trace["layers.0.dense.activation"], numbers("1.96 2.52")[None])
    same(y_hat, 2.2416)
    same(loss, 0.28758528)
    assert prints_as(loss, 0.2876, 4)


SWEEP = {  # eta: losses; predictions; active units
    0.001: """8 7.357816260608 6.768417373785993 6.227136719210187 5.729784781861478
        5.272589754740209 4.852147008540492;
        -1 -0.836096 -0.6792437738714713 -0.5290612687257747 -0.3851986003369073
        -0.24733421585774232 -0.1151715871009392; 2 2 2 2 2 2 2""",
    0.02: """8 0.28758528 0.009709576233656043 0.0002803543903998847 7.813891698862153e-06
        2.1643191313102638e-07 5.9885349485128746e-09;
        -1 2.2416 2.86064738083799 2.97632070987551 2.9960468008654098
        2.999342076124265 2.9998905601996664; 2 2 2 2 2 2 2""",
    0.025: """8 0.0008 4.825155848e-07 2.608900378456558e-10 1.4144606907916328e-13
        7.668257275350222e-17 4.157220983141005e-20;
        -1 3.04 2.99901764 3.000022842505898 2.999999468123945
        3.000000012384068 2.9999999997116524; 2 2 2 2 2 2 2""",
    0.04: """8 2.89538048 1.080766955704471 0.14172475559151257 0.026667256034683482
        0.004082088289025418 0.0006765125257663692;
        -1 5.4064 1.5297843996852225 3.5323997663251037 2.769057340299877
        3.0903558331158028 2.9632165111560536; 2 2 2 2 2 2 2""",
    0.05: """8 7.8408 6.189167344509388 0.20787666686739836 0.01663471092717846
        0.0006488348934215141 3.095974900447022e-05;
        -1 6.96 -0.51828576 3.64478937160502 2.817600926936684
        3.036023184018671 2.992131105667952; 2 2 2 2 2 2 2""",
    0.1: """8 65.4368 7.008768 5.67710208 4.5984526848 3.724746674688 3.01704480649728;
        -1 14.44 -0.744 -0.3696 -0.03264 0.270624 0.5435616; 2 2 0 0 0 0 0""",
    0.2: """8 377.5752 29.614208 18.95309312 12.1299795968 7.763186941952 4.96843964284928;
        -1 30.48 -4.696 -3.1568 -1.92544 -0.940352 -0.1522816; 2 1 0 0 0 0 0""",
}


@pytest.mark.parametrize("eta", SWEEP)
def test_w11_learning_rate_sweep(eta):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=eta)
    seen = []
    for _ in range(7):
        trace = Trace()
        loss, y_hat = loss_of(model, trace)
        active = (trace["layers.0.dense.preactivation"] > 0).sum()
        seen.append(torch.stack([loss, y_hat, active.double()]).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = torch.stack(seen, dim=1)
    same(found, SWEEP[eta])
    if eta >= 0.1:  # no unit is active from step 2 on: only c learns, by (1 - eta)² a step
        same(found[0, 3:] / found[0, 2:-1], numbers([(1 - eta) ** 2] * 4))


def test_w12_the_loss_is_not_piecewise_linear():
    pairs = [loss_of(network(b=[b_1, 1.0])) for b_1 in (0.0, 1.0, 2.0)]
    losses, outputs = (torch.stack(column) for column in zip(*pairs, strict=True))
    same(outputs, "-1 1 3")
    same(losses, "8 2 0")
    same(outputs.diff(n=2), [0.0])
    # The source calls the loss piecewise linear; it is piecewise quadratic.
    same(losses.diff(n=2), [4.0])

    # Nor does relu make W x + b non-negative: it leaves z alone and makes h non-negative.
    trace = Trace()
    network()(-X, trace)
    same(trace["layers.0.dense.preactivation"], numbers("-1 -1")[None])
    same(trace["layers.0.dense.activation"], numbers("0 0")[None])


def test_w13_loss_of_a_batch():
    y_hat = network()(numbers("1 0 2; 0 1 1; -1 2 0"))[:, 0]
    same(y_hat, "-1 -4 -5")
    same((numbers("3 1 -2") - y_hat).square().mean() / 2, 8.333333333333334)
