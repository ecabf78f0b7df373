"""Intervals and p-values: equal to plain loops over the same draws, and to sacrebleu's."""

import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from translucid.tasks import metrics
from translucid.tasks.significance import Sums, interval, of_lines, p_value, ratio

SAMPLES, SEED = 100, 12345


def right_and_wrong(seed: int, accuracy: float, count: int = 37) -> list[bool]:
    dice = random.Random(seed)
    return [dice.random() < accuracy for _ in range(count)]


def of_hits(hits: list[bool]) -> Sums:
    return of_lines(range(1, len(hits) + 1), [(float(hit), 1.0) for hit in hits], ratio)


def test_the_interval_of_an_accuracy_is_that_of_a_plain_loop() -> None:
    hits = right_and_wrong(1, 0.7)
    draws = np.random.default_rng(SEED).choice(len(hits), size=(SAMPLES, len(hits)), replace=True)
    scores = []
    for draw in draws.tolist():
        sample = [hits[place] for place in draw]
        scores.append(sum(sample) / len(sample))
    scores.sort()
    assert interval(of_hits(hits), SAMPLES, SEED) == (scores[2], scores[-3])


def test_the_p_value_of_an_accuracy_is_that_of_a_plain_loop() -> None:
    one, other = right_and_wrong(1, 0.8), right_and_wrong(2, 0.6)
    count = len(one)
    swaps = np.random.default_rng(SEED).integers(2, size=(SAMPLES, count), dtype=bool).tolist()
    wanted = abs(sum(one) - sum(other))
    reached = 0
    for swap in swaps:
        first = [a if kept else b for a, b, kept in zip(one, other, swap, strict=True)]
        second = [b if kept else a for a, b, kept in zip(one, other, swap, strict=True)]
        reached += abs(sum(first) - sum(second)) >= wanted
    p = p_value(of_hits(one), of_hits(other), SAMPLES, SEED)
    assert p == (reached + 1) / (SAMPLES + 1)
    assert p == p_value(of_hits(other), of_hits(one), SAMPLES, SEED)
    assert 0.01 < p < 1
    assert p_value(of_hits(one), of_hits(one), SAMPLES, SEED) == 1


def sentences(seed: int, noise: float) -> list[str]:
    """The same random sentences, some words of which are others."""
    texts, dice = random.Random(0), random.Random(seed)
    words = [f"w{n}" for n in range(30)]
    lines = [texts.choices(words, k=texts.randint(3, 12)) for _ in range(45)]
    return [
        " ".join(dice.choice(words) if dice.random() < noise else word for word in line)
        for line in lines
    ]


def test_bleu_and_chrf_are_those_of_sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    """p by its approximate randomization, intervals by its bootstrap, of the same seed."""
    monkeypatch.setenv("SACREBLEU_SEED", str(SEED))
    gold, systems = sentences(1, 0.0), [("a", sentences(2, 0.3)), ("b", sentences(3, 0.35))]
    theirs = {"BLEU": BLEU(), "chrF2": CHRF()}
    tests = {
        kind: PairedTest(systems, theirs, [gold], test_type=kind, n_samples=SAMPLES)()[1]
        for kind in ("ar", "bs")
    }
    for name, metric in zip(theirs, metrics.translation_metrics(), strict=True):
        ours = [
            of_lines(range(1, len(gold) + 1), *metrics.corpus_sums(metric, lines, gold))
            for _, lines in systems
        ]
        results = tests["ar"][name]
        assert [one.value for one in ours] == pytest.approx([r.score for r in results])
        p = p_value(*ours, SAMPLES, SEED)
        assert p == results[1].p_value
        assert 0.02 < p < 1
        for one, result in zip(ours, tests["bs"][name], strict=True):
            low, high = interval(one, SAMPLES, SEED)
            assert (high - low) / 2 == pytest.approx(result.ci, rel=1e-6)
            assert low < result.mean < high


def test_items_of_one_line_are_one_example() -> None:
    sums = of_lines([3, 5, 3], [(1.0, 2.0), (0.0, 1.0), (0.5, 1.0)], ratio)
    assert sums.examples == (3, 5)
    assert sums.rows.tolist() == [[1.5, 3.0], [0.0, 1.0]]
    assert sums.value == 1.5 / 4


def test_macro_f1_and_r_squared_of_sums_are_those_of_the_values() -> None:
    dice = random.Random(4)
    gold, predicted = (dice.choices("abc", k=40) for _ in range(2))
    labels = sorted({*gold, *predicted})
    counts = [
        [float(n) for x in labels for n in (p == g == x, p == x, g == x)]
        for p, g in zip(predicted, gold, strict=True)
    ]
    sums = np.array(counts).sum(axis=0)
    assert metrics.macro_f1_of_counts(sums) == pytest.approx(metrics.macro_f1(predicted, gold))
    for places in ([1, 2, 3], [5, 5, 9]):  # samples that may lack a label
        part = [[values[place] for place in places] for values in (predicted, gold)]
        of_part = np.array([counts[place] for place in places]).sum(axis=0)
        assert metrics.macro_f1_of_counts(of_part) == pytest.approx(metrics.macro_f1(*part))
    made, right = ([dice.random() for _ in range(20)] for _ in range(2))
    terms = [((p - g) ** 2, 1.0, g, g**2) for p, g in zip(made, right, strict=True)]
    assert metrics.r_squared_of_sums(np.array(terms).sum(axis=0)) == pytest.approx(
        metrics.r_squared(made, right)
    )
