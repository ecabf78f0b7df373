"""Unrolling, sharing over time, counting places, time: rules, measuring, pictures."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.lab.families import around, check, quick_data, rule_test, verdict
from torch import nn

from translucid.tasks.batch import IGNORE, Batch
from translucid_lab.claims import recurrent_unrolling, sequence_tasks, sequential_time

# ---- the drills ----


def test_recall_asks_for_the_first_symbol() -> None:
    batch = sequence_tasks.recall(7)(torch.Generator().manual_seed(0), 50)
    assert batch.inputs["ids"].shape == (50, 7)
    assert torch.equal(batch.targets, batch.inputs["ids"][:, 0])
    assert batch.count == 50


def test_right_counts_targets_that_count() -> None:
    logits = torch.eye(3)[[0, 1, 2, 2]]
    assert sequence_tasks.right(logits, torch.tensor([0, 1, 1, IGNORE])) == pytest.approx(2 / 3)


def test_training_learns_clips_and_stops() -> None:
    net = sequence_tasks.recurrent_net(0, "rnn", vocab=8, outputs=8, hidden=16)
    found = sequence_tasks.train(
        net, sequence_tasks.recall(2), seed=0, steps=200, rate=1e-2, enough=0.1
    )
    assert sequence_tasks.accuracy(net, sequence_tasks.recall(2), seed=0) > 0.95
    assert found.steps < 200  # it had learned enough
    assert not found.broke
    assert found.losses[0] == pytest.approx(np.log(8), abs=0.5)


def _one_step(clip: float) -> float:
    """How far one step of plain descent moves the weights."""
    net = sequence_tasks.recurrent_net(0, "rnn", vocab=8, outputs=8, hidden=16)
    before = nn.utils.parameters_to_vector(net.parameters()).detach()
    sequence_tasks.train(
        net, sequence_tasks.recall(4), seed=0, steps=1, rate=1.0, clip=clip, optimizer="sgd"
    )
    return float((nn.utils.parameters_to_vector(net.parameters()).detach() - before).norm())


def test_clipping_is_the_loops_own() -> None:
    net = sequence_tasks.recurrent_net(0, "rnn", vocab=8, outputs=8, hidden=16)
    (norm,) = sequence_tasks.train(net, sequence_tasks.recall(4), seed=0, steps=1, clip=0.1).norms
    assert norm > 0.2  # as it was before clipping
    assert _one_step(0.1) == pytest.approx(0.1, rel=1e-3)
    assert _one_step(sequence_tasks.NEVER_CLIP) == pytest.approx(norm, rel=1e-3)


def test_a_run_with_a_nan_loss_is_marked() -> None:
    def broken(network: nn.Module, batch: Batch) -> torch.Tensor:
        return sequence_tasks.summed_loss(network, batch) * torch.nan

    net = sequence_tasks.recurrent_net(0, "rnn", vocab=8, outputs=8, hidden=4)
    found = sequence_tasks.train(net, sequence_tasks.recall(2), seed=0, steps=3, loss=broken)
    assert found.broke
    assert found.steps == 0


# ---- unrolling ----


def unrolled(copies: float = 1e-12, differences: float = 1e-9) -> list[dict[str, Any]]:
    rows = []
    for _ in range(10):
        each = {"copies": 1e-12, "differences": 1e-9, "adds": [0.1, 0.2]}
        rows.append({cell: dict(each) for cell in recurrent_unrolling.CELLS})
    rows[3]["lstm"] |= {"copies": copies, "differences": differences}
    return rows


def test_unrolling() -> None:
    data = quick_data(recurrent_unrolling.unrolling)
    assert verdict(recurrent_unrolling.unrolling, "C18", [data] * 10) == "supported"
    assert len(data["rnn"]["adds"]) == 6
    drawn = recurrent_unrolling.unrolling.draw([data, data]).series
    np.testing.assert_allclose(drawn["GRU"], data["gru"]["adds"])


def test_a_wrong_gradient_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that forget half of their state are another net."""
    whole = recurrent_unrolling._deep

    def half(cell: Any, x: torch.Tensor, copies: Any) -> torch.Tensor:
        return whole(cell, x[:, 1:], copies[1:])

    monkeypatch.setattr(recurrent_unrolling, "_deep", half)
    with pytest.raises(RuntimeError, match="not have been used"):
        recurrent_unrolling.unrolling.run(0, True)
    monkeypatch.setattr(recurrent_unrolling, "_deep", lambda *given: 1.01 * whole(*given))
    found = recurrent_unrolling.unrolling.run(0, True)
    assert verdict(recurrent_unrolling.unrolling, "C18", [found]) == "refuted"


# ---- sharing over time ----


def shared(
    rnn: tuple[float, float] = (1.0, 1.0),
    mlp: tuple[float, float] = (0.5, 0.5),
    trained: float = 1.0,
    parameters: int = 100,
    spread: float = 0.0,
) -> list[dict[str, Any]]:
    """Accuracy at new places, asked at each place and at the end."""
    return [
        {
            question: {
                "RNN": {"trained": trained, "new": rnn[at] + extra, "parameters": parameters},
                "MLP": {"trained": 1.0, "new": mlp[at], "parameters": 200},
            }
            for at, question in enumerate(recurrent_unrolling.QUESTIONS)
        }
        for extra in around(0.0, spread)
    ]


