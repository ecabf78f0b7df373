"""Sizes and parameter counts, from the real modules."""

import pytest

from translucid.models import TransformerConfig, build
from translucid.parts.attention import SelfAttention
from translucid.parts.feedforward import FeedForward


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture(scope="module")
def base():
    """One layer of the size both sources use."""
    return build(
        TransformerConfig(
            shape="encoder", head="tag", vocab=10, outputs=2, d_model=768, heads=12, layers=1
        )
    )


def test_w03_width_of_a_head(base):
    attention = base.encoder.layers[0].self_attention
    assert (attention.heads, attention.d_head) == (12, 64)
    assert "64" in base.summary()


def test_w04_parameters_of_the_projections(base):
    plain, biased = SelfAttention(768, 12, bias=False), SelfAttention(768, 12)
    assert plain.qkv.weight.numel() // 3 == 589_824
    assert count(plain.qkv) == 1_769_472  # one source leaves this total blank
    assert count(biased.qkv) == 1_771_776
    # Both sources leave out W_O and the biases:
    assert count(plain) == 2_359_296
    assert count(biased) == 2_362_368
    assert base.encoder.layers[0].self_attention.qkv.weight.numel() == 1_769_472
    assert "1,769,472" in base.summary()


def test_w26_feedforward_sizes():
    assert count(FeedForward(512, 2048, bias=False)) == 2_097_152
    assert count(FeedForward(512, 2048)) == 2_099_712
    assert count(SelfAttention(512, 8, bias=False)) == 1_048_576  # half as many

    config = TransformerConfig(
        shape="encoder", head="tag", vocab=10, outputs=2, d_model=512, heads=8, layers=1
    )
    block = build(config).encoder.layers[0].feedforward
    assert block.expand.out_features == 4 * block.expand.in_features == 2048
