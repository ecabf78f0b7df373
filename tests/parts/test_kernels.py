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
from translucid.fast.fixed_state import FixedTimeline
from translucid.parts.activations import ACTIVATIONS, ActivationName
from translucid.parts.feedforward import FeedForward, GatedFeedForward
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
KNOWN = ["relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "relu_squared"]
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
    tolerance = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 3e-2}[actual.dtype]
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


@dtypes
@pytest.mark.parametrize(("sources", "beams"), [(3, 3), (1, 1), (1, 2), (6, 1), (1, 4)])
@pytest.mark.parametrize(("heads", "kv_heads", "d_head"), [(4, 4, 16), (4, 2, 32), (2, 1, 64)])
@pytest.mark.parametrize("taken", [0, 17, 700])
def test_attention_over_a_cache(
    dtype: torch.dtype, sources: int, beams: int, heads: int, kv_heads: int, d_head: int, taken: int
) -> None:
    from translucid.fast import kernels

    slots = taken + 23
    sizes = [heads * d_head, kv_heads * d_head, kv_heads * d_head]
    q, k, v = drawn(sources * beams, sum(sizes), dtype=dtype).split(sizes, dim=1)
    keys = drawn(sources, kv_heads, slots, d_head, dtype=dtype)
    values = drawn(sources, kv_heads, slots, d_head, dtype=dtype)
    seen = torch.rand(sources, beams, slots, device=DEVICE) > 0.4
    index = torch.arange(taken, taken + beams, device=DEVICE)
    options = {"beams": beams, "scale": 0.25, "new": (k, v, index)}
    mine = keys.clone(), values.clone()
    fast = kernels.attend_newest(q, *mine, seen=seen, **options)

    own = seen.clone()
    own[:, :, taken : taken + beams] = torch.eye(beams, dtype=torch.bool, device=DEVICE)
    added = torch.zeros_like(own, dtype=dtype).masked_fill(~own, -torch.inf)
    in_use = added[:, None, :, : taken + beams]
    plain = plain_kernels.attend_newest(q, keys, values, seen=in_use, **options)
    close(fast, plain)
    assert torch.equal(mine[0], keys), "the newest keys are kept"
    assert torch.equal(mine[1], values), "the newest values are kept"


@dtypes
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("beams", [1, 3])
def test_attention_over_a_memory(dtype: torch.dtype, masked: bool, beams: int) -> None:
    """The last source has nothing to see."""
    from translucid.fast import kernels

    memory = drawn(3, 9, 4 * 16, dtype=dtype)
    keys, values = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in memory.chunk(2, dim=-1))
    q = drawn(3 * beams, 4 * 16, dtype=dtype)
    mask = torch.arange(9, device=DEVICE) < torch.tensor([[9], [5], [0]], device=DEVICE)
    options = {"beams": beams, "scale": 0.25}
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
@pytest.mark.parametrize("parts", [2, 3])
def test_sum_of_parts_and_norm(dtype: torch.dtype, parts: int) -> None:
    from translucid.fast import kernels

    norm, branch = norm_of("layer", 24, dtype), drawn(parts, 5, 24)
    assert norm is not None
    x = drawn(5, 24, dtype=dtype)
    mine = x.clone()
    fast = kernels.add_norm(mine, branch, norm, keep_sum=True)
    close(fast, plain_kernels.add_norm(x, branch, norm, keep_sum=True))
    close(mine, x)


@dtypes
@pytest.mark.parametrize("rows", [1, 6, 700])
@pytest.mark.parametrize("width", [1, 3, 13])
def test_the_best_and_the_normaliser(dtype: torch.dtype, rows: int, width: int) -> None:
    """The best are among the candidates, and the parts add up to the normaliser."""
    from translucid.fast import kernels

    logits = drawn(rows, 9001 if rows < 700 else 1100).to(dtype)
    logits[:, 7] = 9.0
    logits[1::2, 7 + 1024 :: 1024] = 8.0  # in the same lane of a block
    never = torch.arange(rows, device=DEVICE) % 2 == 0
    fast = kernels.top_and_normaliser(logits, width, 7, never)
    plain = plain_kernels.top_and_normaliser(logits, width, 7, never)
    assert torch.equal(fast[0].topk(width).values, plain[0])
    found = logits.gather(1, fast[1]).float()
    assert torch.equal(found, fast[0]), "ties may be found in any place"
    assert all(len(set(row)) == len(row) for row in fast[1].tolist()), "each candidate once"
    close(fast[2].logsumexp(dim=1, keepdim=True), plain[2])


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


ROWS = pytest.mark.parametrize("rows", [1, 3, 4, 5])
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": LayerNorm, "without shift": partial(LayerNorm, bias=False), "rms": RMSNorm,
}  # fmt: skip


def norm_of(name: str | None, width: int, dtype: torch.dtype) -> nn.Module | None:
    if name is None:
        return None
    norm = NORMS[name](width).to(DEVICE, dtype)
    for parameter in norm.parameters():
        parameter.copy_(drawn(width))
    return norm


@dtypes
@ROWS
@pytest.mark.parametrize("activation", ["identity", *KNOWN])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_linear(dtype: torch.dtype, rows: int, activation: str, bias: bool, gated: bool) -> None:
    from translucid.fast import kernels

    layer = nn.Linear(70, 34, bias=bias).to(DEVICE, dtype)
    x, options = drawn(rows, 70, dtype=dtype), {"activation": activation, "gated": gated}
    close(kernels.linear(layer, x, **options), plain_kernels.linear(layer, x, **options))


