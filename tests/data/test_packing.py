"""Packing: every text once, in a row with room; language models get every token once."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from translucid.core.errors import ConfigError, InputError
from translucid.data import packing
from translucid.data.batching import plan_batches
from translucid.data.packing import MULTIPLE, ROW, PackedTexts, Packing, pack, row_lengths
from translucid.parts import masks

SIZES = st.lists(st.tuples(st.integers(1, 90), st.integers(1, 40)), min_size=1, max_size=60)


@given(SIZES, st.integers(200, 900), st.integers(0, 5))
def test_every_item_comes_once_in_a_row_with_room(
    pairs: list[tuple[int, int]], budget: int, epoch: int
) -> None:
    sizes = np.array(pairs)
    packing = Packing(sizes, budget)
    plan = packing.plan(0, epoch)
    assert sorted(np.concatenate(plan.batches).tolist()) == list(range(len(sizes)))
    for rows, batch in zip(plan.rows, plan.batches, strict=True):
        assert 1 <= len(rows) <= packing.rows
        assert np.array_equal(np.concatenate(rows), batch)
        assert all((sizes[row].sum(axis=0) <= packing.lengths).all() for row in rows)
    assert plan.tokens == sizes.sum()
    assert plan.slots == len(plan.batches) * packing.rows * sum(packing.lengths)
    assert packing.rows == 1 or packing.rows * sum(packing.lengths) <= budget
    most = max(1, budget // sum(packing.lengths))
    filled = sum(map(len, plan.rows))
    assert len(plan.batches) == -(-filled // most), "as few batches as the budget allows"
    assert packing.rows * len(plan.batches) - filled < len(plan.batches), "and all of them full"


def test_row_lengths_fit_the_longest_text() -> None:
    assert row_lengths(np.array([[10, 5], [10, 5]])) == (ROW, ROW // 2)
    assert row_lengths(np.array([[10, 5], [10, 43]])) == (32, ROW)
    assert row_lengths(np.array([[90, 5], [10, 5]])) == (90 + MULTIPLE - 90 % MULTIPLE, MULTIPLE)


def test_an_epoch_is_a_function_of_its_number_and_little_of_it_is_padding() -> None:
    chance = np.random.default_rng(0)
    sizes = np.stack([chance.integers(4, 30, 4000), chance.integers(4, 30, 4000)], axis=1)
    packing, again = Packing(sizes, 6000), Packing(sizes, 6000)
    plans = [packing.plan(0, 0), packing.plan(0, 1), packing.plan(1, 0), again.plan(0, 1)]
    firsts = [plan.batches[0].tolist() for plan in plans]
    assert firsts[1] == firsts[3]
    assert len({tuple(first) for first in firsts}) == 3
    mates = [{i: set(row.tolist()) for rows in p.rows for row in rows for i in row} for p in plans]
    stayed = sum(len(mates[0][i] & mates[1][i]) > 1 for i in range(len(sizes)))
    assert stayed < len(sizes) / 5, "texts meet others in every epoch"
    plain = plan_batches(sizes, 6000)
    assert plans[0].padding < 0.1 < plain.padding


def test_many_texts_are_laid_out_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "CHUNK", 7)
    sizes = np.full((30, 2), 9)
    plan = Packing(sizes, 500).plan(0, 0)
    assert sorted(np.concatenate(plan.batches).tolist()) == list(range(30))
    assert max(len(row) for rows in plan.rows for row in rows) == 7


@given(st.lists(st.lists(st.integers(5, 99), min_size=1, max_size=6), min_size=1, max_size=9))
def test_join_equals_concatenation(texts: list[list[int]]) -> None:
    rows = [np.array(row) for row in ([len(texts) - 1], list(range(len(texts))))]
    ids, numbers = PackedTexts(iter(texts), len(texts)).join(rows, 1, count=3, length=60)
    for row, chosen in enumerate((*rows, [])):
        joined = [token for i in chosen for token in texts[i]]
        of_text = [number for number, i in enumerate(chosen, start=1) for _ in texts[i]]
        assert ids[row].tolist() == joined + [1] * (60 - len(joined))
        assert numbers[row].tolist() == of_text + [0] * (60 - len(joined))
    places = [place for text in texts for place in range(len(text))]
    assert masks.positions(numbers)[1, : len(places)].tolist() == places


def test_masks_hide_other_texts_and_padding() -> None:
    texts = torch.tensor([[1, 1, 2, 0]])
    seen = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert masks.seen(texts, texts)[0].int().tolist() == seen
    plain = torch.tensor([[True, True, False]])
    assert torch.equal(masks.seen(plain, plain)[:, None], masks.padding(plain))


# Rows for language models

PAD, BOS, EOS = 0, 1, 2
documents = st.lists(st.lists(st.integers(3, 99), max_size=12), min_size=1, max_size=12)


@given(documents, st.integers(1, 9))
def test_the_rows_are_the_documents(docs: list[list[int]], length: int) -> None:
    inputs, targets, mask = pack(docs, length, bos=BOS, eos=EOS, pad_id=PAD)
    stream = [token for document in docs for token in (*document, EOS)]
    assert targets[mask].tolist() == stream
    assert inputs[mask].tolist() == [BOS, *stream[:-1]]
    assert (targets[~mask] == PAD).all()
    assert inputs.shape == targets.shape == mask.shape
    assert inputs.shape[1] == length
    assert mask[:-1].all()  # only the last row may be padded
    assert mask[-1].any()
    assert inputs.flatten()[1:].tolist() == targets.flatten()[:-1].tolist()


def test_what_cannot_be_packed() -> None:
    with pytest.raises(InputError, match="no documents"):
        pack([], 4, bos=BOS, eos=EOS, pad_id=PAD)
    with pytest.raises(ConfigError, match="length = 0"):
        pack([[5]], 0, bos=BOS, eos=EOS, pad_id=PAD)
