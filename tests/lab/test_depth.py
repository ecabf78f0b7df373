"""Gradients through many layers, slopes, saturation."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.lab.families import around, changed_data, check, quick_data, rule_test

from translucid_lab.claims import activation_slopes, vanishing_gradients

# ---- gradients by layer ----

FACTORS = {"sigmoid, gain 1": 0.23, "relu, gain 0.5": 0.35}


def fallen(
    falls: dict[str, float] | None = None,
    factors: dict[str, float] | None = None,
    dead: tuple[int, int] = (0, 0),
    spread: float = 0.0,
    bent: bool = False,
) -> list[dict[str, Any]]:
    """Gradients that fall (log10) by so much in these settings and stay 1 in the others."""
    falls = {"sigmoid, gain 1": -12.0, "relu, gain 0.5": -9.0} | (falls or {})
    factors = FACTORS | (factors or {})
    line = np.linspace(1, 0, vanishing_gradients.LAYERS + 1)
    rows = []
    for extra in around(0.0, spread):
        settings = {}
        for name, gain in vanishing_gradients.SETTINGS:
            said = vanishing_gradients._setting(name, gain)
            shape = line**20 if bent else line
            norms = (falls.get(said, 0.0) + extra * (said in falls)) * shape
            norms = norms + 1e-9 * line  # never quite constant
            settings[said] = {"norms": norms.tolist(), "factor": factors.get(said, 1.0)}
        rows.append({"settings": settings, "dead": list(dead)})
    return rows


@pytest.mark.slow
def test_gradients_by_layer() -> None:
    data = quick_data(vanishing_gradients.gradient_by_layer)
    assert len(data["settings"]) == 9
    drawn = vanishing_gradients.gradient_by_layer.draw([data, data]).series
    said = vanishing_gradients._setting("sigmoid", 1.0)
    np.testing.assert_allclose(np.log10(drawn[said]), data["settings"][said]["norms"])


NEVER = {"relu, gain 0.5": 0.0}
ALWAYS = {"relu, gain 0.5": -9.0, "relu, gain 1.41": -5.0, "relu, gain 3": -5.0}


def test_gradient_norms_against_differences() -> None:
    torch.manual_seed(0)
    net = vanishing_gradients.deep_net("tanh", 1.0)
    x = torch.randn(1, vanishing_gradients.WIDTH, dtype=torch.float64)
    norms, _ = vanishing_gradients.gradient_norms(net, x.clone())
    with torch.no_grad():
        steps = 1e-5 * torch.eye(vanishing_gradients.WIDTH, dtype=torch.float64)
        slopes = (net(x + steps) - net(x - steps))[:, 0] / 2e-5
    assert float(norms[0]) == pytest.approx(float(slopes.norm().log10()), abs=1e-6)


def test_without_an_activation_a_layer_multiplies_by_its_gain() -> None:
    torch.manual_seed(0)
    norms, slopes = vanishing_gradients.gradient_norms(
        vanishing_gradients.deep_net("identity", 0.5),
        torch.randn(4, vanishing_gradients.WIDTH, dtype=torch.float64),
    )
    assert slopes.tolist() == [1.0] * vanishing_gradients.LAYERS
    assert float(norms[0] - norms[-1]) / vanishing_gradients.LAYERS == pytest.approx(
        np.log10(0.5), abs=0.03
    )


def test_dead_units_are_those_that_nothing_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = vanishing_gradients.MLP

    def sleeping(config: Any) -> Any:
        net = made(config)
        torch.nn.init.constant_(net.layers[0].linear.bias[:2], -100.0)
        return net

    torch.manual_seed(0)
    assert vanishing_gradients._dead_units(0.0, 1) == 0
    monkeypatch.setattr(vanishing_gradients, "MLP", sleeping)
    assert vanishing_gradients._dead_units(0.0, 1) == 2


# ---- slopes ----


def test_slopes() -> None:
    data = quick_data(activation_slopes.slopes)
    assert data["largest"] == {"sigmoid": 0.25, "tanh": 1.0}
    z = activation_slopes.SEEN
    np.testing.assert_allclose(data["curves"]["tanh"], 1 - np.tanh(z) ** 2, atol=1e-12)
    drawn = activation_slopes.slopes.draw([data]).series
    assert drawn["sigmoid"].tolist() == data["curves"]["sigmoid"]


@pytest.mark.parametrize(
    ("sigmoid", "tanh", "expected"),
    [(0.25, 0.9, "supported"), (1.0, 1.0, "refuted"), (0.25, 1.0, "refuted"),
     (0.25, 1 - 1e-9, "undecided")],
)  # fmt: skip
def test_the_rule_of_slopes(sigmoid: float, tanh: float, expected: str) -> None:
    data = [{"largest": {"sigmoid": sigmoid, "tanh": tanh}}]
    finding = activation_slopes.slopes.claims["C5"].judge(data)
    assert finding.verdict == expected
    if (sigmoid, expected) == (0.25, "refuted"):
        assert "does not hold: tanh stays below 1" in finding.why


# ---- saturation ----


def steps(five: int, ten: int, slope: float = 0.0066) -> list[dict[str, Any]]:
    return [{"slopes": [0.25, 0.1, slope, 0.0, 0.0], "squared": [10, 11, five, 12, ten],
             "cross_entropy": [1, 2, 3, 4, 5]}]  # fmt: skip


@pytest.mark.slow
def test_saturation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation_slopes, "OFFSETS", (0.0, 2.5, 5.0, 5.5, 10.0))
    monkeypatch.setattr(activation_slopes, "PATIENCE", 300)  # the last start runs out of it
    data = changed_data(activation_slopes.saturation)
    check(activation_slopes.saturation, [data])
    assert data["slopes"][2] == pytest.approx(0.006648056670790033)
    assert data["squared"][-1] == 300
    drawn = activation_slopes.saturation.draw([data]).series
    assert drawn["squared error"].tolist() == data["squared"]


def test_steps_against_the_formula() -> None:
    """dL/dz = s · s (1 - s) for the squared error, s for cross-entropy, without autograd."""
    for loss in ("squared", "cross_entropy"):
        z, count = 3.0, 0
        while (s := 1 / (1 + np.exp(-z))) ** 2 / 2 > activation_slopes.GOAL:
            z -= activation_slopes.RATE * (s * s * (1 - s) if loss == "squared" else s)
            count += 1
        assert activation_slopes._steps(3.0, loss) == count


test_rules = rule_test(
    {
        "C4": [
            (fallen(), "supported"),
            (fallen({"sigmoid, gain 1": -0.1}), "refuted"),
            (fallen({"relu, gain 0.5": -1.0}, spread=0.5), "undecided"),
            (fallen(factors={"relu, gain 0.5": 1.0}), "undecided"),  # no small weights among them
            (fallen(bent=True), "undecided"),  # falls, but in one layer
            (fallen(factors={"tanh, gain 1": 0.5}), "refuted"),  # should fall and does not
        ],
        "C6": [
            (steps(50, 5000), "supported"),
            (steps(50, 90), "refuted"),
            (steps(50, 170), "undecided"),
            (steps(50, 5000, slope=0.2), "refuted"),
        ],
        "C7": [
            (fallen(NEVER), "supported", ""),
            (fallen(), "depends", "the gain of the weights"),
            (fallen(NEVER, dead=(0, 32)), "depends", "the learning rate"),
            (fallen(dead=(0, 32)), "depends", "the gain of the weights and on the learning rate"),
            (fallen(ALWAYS), "refuted", "every gain"),
            (fallen(NEVER, dead=(32, 32)), "refuted", "rate"),
            (fallen({"relu, gain 0.5": -1.0}, spread=0.5), "undecided", ""),
        ],
    }
)
