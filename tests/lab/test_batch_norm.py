"""The experiments on batch size, length and padding: rules, measuring, pictures."""

import numpy as np
import pytest
import torch
from tests.lab.families import JITTER, measured, quick_data, rule_test

from translucid_lab.claims import batch_norm, experiments
from translucid_lab.claims.batch_norm import ALIKE, BATCHES, LENGTHS, MIN_LENGTHS, TRAINED, WAYS


def small_batches(power, small_gap, spread=0.01):
    return [
        {
            "error": [each ** (power + spread * j) for each in BATCHES],
            "gap": [small_gap + 0.1 * spread * j, 0.05, 0.02],
        }
        for j in JITTER
    ]


def long_sequences(worse, spread=0.01, power=-1.0):
    """worse: by what batch norm's error is multiplied, for each case."""
    fall = [1000 * (each / LENGTHS[0]) ** power for each in LENGTHS]
    cases = [f"{way}, {name}" for way in WAYS for name in ALIKE]
    return [
        {
            **dict.fromkeys(WAYS, fall),
            **{case: [0.01, 0, 0, 0, 0.01 * (each + spread * j)]
               for case, each in zip(cases, worse, strict=True)},
        }
        for j in JITTER
    ]  # fmt: skip


def padding(counted, masked, spread=0.1):
    """Errors of the mean, in sampling errors."""
    same = [0.1] * len(MIN_LENGTHS)
    return [
        {
            "padded": same, "counted_sd": same, "masked_sd": same, "chance": same,
            "counted": [0.1 * (counted + spread * j)] * len(MIN_LENGTHS),
            "masked": [0.1 * masked] * len(MIN_LENGTHS),
        }
        for j in JITTER
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C69": [
            (small_batches(-1.0, 0.2), "supported"),
            (small_batches(-0.5, 0.2), "refuted"),  # falls too slowly
            (small_batches(-1.5, 0.2), "refuted"),  # too fast
            (small_batches(-1.0, 0.005), "refuted"),  # the net does not care
            (small_batches(-0.75, 0.2, spread=0.3), "undecided"),
        ],
        "C71": [
            (padding(15, 1), "supported"),
            (padding(1, 1), "refuted"),
            (padding(15, 9), "refuted"),  # something else than padding is wrong
            (padding(3, 1, spread=2), "undecided"),
        ],
        "C70": [
            (long_sequences([9, 9, 9, 9]), "supported"),
            (long_sequences([1, 1, 1, 1]), "refuted"),
            (long_sequences([9, 9, 9, 9], power=-0.5), "refuted"),  # the batch does not fall enough
            (long_sequences([9, 9, 1, 9]), "depends", "whether attention keeps its scores"),
            (long_sequences([9, 9, 1.5, 9], spread=1.0), "undecided"),
        ],
    }
)


@pytest.mark.slow
def test_one_number_for_each_setting():
    found = measured("small-batches")
    assert (len(found["error"]), len(found["gap"])) == (len(BATCHES), len(TRAINED))
    assert len(measured("padding")["counted"]) == len(MIN_LENGTHS)
    for way in WAYS:
        assert len(measured("long-sequences")[way]) == len(LENGTHS)


@pytest.mark.parametrize(
    "name", [pytest.param("padding", marks=pytest.mark.slow), "long-sequences"]
)
def test_another_seed_other_numbers(name):
    assert quick_data(experiments()[name], 1) != measured(name)


def test_pictures_show_the_means():
    error = np.array(measured("small-batches")["error"])
    drawn = experiments()["small-batches"].draw(
        [measured("small-batches"), {"error": (3 * error).tolist()}]
    )
    assert np.allclose(drawn.series["measured"], 2 * error)
    drawn = experiments()["padding"].draw([measured("padding")])
    assert np.allclose(drawn.series["mean, padding counted"], measured("padding")["counted"])
    drawn = experiments()["long-sequences"].draw([measured("long-sequences")])
    assert np.allclose(
        drawn.series["fused, words alike"], measured("long-sequences")["fused, alike"]
    )


def test_error_of_a_batch_is_that_of_the_formula():
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    by_hand = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    assert batch_norm._batch_error(x) == pytest.approx(float((by_hand - x).square().mean()))


def test_kept_bytes_by_count():
    """Scores kept: two of (heads, length, length) at most beside what grows with length."""
    fused = [batch_norm._kept_bytes(length, None) for length in (32, 64, 128)]
    assert fused[1] / fused[0] == pytest.approx(2, rel=0.02) == fused[2] / fused[1]
    kept = [batch_norm._kept_bytes(length, "pattern") for length in (64, 128)]
    pattern = 4 * 4 * 64 * 64  # heads, bytes of a number, queries, keys
    assert kept[0] - fused[1] >= pattern
    assert kept[1] / kept[0] > 2.5


def test_counted_padding_moves_the_mean_by_its_share():
    found = measured("padding")
    assert found["counted"][-1] == pytest.approx(
        batch_norm.TRUE_MEAN * found["padded"][-1], abs=0.1
    )
    assert found["counted"][0] == found["masked"][0]  # nothing is padded
