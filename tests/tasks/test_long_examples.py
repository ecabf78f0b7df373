"""Examples longer than a recipe allows: left out, cut off or cut up, and always counted."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from translucid.core.errors import ConfigError, InputError
from translucid.data.records import Labelled, Pair, Tagged, Text
from translucid.data.tokenizers.special_tokens import Frame
from translucid.data.tokenizers.tokenizer import Tokenizer
from translucid.runs.recipe.recipe import DataConfig
from translucid.tasks.batch import IGNORE
from translucid.tasks.classify import Classify
from translucid.tasks.language import Language
from translucid.tasks.long_texts import limit_length
from translucid.tasks.tag import Tag
from translucid.tasks.tag_windows import TagItem, beginning, sentences, windows
from translucid.tasks.translate import Translate

LETTERS = Tokenizer.train("char", ["abcdefghij "])
LONG, SHORT = "abcdefghij" * 3, "abc"


def items_of(task, records, **data):
    said: list[str] = []
    options = DataConfig(**data)
    whole = task.training_items(records, options)
    return limit_length(task, whole, options, "training", said.append)[0], said


def test_long_examples_are_left_out_and_counted() -> None:
    task = Translate(LETTERS, LETTERS)
    records = [Pair(LONG, SHORT, 1), Pair(SHORT, SHORT, 2), Pair(SHORT, LONG, 3)]
    items, said = items_of(task, records, max_length=10)
    assert [item.line for item in items] == [2]
    assert said == [
        "2 of 3 training examples have over 10 tokens: left out (data.max_length, data.long)"
    ]
    whole = task.held_out_items(records, 10)
    assert len(whole) == 3
    said.clear()
    left, coverage = limit_length(task, whole, DataConfig(max_length=10), "test", said.append)
    assert left == items
    assert (coverage.examples, coverage.left_out) == (1, {"over 10 tokens": 2})
    assert coverage.as_dict() == {
        "examples": 1, "left_out": 2, "truncated": 0, "left_out_reasons": {"over 10 tokens": 2},
    }  # fmt: skip
    assert said == [
        "2 of 3 test examples have over 10 tokens: left out (data.max_length, data.long)"
    ]


def test_truncated_examples_keep_their_special_tokens() -> None:
    end = LETTERS.eos_id
    (pair,), said = items_of(
        Translate(LETTERS, LETTERS), [Pair(LONG, SHORT, 1)], max_length=10, long="truncate"
    )
    assert pair.source == [*LETTERS.encode(LONG[:9]), end]
    assert pair.target == LETTERS.encode(SHORT)
    assert said == [
        "1 of 1 training examples have over 10 tokens: truncated (data.max_length, data.long)"
    ]
    text = Labelled(LONG, "x", 1)
    (item,), _ = items_of(Classify(LETTERS, ["x"]), [text], max_length=10, long="truncate")
    assert item.ids == [LETTERS.bos_id, *LETTERS.encode(LONG[:8]), end]
    (words,), _ = items_of(
        Tag(LETTERS, ["O"]), [Tagged(("abc",) * 9, ("O",) * 9, 1)], max_length=10, long="truncate"
    )
    assert len(words.ids) == len(words.tags) == 10
    assert all(place < 10 for place in words.firsts)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(2, 12))
def test_each_word_is_tagged_in_one_window(pieces: list[int], longest: int) -> None:
    """Words of 1 to 9 pieces: each window fits, and the tags put together are the sentence's."""
    firsts = [sum(pieces[:i]) for i in range(len(pieces))]
    ids = list(range(sum(pieces)))
    tags = [firsts.index(i) if i in firsts else IGNORE for i in ids]
    parts = Tag(LETTERS, ["O"]).split(TagItem(ids, tags, firsts, 7), longest)
    assert all(0 < len(part.ids) <= longest for part in parts)
    assert [part.tags[place] for part in parts for place in part.places] == list(range(len(pieces)))
    assert sum(tag != IGNORE for part in parts for tag in part.tags) == len(pieces)
    assert all(part.firsts[0] == 0 for part in parts), "a window begins with a word"
    assert [part.continues for part in parts] == [False] + [True] * (len(parts) - 1)
    assert len(sentences(parts)) == 1
    for part in parts:
        assert part.ids == ids[part.ids[0] : part.ids[-1] + 1]
        for place, word in zip(part.places, (part.tags[p] for p in part.places), strict=True):
            read = part.ids[place : place + pieces[word]]
            assert read == ids[firsts[word] : firsts[word] + min(pieces[word], longest)]


def test_a_word_far_from_the_ends_is_tagged_with_context_on_both_sides() -> None:
    ids = list(range(40))
    parts = windows(TagItem(ids, ids, ids, 1), Frame(), 12)
    for part in parts[1:-1]:
        first, last = part.window or (0, 0)
        assert first == 3, "a quarter before"
        assert len(part.ids) - last == 3, "and behind"


def test_every_window_has_the_special_tokens_of_a_whole_text() -> None:
    frame, ids = Frame(prefix=(101,), suffix=(102, 103)), list(range(20))
    tags = [IGNORE, *ids, IGNORE, IGNORE]
    item = TagItem(frame(ids), tags, [place + 1 for place in ids], 1)
    for part in windows(item, frame, 9):
        assert (part.ids[:1], part.ids[-2:]) == ([101], [102, 103])
        assert len(part.ids) <= 9
    short = beginning(item, frame, 9)
    assert (short.ids, len(short.firsts)) == (frame(ids[:6]), 6)


def test_pairs_cannot_be_split() -> None:
    with pytest.raises(ConfigError, match=r"data.long = 'split'"):
        items_of(Translate(LETTERS, LETTERS), [Pair(LONG, SHORT, 1)], max_length=9, long="split")


def test_if_no_example_fits_the_error_names_the_key() -> None:
    with pytest.raises(InputError, match=r"all 1 .*data.max_length = 9"):
        items_of(Translate(LETTERS, LETTERS), [Pair(LONG, SHORT, 1)], max_length=9)


def test_a_language_model_reads_everything_in_rows() -> None:
    task = Language(LETTERS)
    items, said = items_of(task, [Text(LONG, 1), Text(SHORT, 2)], max_length=8)
    assert said == []
    assert all(len(item.ids) <= 8 for item in items)
    assert sum(len(item.targets) for item in items) == len(LONG) + len(SHORT) + 2
