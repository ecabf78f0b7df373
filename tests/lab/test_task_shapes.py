"""The shapes of tasks: rules on made-up data, quick runs, and the data they are about."""

import numpy as np
import pytest
import torch
from tests.lab.families import around, check, quick_data, verdict

from translucid.tasks.batch import IGNORE
from translucid_lab.claims import task_shapes
from translucid_lab.claims.task_shapes import (
    READERS,
    SYSTEMS,
    TAGGERS,
    tag_each_word,
    translated,
    unequal_lengths,
    whole_sentence,
)

EVERY = (whole_sentence, tag_each_word, unequal_lengths)


def rows(**columns: list[float]) -> list[dict[str, float]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


@pytest.mark.parametrize(
    ("whole", "half", "bag", "wanted"),
    [
        (0.95, 0.7, 0.6, "supported"),
        (0.95, 0.9, 0.6, "refuted"),
        (0.95, 0.7, 0.94, "refuted"),
        (0.85, 0.75, 0.6, "undecided"),
        (0.6, 0.4, 0.3, "not tested"),
    ],
)
def test_the_whole_sentence(whole: float, half: float, bag: float, wanted: str) -> None:
    spread = (0.0, 0.02, 0.0)
    data = rows(**{name: around(value, each) for name, value, each in
                   zip(READERS, (whole, half, bag), spread, strict=True)})  # fmt: skip
    assert verdict(whole_sentence, "C15", data) == wanted


@pytest.mark.parametrize(
    ("both", "spread", "aligned", "wanted"),
    [
        (0.97, 0.01, 1.0, "supported"),
        (0.7, 0.01, 1.0, "refuted"),
        (0.97, 0.01, 0.0, "refuted"),
        (0.85, 0.01, 1.0, "undecided"),
        (0.9, 0.05, 1.0, "undecided"),
    ],
)
def test_a_tag_for_each_word(both: float, spread: float, aligned: float, wanted: str) -> None:
    data = rows(**{TAGGERS[0]: around(both, spread), TAGGERS[1]: around(0.6),
                   "aligned": around(aligned)})  # fmt: skip
    assert verdict(tag_each_word, "C16", data) == wanted


@pytest.mark.parametrize(
    ("aligned", "two", "one", "wanted"),
    [
        (0.2, 0.98, 0.3, "supported"),
        (0.2, 0.98, 0.99, "depends"),
        (0.2, 0.5, 0.3, "not tested"),
        (0.9, 0.98, 0.3, "refuted"),
        (0.2, 0.98, 0.9, "undecided"),
        (0.5, 0.98, 0.3, "undecided"),
    ],
)
def test_a_text_for_a_text(aligned: float, two: float, one: float, wanted: str) -> None:
    data = rows(**{name: around(value, 0.005) for name, value in
                   zip(SYSTEMS, (aligned, two, one), strict=True)},
                **{"equal lengths": around(0.2)})  # fmt: skip
    assert verdict(unequal_lengths, "C17", data) == wanted


def test_the_made_up_language() -> None:
    assert translated([3, 4, 9]) == [3, 4, 9, 14, 12]  # the last particle comes first
    assert translated([4, 5]) == [4, 5]


def test_new_sentences_are_new() -> None:
    source, target = task_shapes._apart(500, 100, torch.Generator().manual_seed(0))
    assert source.shape[0] == target.shape[0] == 600
    rows = [tuple(row) for row in source.tolist()]
    assert len(set(rows[500:])) == 100
    assert not set(rows[:500]) & set(rows[500:])
    for row, wanted in zip(rows[500:], target[500:].tolist(), strict=True):
        words = [word for word in row if word]
        assert [word for word in wanted if word > task_shapes.END] == translated(words)


def test_each_system_is_asked_for_the_same_words() -> None:
    """What the three nets should answer, put together again, is the same translation; and none is
    given a word that it should write."""
    source, target = task_shapes._pairs(40, torch.Generator().manual_seed(0))
    vocab = 3 + task_shapes.WORDS + task_shapes.WORDS // 3
    for system in SYSTEMS:
        net, given, wanted = task_shapes._system(system, source, target, vocab)
        assert wanted.shape == net(*given).shape[:2]
        for row in range(40):
            asked = [word for word in wanted[row].tolist() if word != IGNORE]
            whole = [word for word in target[row].tolist() if word != 0]
            fits = int((source[row] != 0).sum())
            assert asked == (whole[:fits] if system == SYSTEMS[0] else whole)
        if system != SYSTEMS[0]:
            read = given[1] if system == SYSTEMS[1] else given[0][:, source.shape[1] :]
            assert torch.equal(read[:, 1:], target[:, :-1])


def test_half_a_sentence() -> None:
    row = torch.tensor([5, 6, 7, 8, 9, 0, 0])
    assert task_shapes.first_half(row).tolist() == [5, 6, 7, 0, 0, 0, 0]


@pytest.mark.thorough
@pytest.mark.parametrize("experiment", EVERY, ids=lambda each: each.name)
def test_quick_runs(experiment) -> None:  # type: ignore[no-untyped-def]
    data = [quick_data(experiment)] * 10
    check(experiment, data)
    names = experiment.draw(data).labels
    np.testing.assert_allclose(experiment.draw(data).values, [data[0][name] for name in names])
