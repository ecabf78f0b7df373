"""Examples held out of the training data: shuffled, stratified, and none that training asks too."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from translucid.core.errors import ConfigError, InputError
from translucid.data.records import Labelled, Pair, TableRow, Tagged, Text
from translucid.runs.checks.data import crossed
from translucid.runs.recipe import split
from translucid.runs.recipe.examples import Examples, load_examples
from translucid.runs.recipe.recipe import ADDED, of_run, parse
from translucid.runs.recipe.toml import dump


def loaded(folder: Path, task: str, rows: Sequence[str], **data: Any) -> tuple[Examples, list[str]]:
    lines: list[str] = []
    path = folder / "train.tsv"
    path.write_text("".join(f"{row}\n" for row in rows), "utf-8")
    recipe = parse({"task": {"kind": task}, "data": {"train": [str(path)], **data}})
    return load_examples(recipe, lines.append), lines


def labelled(labels: Sequence[str]) -> list[Labelled]:
    return [Labelled(f"text {n}", label, n) for n, label in enumerate(labels, 1)]


def lines_of(records: Sequence[Any]) -> list[int]:
    return [record.line for record in records]


KINDS: dict[str, Sequence[Any]] = {
    "classify": labelled(["pos", "neg", "neg", "rare"] * 60),
    "tag": [Tagged(("Anna", f"w{n}"), ("O", "NV"[n % 2]), n) for n in range(200)],
    "translate": [Pair("a " * (n % 30) + str(n), f"b {n}", n) for n in range(200)],
    "regress": [TableRow((float(n),), (n * 0.5,), n) for n in range(200)],
    "language": [Text(f"line {n}", n) for n in range(200)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_example_is_in_one_part_in_the_order_of_the_file(kind: str) -> None:
    records = KINDS[kind]
    train, valid = split.stratified(records, 0)
    assert sorted(lines_of(train) + lines_of(valid)) == lines_of(records)
    assert lines_of(train) == sorted(lines_of(train))
    assert lines_of(valid) == sorted(lines_of(valid))
    assert len(valid) == pytest.approx(20, abs=2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_alone_decides_the_split(kind: str) -> None:
    records = KINDS[kind]
    assert split.stratified(records, 3) == split.stratified(list(records), 3)
    different = {tuple(lines_of(split.stratified(records, seed)[1])) for seed in range(5)}
    assert len(different) == 5


@pytest.mark.parametrize("rows", [10, 40, 400, 4000])
def test_alternating_classes_are_both_in_validation(rows: int) -> None:
    _, valid = split.stratified(labelled(["pos", "neg"] * (rows // 2)), 0)
    counts = Counter(record.label for record in valid)
    assert counts["pos"] == counts["neg"] > 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "labels",
    [
        ["a"] * 99 + ["b"],
        (["a"] * 99 + ["b"]) * 3,  # a rare class at every 100th row
        [f"class {n % 200}" for n in range(1000)],
        ["a", "b", "b", "c", "c", "c"],
        ["a", "b"] * 2 + ["c"],
    ],
)
def test_no_class_vanishes_from_training(labels: list[str], seed: int) -> None:
    train, valid = split.stratified(labelled(labels), seed)
    assert {record.label for record in train} == set(labels)
    assert valid
    often = {label for label, n in Counter(labels).items() if n > 1}
    if len(valid) >= len(set(labels)):
        assert {record.label for record in valid} == often


def test_no_tag_vanishes_from_training() -> None:
    """Also where every sentence has a set of tags of its own."""
    records = [Tagged(("a", "b"), (f"T{n}", f"T{n + 1}"), n) for n in range(60)]
    records += [Tagged(("a", "b"), (f"T{n}", "O"), 100 + n) for n in range(0, 61, 2)]
    train, valid = split.stratified(records, 0)
    assert {tag for r in train for tag in r.tags} == {tag for r in records for tag in r.tags}
    assert len(valid) >= 5


def test_classes_lengths_and_targets_are_held_out_in_proportion() -> None:
    _, valid = split.stratified(labelled(["a"] * 700 + ["b"] * 300), 0)
    assert Counter(record.label for record in valid) == {"a": 35, "b": 15}
    pairs = [Pair("x" * (4 if n < 500 else 400), str(n), n) for n in range(1000)]
    pairs = [Pair(f"{n:04}" + pair.source, pair.target, n) for n, pair in enumerate(pairs)]
    _, held = split.stratified(pairs, 0)
    assert sum(len(pair.source) > 100 for pair in held) == 25
    numbers = [TableRow((float(n),), (float(n * n),), n) for n in range(1000)]
    _, points = split.stratified(numbers, 0)
    assert {point.line // 100 for point in points} == set(range(10))


def test_copies_are_on_one_side(tmp_path: Path) -> None:
    """A source with two translations, and lines that stand there many times."""
    rows = [f"text {n % 90}\ttarget {n}" for n in range(160)] + ["yes\tja"] * 200
    for seed in range(5):
        examples, _ = loaded(tmp_path, "translate", rows, split_seed=seed)
        assert crossed(examples.train, examples.valid, "valid").ok
        assert not {r.source for r in examples.train} & {r.source for r in examples.valid}
        assert len(examples.train) + len(examples.valid) == len(rows)
        assert 10 <= len(examples.valid) <= 30, "a question of many copies is not half of it"


def test_running_text_is_held_out_in_blocks(tmp_path: Path) -> None:
    """Neighbours of a single line are in training, and tell about it."""
    rows = [f"line {n}" for n in range(2000)]
    examples, lines = loaded(tmp_path, "language", rows)
    held = lines_of(examples.valid)
    starts = [line for line in held if line - 1 not in held]
    assert (len(held), len(starts)) == (100, 10)
    assert all(start + n in held for start in starts for n in range(10))
    assert {start // 201 for start in starts} == set(range(10)), "from all over the file"
    assert "blocks of adjacent lines" in lines[-1]


def test_lines_of_running_text_and_numbers_may_be_equal(tmp_path: Path) -> None:
    examples, _ = loaded(tmp_path, "language", ["the same line"] * 40)
    assert (len(examples.train), len(examples.valid)) == (32, 8)
    examples, _ = loaded(tmp_path, "regress", ["x\ty"] + ["0\t1"] * 40)
    assert (len(examples.train), len(examples.valid)) == (32, 8)


def test_mostly_copied_data_is_split_by_record(tmp_path: Path) -> None:
    examples, _ = loaded(tmp_path, "translate", ["one\teins", "two\tzwei"] * 20)
    assert (len(examples.train), len(examples.valid)) == (32, 8)
    assert {r.source for r in examples.train} == {"one", "two"}
    assert not crossed(examples.train, examples.valid, "valid").ok, "and it is said"


def test_what_cannot_be_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"1 record is too few .* --valid"):
        loaded(tmp_path, "translate", ["a b\tc d"])
    with pytest.raises(InputError, match=r"training would lose its label.* --valid"):
        loaded(tmp_path, "classify", ["label\ttext", "a\tone", "b\ttwo"])


# Runs of the rule before


def test_an_older_run_keeps_every_nth_example(tmp_path: Path) -> None:
    rows = [f"text {n}\ttarget {n}" for n in range(100)]
    examples, lines = loaded(tmp_path, "translate", rows, split="every-nth")
    assert lines_of(examples.valid) == [1, 21, 41, 61, 81]
    assert len(examples.train) == 95
    assert lines[-1] == "data.valid was not given: 5 of the training examples held out for it"
    rows = [f"text {n % 40}\ttarget {n}" for n in range(60)] + ["yes\tja"] * 20
    examples, lines = loaded(tmp_path, "translate", rows, split="every-nth")
    times = Counter(row.split("\t")[0] for row in rows)
    copies = sum(times[record.source] - 1 for record in examples.valid)
    assert copies > 0
    assert lines[-1].endswith(f"held out for it, {copies:,} duplicates dropped")


def test_older_run_keeps_the_value_of_an_added_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ADDED, "data.split", "every-nth")  # as if the key were new
    recipe = parse({"task": {"kind": "classify"}, "data": {"train": ["a.tsv"]}})
    (tmp_path / "recipe.toml").write_text(dump(recipe), "utf-8")
    assert of_run(tmp_path).data.split == "stratified"
    older = [line for line in dump(recipe).splitlines() if not line.startswith("split =")]
    (tmp_path / "recipe.toml").write_text("\n".join(older), "utf-8")
    assert of_run(tmp_path).data.split == "every-nth"


def test_data_is_read_again_with_the_same_columns(tmp_path: Path) -> None:
    """A run begun before the label was looked for by its values took the first column."""
    rows = [f"name {n}\t{'FM'[n % 2]}" for n in range(40)]
    path = tmp_path / "a.tsv"
    path.write_text("name\tgender\n" + "\n".join(rows), "utf-8")
    recipe = parse({"task": {"kind": "classify"}, "data": {"train": [str(path)]}})
    said: list[str] = []
    today = load_examples(recipe, said.append)
    assert {record.label for record in today.train} == {"F", "M"}
    older = parse({"task": {"kind": "classify"},
                   "data": {"train": [str(path)], "split": "every-nth"}})  # fmt: skip
    before = load_examples(older, said.append, {"label": 1, "text": 2})
    assert len(before.train) + len(before.valid) == 41
    assert "name 3" in {record.label for record in before.train}


# Folds


@pytest.mark.parametrize("count", [2, 5, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_each_example_is_in_the_validation_set_of_one_fold(kind: str, count: int) -> None:
    records = KINDS[kind]
    folds = [split.fold(records, number, count, 0) for number in range(1, count + 1)]
    assert sorted(line for _, valid in folds for line in lines_of(valid)) == lines_of(records)
    for train, valid in folds:
        assert sorted(lines_of(train) + lines_of(valid)) == lines_of(records)
        assert len(valid) == pytest.approx(len(records) / count, abs=12)


def test_folds_have_every_class_and_no_copies_on_both_sides() -> None:
    records = labelled(["a", "b", "b"] * 50 + ["rare"] * 5 + ["once"])
    records += [Labelled(record.text, record.label, 200 + record.line) for record in records[:40]]
    seen: Counter[int] = Counter()
    for number in range(1, 6):
        train, valid = split.fold(records, number, 5, 0)
        assert {record.label for record in train} == {"a", "b", "rare", "once"}
        assert {record.label for record in valid} == {"a", "b", "rare"}
        assert not {r.text for r in train} & {r.text for r in valid}
        seen.update(lines_of(valid))
    assert set(seen.values()) == {1}
    assert set(lines_of(records)) - set(seen) == {156}, "the only example of its class"


@pytest.mark.parametrize("fold", ["2", "0/5", "6/5", "1/1", "a/b", "-1/5"])
def test_invalid_fold_is_refused(tmp_path: Path, fold: str) -> None:
    with pytest.raises(ConfigError, match=r"data\.fold.*such as '2/5'"):
        loaded(tmp_path, "translate", ["a\tb"], fold=fold)


def test_more_folds_than_examples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"3 examples.* too few for 4 folds"):
        loaded(tmp_path, "translate", ["a\tb", "c\td", "e\tf"], fold="1/4")
    for others in ({"valid": ["v.tsv"]}, {"toyland": 100, "train": []}):
        with pytest.raises(ConfigError, match=r"data\.(valid|toyland) and data\.fold"):
            loaded(tmp_path, "translate", ["a\tb"], **{"fold": "1/4", **others})
