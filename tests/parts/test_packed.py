"""Packed weights: float32 = F.linear; int8 = the same arithmetic in whole numbers, by hand.

Both by the compiled kernels, where they are, and by torch.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.fast import cpu_kernels
from translucid.fast import packed_linear as packed
from translucid.fast.packed_linear import FEW, LARGEST, Int8Linear, PackedLinear, of_rows

SHAPES = [(64, 48), (512, 96), (34, 5), (33, 7), (1, 1), (48, 1)]  # inputs, outputs
shapes = pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
biases = pytest.mark.parametrize("bias", [True, False], ids=["bias", ""])


def has_int8() -> bool:
    try:
        packed.int8_engine()
    except InputError:
        return False
    return True


needs_int8 = pytest.mark.skipif(
    not has_int8(), reason="no matrix multiplication in 8 bits on this machine"
)


compiled = pytest.param(
    "compiled", marks=pytest.mark.skipif(not cpu_kernels.available(), reason=cpu_kernels.reason())
)


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where nothing was compiled."""
    monkeypatch.setattr(cpu_kernels, "available", lambda: False)


@pytest.fixture(params=[compiled, "torch"])
def way(request: pytest.FixtureRequest) -> str:
    if request.param == "torch":
        request.getfixturevalue("by_torch")
    return str(request.param)


def linear_of(inputs: int, outputs: int, *, bias: bool) -> nn.Linear:
    torch.manual_seed(inputs + outputs)
    linear = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(linear.weight, std=inputs**-0.5)
    with torch.no_grad():  # rows of very unequal size, one of zeros
        linear.weight *= torch.logspace(-2, 1, outputs)[:, None]
        if outputs > 1:
            linear.weight[1] = 0
    return linear


def inputs_of(rows: int, inputs: int) -> Tensor:
    return torch.randn(rows, inputs, generator=torch.Generator().manual_seed(rows))


@shapes
@biases
def test_float32(inputs: int, outputs: int, bias: bool, way: str) -> None:
    linear = linear_of(inputs, outputs, bias=bias)
    layer = PackedLinear(linear)
    assert isinstance(layer.of_rows, cpu_kernels.CompiledRows) == (way == "compiled")
    for rows in range(1, 131):
        x = inputs_of(rows, inputs)
        with torch.no_grad():
            torch.testing.assert_close(layer(x), linear(x), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not packed.packs_float32(), reason="nothing is packed on this machine")
