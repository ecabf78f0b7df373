"""States: fixed = growing, trimmed = never appended, a copy is independent."""

from dataclasses import replace

import pytest
import torch
from tests.invariants.cases import (
    begin,
    close,
    every,
    model_of,
    random_ids,
    random_text,
    spread,
    whole,
    writers,
)

pytestmark = pytest.mark.usefixtures("no_grad")


@pytest.mark.invariant("fixed state = growing state")
@writers
def test_fixed(name: str) -> None:
    """What a captured graph reads, the whole capacity, holds no more than what is in use."""
    model = model_of(name)
    text = random_text(model, rows=2, length=3)
    ids, mask = spread(text.ids, 4, "left")
    grown, fixed = begin(model, text), begin(model, text, fixed=True)
    close(model.step(ids, fixed, mask), model.step(ids, grown, mask))
    for rows in (torch.tensor([1, 1]), torch.tensor([0, 1])):
        newest = random_ids(model, 2, 1, torch.Generator().manual_seed(len(rows)))
        close(model.step(newest, fixed), model.step(newest, grown))
        fixed.reorder(rows)
        grown.reorder(rows)
    assert fixed.timeline is None or fixed.timeline.cursor.item() == fixed.length == 6


@pytest.mark.invariant("trim, append = never appended")
@every(
    "decoder",
    "encoder-decoder",
    where=lambda config: config.kind == "transformer",
    fixed=(False, True),
)
def test_trim(name: str, fixed: bool) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=6)
    wrong = random_ids(model, 2, 3, torch.Generator().manual_seed(9))
    padding = torch.tensor([[True, False, True], [True, True, True]])
    state = begin(model, text, fixed=fixed)
    model.step(text.ids[:, :3], state)
    model.step(wrong, state, padding)
    state.trim(3)
    assert state.length == 3
    assert not fixed or state.timeline.cursor.item() == 3  # else it would run out of slots
    close(model.step(text.ids[:, 3:], state), whole(model, text)[:, 3:])


@pytest.mark.invariant("trim, append = never appended")
@every("decoder", where=lambda config: config.kind == "transformer" and config.norm == "rms")
def test_trim_into_padding(name: str) -> None:
    """The slots that stay keep their padding."""
    model = model_of(name)
    text = random_text(model, rows=2, length=4)
    ids, mask = spread(text.ids, 6, "left")
    state = begin(model, text)
    model.step(ids, state, mask)
    state.trim(4)
    again = model.step(ids[:, 4:], state, mask[:, 4:])
    close(again, whole(model, replace(text, ids=ids, mask=mask))[:, 4:])


@pytest.mark.invariant("a copied state is independent")
@writers
def test_copy(name: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=5)
    other = replace(text, ids=random_ids(model, 2, 5, torch.Generator().manual_seed(9)))
    other.ids[:, :2] = text.ids[:, :2]
    state = begin(model, text)
    model.step(text.ids[:, :2], state)
    twin = state.copy()
    model.step(other.ids[:, 2:4], twin)
    assert (state.length, twin.length) == (2, 4)
    close(model.step(text.ids[:, 2:], state), whole(model, text)[:, 2:])
    close(model.step(other.ids[:, 4:], twin), whole(model, other)[:, 4:])
    twin.reorder(torch.tensor([1, 1]))
    assert twin.length == state.length == 5