@pytest.mark.parametrize("half", recurrent_unrolling.HALVES)
@pytest.mark.parametrize("question", recurrent_unrolling.QUESTIONS)
def test_the_motif_is_where_it_should_be(half: str, question: str) -> None:
    batch = recurrent_unrolling._asked(question, half)(torch.Generator().manual_seed(0), 300)
    first, beyond = recurrent_unrolling.HALVES[half]
    for row, target in zip(batch.inputs["ids"].tolist(), batch.targets, strict=True):
        ends = [
            t for t in range(2, len(row)) if tuple(row[t - 2 : t + 1]) == recurrent_unrolling.MOTIF
        ]
        assert len(ends) <= 1
        assert all(first + 2 <= end < beyond for end in ends)
        if question == "at the end":
            assert int(target) == len(ends)
        else:
            assert [t for t in range(len(row)) if target[t] == 1] == ends
            counted = (target != IGNORE).nonzero().flatten().tolist()
            assert counted == list(range(first, beyond))
    apart = recurrent_unrolling._asked(question, half, apart=True)(
        torch.Generator().manual_seed(0), 300
    )
    told = apart.inputs["x"].unflatten(1, (-1, recurrent_unrolling.SYMBOLS)).argmax(-1)
    assert torch.equal(told, batch.inputs["ids"])  # the same texts, letter by letter
    assert torch.equal(apart.targets, batch.targets)


def test_yes_and_no_count_alike() -> None:
    logits = torch.tensor([[1.0, 0.0]] * 10)  # always no
    targets = torch.tensor([0] * 8 + [1] + [IGNORE])
    assert recurrent_unrolling._balanced(logits, targets) == 0.5


@pytest.mark.slow
def test_sharing() -> None:
    data = quick_data(recurrent_unrolling.sharing)
    drawn = recurrent_unrolling.sharing.draw([data, data])
    told = [
        data[q][net][half]
        for q in data
        for net in ("RNN", "MLP")
        for half in recurrent_unrolling.HALVES
    ]
    np.testing.assert_allclose(drawn.values, told)  # type: ignore[attr-defined]


# ---- counting places ----


def counted(accuracy: float, spread: float = 0.0) -> list[dict[str, Any]]:
    return [{"accuracy": each, "blind": 0.4, "places": [each] * 4}
            for each in around(accuracy, spread)]  # fmt: skip


@pytest.mark.slow
def test_places() -> None:
    data = quick_data(recurrent_unrolling.positions)
    assert np.mean(data["places"]) == pytest.approx(data["accuracy"])
    assert data["blind"] * 10 == pytest.approx(round(data["blind"] * 10))
    drawn = recurrent_unrolling.positions.draw([data, data]).series
    np.testing.assert_allclose(drawn["RNN"], data["places"])


# ---- time ----


def timed(rnn: float, lstm: float, spread: float = 0.05) -> list[dict[str, Any]]:
    """How long a plain RNN and an LSTM take at every length, times self-attention."""
    return [{"device": "one core", "lengths": [64, 256, 1024], "attention": [1.0] * 3,
             "rnn": [rnn * (1 + j)] * 3, "lstm": [lstm * (1 + j)] * 3}
            for j in around(0.0, spread)]  # fmt: skip


test_rules = rule_test(
    {
        "C18": [
            (unrolled(), "supported"),
            (unrolled(copies=1e-2), "refuted"),
            (unrolled(differences=1e-2), "refuted"),
            (unrolled(copies=1e-5), "undecided"),
            (unrolled(differences=float("nan")), "undecided"),
        ],
        "C19": [
            (shared(), "supported"),
            (shared(rnn=(0.5, 0.5)), "refuted"),
            (shared(mlp=(1.0, 1.0)), "refuted"),  # then it is not the sharing
            (shared(parameters=300), "refuted"),
            (shared(rnn=(1.0, 0.5)), "depends"),
            (shared(rnn=(0.8, 0.8), spread=0.15), "undecided"),
            (shared(trained=0.6), "not tested"),  # nothing was learned
        ],
        "C20": [
            (counted(0.41), "supported"),
            (counted(0.99), "refuted"),
            (counted(0.7), "undecided"),  # neither
            (counted(0.93, 0.06), "undecided"),
        ],
        "C23": [
            (timed(3.0, 4.0), "supported"),
            (timed(1.5, 1.4), "supported"),  # not twice as long, but longer
            (timed(0.5, 0.4), "refuted"),
            (timed(3.0, 0.4), "depends", "fails: LSTM at 256 tokens and LSTM at 1024 tokens"),
            (timed(1.0, 4.0, spread=0.2), "undecided"),
        ],
    }
)


@pytest.mark.slow
def test_times() -> None:
    """Timings differ between runs: only their shape is told here."""
    data = sequential_time.times.run(0, True)
    check(sequential_time.times, [data])
    assert all(value > 0 for name in (*sequential_time.CELLS, "attention") for value in data[name])
    drawn = sequential_time.times.draw([data, data]).series
    np.testing.assert_allclose(drawn["rnn"], data["rnn"])
