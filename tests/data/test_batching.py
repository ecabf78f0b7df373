"""Batches as equalities: every item once, within the budget, the same for the same seed."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from translucid.core.errors import ConfigError
from translucid.data import batching
from translucid.data.batching import (
    MAX_BYTES,
    BatchPlan,
    pad,
    pad_characters,
    permutation,
    plan_batches,
    spell,
)
from translucid.parts.characters import NUMBERS

one_side = st.lists(st.integers(0, 40), max_size=200)
two_sides = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), max_size=200)
settings = {
    "budget": st.integers(50, 500),  # 48: the largest item, padded to a multiple
    "seed": st.integers(-5, 2**70),
    "epoch": st.integers(0, 9),
    "multiple": st.sampled_from([1, 2, 8]),
    "max_items": st.one_of(st.none(), st.integers(1, 9)),
    "shuffle": st.booleans(),
}


def lists(plan: BatchPlan) -> list[list[int]]:
    return [batch.tolist() for batch in plan.batches]


def padded_shape(
    batch: NDArray[np.int64], lengths: list[tuple[int, ...]], multiple: int
) -> list[int]:
    sides = zip(*(lengths[i] for i in batch), strict=True)
    return [-(-max(side) // multiple) * multiple for side in sides]


@given(st.one_of(one_side, two_sides), st.fixed_dictionaries(settings))
def test_every_item_once_within_the_budget(lengths, options) -> None:
    plan = plan_batches(lengths, **options)
    assert sorted(i for batch in plan.batches for i in batch) == list(range(len(lengths)))
    assert all(len(batch) for batch in plan.batches)
    sides = [length if isinstance(length, tuple) else (length,) for length in lengths]
    shapes = [padded_shape(batch, sides, options["multiple"]) for batch in plan.batches]
    slots = [len(b) * sum(shape) for b, shape in zip(plan.batches, shapes, strict=True)]
    assert all(slot <= options["budget"] for slot in slots)
    assert all(len(b) <= (options["max_items"] or 200) for b in plan.batches)
    assert plan.slots == sum(slots)
    assert plan.tokens == sum(map(sum, sides))
    assert plan.shapes == len(
        {(len(b), *shape) for b, shape in zip(plan.batches, shapes, strict=True)}
    )
    again = plan_batches(lengths, **options)  # a pure function
    assert lists(again) == lists(plan)
    assert (again.tokens, again.slots, again.shapes) == (plan.tokens, plan.slots, plan.shapes)


def realistic(n: int, seed: int = 0) -> list[tuple[int, int]]:
    """Sentence pairs: skewed lengths, the sides correlated."""
    random = np.random.default_rng(seed)
    source = np.clip(random.gamma(6.0, 2.5, n), 2, 60)
    target = np.clip(source * random.normal(1.0, 0.15, n), 2, 60)
    return [(int(a), int(b)) for a, b in zip(source, target, strict=True)]


@pytest.mark.parametrize("budget", [2048, 4096])
def test_little_padding_on_pairs(budget: int) -> None:
    plan = plan_batches(realistic(20_000), budget)
    assert plan.padding < 0.05
    assert plan.tokens / len(plan.batches) > 0.85 * budget  # and the batches are full


def test_large_batches_are_cut_from_neighbourhoods(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = realistic(20_000)
    plan = plan_batches(lengths, 16_384)
    monkeypatch.setattr(batching, "_LITTLE", 1.0)  # be content with sorting
    assert plan.padding < 0.8 * plan_batches(lengths, 16_384).padding


def test_a_multiple_gives_few_shapes() -> None:
    lengths = [a for a, _ in realistic(20_000)]
    assert plan_batches(lengths, 4096, multiple=8).shapes <= 10
    assert plan_batches(lengths, 4096).shapes > 20


def test_epochs_and_seeds_differ() -> None:
    lengths = realistic(3000)
    plans = [plan_batches(lengths, 2048, seed=s, epoch=e) for s in (0, 1) for e in (0, 1)]
    assert len({str(lists(plan)) for plan in plans}) == 4
    together = [{frozenset(batch) for batch in lists(plan)} for plan in plans]
    assert len(together[0] & together[1]) < len(together[0]) / 2  # items meet others, too
    first = [np.mean([sum(lengths[i]) for i in plan.batches[0]]) for plan in plans]
    assert len({round(float(mean)) for mean in first}) > 1  # batches do not come sorted


def test_without_shuffle_the_longest_come_first() -> None:
    plan = plan_batches([3, 9, 5, 9, 1], 18, shuffle=False)
    assert lists(plan) == [[1, 3], [2, 0, 4]]


@given(st.lists(st.integers(0, 40), min_size=1), st.integers(40, 300), st.integers(1, 9))
def test_batches_of_one_side_are_as_full_as_they_can_be(lengths, budget: int, most: int) -> None:
    """Longest first, and the next one when another item would not fit."""
    plan = plan_batches(lengths, budget, max_items=most, shuffle=False)
    expected: list[list[int]] = []
    for length in sorted(lengths, reverse=True):
        fits = expected and len(expected[-1]) < most
        if fits and (len(expected[-1]) + 1) * expected[-1][0] <= budget:
            expected[-1].append(length)
        else:
            expected.append([length])
    assert [[lengths[i] for i in batch] for batch in lists(plan)] == expected


@pytest.mark.slow
def test_a_plan_for_millions_takes_little_memory() -> None:
    sizes = np.full(300_000, 256)
    tracemalloc.start()
    plan = plan_batches(sizes, 8192)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(map(len, plan.batches)) == len(sizes)
    assert held < 2 * sizes.nbytes  # the order, and a view for every batch
    assert peak < 12 * sizes.nbytes


def test_the_report() -> None:
    plan = plan_batches([4, 3], 8)
    assert plan.padding == 1 / 8
    assert plan.lines() == ["1 batch of 7 tokens, one shape, 12.5% padding"]
    assert plan_batches([], 8).padding == 0.0


def test_impossible_budgets() -> None:
    with pytest.raises(ConfigError, match="budget = 9 is too small: item 1 alone has 12 tokens"):
        plan_batches([(3, 3), (7, 5)], 9)
    with pytest.raises(ConfigError, match="budget = 0"):
        plan_batches([1], 0)


def splitmix64(state: int) -> int:
    """https://prng.di.unimi.it/splitmix64.c, in Python's whole numbers."""
    mask = 2**64 - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


