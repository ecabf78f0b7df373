"""Choosing the best continuations: the faster ways give the same as the plain ones."""

import pytest
import torch

from translucid.generate.beam import MANY, choose, largest, largest_by_parts


@pytest.mark.parametrize("beams", [1, 3])
def test_live_none_equals_all_live(beams: int) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, beams, generator=generator)
    log_probs = torch.randn(5, beams, 9, generator=generator).log_softmax(dim=-1)
    best = log_probs.topk(beams)
    live = torch.ones(5, beams, dtype=torch.bool)
    for mine, its in zip(
        choose(scores, None, *best, pad=0), choose(scores, live, *best, pad=0), strict=True
    ):
        assert torch.equal(mine, its)


@pytest.mark.parametrize("size", [600, 625, 629, 4001])
@pytest.mark.parametrize("count", [2, 5])
def test_largest_by_parts_equals_topk(size: int, count: int) -> None:
    """Also if the largest are all in one part, in the rest behind the parts, or infinite."""
    generator = torch.Generator().manual_seed(size)
    values = torch.stack([torch.randperm(size, generator=generator).float() for _ in range(40)])
    values = torch.cat(
        [values, torch.arange(size).float()[None], -torch.arange(size).float()[None]]
    )
    values[0, values[0] < size - 3] = -torch.inf
    best, index = largest_by_parts(values.view(6, 7, size), count)
    plain, its = values.view(6, 7, size).topk(count)
    assert torch.equal(best, plain)
    possible = plain > -torch.inf
    assert torch.equal(index[possible], its[possible])


def test_largest_of_many_values() -> None:
    values = torch.randn(40, 1 + MANY // 40)
    assert all(map(torch.equal, largest(values, 4), values.topk(4)))
