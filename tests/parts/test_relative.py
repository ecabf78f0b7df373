"""Buckets of distances, one by one in plain Python; segments and what is refused."""

import math

import pytest
import torch

from translucid.core.errors import InputError
from translucid.models import TransformerConfig, build
from translucid.parts.positions import RelativeBias


def bucket(offset: int, buckets: int, distance: int, both_ways: bool) -> int:
    """The paper's rule; 1e-6 stands for float32, in which a power of 2 falls into its bucket."""
    first = 0
    if both_ways:
        buckets //= 2
        first = buckets if offset > 0 else 0
        away = abs(offset)
    else:
        away = max(-offset, 0)
    exact = buckets // 2
    if away < exact:
        return first + away
    grown = math.log(away / exact) / math.log(distance / exact) * (buckets - exact)
    return first + min(exact + int(grown + 1e-6), buckets - 1)


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20)])
def test_buckets(buckets: int, distance: int, both_ways: bool) -> None:
    part = RelativeBias(2, buckets, distance, both_ways=both_ways)
    offsets = list(range(-300, 301))
    expected = [bucket(offset, buckets, distance, both_ways) for offset in offsets]
    assert part.bucket(torch.tensor(offsets)).tolist() == expected
    assert set(expected) == set(range(buckets)) - ({buckets // 2} if both_ways else set())


TINY = {"vocab": 9, "d_model": 8, "heads": 2, "layers": 1, "dropout": 0.0}
TAGS = {"shape": "encoder", "head": "tag", "outputs": 3}
WRITES = {"shape": "encoder-decoder", "head": "language"}


def test_each_stack_has_one_bias_table() -> None:
    model = build(TransformerConfig(**WRITES, **TINY, positions="relative"))
    names = [name for name, _ in model.named_parameters() if "positions" in name]
    assert names == ["encoder.positions.table.weight", "decoder.positions.table.weight"]
    assert model.encoder.positions.both_ways
    assert not model.decoder.positions.both_ways


def test_segments_left_out_are_0() -> None:
    torch.manual_seed(0)
    model = build(TransformerConfig(**TAGS, **TINY, segments=2)).eval()
    ids = torch.tensor([[1, 2, 3]])
    none, first = torch.zeros_like(ids), torch.tensor([[0, 1, 1]])
    assert torch.equal(model(ids), model(ids, segments=none))
    assert not torch.equal(model(ids), model(ids, segments=first))


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        (torch.tensor([[0, 1, 2]]), "segments .*2.* 0 and 1"),
        (torch.tensor([[0, -1, 0]]), "segments .*-1"),
        (torch.tensor([[0, 1]]), "one whole number for each token"),
        (torch.tensor([[0.0, 1.0, 1.0]]), "one whole number for each token"),
    ],
)
def test_wrong_segments(segments: torch.Tensor, message: str) -> None:
    model = build(TransformerConfig(**TAGS, **TINY, segments=2))
    with pytest.raises(InputError, match=message):
        model(torch.tensor([[1, 2, 3]]), segments=segments)


def test_segments_for_a_model_without_them() -> None:
    model = build(TransformerConfig(**TAGS, **TINY))
    with pytest.raises(InputError, match=r"segments.*omit segments"):
        model(torch.tensor([[1, 2]]), segments=torch.tensor([[0, 0]]))


def test_rows_before_the_first_position_are_not_used() -> None:
    torch.manual_seed(0)
    options = {**TAGS, **TINY, "positions": "learned", "max_length": 5}
    model = build(TransformerConfig(**options, first_position=2)).eval()
    assert model.encoder.positions.table.shape == (7, 8)
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    before = model(ids)
    with torch.no_grad():
        model.encoder.positions.table[:2] = torch.nan
    assert torch.equal(model(ids), before)
    with pytest.raises(InputError, match="end at 4"):
        model(torch.tensor([[1, 2, 3, 4, 5, 6]]))
