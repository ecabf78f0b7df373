"""Dropout drawn once for a row, against plain dropout and against none."""

import torch
from torch import nn

from translucid.parts.dropout import LockedDropout, make_dropout


def test_a_number_is_hidden_at_all_positions_or_at_none() -> None:
    torch.manual_seed(0)
    dropped = LockedDropout(0.4)(torch.ones(50, 7, 40))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, float(torch.tensor(1.0) / 0.6)}
    assert 0.35 < float((dropped[:, 0] == 0).float().mean()) < 0.45
    assert not torch.equal(dropped[0], dropped[1])  # every row has its own


def test_evaluation_has_no_dropout() -> None:
    x = torch.randn(2, 3, 4)
    assert LockedDropout(0.4).eval()(x) is x
    assert LockedDropout(0.0)(x) is x


def test_make_dropout() -> None:
    assert isinstance(make_dropout(0.3), nn.Dropout)
    locked = make_dropout(0.3, locked=True)
    assert isinstance(locked, LockedDropout)
    assert locked.probability == 0.3
