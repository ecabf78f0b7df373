"""All layers' keys and values at once are those of layer by layer, and so are the gradients."""

from typing import Any

import pytest
import torch

from translucid.fast.attention_kernels import JoinedProjections
from translucid.models import TransformerConfig, build
from translucid.models.base import Encoded

SIZES: dict[str, Any] = {
    "vocab": 9, "d_model": 12, "heads": 4, "layers": 3, "head": "language",
    "shape": "encoder-decoder", "dropout": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"kv_heads": 2}, {"qkv_bias": False}], ids=str)
def test_joined_is_layer_by_layer(more: dict[str, Any]) -> None:
    network = build(TransformerConfig(**SIZES, **more)).double()
    outputs = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    encoded = Encoded(outputs, torch.ones(2, 5, dtype=torch.bool))
    joined, found = JoinedProjections(network), []
    for used in (False, True):
        network.zero_grad()
        outputs.grad = None
        if used:
            with joined.used():
                assert "project" in vars(network.decoder)
                said = network.decoder.project(encoded)
        else:
            said = network.decoder.project(encoded)
        weights = [
            k.sin().sum() * (i + 1) + v.cos().sum() for i, (k, v) in enumerate(said.projected)
        ]
        sum(weights, torch.zeros(())).backward()
        gradients = [p.grad for p in network.decoder.parameters() if p.grad is not None]
        found.append((said.projected, outputs.grad, gradients))
        assert said.mask is encoded.mask
    torch.testing.assert_close(found[1], found[0])
    assert "project" not in vars(network.decoder)


def test_parts_that_a_user_has_changed_are_left_alone() -> None:
    network = build(TransformerConfig(**SIZES))
    network.decoder.layers[1].cross_attention.kv.register_forward_hook(lambda *_: None)
    with JoinedProjections(network).used():
        assert "project" not in vars(network.decoder)
