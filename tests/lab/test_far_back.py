"""Gradients through time, recall by distance, far words: rules, measuring, pictures."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.lab.families import around, changed_data, quick_data, rule_test

from translucid_lab.claims import context_length, long_range_recall, sequence_tasks
from translucid_lab.claims.long_range_recall import (
    GRU,
    GRU_UNIFORM,
    LSTMS,
    PLAIN,
    RECALLED,
    RNN,
    RNN_UNIFORM,
    SPAN,
)

# ---- gradients through time ----


def reached(*orders: float, spread: float = 0.0) -> list[dict[str, Any]]:
    """log10 of the gradient far back, for the LSTMs by forget bias."""
    told = dict.fromkeys(PLAIN, -9.0) | dict(zip(LSTMS, orders, strict=True))
    return [
        {name: np.linspace(0, order + extra, SPAN).tolist() for name, order in told.items()}
        for extra in around(0.0, spread)
    ]


def test_gradients() -> None:
    data = quick_data(long_range_recall.gradients_in_time)
    assert all(len(values) == SPAN and values[0] == 0 for values in data.values())
    drawn = long_range_recall.gradients_in_time.draw([data, data]).series
    for name, values in drawn.items():
        np.testing.assert_allclose(np.log10(values), np.array(data[name])[::9])


@pytest.mark.parametrize("name", [RNN_UNIFORM, GRU, "LSTM, forget bias 3"])
def test_reach_against_finite_differences(name: str) -> None:
    net = long_range_recall.made(0, {**PLAIN, **LSTMS}[name], hidden=6)
    batch = sequence_tasks.recall(4)(torch.Generator().manual_seed(0), 3)
    ids = batch.inputs["ids"]
    found = long_range_recall.reach(net, ids, batch.targets)
    vectors = net.encoder.embedding(ids).detach()  # (rows, length, 6)
    slopes = torch.zeros_like(vectors)

    def loss(x: torch.Tensor) -> float:
        _, state = net.encoder.recurrent(x)
        return float(F.cross_entropy(net.head.linear(state.hidden[-1]), batch.targets,
                                     reduction="sum"))  # fmt: skip

    with torch.no_grad():
        for place in np.ndindex(*vectors.shape):
            up, down = vectors.clone(), vectors.clone()
            up[place] += 1e-6
            down[place] -= 1e-6
            slopes[place] = (loss(up) - loss(down)) / 2e-6
    sizes = slopes.norm(dim=-1).mean(dim=0).flip(0)
    np.testing.assert_allclose(10.0 ** np.array(found), sizes / sizes[0], rtol=1e-4)


def test_starts_differ() -> None:
    uniform, orthogonal = (long_range_recall.made(0, PLAIN[name]) for name in (RNN_UNIFORM, RNN))
    u, v = (net.encoder.recurrent.weights(0, "forward")[1] for net in (uniform, orthogonal))
    assert torch.allclose(v @ v.T, torch.eye(32), atol=1e-5)
    assert float(u.detach().abs().max()) <= 32**-0.5
    gru = long_range_recall.made(0, PLAIN[GRU_UNIFORM])
    assert (
        gru.parameters_count
        < long_range_recall.made(0, LSTMS["LSTM, forget bias 1"]).parameters_count
    )


# ---- recall ----


def recalled(
    accuracy: dict[str, tuple[float, float]] | None = None,
    reach: dict[str, float] | None = None,
    parameters: int = 300,
    spread: float = 0.0,
) -> list[dict[str, Any]]:
    """Near and far; RNNs that forget and GRUs that do not, unless told otherwise."""
    near_far = dict.fromkeys(RECALLED, (1.0, 1.0)) | {RNN: (1.0, 0.1), RNN_UNIFORM: (1.0, 0.1)}
    near_far |= accuracy or {}
    orders = {RNN: -9.0, RNN_UNIFORM: -20.0, GRU: -4.0, GRU_UNIFORM: -9.0} | (reach or {})
    rows = []
    for extra in around(0.0, spread):
        row: dict[str, Any] = {"lengths": [5, 20], "steps": 10}
        for name in RECALLED:
            near, far = near_far[name]
            row[name] = {
                "accuracy": [near, far + (extra if name in (RNN, RNN_UNIFORM) else 0.0)],
                "reach": orders.get(name, 0.0),
                "parameters": {RNN: 100, GRU: parameters}.get(name, 400),
            }
        rows.append(row)
    return rows


BOTH_FAR = {RNN: (1.0, 1.0), RNN_UNIFORM: (1.0, 1.0)}


NO_BETTER = {GRU: (1.0, 0.1), GRU_UNIFORM: (1.0, 0.1)}


@pytest.mark.thorough
def test_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: RECALLED[name] for name in (RNN_UNIFORM, GRU)}
    monkeypatch.setattr(
        long_range_recall, "RECALLED", few
    )  # the others are learned in the same way
    data = changed_data(long_range_recall.recall_by_distance)
    assert data["lengths"] == [4, 16]
    assert data[RNN_UNIFORM]["accuracy"][0] > 0.9
    assert data[GRU]["reach"] == pytest.approx(
        long_range_recall.reach_at_start(0, PLAIN[GRU], 8)[-1]
    )
    drawn = long_range_recall.recall_by_distance.draw([data, data]).series
    for name in few:
        np.testing.assert_allclose(drawn[name], data[name]["accuracy"])


# ---- far words ----


def moved(share: float, spread: float = 0.0, close: float = 1.0) -> list[dict[str, Any]]:
    """What the far word moves, as a fraction of what the near one does."""
    near, far = map(str, context_length.BACK)
    return [
        {near: {name: [1.0, close] for name in (*context_length.READERS, "truth")},
         far: {name: [1.0, value] for name in context_length.READERS} | {"truth": [1.0, 1.0]}}
        for value in around(share, spread)
    ]  # fmt: skip


test_rules = rule_test(
    {
        "C26": [
            (reached(0, 0, 1, 1), "supported"),
            (reached(-9, -8, -5, -3), "refuted"),
            (reached(-9, -3, 1, 1), "depends"),
            (reached(-1, -1, -1, -1, spread=2.0), "undecided"),
            (reached(1, 1, 1, -1, spread=0.5), "undecided"),
        ],
        "C21": [
            (recalled(), "supported"),
            (recalled(BOTH_FAR), "refuted"),
            (recalled(reach={RNN: -1.0, RNN_UNIFORM: 0.0}), "refuted"),
            (recalled({RNN: (1.0, 1.0)}), "depends"),
            (recalled(reach={RNN: -1.0}), "depends"),
            (recalled({RNN: (1.0, 0.5), RNN_UNIFORM: (1.0, 0.5)}, spread=0.4), "undecided"),
            (recalled({RNN: (0.1, 0.1), RNN_UNIFORM: (0.1, 0.1)}), "not tested"),  # nothing learned
        ],
        "C27": [
            (recalled(), "supported"),
            (recalled(NO_BETTER, reach={GRU: -19.0, GRU_UNIFORM: -30.0}), "refuted"),
            (recalled(parameters=400), "refuted"),  # no simpler
            (recalled(reach={GRU: -19.0}), "depends"),
            (recalled(NO_BETTER), "depends"),
            (
                recalled(BOTH_FAR | {RNN: (1.0, 0.9), RNN_UNIFORM: (1.0, 0.9)}, spread=0.3),
                "undecided",
            ),
        ],
        "C24": [
            (moved(1e-6), "supported"),
            (moved(0.5), "refuted"),
            (moved(0.05, 0.04), "undecided"),
            (moved(1e-6, close=0.1), "not tested"),  # not learned near by either
        ],
    }
)


@torch.no_grad()
def test_how_far_a_distribution_moves() -> None:
    """A net that reads nothing but the last word moves with that word alone."""
    net = context_length._language_model(0, "rnn")
    net.decoder.recurrent.weights(0, "forward")[1].zero_()
    generator = torch.Generator().manual_seed(0)
    texts = torch.randint(context_length.WORDS, (16, 30), generator=generator)
    near, far = context_length._moved(net, texts, 24)
    assert near > 1e-4
    assert far == pytest.approx(0, abs=1e-6)


def test_texts_hang_on_both_words() -> None:
    """Counted over many texts, the next word after each pair has the probabilities of the table."""
    generator = torch.Generator().manual_seed(1)
    chain = context_length.Texts(2, generator)
    texts = chain.draw(4000, generator)
    far, near, following = (texts[:, 3 + at : 35 + at].flatten() for at in (0, 2, 3))
    here = (far == 1) & (near == 2)
    counts = following[here].bincount(minlength=context_length.WORDS).double() / here.sum()
    truth = chain.log_probs(torch.tensor(2), torch.tensor(1)).exp()
    np.testing.assert_allclose(counts, truth, atol=0.05)


@pytest.mark.slow
def test_far_words() -> None:
    data = quick_data(context_length.far_words)
    near, far = map(str, context_length.BACK)
    drawn = context_length.far_words.draw([data, data]).series
    for name in (*context_length.READERS, "truth"):
        np.testing.assert_allclose(drawn[name], [data[near][name][1], data[far][name][1]])