def test_float32_is_packed(by_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above is not one of F.linear against itself."""
    layer = PackedLinear(linear_of(64, 48, bias=True))
    calls: list[Tensor] = []
    monkeypatch.setattr(F, "linear", lambda x, *rest: calls.append(x))
    with torch.no_grad():
        layer.of_rows(inputs_of(2, 64))
        assert not calls
        layer.of_rows(inputs_of(1, 64))  # one row is read as it is
        assert len(calls) == 1


def test_float32_without_packing(by_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "packs_float32", lambda: False)
    linear, x = linear_of(64, 48, bias=True), inputs_of(5, 64)
    assert torch.equal(PackedLinear(linear)(x), linear(x))


def test_float32_has_gradients() -> None:
    linear, x = linear_of(64, 48, bias=True), inputs_of(5, 64).requires_grad_()
    found = torch.autograd.grad(PackedLinear(linear)(x).square().sum(), x)
    assert torch.equal(found[0], torch.autograd.grad(linear(x).square().sum(), x)[0])


def by_hand(linear: nn.Linear, x: Tensor, *, levels: int, per_row: bool) -> Tensor:
    """Weights rounded to whole numbers, inputs to `levels` steps over their range; in float64."""
    weight = linear.weight.detach().double()
    pairs = torch.zeros(len(weight), dtype=weight.dtype)  # of neighbors with the same sign
    for k in range(0, weight.shape[1] - 1, 2):
        both = weight[:, k : k + 2]
        same = both.sign().prod(dim=1) > 0
        pairs = pairs.maximum(both.sum(dim=1).abs() * same)
    scale = (weight.abs().amax(dim=1) / LARGEST).maximum(pairs / 127)[:, None]
    whole = torch.where(scale > 0, weight / scale, 0.0).round()
    x = x.double()
    low, high = (
        (x.amin(dim=1, keepdim=True), x.amax(dim=1, keepdim=True))
        if per_row
        else (x.min(), x.max())
    )
    step = (high.clamp(min=0) - low.clamp(max=0)) / levels
    y = (x / step).round() * step @ (whole * scale).T
    return y if linear.bias is None else y + linear.bias.double()


@needs_int8
@shapes
@biases
@pytest.mark.parametrize("kernel", [compiled, "4 + 4 bits", "8 bits"])
@pytest.mark.parametrize("rows", [1, FEW, FEW + 1, 4, 32, 130])
def test_int8(
    inputs: int, outputs: int, bias: bool, kernel: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as by hand but for inputs at the ends of the range, and near float32."""
    if kernel != "compiled":
        monkeypatch.setattr(cpu_kernels, "available", lambda: False)
    if kernel == "8 bits":
        monkeypatch.setattr(packed, "multiplies_4_bits", lambda: False)
    linear, x = linear_of(inputs, outputs, bias=bias), inputs_of(rows, inputs)
    layer = Int8Linear(linear)
    per_row = kernel == "compiled" or (layer.few is not None and rows <= FEW)
    levels = 127 if not per_row and layer.reduced else 255
    hand = by_hand(linear, x, levels=levels, per_row=per_row).float()
    with torch.no_grad():
        found, exact = layer(x), linear(x)
    # Output by output: one of large weights must not hide one of small ones.
    usual = x.norm() * linear.weight.detach().norm(dim=1) / inputs**0.5 + 1e-5  # (outputs,)
    assert ((found - hand).norm(dim=0) <= 0.01 * usual).all()
    # With 7 bits instead of 8, steps are twice as large.
    assert ((found - exact).norm(dim=0) <= 0.05 * 255 / levels * usual).all()


def test_the_product_of_4_bits_is_found_where_it_is() -> None:
    """A fault in how it is packed would show in its trial, and it would be left unused."""
    assert packed.multiplies_4_bits() == torch.backends.kleidiai.is_available()


@needs_int8
def test_int8_adds_no_noise_of_its_own(way: str) -> None:
    """Inputs and weights that are whole numbers already come out as they are."""
    linear = nn.Linear(64, 48)
    dice = torch.Generator().manual_seed(0)
    half = 64 if way == "torch" and packed.int8_engine()[1] else 128  # 7 bits where sums overflow
    with torch.no_grad():
        linear.weight.copy_(torch.randint(-LARGEST, LARGEST + 1, (48, 64), generator=dice))
        linear.weight[:, 1::2] *= -linear.weight[:, ::2].sign() * linear.weight[:, 1::2].sign()
        linear.weight[:, 0] = LARGEST
        linear.weight[:, 1] = -1
        for rows in (1, FEW, FEW + 1, 40):
            x = torch.randint(1 - half, half, (rows, 64), generator=dice).float()
            x[:, 1], x[:, 2] = -half, half - 1
            torch.testing.assert_close(Int8Linear(linear)(x), linear(x), rtol=1e-5, atol=0.1)


def unpaired(linear: nn.Linear) -> Int8Linear:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_kernels, "available", lambda: False)
        patch.setattr(packed, "multiplies_4_bits", lambda: False)
        return Int8Linear(linear)


def of_torch(linear: nn.Linear) -> PackedLinear:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_kernels, "available", lambda: False)
        return PackedLinear(linear)


KINDS = [
    PackedLinear,
    of_torch,
    pytest.param(Int8Linear, marks=needs_int8),
    pytest.param(unpaired, marks=needs_int8),
]
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_shapes(kind: Callable[[nn.Linear], nn.Module]) -> None:
    """Any number of dimensions, also inputs that do not lie in a run, and none at all."""
    layer = kind(linear_of(64, 48, bias=True))
    x = torch.randn(3, 4, 64)
    with torch.no_grad():
        flat = layer(x.view(12, 64))
        torch.testing.assert_close(layer(x), flat.view(3, 4, 48))
        turned = x.transpose(0, 1)
        torch.testing.assert_close(layer(turned), layer(turned.contiguous()))
        assert layer(x[:, :0]).shape == (3, 0, 48)


@kinds
def test_bare_product(kind: Callable[[nn.Linear], nn.Module]) -> None:
    linear = linear_of(64, 48, bias=True)
    layer, bare = kind(linear), of_rows(kind(linear))
    with torch.no_grad():
        for rows in (1, 3):
            x = inputs_of(rows, 64)
            assert torch.equal(bare(x), layer(x))
            assert torch.equal(of_rows(linear)(x), linear(x))


@needs_int8
def test_int8_has_no_gradients() -> None:
    layer = Int8Linear(linear_of(64, 48, bias=True))
    with pytest.raises(InputError, match="int8 network has no gradients; use a float32 network"):
        layer(inputs_of(5, 64).requires_grad_())


def test_int8_is_refused_without_an_8_bit_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_multiplies_8_bits", lambda *given: False)
    packed.int8_engine.cache_clear()
    with pytest.raises(InputError, match=r"int8: .*use float32"):
        packed.int8_engine()
    packed.int8_engine.cache_clear()


@needs_int8
def test_a_kernel_with_wrong_numbers_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that overflow are what some processors give."""
    q, x = packed._trial()
    engine, reduced = packed.int8_engine()
    assert packed._multiplies_8_bits(engine, reduced, q, x)
    assert not packed._multiplies_8_bits("none", reduced, q, x)
    exact = x @ q.T
    assert packed._near(exact, exact)
    assert not packed._near(exact.clamp(max=float(exact.max()) / 2), exact)
