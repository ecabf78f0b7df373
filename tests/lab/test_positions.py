"""The experiments on positions that train nothing: their rules, their measuring, their pictures."""

import math

import numpy as np
import pytest
import torch
from tests.lab.families import JITTER, measured, rule_test

from translucid.parts.positions import Sinusoidal
from translucid_lab.claims import (
    experiments,
    position_frequencies,
    relative_positions,
)
from translucid_lab.claims.position_frequencies import HALVES
from translucid_lab.claims.position_tasks import small_transformer, stack
from translucid_lab.claims.sinusoidal_encoding import RIVALS, WIDTHS, channels

# ---- rules ----


def moved(sinusoidal, learned=0.1):
    return [{"sinusoidal": [sinusoidal] * 3, "learned": [learned] * 3,
             "rotary": [1e-15] * 3, "alibi": [0.0] * 3}] * 10  # fmt: skip


def turned(same=1e-14, norm=1e-16, by_distance=0.5):
    return [{"same_distance": same, "norm": norm, "by_distance": by_distance, "scores": []}] * 10


def dots(straight=0.0, projected=0.5, other_side=0.0):
    """Deviations over places, and what changes when the distance is backwards."""
    wave = np.array([1.0, -1.0] * 8)
    return [{"as they are": (10 + 10 * straight * wave).tolist(),
             "projected": (4 + 4 * projected * wave).tolist(),
             "before": (10 + other_side + 10 * straight * wave).tolist()}] * 10  # fmt: skip


def least(both, same=0.01, own=0.02):
    rivals = {rival: own if rival.startswith("own") else same for rival in RIVALS}
    return [{"places": 9, **{name: {"least": [value] * len(WIDTHS), "near": [0] * len(WIDTHS),
                                    "shift": [0.1] * len(WIDTHS)}
                             for name, value in {"both": both, **rivals}.items()}}]  # fmt: skip


def speeds(fast=(0.95, 0.5), slow=(0.5, 0.9), together=(0.95, 0.9), spread=0.01, rising=False):
    peaks = [0.01, 0.1] if rising else [0.1, 0.01]
    shares = dict(zip(HALVES, (fast, slow, together), strict=True))
    return [{"peaks": peaks, **{half: {"near": near + spread * j, "far": far}
                                for half, (near, far) in shares.items()}}
            for j in JITTER]  # fmt: skip


def returns(first, second=0.0, between=1e-13):
    return [{"period": [6.28, 628.3], "closest": [first, second], "closest_at": [710, 1885],
             "between": [between, between]}]  # fmt: skip


test_rules = rule_test(
    {
        "C36": [
            (moved(1e-15), "supported"),
            (moved(2.0), "refuted"),
            (moved(1e-5), "undecided"),
            (moved(2.0, learned=1e-5), "undecided"),
            (moved(2.0, learned=0.0), "undecided"),  # what is called absolute is not
            ([*moved(2.0)[:4], *moved(1e-5)[:1]], "undecided"),
        ],
        "C37": [
            (turned(), "supported"),
            (turned(same=0.1), "refuted"),
            (turned(norm=0.1), "refuted"),
            (turned(by_distance=0.0), "refuted"),  # a score that never changes tells no distance
            (turned(same=1e-6), "undecided"),
            (turned(norm=1e-6), "undecided"),
            (turned(by_distance=1e-6), "undecided"),
        ],
        "C44": [
            (dots(projected=0.0, other_side=1.0), "supported"),
            (dots(straight=0.5), "refuted"),
            (dots(), "depends"),
            (dots(projected=0.0), "depends"),  # no direction
            (dots(straight=0.5, projected=0.05), "undecided"),
            (dots(straight=1e-5, projected=1e-5, other_side=1.0), "undecided"),
        ],
        "C40": [
            (least(0.05), "supported"),
            (least(0.001), "refuted"),
            (least(0.015), "depends"),
            (least(0.02), "undecided"),  # as far apart as a rival
        ],
        "C42": [
            (speeds(), "supported"),
            (speeds(rising=True), "refuted"),
            (speeds(fast=(0.5, 0.5)), "refuted"),
            (speeds(fast=(0.95, 0.9)), "refuted"),  # the fast half would do alone
            (speeds(together=(0.95, 0.6)), "refuted"),
            (speeds(together=(0.75, 0.9), spread=0.1), "undecided"),
        ],
        "C43": [
            (returns(1e-12), "supported"),
            (returns(1e-12, 1e-4), "depends"),  # on whether positions are whole numbers
            (returns(1e-4, 1e-4, between=1e-4), "refuted"),
            (returns(1e-7), "undecided"),
        ],
    }
)


# ---- measuring, a second way ----


def test_a_moved_text_by_a_moved_table():
    """Learned positions moved by one place are the table without its first row."""
    torch.manual_seed(0)
    net = small_transformer("learned", layers=2).double()
    ids = torch.randint(16, (3, 16), generator=torch.Generator().manual_seed(0))
    moved_on = relative_positions._read_at(net, ids, 1)
    table = stack(net).positions.table
    with torch.no_grad():
        table.copy_(table.roll(-1, dims=0))
    assert torch.allclose(moved_on, relative_positions._read_at(net, ids, 0))


