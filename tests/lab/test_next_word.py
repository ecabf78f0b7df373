"""Next-word prediction: rules on made-up data, quick runs, and the measuring itself."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from tests.lab.families import Rows, around, check, rule_test

from translucid.models.autoregressive import GenerationInputs
from translucid_lab.claims import next_word_prediction
from translucid_lab.claims.sequential_time import LENGTHS, SPEEDS, all_at_once
from translucid_lab.claims.toyland_text import Sentences, sentences


def targets(one: float, spread: float = 0.01, prefix: float = 0.0) -> Rows:
    return [{"every word": 3.0, "one word": value, "prefix": prefix}
            for value in around(one, spread)]  # fmt: skip


def amounts(counting: tuple[float, ...], transformer: tuple[float, ...]) -> Rows:
    """By how much the losses of n-grams and Transformer lie above that of the LSTM."""
    return [{"sizes": [1, 2, 3], "LSTM": [3.0 + noise] * 3,
             "n-grams": [3 + gap for gap in counting],
             "Transformer": [3 + gap for gap in transformer]}
            for noise in around(0, 0.02)]  # fmt: skip


def widths(*losses: float) -> Rows:
    return [{"loss": [loss + noise for loss in losses], "counts": 4.0} for noise in around(0, 0.02)]


def timed(gru: float, writes: float = 30.0) -> Rows:
    def times(reads: float, writing: float) -> dict[str, list[float]]:
        return {"reads": [reads] * 2, "trains": [2 * reads] * 2, "writes": [writing] * 2}

    return [{"lengths": [32, 128], "GRU": times(gru * (1 + noise), 30.0),
             "Transformer": times(1.0, writes)} for noise in around(0, 0.1)]  # fmt: skip


test_rules = rule_test(
    {
        "C14": [
            (targets(3.02), "supported"),
            (targets(3.5), "depends"),
            (targets(3.5, prefix=0.1), "refuted"),
            (targets(3.1, spread=0.05), "undecided"),
        ],
        "C25": [
            (amounts((-0.2, 0.2, 0.2), (0.2, 0.2, -0.2)), "supported"),
            (amounts((0.2, 0.2, 0.2), (0.2, 0.2, -0.2)), "refuted", "n-grams are better with the"),
            (amounts((-0.2, 0.2, 0.2), (0.2, 0.2, 0.2)), "refuted", "the Transformer is better"),
            (amounts((-0.2, 0.2, 0.2), (-0.2, -0.2, -0.2)), "refuted", "the LSTM is the best at"),
            (amounts((-0.2, 0.2, 0.2), (0.2, 0.0, -0.2)), "undecided"),
        ],
        "C88": [
            (timed(3.0), "supported"),
            (timed(0.5), "refuted"),
            (timed(3.0, writes=2.0), "refuted"),
            (timed(1.0), "undecided"),
        ],
        "C89": [
            (widths(3.5, 3.3, 3.1, 3.0), "supported"),
            (widths(4.5, 3.3, 3.1, 3.0), "refuted"),
            (widths(3.03, 3.02, 3.01, 3.0), "refuted"),
            (widths(4.0, 3.3, 3.1, 3.0), "undecided"),
        ],
    }
)


def test_one_target_is_one_of_the_text() -> None:
    wanted = torch.tensor([[4, 5, 6, 0], [7, 0, 0, 0], [8, 9, 0, 0]] * 20)
    chosen = next_word_prediction._only_one(wanted, torch.Generator().manual_seed(0))
    assert ((chosen != 0).sum(1) == 1).all()
    assert torch.equal(chosen[chosen != 0], wanted[chosen != 0])
    assert {int(row.argmax()) for row in chosen[::3]} == {0, 1, 2}


def test_loss_of_word_counts_by_hand() -> None:
    """Beside the same by hand: add one to every count, take the logarithm of the share."""
    texts = Sentences(torch.tensor([[2, 3, 3], [2, 4, 0]]), torch.tensor([[2, 3, 1], [4, 2, 0]]), 5)
    counts = Counter([3, 3, 4])
    share = {word: (counts[word] + 1) / 7 for word in (1, 2, 3, 4)}
    by_hand = -np.mean([math.log(share[word]) for word in (3, 1, 2)])
    assert texts.counted == pytest.approx(by_hand)


@pytest.mark.slow
def test_new_sentences_are_the_same_for_every_amount() -> None:
    few, many = sentences(0, 10), sentences(0, 100)
    assert torch.equal(few.new, many.new)
    assert torch.equal(few.train, many.train[:10])


def test_writing_reads_the_same_words() -> None:
    """One by one and all at once are two ways to one answer, so their times may be compared."""
    net = next_word_prediction.made(next_word_prediction.transformer(20), 0).eval()
    ids = torch.arange(8)[None]
    state = net.start(GenerationInputs(1), capacity=8)
    with torch.no_grad():
        steps = torch.cat([net.step(ids[:, at : at + 1], state) for at in range(8)], dim=1)
        torch.testing.assert_close(steps, net(ids))


@pytest.mark.slow
def test_times_have_the_shape_that_rule_and_picture_read() -> None:
    data = [all_at_once.run(seed, True) for seed in range(2)]
    check(all_at_once, data)
    assert all(len(data[0]["GRU"][speed]) == len(LENGTHS[:2]) for speed in SPEEDS)
    mean = np.mean([each["GRU"]["reads"] for each in data], axis=0)
    np.testing.assert_allclose(all_at_once.draw(data).series["GRU reads"], mean)


def test_ngrams_are_measured_on_the_half_that_networks_are_measured_on() -> None:
    known, strange = [2, 3, 4, 0, 0], [4, 4, 2, 2, 3]
    train = torch.tensor([known, [5, 6, 7, 8, 9]] * 20)
    low, high = (
        next_word_prediction.counting_loss(Sentences(train, torch.tensor(new), 10))
        for new in ([strange, strange, known, known], [known, known, strange, strange])
    )
    assert low < 0.2 < 2 < high
    every = torch.tensor([known] * 4)  # a text ends with its last word, not with padding
    assert next_word_prediction.counting_loss(Sentences(every, every, 10)) < 0.2
