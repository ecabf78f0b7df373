"""The experiments on norms in training: their rules, their measuring, their pictures."""

import numpy as np
import pytest
import torch
from tests.lab.families import JITTER, judge, measured, rule_test

from translucid_lab.claims import experiments, training_with_norms
from translucid_lab.claims.small_nets import Deep, mean_square, smooth_target
from translucid_lab.claims.training_with_norms import ARMS, BATCHES, DEPTH, GAINS, KINDS, NORMS


def gradients(layer=0.0, batch=0.0, layer_residual=0.0, batch_residual=0.0, spread=0.1):
    """Powers of ten between the first block and the last."""
    orders = dict(zip(KINDS, (9, layer, batch, 9, layer_residual, batch_residual), strict=True))
    return [
        {kind: [[10 ** (order + spread * j), *[1.0] * (DEPTH - 1)] for _ in GAINS]
         for kind, order in orders.items()}
        for j in JITTER
    ]  # fmt: skip


def test_c66_at_every_scale_of_the_weights():
    data = gradients()
    for each in data:
        each["layer norm"][-1][0] = 1e4  # the largest first weights alone
    found = judge("C66", data)
    assert found.verdict == "depends"
    assert "fails: layer norm" in found.why


def new_data(layer, batch, radius=(0.0, 0.0), spread=0.001):
    """By how much the loss on new data is higher than without a norm, by batch size."""
    return [
        {
            "goal": 0.3,
            "none": {"signs": [1.0, 1.0, 1.0], "radius": 1.0},
            "layer": {"signs": [1 + each + spread * j for each in layer], "radius": 1 + radius[0]},
            "batch": {"signs": [1 + each + spread * j for each in batch], "radius": 1 + radius[1]},
        }
        for j in JITTER
    ]


LESS, MORE = [-0.1] * 3, [0.1] * 3


def shaken(gentle, hard=1.0, *, plain=1.0, gentle_drift=0.08, hard_drift=0.4, spread=0.01):
    loss = dict(zip(ARMS, (plain, 0.2, gentle, hard), strict=True))
    drift = dict(zip(ARMS, (0.05, 0.001, gentle_drift, hard_drift), strict=True))
    return [
        {arm: {"mean": loss[arm] + (spread * j if arm in ARMS[2:] else 0), "drift": drift[arm],
               "loss": [1.0]} for arm in ARMS}
        for j in JITTER
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C66": [
            (gradients(), "supported"),
            (gradients(4, 4, 4, -4), "refuted"),  # explodes or vanishes: both
            (gradients(batch=4), "depends"),
            (gradients(batch=1, spread=0.9), "undecided"),
        ],
        "C65": [
            (new_data(LESS, LESS, (-0.1, -0.1)), "supported"),
            (new_data(MORE, [0.0] * 3, (0.1, 0.1)), "refuted"),
            (new_data(LESS, LESS, (0.1, -0.1)), "depends"),
            (new_data(LESS, [-0.1, 0.1, -0.1], (-0.1, -0.1)), "depends"),
            (new_data(LESS, [-0.02] * 3, (-0.1, -0.1), spread=0.09), "undecided"),
            (new_data([float("nan")] * 3, LESS, (-0.1, -0.1)), "undecided"),  # did not come so far
        ],
        "C68": [
            (new_data(LESS, LESS), "supported"),  # the same for every batch
            (new_data(LESS, MORE), "refuted"),
            (new_data(LESS, [-0.3, -0.2, -0.1]), "depends"),  # more with noisier batches
            (new_data(LESS, [-0.1, 0.0, 0.0]), "depends"),
            (new_data(LESS, [-0.02] * 3, spread=0.09), "undecided"),
            (new_data(LESS, [float("nan"), -0.1, -0.1]), "undecided"),
        ],
        "C67": [
            (shaken(0.9), "supported"),
            (shaken(0.25, 0.3), "refuted"),
            (shaken(0.25), "depends", "fails: shaken gently"),  # and not how plain nets move
            (shaken(0.25, gentle_drift=0.01), "depends"),
            (shaken(0.6, spread=0.2), "undecided"),
            (shaken(0.9, plain=0.1), "not tested"),  # batch norm is no faster
            (shaken(0.9, gentle_drift=0.0, hard_drift=0.0), "not tested"),  # nothing was shaken
        ],
    }
)


