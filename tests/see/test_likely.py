"""The likeliest words, tags and classes are those of a plain call, sorted by hand."""

from itertools import product

import numpy as np
import pytest
import torch
from tests.see import small_readings as small

from translucid.core.errors import InputError, UnknownPointError
from translucid.data.features import Columns
from translucid.models import MLPConfig, build
from translucid.see.pictures import Bars, Heat
from translucid.see.predictions import likeliest
from translucid.see.reading import read
from translucid.tasks.classify import Classify
from translucid.tasks.regress import Regress

POSITIONS = ("translate", "language", "tag")


def names(task: str) -> list[str]:
    if task == "tag":
        return small.TAGS
    tokenizer = small.TARGET if task == "translate" else small.SOURCE
    return tokenizer.pieces(range(len(tokenizer)))


@pytest.mark.parametrize(
    ("task", "family"),
    [
        *product(POSITIONS, ("transformer", "recurrent")),
        *product(("language", "tag"), ("ensemble",)),  # translators form none
    ],
)
def test_each_row_is_the_sorted_answer_of_a_plain_call(task: str, family: str) -> None:
    network = (
        small.recurrent(task)
        if family == "recurrent"
        else small.transformer(task, ensemble_size=3 if family == "ensemble" else 1)
    )
    reading = small.reading_of(task, network)
    heat = likeliest(reading, 3)
    assert isinstance(heat, Heat)
    probabilities = small.say(reading).exp().numpy()
    order = np.argsort(-probabilities, axis=-1, kind="stable")[:, :3]
    known = names(task)
    np.testing.assert_allclose(heat.values, np.take_along_axis(probabilities, order, -1), rtol=1e-9)
    assert heat.texts == tuple(
        tuple(f"{known[i]} {probabilities[at, i]:.2f}" for i in row) for at, row in enumerate(order)
    )
    assert heat.columns.labels == ("1", "2", "3")
    assert reading[heat.address].shape[1:] == probabilities.shape
    rest = (1 - np.take_along_axis(probabilities, order, -1).sum(-1)).max()
    what = "tags" if task == "tag" else "tokens"
    if len(known) > 3:
        others = f"the other {len(known) - 3} of {len(known)} {what}"
        said = f"{others} share at most {rest:.2g} of the probability"
    else:
        said = "all 3 tags are shown"
    assert said in heat.note


def test_rows_say_what_was_read_and_what_follows() -> None:
    assert likeliest(small.reading_of("translate")).rows.labels == (
        "<s> → der", "der → Hund", "Hund → sieht", "sieht → eine", "eine → Katze", "Katze → </s>"
    )  # fmt: skip
    assert likeliest(small.reading_of("language")).rows.labels == (
        "</s> → the", "the → dog", "dog → sees", "sees → a", "a → cat", "cat → ?"
    )  # fmt: skip
    assert likeliest(small.reading_of("tag")).rows.labels == ("the", "dog", "sees", "a", "cat")


@pytest.mark.parametrize("task", POSITIONS)
def test_frames_mark_the_actual_next_token(task: str) -> None:
    """With all words shown, every known one has its frame, in the cell with its name."""
    heat = likeliest(small.reading_of(task), 100)
    follows = {
        "translate": ["der", "Hund", "sieht", "eine", "Katze", "</s>"],
        "language": ["the", "dog", "sees", "a", "cat"],  # nobody knows what follows the last
        "tag": ["O", "B-A", "O", "B-A", "I-A"],
    }[task]
    assert heat.values.shape[1] == len(names(task))
    assert heat.values.sum(axis=1) == pytest.approx(1)
    assert f"all {len(names(task))} " in heat.note
    framed = [heat.texts[row][column].split()[0] for row, column in heat.frames]
    assert [row for row, _ in heat.frames] == list(range(len(follows)))
    assert framed == follows


def test_no_frame_where_the_right_word_is_not_shown() -> None:
    few, many = (likeliest(small.reading_of("translate"), k) for k in (2, 100))
    assert few.frames == tuple(cell for cell in many.frames if cell[1] < 2)
    assert len(few.frames) < len(many.frames)


