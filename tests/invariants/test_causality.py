"""A decoder does not see what is to come; with the causal mask edited open it does."""

from dataclasses import replace

import pytest
import torch
from tests.invariants.cases import (
    close,
    every,
    model_of,
    random_text,
    spread,
    whole,
)

from translucid.core.trace import Trace
from translucid.models import Network

pytestmark = [pytest.mark.usefixtures("no_grad"), pytest.mark.invariant("causality")]
LENGTH = 5


def changed_at(model: Network, ids: torch.Tensor, place: int) -> torch.Tensor:
    vocab = getattr(model.config, "target_vocab", None) or model.config.vocab
    other = ids.clone()
    other[:, place] = (other[:, place] + 1) % vocab
    return other


@every("decoder", "encoder-decoder", masked=(False, True))
def test_later_tokens_change_nothing(name: str, masked: bool) -> None:
    """With a token mask the causal mask is built; without one it is left to the kernel."""
    model = model_of(name)
    text = random_text(model, rows=1, length=LENGTH)
    if masked:
        text = replace(text, mask=torch.ones_like(text.ids, dtype=torch.bool))
    rows = text.take([0] * LENGTH)  # row j has another token j
    ids = torch.cat([changed_at(model, text.ids, place) for place in range(LENGTH)])
    before, after = whole(model, text)[0], whole(model, replace(rows, ids=ids))
    for place in range(LENGTH):
        close(after[place, :place], before[:place])
        assert not torch.allclose(after[place, place], before[place]), "its own logits see it"


@every(
    "decoder",
    "encoder-decoder",
    where=lambda config: config.kind == "transformer" and config.window is None,
    side=("none", "left"),
)
def test_an_open_mask_lets_the_future_in(name: str, side: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=2, length=LENGTH)
    last = LENGTH - 1
    if side == "left":
        ids, mask = spread(text.ids, LENGTH + 2, side)
        text, last = replace(text, ids=ids, mask=mask), LENGTH + 1
    other = replace(text, ids=changed_at(model, text.ids, last))
    one, two = (
        whole(model, each, Trace(keep=(), edit={"decoder.masks.causal": 1.0}))
        for each in (text, other)
    )
    before = torch.ones_like(text.ids, dtype=torch.bool) if text.mask is None else text.mask.clone()
    before[:, last] = False
    difference = (one - two).abs().amax(dim=-1)
    assert (difference[before] > 1e-9).all()


@every("encoder", where=lambda config: config.head == "tag")
def test_an_encoder_sees_both_ways(name: str) -> None:
    model = model_of(name)
    text = random_text(model, rows=1, length=3)
    other = replace(text, ids=changed_at(model, text.ids, 2))
    before, after = whole(model, text), whole(model, other)
    seen = not torch.allclose(before[:, 1], after[:, 1])
    assert seen == (model.config.kind == "transformer" or model.config.bidirectional)
