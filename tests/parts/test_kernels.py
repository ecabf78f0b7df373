"""The GPU's kernels = their plain twins. On a GPU, or where Triton is and TRITON_INTERPRET=1 lets
its kernels run as Python (slowly, and not in bfloat16)."""

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn

from translucid.fast import plain_kernels
from translucid.parts.activations import ACTIVATIONS
from translucid.parts.feedforward import FeedForward, GatedFeedForward, GatedName
from translucid.parts.norms import LayerNorm, RMSNorm

GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [
    pytest.mark.skipif(
        find_spec("triton") is None or not (GPU or INTERPRETED),
        reason="needs a GPU, or Triton with TRITON_INTERPRET=1",
    ),
    pytest.mark.usefixtures("_no_grad"),
]
DEVICE = "cuda" if GPU else "cpu"
SOURCES, BEAMS, SLOTS, TAKEN = 3, 3, 40, 17
DTYPES = [torch.float32, torch.bfloat16] if GPU else [torch.float32]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.fixture
def _no_grad():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    with torch.no_grad():
        yield


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def close(actual: Tensor, expected: Tensor) -> None:
    tolerance = 2e-5 if actual.dtype is torch.float32 else 3e-2
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


@dtypes
@pytest.mark.parametrize(("heads", "kv_heads", "d_head"), [(4, 4, 16), (4, 2, 32), (2, 1, 64)])
def test_attention_over_a_cache(dtype: torch.dtype, heads: int, kv_heads: int, d_head: int) -> None:
    from translucid.fast import kernels

    sizes = [heads * d_head, kv_heads * d_head, kv_heads * d_head]
    q, k, v = drawn(SOURCES * BEAMS, sum(sizes), dtype=dtype).split(sizes, dim=1)
    keys = drawn(SOURCES, kv_heads, SLOTS, d_head, dtype=dtype)
    values = drawn(SOURCES, kv_heads, SLOTS, d_head, dtype=dtype)
    seen = torch.rand(SOURCES, BEAMS, SLOTS, device=DEVICE) > 0.4
    index = torch.arange(TAKEN, TAKEN + BEAMS, device=DEVICE)
    options = {"beams": BEAMS, "scale": 0.25, "new": (k, v, index)}
    mine = keys.clone(), values.clone()
    fast = kernels.attend_newest(q, *mine, seen=seen, **options)

    own = seen.clone()
    own[:, :, TAKEN : TAKEN + BEAMS] = torch.eye(BEAMS, dtype=torch.bool, device=DEVICE)
    added = torch.zeros_like(own, dtype=dtype).masked_fill(~own, -torch.inf)
    in_use = added[:, None, :, : TAKEN + BEAMS]
    plain = plain_kernels.attend_newest(q, keys, values, seen=in_use, **options)
    close(fast, plain)
    assert torch.equal(mine[0], keys), "the newest keys are kept"
    assert torch.equal(mine[1], values), "the newest values are kept"


@dtypes
@pytest.mark.parametrize("masked", [False, True])
def test_attention_over_a_memory(dtype: torch.dtype, masked: bool) -> None:
    """The last source has nothing to see."""
    from translucid.fast import kernels

    memory = drawn(SOURCES, 9, 4 * 16, dtype=dtype)
    keys, values = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in memory.chunk(2, dim=-1))
    q = drawn(SOURCES * BEAMS, 4 * 16, dtype=dtype)
    mask = torch.arange(9, device=DEVICE) < torch.tensor([[9], [5], [0]], device=DEVICE)
    options = {"beams": BEAMS, "scale": 0.25}
    fast = kernels.attend_newest(
        q, keys, values, seen=kernels.visible_source(mask, q) if masked else None, **options
    )
    plain = plain_kernels.attend_newest(
        q, keys, values, seen=plain_kernels.visible_source(mask, q) if masked else None, **options
    )
    close(fast, plain)


@dtypes
@pytest.mark.parametrize("kind", [LayerNorm, partial(LayerNorm, bias=False), RMSNorm])
@pytest.mark.parametrize("keep_sum", [False, True])
@pytest.mark.parametrize("with_branch", [False, True])
def test_sum_and_norm(
    dtype: torch.dtype, kind: Callable[[int], nn.Module], keep_sum: bool, with_branch: bool
) -> None:
    from translucid.fast import kernels

    norm = kind(24).to(DEVICE, dtype)
    for parameter in norm.parameters():
        parameter.copy_(drawn(24))
    x, branch = drawn(5, 24, dtype=dtype), drawn(5, 24, dtype=dtype) if with_branch else None
    mine = x.clone()
    fast = kernels.add_norm(mine, branch, norm, keep_sum=keep_sum)
    close(fast, plain_kernels.add_norm(x, branch, norm, keep_sum=keep_sum))
    close(mine, x)


@dtypes
@pytest.mark.parametrize("width", [1, 3, 4, 8])
def test_the_best_and_the_normaliser(dtype: torch.dtype, width: int) -> None:
    from translucid.fast import kernels

    logits = drawn(6, 9001).to(dtype)
    logits[:, 7] = 9.0
    never = torch.tensor([True, False] * 3, device=DEVICE)
    fast = kernels.top_and_normaliser(logits, width, 7, never)
    plain = plain_kernels.top_and_normaliser(logits, width, 7, never)
    order = fast[0].argsort(dim=1, descending=True)
    assert torch.equal(fast[0].gather(1, order), plain[0])
    found = logits.gather(1, fast[1]).float()
    assert torch.equal(found, fast[0]), "ties may be found in any place"
    close(fast[2], plain[2])


@dtypes
@pytest.mark.parametrize("pairs", [8, 3], ids=["", "partial"])
def test_rotation(dtype: torch.dtype, pairs: int) -> None:
    from translucid.fast import kernels

    x = drawn(5, 6 * 16, dtype=dtype)
    angles = torch.rand(5, pairs, dtype=torch.float64, device=DEVICE)
    mine = x.clone()
    kernels.rotate_newest(mine, angles.cos(), angles.sin(), heads=4, d_head=16)
    plain_kernels.rotate_newest(x, angles.cos(), angles.sin(), heads=4, d_head=16)
    close(mine, x)


@dtypes
@pytest.mark.parametrize("rows", [1, 3, 4, 5])
@pytest.mark.parametrize(
    "activation", ["identity", "relu", "gelu", "gelu_tanh", "quick_gelu", "relu_squared"]
)
@pytest.mark.parametrize("bias", [False, True])
def test_products(dtype: torch.dtype, rows: int, activation: str, bias: bool) -> None:
    from translucid.fast import kernels

    layer = nn.Linear(70, 33, bias=bias).to(DEVICE, dtype)
    x = drawn(rows, 70, dtype=dtype)
    close(kernels.linear(layer, x, activation), plain_kernels.linear(layer, x, activation))


@dtypes
@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_feedforward(dtype: torch.dtype, rows: int, activation: str) -> None:
    from translucid.fast import kernels

    part = FeedForward(16, 40, activation).to(DEVICE, dtype)
    assert part.activation is ACTIVATIONS[activation]
    x = drawn(rows, 16, dtype=dtype)
    close(kernels.feedforward(part, x), plain_kernels.feedforward(part, x))


@dtypes
@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("gate", ["swiglu", "geglu_tanh"])
def test_gated_feedforward(dtype: torch.dtype, rows: int, gate: GatedName) -> None:
    from translucid.fast import kernels

    part = GatedFeedForward(16, 40, gate).to(DEVICE, dtype)
    x = drawn(rows, 16, dtype=dtype)
    close(kernels.feedforward(part, x), plain_kernels.feedforward(part, x))
