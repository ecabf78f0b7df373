"""Choosing among live prefixes only = choosing where some might have ended."""

import pytest
import torch

from translucid.generate.beam import choose


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
