"""The kernel for short rows says what torch's own attention says, forward and backward."""

import pytest
import torch
from torch import Tensor

from translucid.core.device import has_triton
from translucid.parts.attention import Layout, fused

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and has_triton()), reason="needs a CUDA device and Triton"
)


def heads(rows: int, positions: int, d_head: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """(rows, 3 heads, positions, d_head), as a fused projection leaves them: rows lie apart."""
    wide = torch.randn(rows, positions, 2, 3, d_head, device="cuda", dtype=dtype)
    return wide[:, :, 1].transpose(1, 2).detach().requires_grad_()


def layouts(rows: int, queries: int, keys: int) -> dict[str, Layout]:
    hidden = torch.rand(rows, 1, 1, keys, device="cuda") > 0.4
    hidden[..., 0] = True
    one_by_one = torch.rand(rows, 1, queries, keys, device="cuda") > 0.4
    one_by_one[0, 0, 0] = False  # a query that may see nothing
    return {
        "all": Layout(), "padding": Layout(hidden), "blind": Layout(one_by_one),
        "causal": Layout(causal=True),
    }  # fmt: skip


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (13, 30), (64, 64)])
@pytest.mark.parametrize("d_head", [16, 64, 128])
def test_the_kernel_equals_plain_attention(queries: int, keys: int, d_head: int) -> None:
    from translucid.fast.short_attention import short_attention

    torch.manual_seed(0)
    q, k, v = (heads(5, positions, d_head) for positions in (queries, keys, keys))
    d_mixed = torch.randn(5, 3, queries, d_head, device="cuda")
    for name, layout in layouts(5, queries, keys).items():
        if layout.causal and queries != keys:
            continue
        results = []
        for kernel in (short_attention, fused):
            mixed = kernel(q, k, v, layout, d_head**-0.5, 0.0)
            results.append((mixed, *torch.autograd.grad(mixed, (q, k, v), d_mixed)))
        for fast, plain in zip(*results, strict=True):
            torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4, msg=name)


def test_half_precision_is_as_near_as_torchs() -> None:
    from translucid.fast.short_attention import short_attention

    torch.manual_seed(0)
    q, k, v = (heads(8, 48, 64, torch.bfloat16) for _ in range(3))
    layout = layouts(8, 48, 48)["padding"]
    exact = fused(q.double(), k.double(), v.double(), layout, 0.125, 0.0)
    errors = [
        (kernel(q, k, v, layout, 0.125, 0.0).double() - exact).abs().max().item()
        for kernel in (short_attention, fused)
    ]
    assert errors[0] <= 2 * errors[1] + 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(12, 20), (24, 12), (40, 64)])
def test_dropout_leaves_out_the_wanted_fraction_and_backward_the_same_as_forward(
    queries: int, keys: int, dtype: torch.dtype
) -> None:
    """With rows of the identity as values, the output is the pattern after dropout. In half
    precision and small sizes too: Triton has been wrong in these alone."""
    from translucid.fast.short_attention import short_attention

    torch.manual_seed(0)
    q, k = (heads(300, positions, 64, dtype) for positions in (queries, keys))
    v = torch.eye(64, device="cuda", dtype=dtype)[:keys].expand(300, 3, keys, 64)
    v = v.contiguous().requires_grad_()
    mixed = short_attention(q, k, v, Layout(), 0.125, 0.3)
    kept = mixed.detach()[..., :keys] != 0
    count = kept.numel()
    assert abs(float((~kept).sum()) - 0.3 * count) < 5 * (0.3 * 0.7 * count) ** 0.5
    for dim in (0, 1, 2, 3):  # neighbours are dropped together no more often than by chance
        after = kept.narrow(dim, 1, kept.shape[dim] - 1)
        both = float((~(kept.narrow(dim, 0, after.shape[dim]) | after)).float().mean())
        assert abs(both - 0.09) < 5 * (0.09 * 0.91 / after.numel()) ** 0.5, dim
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    pattern = torch.softmax(exact[0] @ exact[1].transpose(-2, -1) * 0.125, dim=-1)
    by_hand = torch.where(kept, pattern / 0.7, 0.0) @ exact[2]
    d_mixed = torch.randn_like(mixed)
    fast = torch.autograd.grad(mixed, (q, k, v), d_mixed)
    plain = torch.autograd.grad(by_hand, exact, d_mixed.double())
    for one, other in zip((mixed, *fast), (by_hand, *plain), strict=True):
        near = 1e-5 if dtype is torch.float32 else 2e-2
        assert float(((one - other).abs().max() / other.abs().max()).detach()) < near


def test_each_call_draws_anew_and_a_seed_repeats_it() -> None:
    from translucid.fast.short_attention import short_attention

    q, k, v = (heads(4, 20, 32) for _ in range(3))
    drawn = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        drawn += [short_attention(q, k, v, Layout(), 0.2, 0.5) for _ in range(2)]
    assert torch.equal(drawn[0], drawn[4])
    assert torch.equal(drawn[1], drawn[5])
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # torch's own
def test_a_compiled_backward_pass_drops_what_the_forward_pass_dropped() -> None:
    """torch.compile may compute cheap things again for the backward pass; a draw it must not."""
    from translucid.fast.short_attention import short_attention

    torch.manual_seed(0)
    q, k = (heads(4, 16, 16) for _ in range(2))
    v = torch.eye(16, device="cuda").expand(4, 3, 16, 16).clone().requires_grad_()
    compiled = torch.compile(lambda q, k, v: short_attention(q * 2, k, v * 1, Layout(), 0.25, 0.4))
    mixed = compiled(q, k, v)
    (d_v,) = torch.autograd.grad(mixed, v, torch.ones_like(mixed))
    torch.testing.assert_close(d_v[..., 0], mixed.detach().sum(dim=2), rtol=1e-4, atol=1e-5)
