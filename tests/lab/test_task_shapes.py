"""The shapes of tasks: rules on made-up data, quick runs, and the data they are about."""

import torch
from tests.lab.families import Rows, around, rule_test

from translucid.tasks.batch import IGNORE
from translucid_lab.claims import task_shapes
from translucid_lab.claims.task_shapes import READERS, SYSTEMS, TAGGERS, translated


def rows(**columns: list[float]) -> list[dict[str, float]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def read(whole: float, first: float, second: float, bag: float = 0.5) -> Rows:
    columns = around(whole), around(first, 0.02), around(second), around(bag)
    return rows(**dict(zip(READERS, columns, strict=True)))


def tagged(both: float, spread: float = 0.01, aligned: float = 1.0) -> Rows:
    return rows(**{TAGGERS[0]: around(both, spread), TAGGERS[1]: around(0.6),
                   "aligned": around(aligned)})  # fmt: skip


def written(aligned: float, two: float, one: float) -> Rows:
    values = [around(value, 0.005) for value in (aligned, two, one)]
    return rows(**dict(zip(SYSTEMS, values, strict=True)), **{"equal lengths": around(0.2)})


test_rules = rule_test(
    {
        "C15": [
            (read(0.95, 0.7, 0.6), "supported"),
            (read(0.95, 0.9, 0.6), "refuted"),
            (read(0.95, 0.7, 0.94), "refuted"),  # the second half is enough
            (read(0.95, 0.7, 0.6, bag=0.95), "supported"),  # a bag holds the whole sentence
            (read(0.85, 0.75, 0.6), "undecided"),
            (read(0.6, 0.4, 0.3), "not tested"),
        ],
        "C16": [
            (tagged(0.97), "supported"),
            (tagged(0.7), "refuted"),
            (tagged(0.97, aligned=0.0), "refuted"),
            (tagged(0.85), "undecided"),
            (tagged(0.9, spread=0.05), "undecided"),
        ],
        "C17": [
            (written(0.2, 0.98, 0.3), "supported"),
            (written(0.2, 0.98, 0.99), "depends"),
            (written(0.2, 0.5, 0.3), "not tested"),
            (written(0.9, 0.98, 0.3), "refuted"),
            (written(0.2, 0.98, 0.9), "undecided"),
            (written(0.5, 0.98, 0.3), "undecided"),
        ],
    }
)


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


def test_each_system_has_the_same_targets() -> None:
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
    assert task_shapes.second_half(row).tolist() == [7, 8, 9, 0, 0, 0, 0]
