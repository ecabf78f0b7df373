"""The experiments on single norms: their rules, their measuring, their pictures."""

import numpy as np
import pytest
import torch
from tests.lab.families import JITTER, measured, rule_test

from translucid_lab.claims import experiments, norm_invariance, rms_norm_cost
from translucid_lab.claims.norm_invariance import CHANGES, FAIR, METHODS, NORMS


def scales(raw, standardised, spread=1.0):
    return [
        {"scales": [1.0, 30.0], "raw": [3.0, raw + spread * j], "standardised": [3.0, standardised]}
        for j in JITTER
    ]


def changes(**cells):
    """What each norm and change, such as layer_0, does; the rest as it should be."""
    table = [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1e-6, 2.0], [0.7, 0.9, 0.0, 0.0], [0.0] * 4]
    parameters = cells.pop("parameters", [1024, 512])
    for cell, value in cells.items():
        norm, change = cell.split("_")
        table[NORMS.index(norm)][int(change)] = value
    assert [len(row) for row in table] == [len(CHANGES)] * len(NORMS)
    return [{"change": table, "parameters": parameters, "width": 512}] * 10


def shares(*after, spread=0.001):
    return [
        {"share": [0.95, *(each + spread * j for each in after)], "ranges": [100.0, 1.4, 1.4, 4.0]}
        for j in JITTER
    ]


def costs(plain, fused, worse=0.0, spread=0.02):
    return [
        {"ratio": [plain, fused + spread * j], "loss": {"layer": 3.0, "rms": 3.0 + worse}}
        for j in JITTER
    ]


test_rules = rule_test(
    {
        "C64": [
            (scales(4000, 3), "supported"),
            (scales(3, 40), "refuted"),
            (scales(40, 40, spread=20), "undecided"),
        ],
        "C72": [
            (changes(), "supported"),
            (changes(layer_0=0.1), "refuted"),
            (changes(layer_1=0.1), "refuted"),
            (changes(batch_0=0.0), "refuted"),
            (changes(layer_0=1e-7), "undecided"),  # rounding
        ],
        "C73": [
            (shares(FAIR, FAIR, FAIR), "supported"),
            (shares(0.9, 0.9, 0.9), "refuted"),
            (shares(FAIR, FAIR, 0.9), "depends"),
            (shares(FAIR, FAIR, 3 * FAIR), "undecided"),
            (shares(FAIR, FAIR, 2 * FAIR, spread=0.1), "undecided"),
        ],
        "C74": [
            (costs(0.5, 0.9), "supported"),
            (costs(1.5, 1.2), "refuted"),
            (costs(0.5, 0.9, worse=1.0), "supported"),  # the claim is about cost
            (costs(0.5, 1.2), "depends"),
            (costs(0.5, 1.0, spread=0.2), "undecided"),
        ],
        "C75": [
            (changes(), "supported"),
            (changes(rms_2=0.5), "refuted"),
            (changes(rms_3=0.0), "refuted"),
            (changes(parameters=[1024, 1024]), "refuted", "not measured"),
            (changes(rms_2=1e-3), "undecided"),
        ],
    }
)


def test_pictures_show_the_means():
    found = measured("feature-scales")
    other = {**found, "raw": [3 * each for each in found["raw"]]}
    drawn = experiments()["feature-scales"].draw([found, other])
    assert np.allclose(drawn.series["as they are"], 2 * np.array(found["raw"]))
    assert np.allclose(drawn.series["standardised"], found["standardised"])
    drawn = experiments()["norm-invariance"].draw([measured("norm-invariance")])
    assert np.allclose(drawn.values, measured("norm-invariance")["change"])
    drawn = experiments()["large-feature"].draw([measured("large-feature")])
    assert np.allclose(drawn.values, [*measured("large-feature")["share"], FAIR])
    drawn = experiments()["norm-cost"].draw([measured("norm-cost")])
    assert np.allclose(drawn.values, [*measured("norm-cost")["ratio"], 1.0])


@pytest.mark.parametrize("standardise", [False, True])
def test_steps_by_the_closed_form(standardise):
    """Gradient descent on a quadratic: the error shrinks by (I - 2 rate H) at each step."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 2, generator=generator) * torch.tensor([1.0, 3.0])
    y = x @ torch.tensor([[1.0], [-0.5]])
    rate = 0.02
    steps = norm_invariance._steps(x, y, rate, 1000, standardise=standardise)
    seen = (x - x.mean(0)) / x.std(0, correction=0) if standardise else x
    a = torch.cat([seen, torch.ones(64, 1)], dim=1).double()
    hessian = a.T @ a / 64
    best = torch.linalg.lstsq(a, y.double()).solution
    off, count = -best, 0
    while float((a @ off).square().mean()) > norm_invariance.GOAL:
        off, count = off - 2 * rate * hessian @ off, count + 1
    assert abs(steps - count) <= 1


def test_a_rate_that_diverges_never_wins():
    generator = torch.Generator().manual_seed(0)
    x = 10 * torch.randn(64, 2, generator=generator)
    assert norm_invariance._steps(x, x.sum(1, keepdim=True), 1.0, 500, standardise=False) == 500


def test_the_plain_way_does_not_use_the_fused_kernel(monkeypatch):
    monkeypatch.setattr(torch.nn.functional, "layer_norm", None)  # the fused kernel is not there
    norm, x = rms_norm_cost.LayerNorm(4), torch.ones(1, 4)
    assert norm(x, trace=rms_norm_cost.TRACES["plain operations"]).shape == x.shape
    with pytest.raises(TypeError):
        norm(x, trace=rms_norm_cost.TRACES["fused kernel"])


def test_plain_and_fused_norms_agree():
    """The two ways of the cost give the same values, to rounding; looking is what decides."""
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(0))
    for norm in (rms_norm_cost.LayerNorm(16), rms_norm_cost.RMSNorm(16)):
        plain, fused = (norm(x, trace=trace) for trace in rms_norm_cost.TRACES.values())
        assert torch.allclose(plain, fused, atol=1e-5)


def test_methods_and_their_numbers():
    assert len(measured("large-feature")["share"]) == len(METHODS)
    share = measured("large-feature")["share"]
    # A feature of deviation 100 among fifteen of 1: mean of s / (s + chi² of 15), s = 10⁴ chi² of 1
    assert share[0] == pytest.approx(0.95, abs=0.03)
    assert share[1] == pytest.approx(FAIR, abs=0.02)