def test_without_tags_there_are_no_frames() -> None:
    reading = read(small.transformer("tag"), small.TASKS["tag"], "the dog")
    assert likeliest(reading).frames == ()


@pytest.mark.parametrize(
    "options",
    [{}, {"ngram_features": 7}, {"ensemble_size": 3}, {"ensemble_size": 2, "ngram_features": 5}],
)
def test_classes_are_those_of_a_plain_call(options: dict[str, int]) -> None:
    reading = small.reading_of("classify", small.transformer("classify", **options))
    bars = likeliest(reading)
    assert isinstance(bars, Bars)
    np.testing.assert_allclose(bars.values, small.say(reading).exp().numpy(), rtol=1e-9)
    assert bars.labels == tuple(small.LABELS)
    assert bars.marked == (2,)
    assert likeliest(read(reading.network, reading.task, "a cat")).marked == ()


def test_only_the_likeliest_of_very_many_classes_are_shown() -> None:
    task = Classify(small.SOURCE, [f"c{number}" for number in range(100)])
    reading = read(small.transformer("classify", outputs=100), task, "a cat", "c7")
    bars, all_of_them = likeliest(reading), small.say(reading).exp().numpy()
    np.testing.assert_allclose(bars.values, np.sort(all_of_them)[::-1][:64], rtol=1e-9)
    assert bars.labels == tuple(f"c{i}" for i in np.argsort(-all_of_them)[:64])
    rest = np.sort(all_of_them)[:36].sum()
    assert bars.note == f"the 64 likeliest of 100 classes; the others sum to {rest:.2g}"


def test_tokens_selects_a_window_of_a_long_text() -> None:
    network, task = small.transformer("language"), small.TASKS["language"]
    reading = read(network, task, "the dog sees the cat " * 20)
    first, some = likeliest(reading), likeliest(reading, tokens=(71, 76))
    whole = small.say(reading).exp()
    for heat, (start, stop) in ((first, (0, 64)), (some, (71, 76))):
        wanted = whole[start:stop].topk(5).values.numpy()
        np.testing.assert_allclose(heat.values, wanted, rtol=1e-9)
        assert heat.rows.labels == reading.words.steps[start:stop]
        assert f"tokens {start} to {stop - 1} of 101; tokens=(a, b) shows others" in heat.note
        targets = reading.example.batch.targets[0, start:stop].tolist()
        ids = whole[start:stop].topk(5).indices.tolist()
        assert set(heat.frames) == {
            (row, ids[row].index(t)) for row, t in enumerate(targets) if t in ids[row]
        }


def test_subword_labels_depend_on_the_token_before() -> None:
    reading = small.reading_in_pieces()
    heat = likeliest(reading, 1000)
    for row, texts in enumerate(heat.texts):
        words = {text.rpartition(" ")[0] for text in texts}
        assert ("h" in words) == (row == 0)  # at the beginning of a text no word goes on
        assert ("·h" in words) == (row > 0)
    some = likeliest(reading, 1000, tokens=(1, 3))
    assert some.texts == heat.texts[1:3]
    assert some.frames == tuple((row - 1, rank) for row, rank in heat.frames if row in (1, 2))


def test_impossible_requests_are_refused() -> None:
    reading = small.reading_of("language")
    with pytest.raises(InputError, match=r"k = 0.*at least 1"):
        likeliest(reading, 0)
    with pytest.raises(
        InputError, match=r"tokens = \(6, 9\): expected \(first, end\) .* < 6 tokens"
    ):
        likeliest(reading, tokens=(6, 9))
    with pytest.raises(InputError, match=r"tokens = \(3, 3\): expected .* first < end"):
        likeliest(reading, tokens=(3, 3))
    torch.manual_seed(0)
    network = build(MLPConfig(inputs=2, hidden=(3,), outputs=1))
    numbers = read(network, Regress(Columns.numbers(["x1", "x2"])), "1, 2")
    with pytest.raises(InputError, match=r"task regress.*numbers"):
        likeliest(numbers)
    voted = small.transformer("classify", ngram_features=7)
    with pytest.raises(UnknownPointError, match=r"ngrams\.sum was computed but not kept"):
        likeliest(small.reading_of("classify", voted, keep="head.*"))
