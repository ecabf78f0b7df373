"""The experiments on positions that train small nets: their rules, their measuring, their
pictures. What trains for long is slow."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.lab.families import JITTER, changed_data, check, quick_data, rule_test

from translucid.parts.positions import Sinusoidal
from translucid.tasks.batch import IGNORE
from translucid_lab.claims import (
    length_extrapolation,
    permutation,
    position_tasks,
    sinusoidal_encoding,
)
from translucid_lab.claims.length_extrapolation import COPYING, KINDS, SCALINGS
from translucid_lab.claims.position_tasks import (
    BACK,
    FOUR_TIMES,
    INSIDE,
    TESTED,
    TRAINED,
    TWICE,
    copy_back,
    far_letter,
    kept,
    latest,
    over,
    small_transformer,
    stack,
)
from translucid_lab.claims.sinusoidal_encoding import WAVES, Waves


def places(inside=1.0, twice=1.0, four=1.0):
    """An accuracy for each place of a text."""
    return [inside] * TRAINED + [twice] * TRAINED + [four] * (TESTED - 2 * TRAINED)


def nets(spread=0.01, **tasks):
    """Five seeds of the five kinds; a task such as sinusoidal_latest is given, the rest known."""
    found = []
    for j in JITTER:
        found.append({kind: {} for kind in KINDS})
        for kind in KINDS:
            for task in ("latest", "far_letter", *(["copy_back"] if kind in COPYING else [])):
                inside, twice, four = tasks.get(f"{kind}_{task}", (1.0, 1.0, 1.0))
                found[-1][kind][task] = places(inside, twice + spread * j, four + spread * j)
    return found


LOST = (1.0, 0.2, 0.2)


CHANCE_BEYOND = (1.0, 0.13, 0.13)


def rotary(time=1.1, spread=0.01, divided=0.0, **tasks):
    """Five seeds; divided: what is gained by it, in every task or by task."""
    found = []
    for j in JITTER:
        found.append({"time": [1.1, time + spread * j]})
        for task in ("copy_back", "latest", "far_letter"):
            inside, twice, four = tasks.get(task, (1.0, 1.0, 1.0))
            gain = divided[task] if isinstance(divided, dict) else divided
            found[-1][task] = [places(inside, twice + spread * j, four + spread * j)]
            for _ in SCALINGS[1:]:
                found[-1][task].append(places(inside, twice + gain, four + gain))
    return found


GAINS = {"copy_back": -0.3, "latest": 0.3, "far_letter": 0.3}


def orders(unmasked=(1e-15, 0.14), causal=(0.5, 0.9), spread=0.01):
    return [{"change": [unmasked[0], causal[0]],
             "told": [unmasked[1] + spread * j, causal[1] + spread * j]}
            for j in JITTER]  # fmt: skip


def tables(sinusoidal=0.0, learned=0.1, computed=1, trained=0):
    return [{"sinusoidal": sinusoidal, "learned": learned, "computed": computed,
             "sinusoidal_trained": trained, "learned_trained": 2048}] * 10  # fmt: skip


def waved(tangent, triangle, sawtooth, sine=1.0, spread=0.01):
    shares = dict(zip(WAVES, (sine, tangent, triangle, sawtooth), strict=True))
    return [{wave: {"right": share - (wave != "sine and cosine") * spread * j, "largest": 1.0,
                    "no shift": 0.1}
             for wave, share in shares.items()} for j in JITTER]  # fmt: skip


test_rules = rule_test(
    {
        "C34": [
            (nets(), "supported"),
            (nets(sinusoidal_latest=LOST, sinusoidal_copy_back=LOST), "refuted"),
            (nets(sinusoidal_copy_back=LOST), "depends"),
            (nets(sinusoidal_latest=(1.0, 1.0, 0.5)), "depends"),
            (nets(sinusoidal_latest=(1.0, 0.9, 0.9), spread=0.2), "undecided"),
            # What was not learned inside cannot be kept.
            (nets(sinusoidal_latest=(0.5, 0.5, 0.5), sinusoidal_copy_back=LOST), "undecided"),
            (nets(learned_latest=LOST, alibi_latest=LOST), "supported"),
        ],
        "C35": [
            (nets(learned_latest=LOST, learned_copy_back=CHANCE_BEYOND), "supported"),
            (nets(), "refuted"),
            (nets(learned_latest=LOST), "refuted"),  # three back is kept
            (nets(learned_copy_back=CHANCE_BEYOND), "refuted"),  # the last letter is kept
            (nets(learned_latest=(0.92, 0.2, 0.2), learned_copy_back=CHANCE_BEYOND), "refuted"),
            (
                nets(learned_latest=LOST, learned_copy_back=(1.0, 0.2, 0.25), spread=0.1),
                "undecided",
            ),
            (nets(learned_latest=(0.5, 0.1, 0.1), learned_copy_back=CHANCE_BEYOND), "not tested"),
        ],
        "alibi": [
            (nets(), "supported"),
            (nets(alibi_latest=LOST, alibi_far_letter=LOST), "refuted"),
            (nets(alibi_far_letter=LOST), "depends"),
            (nets(alibi_latest=(1.0, 0.9, 0.9), spread=0.2), "undecided"),
            (nets(alibi_latest=(0.5, 0.5, 0.5)), "undecided"),
        ],
        "rotary-scaling": [
            (rotary(copy_back=LOST, latest=LOST, far_letter=LOST, divided=0.3), "supported"),
            (rotary(divided=-0.3), "refuted"),
            (rotary(divided=GAINS), "depends"),
            (rotary(divided=0.0, spread=0.2), "undecided"),
            (rotary(divided=0.3, latest=(0.5, 0.1, 0.1)), "undecided"),
        ],
        "C33": [
            (orders(causal=(1e-15, 0.14)), "supported"),
            (orders(unmasked=(0.5, 0.9)), "refuted"),
            (orders(), "depends"),
            (orders(causal=(0.5, 0.14)), "undecided"),  # outputs change, but tell nothing
            (orders(unmasked=(1e-15, 0.2), spread=0.1), "undecided"),
            (orders(unmasked=(1e-6, 0.14)), "undecided"),
        ],
        "C39": [
            (tables(), "supported"),
            (tables(sinusoidal=1e-6), "refuted"),
            (tables(computed=6), "refuted"),
            (tables(trained=2048), "refuted"),
            (tables(learned=0.0), "undecided"),  # nothing was trained
        ],
        "C41": [
            (waved(0.5, 0.5, 0.5), "supported"),
            (waved(1.0, 1.0, 1.0), "refuted"),
            (waved(0.5, 1.0, 1.0), "depends"),
            (waved(0.95, 1.0, 1.0, spread=0.1), "undecided"),
            (waved(0.3, 0.3, 0.3, sine=0.5), "not tested"),  # sine and cosine did not learn it
        ],
        "C38": [
            (rotary(time=0.5), "supported"),
            (rotary(copy_back=LOST, far_letter=LOST), "refuted"),
            (rotary(), "depends", "depends on what is asked"),
            (rotary(time=0.5, copy_back=LOST, far_letter=LOST), "depends"),
            (rotary(time=0.8, spread=0.1), "undecided"),
            (rotary(copy_back=(0.5, 0.5, 0.5), far_letter=LOST), "undecided"),
        ],
    }
)


# ---- the tasks ----


@pytest.mark.parametrize("task", [copy_back, latest, far_letter])
def test_tasks_by_reading_them(task):
    ids, wanted = task(40, 20, torch.Generator().manual_seed(0))
    for text, answers in zip(ids.tolist(), wanted.tolist(), strict=True):
        letter = None
        for place, (token, answer) in enumerate(zip(text, answers, strict=True)):
            letter = token if token < 8 else letter
            if task is not copy_back:
                assert answer == letter
            elif place >= BACK:
                assert answer == text[place - BACK]
            else:
                assert answer == IGNORE
    assert task is not far_letter or bool((ids[:, 1:] >= 8).all())


def test_targets_include_near_and_far_letters():
    ids, _ = latest(500, TRAINED, torch.Generator().manual_seed(0))
    only_first = (ids[:, 1:] >= 8).all(dim=1).double().mean()
    expected = np.mean([(1 - share) ** (TRAINED - 1) for share in position_tasks.DENSITIES])
    assert float(only_first) == pytest.approx(expected, abs=0.05)


def test_kept_and_over():
    data = nets(sinusoidal_latest=(0.925, 0.525, 0.125), spread=0.0)
    assert over(data, TWICE, "sinusoidal", "latest") == pytest.approx([0.525] * 10)
    assert kept(data, TWICE, "sinusoidal", "latest").mean == pytest.approx(0.5)
    assert kept(data, FOUR_TIMES, "sinusoidal", "latest").mean == pytest.approx(0)
    assert kept(data, INSIDE, "sinusoidal", "latest").mean == pytest.approx(1)


def test_accuracy_by_place():
    """A net that always says the letter it reads is right where that is the last letter."""

    class Echo(torch.nn.Module):
        def forward(self, ids):
            return torch.nn.functional.one_hot(ids, 16).float()

    shares = position_tasks.by_place(Echo(), latest, 0)
    assert shares[0] == 1
    assert np.mean(shares[1:]) == pytest.approx(np.mean(position_tasks.DENSITIES), abs=0.05)
    assert position_tasks.by_place(Echo(), far_letter, 0) == [1] + [0] * (TESTED - 1)


def test_divided_positions_are_half_as_far():
    """With positions divided by 2, every second place is where it was."""
    torch.manual_seed(0)
    net = small_transformer("rotary", layers=2).eval()
    halved = stack(length_extrapolation._divided(net, 2.0)).positions
    angles = stack(net).positions.angles(torch.arange(8)[None])
    assert torch.allclose(halved.angles(torch.arange(0, 16, 2)[None]), angles)
    ids = torch.randint(16, (2, 8), generator=torch.Generator().manual_seed(0))
    assert torch.equal(length_extrapolation._divided(net, 1.0).eval()(ids), net(ids))
    assert not torch.allclose(length_extrapolation._divided(net, 2.0).eval()(ids), net(ids))


def test_without_positions_a_shuffled_text_by_hand():
    torch.manual_seed(0)
    assert (
        permutation._shuffle_change(small_transformer("none", 2, shape="encoder").double(), 0)
        < 1e-12
    )
    assert (
        permutation._shuffle_change(small_transformer("sinusoidal", 2, shape="encoder").double(), 0)
        > 1e-2
    )
    assert permutation._shuffle_change(small_transformer("none", 2).double(), 0) > 1e-2


def test_waves():
    places = torch.arange(40)
    sine = Waves(8, "sine and cosine").encode(places)
    assert torch.allclose(sine, Sinusoidal(8).encode(places))
    for wave in ("triangle", "sawtooth"):
        table = Waves(8, wave).encode(places)
        assert float(table.abs().max()) <= 1 + 1e-9
        turn = torch.tensor([0.3, 1.0])
        again = Waves(8, wave).encode(turn + 2 * math.pi)[:, :2]
        assert torch.allclose(again, Waves(8, wave).encode(turn)[:, :2])
    tangent = Waves(8, "tangent").encode(torch.tensor([11]))
    assert float(tangent[0, 0]) == pytest.approx(-225.95, abs=0.01)
    assert float(Waves(8, "triangle").encode(torch.tensor([1]))[0, 0]) == pytest.approx(2 / math.pi)


def test_counting_computations():
    torch.manual_seed(0)
    counted = sinusoidal_encoding.Counted(8)
    x = torch.zeros(1, 10, 8)
    for _ in range(3):
        positions = torch.arange(10)[None]
        assert torch.equal(counted.add(x, positions), Sinusoidal(8).add(x, positions))
    assert counted.computed == 1
    longer, places = torch.zeros(1, 100, 8), torch.arange(100).flip(0)[None]  # beyond the table
    assert torch.equal(counted.add(longer, places), Sinusoidal(8).add(longer, places))
    assert counted.computed == 2


# ---- quick runs ----


def test_encoding_once_runs():
    found = quick_data(sinusoidal_encoding.once)
    assert np.allclose(
        sinusoidal_encoding.once.draw([found]).values, [found["sinusoidal"], found["learned"]]
    )
    assert found["learned_trained"] == TESTED * position_tasks.WIDTH


@pytest.mark.slow
def test_order_runs():
    found = quick_data(permutation.order)
    drawn = permutation.order.draw([found, {**found, "told": [0.0, 0.0]}])
    assert np.allclose(drawn.values[:2], np.array(found["told"]) / 2)
    assert found["told"][0] < 0.3 < found["told"][1]


@pytest.mark.thorough
def test_waves_run():
    found = quick_data(sinusoidal_encoding.waves)
    drawn = sinusoidal_encoding.waves.draw([found])
    assert np.allclose(drawn.values, [found[wave]["right"] for wave in WAVES])
    assert found["sine and cosine"]["right"] > 0.9
    assert found["tangent"]["largest"] > 200


@pytest.mark.thorough
def test_beyond_length_runs():
    found = quick_data(length_extrapolation.beyond_length)
    drawn = length_extrapolation.beyond_length.draw([found]).series["ALiBi"]
    assert len(drawn) == TESTED // length_extrapolation.BLOCK
    assert drawn[1] == pytest.approx(np.mean(found["alibi"]["latest"][4:8]))
    assert np.mean(found["sinusoidal"]["copy_back"][3:16]) > 0.9
    assert found["sinusoidal"]["copy_back"][:3] == [0, 0, 0]  # nothing is asked there


@pytest.mark.thorough
def test_rotary_scaling_runs(monkeypatch):
    monkeypatch.setattr(length_extrapolation, "_time_ratio", lambda seed, length, tries: 1.0)
    found = changed_data(length_extrapolation.rotary_scaling)
    check(length_extrapolation.rotary_scaling, [found] * 10)
    drawn = length_extrapolation.rotary_scaling.draw([found])
    assert drawn.series["divided by 4"][-1] == pytest.approx(np.mean(found["far_letter"][2][-4:]))


def test_times_are_compared_by_turns_best_against_best(monkeypatch):
    """By a clock of our own: rotary takes 3 and 6 seconds, sinusoidal 8 and 2."""
    ticks = iter([0, 3, 10, 18, 20, 26, 30, 32])
    monkeypatch.setattr(
        length_extrapolation, "time", SimpleNamespace(perf_counter=lambda: next(ticks))
    )
    assert length_extrapolation._time_ratio(0, 16, 2) == 1.5
    assert next(ticks, None) is None
