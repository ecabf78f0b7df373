"""A decoder that reads a text in pieces says what it says when it reads it at once."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.invariants.cases import (
    PADDINGS,
    Text,
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
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from translucid.generate import decode
from translucid.models import Network, TransformerConfig, build

LENGTH = 6
pytestmark = pytest.mark.usefixtures("no_grad")


def read_in(model: Network, text: Text, chunks: list[int]) -> Tensor:
    """Logits of a text read in chunks of these sizes."""
    assert sum(chunks) == text.ids.shape[1]
    state = begin(model, text)
    logits = []
    masks = [None] * len(chunks) if text.mask is None else text.mask.split(chunks, dim=1)
    for tokens, mask in zip(text.ids.split(chunks, dim=1), masks, strict=True):
        logits.append(model.step(tokens, state, mask))
    assert state.length == sum(chunks)
    return torch.cat(logits, dim=1)


@pytest.mark.invariant("step by step = whole sequence")
@writers
def test_step_by_step(name: str) -> None:
    model = model_of(name)
    text = random_text(model, length=LENGTH)
    close(read_in(model, text, [1] * LENGTH), whole(model, text))


@pytest.mark.invariant("any chunking of a prompt")
@writers
def test_chunks(name: str) -> None:
    model = model_of(name)
    text = random_text(model, length=LENGTH)
    expected = whole(model, text)
    dice = random.Random(name)
    cuts = sorted(dice.sample(range(1, LENGTH), dice.randint(1, LENGTH - 2)))
    at_random = [b - a for a, b in zip([0, *cuts], [*cuts, LENGTH], strict=True)]
    for chunks in ([LENGTH], [1, LENGTH - 1], at_random):
        close(read_in(model, text, chunks), expected)


@pytest.mark.invariant("any chunking of a prompt")
@every("decoder", "encoder-decoder", side=PADDINGS)
def test_ragged_prompts(name: str, side: str) -> None:
    """Prompts of unequal length, in chunks; then on, token by token, as if nothing was padded."""
    model = model_of(name)
    text = random_text(model, rows=2, length=4)
    more = random_ids(model, 2, 2, torch.Generator().manual_seed(5))
    ids, mask = spread(text.ids, 7, side)
    mask &= mask.cumsum(dim=1) <= torch.tensor([[4], [2]])  # of row 1 only two tokens are real

    state = begin(model, text)
    chunks = random.Random(name + side).choice([[7], [3, 4], [1, 2, 4]])
    heard = [
        model.step(tokens, state, there)
        for tokens, there in zip(ids.split(chunks, dim=1), mask.split(chunks, dim=1), strict=True)
    ]
    after = [model.step(more[:, t : t + 1], state) for t in range(2)]
    for row in range(2):
        alone = text.take([row])
        alone = replace(alone, ids=torch.cat([ids[row][mask[row]], more[row]])[None])
        expected = whole(model, alone)[0]
        close(torch.cat(heard, dim=1)[row][mask[row]], expected[:-2])
        close(torch.cat(after, dim=1)[row], expected[-2:])


class Largest(TorchDispatchMode):
    """Remembers the largest number of values that an operation returned."""

    values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        sizes = [part.numel() for part in tree_leaves(result) if isinstance(part, Tensor)]
        self.values = max(self.values, *sizes, 0)
        return result


@pytest.mark.invariant("step by step = whole sequence")
@writers
def test_reading_without_logits_leaves_the_same_state(name: str) -> None:
    model = model_of(name)
    text = random_text(model, length=LENGTH)
    first, last = text.ids.split([LENGTH - 1, 1], dim=1)
    state = begin(model, text)
    masks = (None, None) if text.mask is None else text.mask.split([LENGTH - 1, 1], dim=1)
    assert model.read(first, state, masks[0]) is None
    close(model.step(last, state, masks[1]), whole(model, text)[:, -1:])


@pytest.mark.parametrize("length", [100, 400])
def test_reading_a_prompt_needs_neither_its_pairs_of_tokens_nor_its_logits(length: int) -> None:
    model = build(
        TransformerConfig(
            shape="decoder", head="language", vocab=400, d_model=4, heads=1, layers=1, d_ff=4,
            dropout=0.0, positions="rotary",
        )
    ).eval()  # fmt: skip
    with Largest() as largest:
        decode.begin(model, [[1] * length], None, steps=1)
    assert largest.values < 30 * length