@dtypes
@ROWS
@pytest.mark.parametrize("inputs", [70, 6000])
@pytest.mark.parametrize("norm", [None, *NORMS])
@pytest.mark.parametrize("adds", [False, True])
def test_linear_with_norm_and_residual(
    dtype: torch.dtype, rows: int, inputs: int, norm: str | None, adds: bool
) -> None:
    from translucid.fast import kernels

    layer, before = nn.Linear(inputs, 35).to(DEVICE, dtype), norm_of(norm, inputs, dtype)
    x, added = drawn(rows, inputs, dtype=dtype), drawn(rows, 35, dtype=dtype)
    options = {"norm": before, "residual": added if adds else None}
    mine, its = torch.empty_like(x), torch.empty_like(x)
    fast = kernels.linear(layer, x, kept=None if norm is None else mine, **options)
    close(fast, plain_kernels.linear(layer, x, kept=None if norm is None else its, **options))
    if norm is not None:
        close(mine, its)


# On tensor cores. The interpreter has no bfloat16.
HALF = pytest.mark.parametrize("dtype", [torch.bfloat16 if GPU else torch.float16], ids=str)
MORE_ROWS = pytest.mark.parametrize("rows", [5, 20, 70])


@HALF
@MORE_ROWS
@pytest.mark.parametrize("inputs", [70, 256])
@pytest.mark.parametrize("activation", ["identity", "gelu"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_linear_with_more_rows(
    dtype: torch.dtype, rows: int, inputs: int, activation: str, bias: bool, gated: bool
) -> None:
    from translucid.fast import kernels

    layer = nn.Linear(inputs, 34, bias=bias).to(DEVICE, dtype)
    x, options = drawn(rows, inputs, dtype=dtype), {"activation": activation, "gated": gated}
    close(kernels.linear(layer, x, **options), plain_kernels.linear(layer, x, **options))


@HALF
@MORE_ROWS
@pytest.mark.parametrize("inputs", [1030, 2048])
def test_linear_in_parts(dtype: torch.dtype, rows: int, inputs: int) -> None:
    from translucid.fast import kernels

    layer, x = nn.Linear(inputs, 35).to(DEVICE, dtype), drawn(rows, inputs, dtype=dtype)
    parts = kernels.linear(layer, x, split=True)
    assert parts.dim() == 3
    close(parts.sum(dim=0).to(dtype), plain_kernels.linear(layer, x))
    close(kernels.linear(layer, x), plain_kernels.linear(layer, x))


@pytest.mark.parametrize("outputs", [3_100, 8_201])
def test_linear_of_many_outputs(outputs: int) -> None:
    from translucid.fast import kernels

    layer, x = nn.Linear(24, outputs).to(DEVICE), drawn(1, 24)
    close(kernels.linear(layer, x), plain_kernels.linear(layer, x))


@dtypes
@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("norm", [None, "layer"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
@pytest.mark.parametrize("gated", [False, True])
def test_feedforward(
    dtype: torch.dtype, rows: int, norm: str | None, activation: ActivationName, gated: bool
) -> None:
    from translucid.fast import kernels

    part: nn.Module = FeedForward(16, 40, activation)
    if gated:
        part = GatedFeedForward(16, 40, "swiglu")
        part.activation = ACTIVATIONS[activation]
    part = part.to(DEVICE, dtype)
    x = drawn(rows, 16, dtype=dtype)
    residual = None if norm is None else drawn(rows, 16, dtype=dtype)
    options = {"norm": norm_of(norm, 16, dtype), "residual": residual}
    close(kernels.feedforward(part, x, **options), plain_kernels.feedforward(part, x, **options))


@dtypes
@pytest.mark.parametrize("encoded", [False, True])
def test_embedding(dtype: torch.dtype, encoded: bool) -> None:
    from translucid.fast import kernels

    texts = torch.tensor([[[7, 3], [7, 0]], [[7, 8], [7, 1]]], device=DEVICE)
    tokens = texts[..., -1].view(-1, 1)  # with gaps between them, as in a beam search
    positions = torch.tensor([[5, 1], [0, 2]], device=DEVICE).T.contiguous().T
    table, encodings = drawn(9, 24, dtype=dtype), drawn(8, 24, dtype=dtype) if encoded else None
    given = tokens, table, 1.5, positions, encodings, 2
    close(kernels.embed(*given), plain_kernels.embed(*given))


@pytest.mark.parametrize(("sources", "beams"), [(1, 1), (3, 4), (600, 2)])
def test_advancing(sources: int, beams: int) -> None:
    from translucid.fast import kernels

    mine = FixedTimeline(sources, 9, torch.device(DEVICE))
    mine.counts += torch.arange(sources, device=DEVICE)[:, None]
    mine.take(3)
    mine.expand(beams)
    its = mine.copy()
    for _ in range(2):
        found, expected = kernels.advance_one(mine), plain_kernels.advance_one(its)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)
        for name in ("seen", "positions", "counts", "cursor"):
            assert torch.equal(getattr(mine, name), getattr(its, name)), name
        assert mine.taken == its.taken