@given(st.integers(0, 100), st.integers(-(2**66), 2**66), st.integers(0, 5), st.integers(0, 2))
def test_permutation_equals_splitmix64(n: int, seed: int, epoch: int, stream: int) -> None:
    start = 0
    for part in (seed, epoch, stream):
        start = splitmix64((start + part) % 2**64)
    keys = [splitmix64((start + i) % 2**64) for i in range(n)]
    expected = sorted(range(n), key=lambda i: keys[i])
    assert permutation(n, seed, epoch, stream).tolist() == expected


def test_permutations_are_uniform() -> None:
    places = np.array([permutation(5, seed, 0) for seed in range(2000)])
    counts = np.array([[np.sum(places[:, i] == j) for j in range(5)] for i in range(5)])
    assert abs(counts - 400).max() < 100  # five standard deviations are 89


# Tensors


@given(st.lists(st.lists(st.integers(1, 99), max_size=9), max_size=9), st.sampled_from([1, 4]))
def test_padding_keeps_the_sequences(sequences: list[list[int]], multiple: int) -> None:
    ids, mask = pad(sequences, 0, multiple=multiple)
    assert ids.dtype == torch.long
    assert mask.dtype == torch.bool
    assert [row[there].tolist() for row, there in zip(ids, mask, strict=True)] == sequences
    assert (ids[~mask] == 0).all()
    longest = max(map(len, sequences), default=0)
    assert ids.shape == mask.shape == (len(sequences), -(-longest // multiple) * multiple)
    assert all(there.tolist() == sorted(there.tolist(), reverse=True) for there in mask)


# Words as characters

rows_of_words = st.lists(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4), max_size=4
)


@given(rows_of_words)
def test_every_character_is_in_its_place(rows: list[list[str]]) -> None:
    padded = pad_characters([[spell(word) for word in row] for row in rows])
    assert padded.dtype == torch.long
    assert padded.dim() == 3
    assert padded.shape[2] >= 1
    assert not padded.numel() or int(padded.max()) < NUMBERS
    for row, texts in zip(padded.tolist(), rows, strict=True):
        for place, characters in enumerate(row):
            word = spell(texts[place]) if place < len(texts) else b""
            assert bytes(character - 1 for character in characters if character) == word
            assert 0 not in characters[: len(word)]  # padding comes last


def test_long_words_keep_their_beginning_and_end() -> None:
    word = "ab" + "x" * 50 + "yz"
    assert spell(word) == b"ab" + b"x" * 16 + b"yz"
    assert len(spell(word)) == MAX_BYTES
    assert spell("x" * MAX_BYTES) == b"x" * MAX_BYTES
    assert spell("é") == b"\xc3\xa9"