def test_c67_ignores_one_outlier_seed():
    data = shaken(0.25)
    data[3]["plain"]["drift"] = 50.0
    assert judge("C67", data).verdict == "depends"


@pytest.mark.thorough
def test_pictures_show_the_means():
    found = measured("gradients-by-layer")
    drawn = experiments()["gradients-by-layer"].draw([found, found])
    middle = GAINS.index(1.0)
    assert all(np.allclose(drawn.series[kind], found[kind][middle][::7]) for kind in KINDS)
    found = measured("norm-new-data")
    drawn = experiments()["norm-new-data"].draw([found])
    for said, norm in zip(drawn.series, NORMS, strict=True):
        assert np.allclose(drawn.series[said], found[norm]["signs"], equal_nan=True)
        assert len(found[norm]["signs"]) == len(BATCHES)
    found = measured("why-batch-norm")
    drawn = experiments()["why-batch-norm"].draw([found])
    for said, arm in zip(drawn.series, ARMS, strict=True):
        assert np.allclose(drawn.series[said], found[arm]["loss"][::2])


@pytest.mark.slow
def test_gradient_by_layer_against_finite_differences():
    """The gradient at block 3 of the last 47, by moving what enters it."""
    kind = "residual, layer norm"
    found = training_with_norms._by_layer(0, kind, 1.0, 8)
    torch.manual_seed(0)
    norm, residual = KINDS[kind]
    net = Deep(inputs=16, outputs=1, width=8, depth=DEPTH, norm=norm, residual=residual).double()
    x, y = (each.double() for each in smooth_target(64, 16, torch.Generator().manual_seed(0)))

    def loss_from(entered, at):
        for block in net.block_list()[at:]:
            entered = block(entered)
        return float(mean_square(net.output(entered), y))

    with torch.no_grad():
        at, entered = 3, net.enter(x)
        for block in net.block_list()[:3]:
            entered = block(entered)
        slopes = []
        for place in range(entered.numel()):
            moved = torch.zeros(entered.numel(), dtype=torch.float64)
            moved[place] = 1e-6
            moved = moved.view_as(entered)
            if place % 16:  # a sixteenth of the entries is enough
                continue
            rise = loss_from(entered + moved, at) - loss_from(entered - moved, at)
            slopes.append(rise / 2e-6)
    entered.requires_grad_()
    value = entered
    for block in net.block_list()[at:]:
        value = block(value)
    (gradient,) = torch.autograd.grad(mean_square(net.output(value), y), entered)
    assert found[at] == pytest.approx(float(gradient.norm()), rel=1e-9)
    assert np.allclose(slopes, gradient.flatten()[::16].numpy(), atol=1e-6)


def test_shaking_moves_means_and_only_that_much():
    part = training_with_norms.Shaken(64, 0.5, 0.25, seed=0)
    x = torch.randn(512, 64, generator=torch.Generator().manual_seed(0))
    made = part(x).detach()
    assert made.mean(0).abs().max() <= 0.5 + 1e-5
    assert made.std(0).min() >= 1 - 1e-3
    assert made.std(0).max() <= 1.25 + 1e-2
    assert not torch.equal(made, part(x))  # anew at every step


def test_drift_is_the_distance_of_means_in_deviations():
    x = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
    assert training_with_norms._drift(x, x + x.std(0) * 0.25) == pytest.approx(0.25, rel=1e-4)
    assert training_with_norms._drift(x, x * torch.nan) == training_with_norms.WORST
