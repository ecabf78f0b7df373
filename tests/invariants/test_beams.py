"""A state that is moved about remembers what was moved: cached = uncached, with several beams.

Every test keeps the prefixes beside the state, moves both, and has the model read them anew.
"""

from dataclasses import replace

import pytest
import torch
from tests.invariants.cases import (
    Text,
    begin,
    close,
    model_of,
    random_ids,
    random_text,
    whole,
    writers,
)
from torch import Tensor

from translucid.models import Network
from translucid.parts.cache import DecoderState

pytestmark = [
    pytest.mark.usefixtures("no_grad"),
    pytest.mark.invariant("cached = uncached, with several beams"),
]
SOURCES, BEAMS = 2, 3
LEFT_PADDED = torch.tensor([[True] * 3, [False, True, True]])


class Decoding:
    """A state and, beside it, the prefixes that it should remember."""

    def __init__(self, model: Network, text: Text) -> None:
        """Read prompts of unequal length."""
        self.model, self.dice = model, torch.Generator().manual_seed(7)
        self.text = replace(text, mask=LEFT_PADDED)
        self.state: DecoderState = begin(model, text)
        self.logits = model.step(text.ids, self.state, LEFT_PADDED)

    @property
    def rows(self) -> int:
        return self.text.ids.shape[0]

    def step(self, queries: int = 1) -> None:
        """More tokens for each row; then compare with the prefixes read anew."""
        newest = random_ids(self.model, self.rows, queries, self.dice)
        mask = torch.cat([self.text.mask, torch.ones_like(newest, dtype=torch.bool)], dim=1)
        self.text = replace(self.text, ids=torch.cat([self.text.ids, newest], dim=1), mask=mask)
        stepped = self.model.step(newest, self.state)
        close(stepped, whole(self.model, self.text)[:, -queries:])

    def expand(self, beams: int) -> None:
        self.state.expand(beams)
        self.text = self.text.take(torch.arange(self.rows).repeat_interleave(beams))

    def follow(self) -> None:
        sources = self.rows // BEAMS
        parents = torch.randint(BEAMS, (sources, BEAMS), generator=self.dice)
        self.state.follow(parents)
        rows = (torch.arange(sources)[:, None] * BEAMS + parents).flatten()
        moved = self.text.take(rows)
        assert self.text.source is None or torch.equal(moved.source, self.text.source)
        self.text = moved

    def reorder(self, rows: Tensor) -> None:
        self.state.reorder(rows)
        self.text = self.text.take(rows)


def decoding(name: str) -> Decoding:
    model = model_of(name)
    return Decoding(model, random_text(model, rows=SOURCES, length=3))


@writers
def test_beams_follow_their_parents(name: str) -> None:
    now = decoding(name)
    now.expand(BEAMS)
    for _ in range(3):
        now.step()
        now.follow()
    now.step()
    memory = now.state.encoder_output
    assert memory is None or all(
        part.shape[0] == SOURCES for layer in memory.projected for part in layer
    ), "the encoder output was copied for each beam"


@writers
def test_several_tokens_at_once(name: str) -> None:
    now = decoding(name)
    now.expand(BEAMS)
    now.step(2)
    now.follow()
    now.step(3)


@writers
def test_sentences_leave_and_change_places(name: str) -> None:
    now = decoding(name)
    now.expand(BEAMS)
    now.step()
    now.reorder(torch.tensor([3, 5, 4, 0, 0, 2]))  # the sources change places
    now.step()
    now.follow()
    now.reorder(torch.tensor([3, 4, 5]))  # the first source has left
    now.step()


@writers
def test_rows_repeat_and_vanish(name: str) -> None:
    now = decoding(name)
    now.reorder(torch.tensor([1, 0, 1]))
    now.step()
    now.reorder(torch.tensor([2, 1]))
    now.step()
