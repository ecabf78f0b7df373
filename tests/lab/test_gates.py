"""What the gates of an LSTM do: rules, measuring, pictures."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.lab.families import around, quick_data, rule_test

from translucid.tasks.batch import IGNORE
from translucid_lab.claims import lstm_gates
from translucid_lab.claims.sequence_tasks import recurrent_net

# ---- the forget gate ----


def forgetting(
    held: float = 0.5,
    accuracy: float = 1.0,
    left: float = 0.0,
    moved: float = 0.0,
    spread: float = 0.0,
) -> list[dict[str, Any]]:
    units = [0.5] * lstm_gates.HIDDEN
    return [
        {
            "left": left,
            "moved": moved,
            "accuracy": accuracy,
            "held open": each,
            "kept": [0.2, 0.9],
            "gates": {"at resets": units, "elsewhere": units},
        }
        for each in around(held, spread)
    ]


def test_counting_starts_again_at_resets() -> None:
    batch = lstm_gates.counting(torch.Generator().manual_seed(0), 40)
    for row, targets in zip(batch.inputs["ids"].tolist(), batch.targets.tolist(), strict=True):
        count = 0
        for symbol, target in zip(row, targets, strict=True):
            count = 0 if symbol == lstm_gates.RESET else count + (symbol == lstm_gates.TICK)
            assert target == min(count, lstm_gates.COUNTED)


def test_by_hand() -> None:
    assert lstm_gates._by_hand(0) == {"left": 0.0, "moved": 0.0}


def test_only_rows_with_a_reset_are_held_open() -> None:
    held = lstm_gates._held_open(torch.tensor([True, False]))(torch.full((2, 3), 0.25))
    assert held.tolist() == [[1.0] * 3, [0.25] * 3]


@pytest.mark.slow
def test_forgetting() -> None:
    data = quick_data(lstm_gates.forget_gate)
    assert data["accuracy"] > 0.9
    falls = np.subtract(data["gates"]["elsewhere"], data["gates"]["at resets"])
    assert (np.diff(falls) <= 1e-6).all()  # the one that drops most first
    drawn = lstm_gates.forget_gate.draw([data, data]).series
    np.testing.assert_allclose(drawn["at resets"], data["gates"]["at resets"])


# ---- storing and showing ----


def stored(
    hidden: float = 0.2,
    cell: float = 1.0,
    hidden_spread: float = 0.0,
    spread: float = 0.0,
    **told: float,
) -> list[dict[str, Any]]:
    usual = {
        "accuracy": 1.0, "silent": 1.0, "input gate open": 0.5, "other candidate": 0.9,
        "other input gate": 0.9, "erased": 0.25, "not shown": 0.0, "alone": 1.0,
        "answer alone": 0.5,
    }  # fmt: skip
    usual |= {name.replace("_", " "): value for name, value in told.items()}
    rows = []
    for extra in around(0.0, 1.0):
        changed = {name: usual[name] + spread * extra for name in map(_spaced, told)}
        places = lstm_gates.PLACES
        probes = {"cell": [cell] * places, "hidden": [hidden + hidden_spread * extra] * places}
        rows.append({**usual, **changed, "probe": probes})
    return rows


def _spaced(name: str) -> str:
    return name.replace("_", " ")


test_rules = rule_test(
    {
        "C28": [
            (forgetting(), "supported"),
            (forgetting(left=0.5), "refuted"),
            (forgetting(moved=0.5), "refuted"),
            (forgetting(held=1.0), "refuted"),  # the net does not need it
            (forgetting(held=0.9, spread=0.1), "undecided"),
            (forgetting(accuracy=0.7), "not tested"),  # nothing was learned
        ],
        "C29": [
            (stored(), "supported"),
            (stored(input_gate_open=1.0), "undecided"),  # no loss at all is at the bar
            (stored(accuracy=0.95, input_gate_open=1.0), "refuted"),  # an open gate helps
            (stored(other_candidate=0.1), "refuted"),
            (stored(other_input_gate=0.1), "refuted"),
            (stored(input_gate_open=0.98, spread=0.01), "supported"),  # by any amount
            (stored(input_gate_open=0.98, spread=0.09), "undecided"),
            (stored(accuracy=0.5), "not tested"),
        ],
        "C30": [
            (stored(), "supported"),
            (stored(cell=0.5), "refuted"),
            (stored(erased=0.9), "refuted"),
            (stored(not_shown=0.9), "refuted"),
            (stored(alone=0.3), "refuted"),
            (stored(hidden=1.0), "depends"),
            (stored(hidden=1.0, alone=0.3), "refuted"),
            (stored(hidden=0.5, hidden_spread=0.3), "undecided"),
            (stored(erased=0.5, spread=0.3), "undecided"),
            (stored(accuracy=0.5), "not tested"),
        ],
    }
)


def test_answers_are_drawn_as_they_are() -> None:
    data = stored(hidden=0.6, erased=0.3, spread=0.1)
    drawn = lstm_gates.store_and_show.draw(data)
    told = dict(zip(drawn.labels, drawn.values, strict=True))  # type: ignore[attr-defined]
    assert told["as it is"] == 1.0
    assert told["forget and input gate at 0 once"] == pytest.approx(0.3)
    assert told["as it is, while waiting: a probe of h"] == pytest.approx(0.6)


def test_the_stored_symbol_follows_the_mark() -> None:
    batch = lstm_gates.storing(torch.Generator().manual_seed(0), 100)
    for row, targets in zip(batch.inputs["ids"].tolist(), batch.targets.tolist(), strict=True):
        place, asked = row.index(lstm_gates.STORE) + 1, row.index(lstm_gates.ASK)
        assert place < asked
        assert targets[asked] == row[place] < lstm_gates.KINDS
        rest = {target for at, target in enumerate(targets) if at != asked}
        assert rest <= {lstm_gates.BLANK, IGNORE}


def test_probe_reads_only_what_the_rows_contain() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(lstm_gates.KINDS, (400,), generator=generator)
    noise = torch.randn(400, 8, generator=generator)
    told = noise.clone()
    told[:, : lstm_gates.KINDS] += 8 * torch.nn.functional.one_hot(labels, lstm_gates.KINDS)
    assert lstm_gates.probe(told, labels) > 0.97
    assert lstm_gates.probe(noise, labels) < 0.4  # guessing gives 0.25
    assert lstm_gates.probe(torch.zeros(400, 8), labels) < 0.4


def test_edits_reach_the_cell() -> None:
    """Shut all gates once, and a state from before is of no consequence."""
    net = recurrent_net(0, "lstm", vocab=6, outputs=5, hidden=8, tags=True)
    ids = torch.randint(4, (2, 6), generator=torch.Generator().manual_seed(0))
    ids[1, 3:] = ids[0, 3:]  # different beginnings, one ending
    shut = {"forget_gate@2": 0.0, "input_gate@2": 0.0}
    first, second = lstm_gates.edited_logits(net, ids, shut)[:, 3:]
    assert torch.equal(first, second)
    first, second = lstm_gates.edited_logits(net, ids, {})[:, 3:]
    assert not torch.equal(first, second)
    assert not lstm_gates.gate_values(net, ids, shut)["cell"][:, 2].any()


@pytest.mark.slow
def test_store_and_show() -> None:
    data = quick_data(lstm_gates.store_and_show)
    assert data["accuracy"] > 0.9
    assert data["probe"]["cell"][0] < 0.5  # nothing is stored yet