def test_rotary_scores_by_hand():
    """Pairs as complex numbers: the score is the real part of q conj(k) turned by the distance."""
    q, k = torch.randn(2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    scores = relative_positions.turned_scores(q, k, torch.tensor([2, 5, 102, 105]))
    assert scores[1, 0] == pytest.approx(float(scores[3, 2]), abs=1e-12)
    numbers = [torch.view_as_complex(x.view(-1, 2)).numpy() for x in (q, k)]
    speeds = 10000.0 ** -(np.arange(4) * 2 / 8)
    by_hand = (numbers[0] * numbers[1].conj() * np.exp(1j * 3 * speeds)).sum().real
    assert float(scores[1, 0]) == pytest.approx(by_hand, abs=1e-12)


def test_spread_sees_one_wrong_score():
    table = torch.arange(12.0)[:, None] - torch.arange(12.0)
    assert relative_positions._spread(table, table) == 0
    wrong = table.clone()
    wrong[7, 3] += 1
    assert relative_positions._spread(wrong, table) == 1


def test_dot_product_by_the_identity():
    """The sum of cosines of the distance, by frequency."""
    speeds = 10000.0 ** -(np.arange(32) * 2 / 64)
    expected = np.cos(3 * speeds).sum()
    assert np.allclose(measured("relative-term")["as they are"], expected, atol=1e-12)
    assert np.allclose(measured("relative-term")["before"], expected, atol=1e-12)


def test_channels():
    places = torch.arange(50)
    both = Sinusoidal(4).encode(places)
    assert torch.equal(channels("both", 4, places), both)
    assert torch.allclose(channels("sine", 4, places)[:, [0, 2]], both[:, [0, 2]])
    assert torch.allclose(channels("sine", 4, places)[:, [1, 3]], both[:, [0, 2]])
    assert torch.allclose(channels("cosine", 4, places)[:, [0, 2]], both[:, [1, 3]])
    own = channels("own cosine", 4, places)
    assert torch.allclose(own[:, 2], (places.double() * 0.01).cos())
    squares = channels("own sine", 4, places).square() + own.square()
    assert torch.allclose(squares, torch.ones_like(squares))


def test_least_distance_by_looking():
    table = Sinusoidal(4).encode(torch.arange(1000)).numpy()
    apart = [np.linalg.norm(table[p] - table[:p], axis=1) for p in range(1, 1000)]
    found = measured("sine-and-cosine")["both"]
    assert found["least"][0] == pytest.approx(min(each.min() for each in apart))
    assert found["near"][0] == sum(int((each < 0.05).sum()) for each in apart)


def test_a_step_is_a_rotation_of_both_only():
    found = measured("sine-and-cosine")
    assert max(found["both"]["shift"]) < 1e-9
    assert min(found["sine"]["shift"][-1], found["cosine"]["shift"][-1]) > 0.1


def test_peaks_are_the_frequencies():
    peaks = np.array(measured("fast-and-slow")["peaks"])
    speeds = 10000.0 ** -(np.arange(32) * 2 / 64) / (2 * math.pi)
    assert np.allclose(peaks, speeds, atol=1 / 4096)


def test_without_noise_all_channels_distinguish_near_positions(monkeypatch):
    monkeypatch.setattr(position_frequencies, "NOISE", 0.0)
    generator = torch.Generator().manual_seed(0)
    assert position_frequencies._nearer("near", HALVES["all"], 300, generator) > 0.99
    assert position_frequencies._nearer("near", HALVES["slow half"], 300, generator) > 0.99


def test_fast_channels_resolve_near_and_slow_ones_far_positions():
    """Of noisy encodings: the slow half cannot tell neighbours, the fast half no far places."""
    found = measured("fast-and-slow")
    assert found["slow half"]["near"] < 0.6 < 0.9 < found["fast half"]["near"]
    assert found["fast half"]["far"] < 0.75 < 0.85 < found["slow half"]["far"]


def test_repeats_by_known_near_misses():
    found = measured("exact-repeats")
    assert found["closest_at"] == [710, 1885]  # 113 turns of 2π; three of 200π
    assert found["closest"][0] == pytest.approx(2 * math.sin(abs(710 - 226 * math.pi) / 2))
    assert found["closest"][1] == pytest.approx(2 * math.sin(abs(18.85 - 6 * math.pi) / 2))
    assert max(found["between"]) < 1e-11


# ---- pictures ----


def test_pictures_show_the_means():
    names = ("rotary-distance", "sine-and-cosine", "relative-term", "exact-repeats")
    draw = {name: experiments()[name].draw([measured(name)]) for name in names}
    assert np.allclose(draw["rotary-distance"].values, measured("rotary-distance")["scores"])
    found = measured("fast-and-slow")
    other = {**found, "all": {"near": 0.0, "far": 1.0}}
    drawn = experiments()["fast-and-slow"].draw([found, other])
    near, far = found["all"]["near"], found["all"]["far"]
    assert np.allclose(drawn.series["all"], [near / 2, (far + 1) / 2])
    found = measured("sine-and-cosine")
    assert draw["sine-and-cosine"].values[0] == found["both"]["least"][0]
    assert draw["sine-and-cosine"].values[-1] == found["own cosine"]["least"][1]
    assert len(draw["sine-and-cosine"].labels) == len(draw["sine-and-cosine"].values)
    moved_on = measured("absolute-positions")
    twice = {**moved_on, "learned": [3 * each for each in moved_on["learned"]]}
    drawn = relative_positions.absolute.draw([moved_on, twice])
    assert np.allclose(drawn.series["learned"], 2 * np.array(moved_on["learned"]))
    assert np.allclose(drawn.series["sinusoidal"], moved_on["sinusoidal"])
    for name, drawn in draw["relative-term"].series.items():
        values = np.array(measured("relative-term")[name])
        assert np.allclose(drawn * np.abs(values).mean(), values[:: relative_positions.EVERY])
    drawn = draw["exact-repeats"].series["pair 1, nearest whole step"]
    assert np.allclose(drawn, measured("exact-repeats")["whole_turns"][1])
