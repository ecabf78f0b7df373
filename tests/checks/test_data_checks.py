"""Mistakes planted in records are found, with their lines; clean records pass."""

from collections.abc import Sequence
from typing import Any

import pytest

from translucid.data.records import Labelled, Pair, TableRow, Tagged, Text
from translucid.runs.checks import data
from translucid.runs.checks.data import of_labels
from translucid.tasks.classify import Classify
from translucid.tasks.findings import Finding, spread_out
from translucid.tasks.registry import TASKS
from translucid.tasks.translate import Translate

PAIRS = [
    Pair(f"the dog number {n} sleeps", f"der Hund Nummer {n} schläft", n + 1) for n in range(60)
]
TEXTS = [Labelled(f"text number {n}", "good" if n % 2 else "bad", n + 1) for n in range(60)]
TAGGED = [
    Tagged(("Anna", "Berg", f"sees{n}"), ("B-PER", "I-PER", "O"), 4 * n + 1) for n in range(20)
]


TASK_OF = {
    Pair: "translate", Labelled: "classify", Tagged: "tag", Text: "language", TableRow: "regress"
}  # fmt: skip


def checked(parts: dict[str, Sequence[Any]]) -> list[Finding]:
    return data.of_task(TASKS[TASK_OF[type(parts["train"][0])]], parts)


def found(parts: dict[str, Sequence[Any]], name: str) -> Finding:
    (finding,) = (f for f in checked(parts) if f.name == name)
    return finding


@pytest.mark.parametrize(
    "parts",
    [
        {"train": PAIRS[:50], "valid": PAIRS[50:]},
        {"train": TEXTS[:50], "valid": TEXTS[50:]},
        {"train": TAGGED[:15], "test": TAGGED[15:]},
        {"train": [Text(f"one line of text number {n}", n) for n in range(9)]},
        {"train": [Text("" if n % 2 else f"line {n}", n) for n in range(9)]},  # kept on purpose
        {"train": [TableRow((-1.0,), (1.0,), 1)], "valid": [TableRow((-2.0,), (1.0,), 1)]},
    ],
)
def test_clean_data_passes(parts: dict[str, Any]) -> None:
    """The numbers too: -1.0 and -2.0 have one hash in Python."""
    assert [f for f in checked(parts) if not f.ok] == []


def test_examples_in_train_and_valid_are_found() -> None:
    crossing = [*PAIRS[40:], Pair("a new one", "ein neuer", 99)]
    finding = found({"train": PAIRS, "valid": crossing}, "valid apart from train")
    assert finding.mark == "-"  # most of them: it is the same file
    assert "20 of 21 validation examples are also in the training data" in finding.words
    assert (
        "(first: valid line 41 = train line 41), 20 if only the sources are compared"
        in finding.words
    )
    finding = found({"train": PAIRS[:50], "test": PAIRS[49:]}, "test apart from train")
    assert finding.mark == "!"
    assert "1 of 11 test examples" in finding.words


def test_known_sources_with_another_translation_are_found() -> None:
    other = [Pair(pair.source, f"{pair.target} nicht", pair.line) for pair in PAIRS[:10]]
    finding = found({"train": PAIRS, "valid": other}, "valid apart from train")
    assert finding.mark == "!"
    assert "0 of 10 validation examples" in finding.words
    assert "10 if only the sources are compared" in finding.words


def test_known_text_with_another_label_is_found() -> None:
    other = [Labelled(TEXTS[3].text, "bad", 1), *TEXTS[50:]]
    finding = found({"train": TEXTS[:50], "valid": other}, "valid apart from train")
    assert "(first: valid line 1 = train line 4)" in finding.words


def test_short_lines_of_running_text_may_repeat() -> None:
    train = [Text("Exit.", 1), Text("a line of more than five words", 2)]
    assert found({"train": train, "valid": [Text("Exit.", 1)]}, "valid apart from train").ok
    finding = found({"train": train, "valid": [train[0], train[1]]}, "valid apart from train")
    assert "1 of 1 validation examples of at least 5 words" in finding.words


def test_many_duplicates_are_reported() -> None:
    finding = found({"train": [*TEXTS, *TEXTS[:2]]}, "duplicates")
    assert finding.ok
    assert "2 of 62 training examples repeat an earlier one (3.2%)" in finding.words
    finding = found({"train": [*TEXTS, *TEXTS[10:40]]}, "duplicates")
    assert finding.mark == "!"
    assert "first: line 11 = line 11" in finding.words


@pytest.mark.parametrize(
    ("labels", "valid", "words"),
    [
        (["a"] * 50 + ["b"] * 6, "ab", "is correct for 89%"),
        (["a"] * 50 + ["b"] * 50 + ["c"], "abc", "fewer than 5 examples: c"),
        (["a"] * 5, "a", "only one label"),
    ],
)
def test_imbalanced_labels_are_reported(labels: list[str], valid: str, words: str) -> None:
    train = [Labelled(f"text {n}", label, n) for n, label in enumerate(labels)]
    held_out = [Labelled(f"other {label}", label, 1) for label in valid]
    finding = found({"train": train, "valid": held_out}, "labels")
    assert finding.mark == "!"
    assert words in finding.words


