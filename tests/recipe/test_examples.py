"""Examples held out of the training data: evenly, and none that training asks too."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from translucid.checks.data import crossed
from translucid.errors import InputError
from translucid.recipe.examples import Examples, load_examples
from translucid.recipe.recipe import parse


def loaded(folder: Path, task: str, rows: Sequence[str]) -> tuple[Examples, list[str]]:
    lines: list[str] = []
    path = folder / "train.tsv"
    path.write_text("".join(f"{row}\n" for row in rows), "utf-8")
    return load_examples(
        parse({"task": {"kind": task}, "data": {"train": [str(path)]}}), lines.append
    ), lines


def rows_of(records: Sequence[Any]) -> list[int]:
    return [record.line for record in records]


def test_of_different_texts_every_nth_is_held_out(tmp_path: Path) -> None:
    rows = [f"text {n}\ttarget {n}" for n in range(100)]
    examples, lines = loaded(tmp_path, "translate", rows)
    assert rows_of(examples.valid) == [1, 21, 41, 61, 81]
    assert len(examples.train) == 95
    assert lines[-1] == "data.valid was not given: 5 of the training examples held out for it"


def test_what_asks_the_same_is_held_out_once_and_not_trained_on(tmp_path: Path) -> None:
    """A source with two translations, and lines that stand there many times."""
    rows = [f"text {n % 40}\ttarget {n}" for n in range(60)] + ["yes\tja"] * 20
    examples, lines = loaded(tmp_path, "translate", rows)
    assert crossed(examples.train, examples.valid, "valid").ok
    times = Counter(row.split("\t")[0] for row in rows)
    held = [record.source for record in examples.valid]
    assert len(set(held)) == len(held) > 0
    assert {r.source for r in examples.train} == set(times) - set(held)
    assert len(examples.train) == len(rows) - sum(times[source] for source in held)
    copies = sum(times[source] - 1 for source in held)
    assert copies > 0
    assert lines[-1].endswith(f"held out for it, {copies:,} that ask the same left out")


def test_lines_of_running_text_and_numbers_may_be_equal(tmp_path: Path) -> None:
    examples, _ = loaded(tmp_path, "language", ["the same line"] * 40)
    assert (len(examples.train), len(examples.valid)) == (38, 2)
    examples, _ = loaded(tmp_path, "regress", ["x\ty"] + ["0\t1"] * 40)
    assert (len(examples.train), len(examples.valid)) == (38, 2)


def test_what_is_mostly_copies_is_learnt_by_heart(tmp_path: Path) -> None:
    examples, _ = loaded(tmp_path, "translate", ["one\teins", "two\tzwei"] * 20)
    assert (len(examples.train), len(examples.valid)) == (38, 2)
    assert {r.source for r in examples.train} == {"one", "two"}
    assert not crossed(examples.train, examples.valid, "valid").ok, "and it is said"
    with pytest.raises(InputError, match=r"1 record is too few to hold one out .* --valid"):
        loaded(tmp_path, "translate", ["a b\tc d"])
