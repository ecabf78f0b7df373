"""Exploding gradients and clipping: rules, measuring, pictures."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.lab.families import around, quick_data, rule_test

from translucid_lab.claims import exploding_gradients
from translucid_lab.claims.exploding_gradients import CLIPS, GAINS, NETS, THRESHOLDS, VALUES
from translucid_lab.claims.sequence_tasks import History

# ---- explosion ----


def exploded(
    large: int = 2, clipped: int = 0, small: int = 0, longer: float = 2.0, spread: float = 0.0
) -> list[dict[str, Any]]:
    """Runs of each seed that diverged, of two."""
    return [
        {
            "steps": 15,
            "runs": NETS,
            "gain 1": {clip: {"norm": 0.0, "diverged": small, "losses": [0.0] * 15}
                       for clip in CLIPS},
            "gain 2": {
                "not clipped": {"norm": order, "diverged": large, "losses": [6.0] * 15},
                "clipped at 1": {"norm": order, "diverged": clipped, "losses": [0.0] * 15},
            },
        }
        for order in around(longer, spread)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("losses", "broke", "expected"),
    [
        ([1.0, 9.0, 0.5], False, False),
        ([1.0, 11.0, 0.5], False, True),  # even if it comes back
        ([1.0, math.nan], False, True),
        ([1.0, math.inf], False, True),
        ([1.0], True, True),
    ],
)
def test_diverged(losses: list[float], broke: bool, expected: bool) -> None:
    assert exploding_gradients.diverged(History(losses=losses, broke=broke)) is expected


def test_losses_as_they_are_drawn() -> None:
    run = History(losses=[1.0, 10.0, 1e9, math.nan])
    assert exploding_gradients._drawn(run, 6) == [0.0, 1.0, 6.0, 6.0, 6.0, 6.0]


def test_adding() -> None:
    batch = exploding_gradients.adding(9)(torch.Generator().manual_seed(0), 60)
    for row, target in zip(batch.inputs["ids"].tolist(), batch.targets.tolist(), strict=True):
        marked = [t for t, value in enumerate(row) if value >= VALUES]
        assert len(marked) == 2
        assert marked[0] < 4 < marked[1]
        assert target == pytest.approx(sum(row[t] - VALUES for t in marked) / VALUES)


@pytest.mark.slow
def test_explosion() -> None:
    data = quick_data(exploding_gradients.explosion)
    for gain in GAINS:  # clipping changes no gradient before it is measured
        norms = {data[gain][clip]["norm"] for clip in CLIPS}
        assert len(norms) == 1
        drawn = exploding_gradients.explosion.draw([data, data]).series
        for clip in CLIPS:
            told = np.log10(drawn[f"{gain}, {clip}"])
            np.testing.assert_allclose(told, data[gain][clip]["losses"], atol=1e-12)


# ---- vanishing ----


def clipped(*factors: float) -> list[dict[str, Any]]:
    """By what gradients of these lengths were multiplied."""
    lengths = [1e-6, 1e-3, 1.0, 10.0]
    trained = {name: {"accuracy": 0.125} for name in THRESHOLDS}
    return [{**trained, "factors": {"lengths": lengths, "factor": list(factors)}}] * 10


test_rules = rule_test(
    {
        "C22": [
            (exploded(), "supported"),
            (exploded(longer=0.1), "refuted"),
            (exploded(large=0), "refuted"),
            (exploded(small=2), "refuted"),  # diverges anyhow
            (exploded(large=1), "undecided"),
            (exploded(longer=1.0, spread=0.5), "undecided"),
        ],
        "C32": [
            (exploded(), "supported"),
            (exploded(clipped=2), "refuted"),
            (exploded(clipped=1), "undecided"),
            (exploded(large=0), "not tested"),  # nothing to prevent
        ],
        "C31": [
            (clipped(1.0, 1.0, 1.0, 0.1), "refuted"),
            (clipped(1.5, 1.0, 1.0, 0.1), "supported"),  # then it would mitigate
            (clipped(1 + 1e-9, 1.0, 1.0, 0.1), "refuted"),  # rounding
        ],
    }
)


def test_clipping_multiplies_by_its_formula() -> None:
    measured = exploding_gradients._factors(0)
    wanted = [min(1.0, 1.0 / length) for length in measured["lengths"]]
    np.testing.assert_allclose(measured["factor"], wanted, rtol=1e-5)


@pytest.mark.slow
def test_vanishing() -> None:
    data = quick_data(exploding_gradients.clipping_and_vanishing)
    assert data["not clipped"]["fired"] == 0
    assert all(len(data[name]["reach"]) == exploding_gradients.LENGTH for name in THRESHOLDS)
    assert data["not clipped"]["reach"][-1] < data["not clipped"]["reach"][0] - 2  # it vanishes
    drawn = exploding_gradients.clipping_and_vanishing.draw([data, data]).series
    for name in THRESHOLDS:
        np.testing.assert_allclose(np.log10(drawn[name]), data[name]["reach"])


def test_the_gradient_at_the_first_symbol() -> None:
    """Closed form: with recurrent weights of 0 nothing reaches it, so scale them and watch it
    fall with their power."""
    sizes = []
    for gain in (1.0, 0.5):
        net = exploding_gradients.made(
            0, exploding_gradients.PLAIN[exploding_gradients.RNN_UNIFORM]
        )
        with torch.no_grad():
            net.encoder.recurrent.weights(0, "forward")[1].mul_(gain)
        sizes.append(exploding_gradients._reach(net, 0)[-1])
    steps = exploding_gradients.LENGTH - 1
    assert sizes[1] - sizes[0] == pytest.approx(steps * math.log10(0.5), abs=1.0)
