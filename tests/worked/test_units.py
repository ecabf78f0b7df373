"""Single units and thin chains: slopes, clipping, the threshold unit, stacked affine layers."""

import itertools

import pytest
import torch
from tests.worked.helpers import mlp, numbers, same
from torch.nn.utils import clip_grad_norm_

from translucid.core.trace import Trace
from translucid.models import PerceptronConfig, build
from translucid.parts.activations import ACTIVATIONS

CORNERS = numbers("0 0; 0 1; 1 0; 1 1")
XOR = numbers("0 1 1 0")


def slopes(name, x):
    return torch.func.vmap(torch.func.grad(ACTIVATIONS[name]))(x)


def test_w34_largest_slope_of_each_activation():
    x = torch.linspace(-8, 8, 1601, dtype=torch.float64)  # has 0 and 5
    same(slopes("sigmoid", x).max(), 0.25)
    same(slopes("relu", x).max(), 1.0)
    same(slopes("sigmoid", numbers([5.0])), [0.006648056670790033])
    # The source says that the slope of tanh is below 1; it reaches 1 at 0.
    same(slopes("tanh", x).max(), 1.0)
    same(slopes("tanh", numbers([0.0])), [1.0])


@pytest.mark.parametrize(
    ("depth", "power"), [(5, 0.0009765625), (10, 9.5367431640625e-07), (20, 9.094947017729282e-13)]
)
def test_w34_slope_through_a_chain_of_sigmoids(depth, power):
    # Unit weights; each bias takes off σ(0) = 1/2, so every unit stands where it is steepest.
    chain = [([1.0], [0.0]), *[([1.0], [-0.5])] * (depth - 1)]
    model = mlp(*chain, ([1.0], [0.0]), inputs=1, activation="sigmoid")
    slope = torch.func.jacrev(model)(numbers([0.0]))
    same(slope, [[power]], atol=0.0, rtol=1e-9)
    relu = mlp(*[([1.0], [0.0])] * (depth + 1), inputs=1)
    same(torch.func.jacrev(relu)(numbers([1.0])), [[1.0]])


def test_w38_clipping_leaves_a_small_gradient_alone():
    model = mlp(("0 0", [0.0]), inputs=2)
    weight = model.output.linear.weight
    small, large = numbers("3e-7 4e-7")[None], numbers("30 40")[None]

    # The source offers clipping against vanishing gradients; it is an upper bound only.
    weight.grad = small.clone()
    same(clip_grad_norm_(model.parameters(), max_norm=1.0), 5e-7, atol=0.0, rtol=1e-9)
    same(weight.grad, small, atol=0.0)

    weight.grad = large.clone()
    same(clip_grad_norm_(model.parameters(), max_norm=1.0), 50.0)
    # torch divides by the norm + 1e-6, which is why [0.6, 0.8] is not met to 1e-9.
    same(weight.grad, large / (50 + 1e-6))
    same(weight.grad, numbers("0.6 0.8")[None], atol=2e-8)


@pytest.mark.parametrize("wanted", ["0 0 0 1", "0 1 1 1"], ids=["and", "or"])
def test_w41_the_perceptron_learns_and_and_or(wanted):
    unit = build(PerceptronConfig(inputs=2)).double()
    mistakes = [unit.learn(CORNERS, numbers(wanted)) for _ in range(20)]
    assert mistakes[0] > 0
    assert mistakes[-1] == 0
    same(unit(CORNERS), wanted)


@pytest.mark.slow
def test_w41_xor_is_beyond_one_threshold_unit():
    unit = build(PerceptronConfig(inputs=2)).double()
    assert all(unit.learn(CORNERS, XOR) > 0 for _ in range(100))

    weights = torch.linspace(-2, 2, 17, dtype=torch.float64)
    biases = torch.linspace(-3, 3, 25, dtype=torch.float64)
    best = 0
    for w1, w2, b in itertools.product(weights, weights, biases):
        unit.weight.copy_(torch.stack([w1, w2]))
        unit.bias.copy_(b)
        best = max(best, int((unit(CORNERS) == XOR).sum()))
    assert best == 3, "of 4"


def test_w41_xor_with_two_relu_units():
    trace = Trace()
    out = mlp(("1 1; 1 1", "0 -1"), ("1 -2", [0.0]), inputs=2)(CORNERS, trace)
    same(trace["layers.0.dense.activation"], "0 0; 1 0; 1 0; 2 1")
    same(out[:, 0], XOR)


def test_w42_stacked_affine_layers_collapse():
    first, second = ("1 2; 0 -1; 3 1", "1 0 -1"), ("2 0 1; 1 -1 0", "0.5 2")
    stacked = mlp(first, second, inputs=2, activation="identity")
    x = numbers("1 -2; 0.3 4")
    same(stacked(x), "-3.5 -2; 23 15.3")
    same(torch.func.jacrev(stacked)(x[0]), "5 5; 1 3")
    same(torch.func.jacrev(stacked)(x[1]), "5 5; 1 3")
    same(stacked(numbers("0 0")), "1.5 3")
    same(mlp(("5 5; 1 3", "1.5 3"), inputs=2)(x), "-3.5 -2; 23 15.3")
    # An activation in between makes the slope depend on x: nothing to collapse.
    bent = mlp(first, second, inputs=2, activation="relu")
    slopes_at = [torch.func.jacrev(bent)(point) for point in x]
    assert not torch.allclose(*slopes_at)
