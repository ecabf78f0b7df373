"""Helpers of the worked examples: tensors written as text, weights set by hand, one tolerance."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from translucid.core.trace import Trace
from translucid.models import MLPConfig, build
from translucid.models.mlp import MLP
from translucid.parts.attention import Layout, SelfAttention, attend

Numbers: TypeAlias = str | float | Sequence[float] | Tensor
Edits: TypeAlias = dict[str, Callable[[Tensor], Tensor] | float]


def numbers(written: Numbers) -> Tensor:
    """A float64 tensor from numbers or text; in text, spaces separate columns and semicolons
    rows."""
    if not isinstance(written, str):
        return torch.as_tensor(written, dtype=torch.float64)
    rows = [[float(word) for word in row.split()] for row in written.split(";")]
    return torch.tensor(rows if len(rows) > 1 else rows[0], dtype=torch.float64)


def same(actual: Tensor, wanted: Numbers, *, atol: float = 1e-9, rtol: float = 0.0) -> None:
    """Assert that two tensors are equal in shape, and in value up to 1e-9, in float64. rtol: for
    much smaller numbers."""
    torch.testing.assert_close(actual.detach(), numbers(wanted), atol=atol, rtol=rtol)


def prints_as(value: Tensor, stated: Numbers, decimals: int) -> bool:
    """Whether the exact value, rounded, equals the value that a source states."""
    half = 0.5 * 10.0**-decimals
    return bool(((value.detach() - numbers(stated)).abs() <= half + 1e-12).all())


def set_weights(layer: nn.Linear, weight: Numbers, bias: Numbers | None = None) -> None:
    """Put weights written by hand (outputs x inputs) into a layer; no bias means zeros."""
    with torch.no_grad():
        layer.weight.copy_(numbers(weight).reshape(layer.weight.shape))
        if layer.bias is not None:
            layer.bias.copy_(numbers(0.0 if bias is None else bias))


def mlp(*layers: tuple[Numbers, Numbers], inputs: int, activation: str = "relu") -> MLP:
    """Translucid's MLP in float64 with these (weight, bias) pairs; the last pair is the output
    layer."""
    sizes = [numbers(bias).numel() for _, bias in layers]
    config = MLPConfig(
        inputs=inputs, hidden=tuple(sizes[:-1]), outputs=sizes[-1], activation=activation
    )
    model = build(config).double()
    assert isinstance(model, MLP)
    for layer, (weight, bias) in zip([*model.layers, model.output], layers, strict=True):
        set_weights(layer.linear, weight, bias)
    return model


def self_attention(weight: Numbers, heads: int) -> SelfAttention:
    """Self-attention without biases: Q, K and V share one weight, and W_O is the identity."""
    square = numbers(weight)
    layer = SelfAttention(square.shape[0], heads, bias=False).double()
    set_weights(layer.qkv, torch.cat([square] * 3))
    set_weights(layer.output, torch.eye(square.shape[0]))
    return layer


def look(
    q: Tensor, k: Tensor, v: Tensor, layout: Layout | None = None, *, edit: Edits | None = None
) -> tuple[Tensor, Trace]:
    """Apply one head of attention to plain matrices; return its output (queries, d_head) and its
    trace."""
    trace = Trace(edit=edit)
    scope = trace.at("attention")
    out = attend(q[None, None], k[None, None], v[None, None], layout or Layout(), trace=scope)
    trace.check()
    return out[0, 0], trace
