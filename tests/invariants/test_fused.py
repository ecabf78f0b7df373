"""A fused kernel and the computation by hand agree, in values and gradients: attention, norms."""

from collections.abc import Callable

import pytest
import torch
from tests.invariants.cases import close
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, NoTrace, Trace
from translucid.parts.activations import softmax
from translucid.parts.alignment import make_alignment
from translucid.parts.attention import CrossAttention, Layout, SelfAttention, attend
from translucid.parts.norms import NormName, make_norm

pytestmark = pytest.mark.invariant("fused = by hand")
QUERIES, KEYS = 4, 5


def both_ways(
    run: Callable[[NoTrace], Tensor], leaves: list[Tensor], tolerance: float = 1e-12
) -> Tensor:
    """Run unseen and seen; values and gradients must be finite and agree."""
    results = []
    for trace in (NO_TRACE, Trace()):
        value = run(trace)
        grads = torch.autograd.grad((value * weights_like(value)).sum(), leaves)
        results.append((value, *grads))
    for fused, by_hand in zip(*results, strict=True):
        assert fused.isfinite().all()
        assert by_hand.isfinite().all()
        close(fused, by_hand, tolerance)
    return results[0][0].detach()


def weights_like(value: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.dtype)


def leaf(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def mask(kind: str, queries: int, keys: int) -> Tensor | None:
    torch.manual_seed(5)
    some = torch.rand(2, 1, queries, keys) > 0.4
    some[..., 0] = True
    match kind:
        case "no mask" | "causal":
            return None
        case "some":
            return some
        case "blind queries":  # see nothing at all
            some[0, 0, 1] = False
            some[1] = False
            return some
        case _:  # padding: one row for all queries, and a source with no token
            return torch.tensor([[True] * (keys - 1) + [False], [False] * keys])[:, None, None]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("scaled", [True, False], ids=["scaled", "unscaled"])
@pytest.mark.parametrize("kind", ["no mask", "causal", "some", "blind queries", "padding"])
def test_attend(kind: str, scaled: bool, kv_heads: int, bias: bool, dtype: torch.dtype) -> None:
    keys = QUERIES if kind == "causal" else KEYS
    q = leaf(2, 4, QUERIES, 6, dtype=dtype)
    k, v = leaf(2, kv_heads, keys, 6, dtype=dtype), leaf(2, kv_heads, keys, 6, dtype=dtype)
    leaves = [q, k, v]
    slopes = leaf(2, 4, QUERIES, keys, dtype=dtype) if bias else None
    layout = Layout(mask(kind, QUERIES, keys), causal=kind == "causal", bias=slopes)
    mixed = both_ways(
        lambda trace: attend(q, k, v, layout, scaled=scaled, trace=trace),
        leaves if slopes is None else [*leaves, slopes],
        1e-12 if dtype == torch.float64 else 2e-5,
    )
    if kind == "blind queries":
        assert torch.equal(mixed[0, :, 1], torch.zeros_like(mixed[0, :, 1]))
        assert torch.equal(mixed[1], torch.zeros_like(mixed[1]))


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_each_key_head_serves_a_run_of_query_heads(kv_heads: int) -> None:
    q, k, v = leaf(2, 4, 3, 6), leaf(2, kv_heads, 5, 6), leaf(2, kv_heads, 5, 6)
    for trace in (NO_TRACE, Trace()):
        grouped = attend(q, k, v, trace=trace)
        for head in range(4):
            own = head * kv_heads // 4
            alone = attend(q[:, head, None], k[:, own, None], v[:, own, None])
            close(grouped[:, head, None], alone)


@pytest.mark.parametrize("kind", ["no mask", "some", "padding"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_cross_attention(kv_heads: int, kind: str) -> None:
    torch.manual_seed(0)
    part = CrossAttention(8, 4, kv_heads).double()
    x, memory = leaf(2, QUERIES, 8), leaf(2, KEYS, 8)
    seen = mask(kind, 1, KEYS)
    both_ways(
        lambda trace: part(x, part.project(memory), Layout(seen), trace=trace),
        [x, memory, *part.parameters()],
    )


@pytest.mark.parametrize("angles", [False, True], ids=["", "rotary"])
@pytest.mark.parametrize("kind", ["no mask", "causal", "some", "blind queries"])
def test_self_attention(kind: str, angles: bool) -> None:
    torch.manual_seed(0)
    part = SelfAttention(8, 4, 2).double()
    x = leaf(2, QUERIES, 8)
    turn = torch.rand(2, QUERIES, 1, dtype=torch.float64) if angles else None
    layout = Layout(mask(kind, QUERIES, QUERIES), causal=kind == "causal", angles=turn)
    both_ways(lambda trace: part(x, layout, trace=trace), [x, *part.parameters()])


@pytest.mark.parametrize("kind", ["additive", "dot"])
@pytest.mark.parametrize("beams", [1, 3])
def test_alignment(beams: int, kind: str) -> None:
    """The second source is all padding: its context is zero, not NaN."""
    torch.manual_seed(0)
    part = make_alignment(kind, 6, 8).double()
    hidden, memory = leaf(2 * beams, QUERIES, 6), leaf(2, KEYS, 8)
    mask = torch.tensor([[True] * 3 + [False] * 2, [False] * 5])
    both_ways(
        lambda trace: part(hidden, part.project(memory), mask, trace),
        [hidden, memory, *part.parameters()],
    )
    seen = Trace("context")
    part(hidden, part.project(memory), mask, seen)
    assert torch.equal(seen["context"][1], torch.zeros(beams * QUERIES, 8).double())


def test_softmax_is_torchs() -> None:
    x = leaf(3, 7)
    expected = torch.softmax(x, dim=-1)
    (gradient,) = torch.autograd.grad((expected * weights_like(x)).sum(), x)
    value = both_ways(lambda trace: softmax(x, trace), [x])
    close(value, expected.detach())
    (by_hand,) = torch.autograd.grad((softmax(x, Trace()) * weights_like(x)).sum(), x)
    close(by_hand, gradient)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", ["layer", "rms", "batch", "none"])
def test_norms(name: NormName, training: bool) -> None:
    torch.manual_seed(0)
    norm = make_norm(name, 6).double().train(training)
    for weight in norm.parameters():
        nn.init.normal_(weight)
    x = leaf(2, 3, 6)
    both_ways(lambda trace: norm(x, None, trace), [x, *norm.parameters()])
