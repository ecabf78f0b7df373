"""Padding is nobody: where it stands, what it holds and who else is there changes no answer."""

from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest
import torch
from tests.invariants.cases import (
    PADDINGS,
    Text,
    close,
    every,
    model_of,
    random_text,
    spread,
    whole,
)
from torch import Tensor

from translucid.models import Network
from translucid.parts.norms import BatchNorm

pytestmark = pytest.mark.usefixtures("no_grad")


def at_real(model: Network, logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """The logits that count, one row for each real token; a classifier has one for each text."""
    if model.config.head in ("classify", "embed"):
        return logits
    return logits.flatten(0, 1) if mask is None else logits[mask]


def statistics(model: Network) -> list[Tensor]:
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
    return [t for norm in norms for t in (norm.running_mean, norm.running_variance)]


def padded(text: Text, side: str) -> Text:
    ids, mask = spread(text.ids, 8, side)
    if text.source is None:
        return replace(text, ids=ids, mask=mask)
    source, source_mask = spread(text.source, 7, side, seed=3)
    return Text(ids, mask, source, source_mask)


def unpadded(model: Network) -> Text:
    return replace(random_text(model, length=5), source_mask=None)


@cache
def logits_without_padding(name: str) -> Tensor:
    return at_real(model_of(name), whole(model_of(name), unpadded(model_of(name))))


@pytest.mark.invariant("padded = unpadded")
@every(side=PADDINGS)
def test_padded(name: str, side: str) -> None:
    model = model_of(name)
    text = padded(unpadded(model), side)
    close(at_real(model, whole(model, text), text.mask), logits_without_padding(name))


@pytest.mark.invariant("padded = unpadded")
@pytest.mark.parametrize("side", PADDINGS)
@every(where=lambda config: getattr(config, "norm", None) == "batch")
def test_padded_in_training(name: str, side: str) -> None:
    """Batch norm, the one part in which tokens meet, meets no padding and remembers none."""
    one, two = (deepcopy(model_of(name)).train() for _ in range(2))
    text = padded(unpadded(two), side)
    close(at_real(two, whole(two, text), text.mask), at_real(one, whole(one, unpadded(one))))
    for with_padding, without in zip(statistics(two), statistics(one), strict=True):
        close(with_padding, without)


@pytest.mark.invariant("padded = unpadded")
def test_batch_norm_that_counts_padding_is_different() -> None:
    """The classic mistake can still be made on purpose."""
    torch.manual_seed(0)
    right, wrong = BatchNorm(4).double(), BatchNorm(4, count_padding=True).double()
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    assert not torch.allclose(right(x, mask), wrong(x, mask))
    close(wrong(x, mask), right(x))


@pytest.mark.invariant("batched = one by one")
@every()
def test_batched(name: str) -> None:
    """Rows of unequal length, padded on either side, give what each gives alone."""
    model = model_of(name)
    text = random_text(model, rows=3, length=6)
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[0, :2] = False
    mask[1, 3:] = False
    text = replace(text, mask=mask)
    together = whole(model, text)
    for row in range(3):
        source = None if text.source is None else text.source[row][text.source_mask[row]][None]
        alone = whole(model, Text(text.ids[row][mask[row]][None], None, source))[0]
        close(together[row] if alone.dim() == 1 else together[row][mask[row]], alone)


@pytest.mark.invariant("batched = one by one")
@every(where=lambda config: config.kind == "recurrent" or config.norm in ("rms", "none"))
def test_empty_rows(name: str) -> None:
    """A row of nothing but padding is finite and disturbs nobody."""
    model = model_of(name)
    text = random_text(model, rows=2, length=4)
    mask = torch.tensor([[False] * 4, [True] * 4])
    empty = replace(text, mask=mask)
    if text.source_mask is not None:
        empty = replace(empty, source_mask=text.source_mask & torch.tensor([[False], [True]]))
    logits = whole(model, empty)
    assert logits.isfinite().all()
    close(logits[1], whole(model, text)[1])