@pytest.mark.parametrize("part", ["valid", "test"])
def test_labels_that_a_part_lacks_are_named_with_their_counts(part: str) -> None:
    train = [Labelled(f"text {n}", "ab"[n % 2], n) for n in range(20)]
    held_out = [Labelled("other", "a", 1)]
    (_, finding) = of_labels(Classify, {"train": train, part: held_out})
    assert (finding.name, finding.mark) == (f"labels of {part}", "!")
    assert f"1 of 2 labels (examples in train) do not occur in {part}: 'b' (10)" in finding.words
    (_, whole) = of_labels(Classify, {"train": train, part: train[:2]})
    assert whole.ok


def test_labels_that_differ_only_in_case_or_space_are_named_with_their_counts() -> None:
    labels = ["pos"] * 5 + ["POS"] * 2 + ["very bad"] * 3 + ["very  bad", "neg"]
    train = [Labelled(f"text {n}", label, n) for n, label in enumerate(labels)]
    (finding,) = of_labels(Classify, {"train": train})
    assert finding.mark == "!"
    assert "'pos' (5) and 'POS' (2); 'very bad' (3) and 'very  bad' (1)" in finding.words
    assert of_labels(Classify, {"train": train[:5] + train[-1:]})[0].ok
    assert of_labels(Translate, {"train": [Pair("a", "A", 1)]}) == []


@pytest.mark.parametrize(
    ("tags", "place"),
    [
        (("O", "I-PER", "O"), "word 2, 'Berg' I-PER after O"),
        (("B-LOC", "I-PER", "O"), "word 2, 'Berg' I-PER after B-LOC"),
        (("I-PER", "O", "O"), "word 1, 'Anna' I-PER after O"),
        (("S-PER", "E-PER", "O"), "word 2, 'Berg' E-PER after S-PER"),
    ],
)
def test_tags_that_continue_nothing_are_found(tags: tuple[str, ...], place: str) -> None:
    broken = Tagged(("Anna", "Berg", "sees"), tags, 77)
    finding = found({"train": TAGGED, "valid": [broken]}, "spans")
    assert finding.mark == "!"
    assert f"first: valid line 77, {place}" in finding.words


def test_iob1_tags_are_recognized() -> None:
    train = [Tagged(("Anna", "sees"), ("I-PER", "O"), 1)]
    assert "IOB1" in found({"train": train}, "spans").words


def test_parts_of_speech_have_no_spans() -> None:
    names = [f.name for f in checked({"train": [Tagged(("a",), ("NOUN",), 1)]})]
    assert "spans" not in names


def test_empty_sides_copies_and_odd_lengths_are_found() -> None:
    train = [
        *PAIRS,
        Pair("the dog", " ", 61),
        *(Pair(f"copied {n}", f"copied {n}", 62 + n) for n in range(10)),
        Pair("short", "a very long sentence that cannot be its translation", 80),
    ]
    finding = found({"train": train}, "empty")
    assert "1 examples with an empty side (first: train line 61)" in finding.words
    finding = found({"train": train}, "copies")
    assert finding.mark == "!"
    assert "10 of 72 targets are a copy of their source (13.9%); first: line 62" in finding.words
    finding = found({"train": train}, "length ratios")
    assert finding.mark == "!"
    assert "first: line 80;" in finding.words


def test_facts() -> None:
    measured = data.facts_of([*PAIRS, Pair("one", "eins zwei", 61)])
    assert measured.examples == 61
    assert measured.lengths["source"] == data.Lengths(1, 5, 5, 5)
    assert measured.lengths["target"].least == 2
    assert data.facts_of(TEXTS).labels == {"bad": 30, "good": 30}
    assert data.facts_of(TAGGED).labels == {"B-PER": 20, "I-PER": 20, "O": 20}
    assert data.facts_of([TableRow((1.0,), (2.0,), 1)]).lines() == []


def test_unseen_words_are_counted_by_side() -> None:
    finding = data.unseen_words(PAIRS, [Pair("the dog Hund", "der Hund schläft", 1)], "valid")
    assert finding.ok
    assert (
        "16.7% of the 6 words of valid do not occur in train; most often 'Hund' 1" in finding.words
    )
    assert data.unseen_words(PAIRS, [Pair("a b c", "d e f", 1)], "valid").mark == "!"


def test_a_sample_comes_from_the_whole_length() -> None:
    assert spread_out(range(100), 4) == [0, 25, 50, 75]
    assert spread_out(range(3), 4) == [0, 1, 2]
    assert spread_out([], 4) == []
