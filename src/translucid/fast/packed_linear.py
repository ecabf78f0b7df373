"""Linear layers in special layouts: packed for a CPU, in float32 or int8; or padded, so that an
output head with an odd vocabulary size trains at full speed on a GPU.

`F.linear` rearranges the weights for the processor's kernel at every call; packed layers do it
once. In int8 a weight is an integer times the scale of its row:

    W[n, k] = scale[n] q[n, k],  q from -119 to 119

Two neighbors q[n, 2 k] and q[n, 2 k + 1] of the same sign add up to at most 128, so that AVX2
can multiply and add both in 16 bits. Inputs are rounded to 8 bits at every call, sums are exact,
and the scale is applied last. Packed weights are a copy for decoding: later changes of the original
layer do not affect them.

Shapes: x (..., inputs), y (..., outputs).
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.fast import cpu_kernels
from translucid.fast.cpu_kernels import LARGEST, PAIR, largest_pairs
from translucid.parts.embedding import LanguageHead

# Rows up to which two 4-bit multiplications are faster than one 8-bit multiplication.
# 37 layers of a Transformer, d_model 512, on a Neoverse N1: 1 row 3.7 ms against 7.3, 2 rows 6.1
# against 7.3, 3 rows 8.1 against 7.7.
FEW = 2
TRIAL = 0.02  # relative error allowed in the trial of a kernel, since inputs are rounded to 8 bits

Rows = Callable[[Tensor], Tensor]  # (rows, inputs) to (rows, outputs)


class PackedLinear(nn.Module):
    """W x + b in float32, the same as the original layer up to rounding.

    It uses `fast.cpu_kernels` if available, else torch: `F.linear` for one row, and for more rows a
    multiplication with packed weights, which is up to twice as fast. The original weights are kept
    too.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.packed: Tensor | None = None  # not a buffer: it cannot be saved or moved
        if cpu_kernels.available() and linear.weight.dtype == torch.float32:
            self.of_rows: Rows = cpu_kernels.float_rows(linear.weight, linear.bias)
            return
        if packs_float32():
            self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())
        self.of_rows = self._by_torch()

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and x.requires_grad:
            return F.linear(x, self.weight, self.bias)
        y = self.of_rows(x.reshape(-1, self.in_features))
        return y.view(*x.shape[:-1], self.out_features)

    def _by_torch(self) -> Rows:
        weight, bias, packed = self.weight, self.bias, self.packed
        if packed is None:
            return lambda x: F.linear(x, weight, bias)
        multiply = torch.ops.mkldnn._linear_pointwise.default._op

        def rows(x: Tensor) -> Tensor:
            if x.shape[0] == 1:
                return F.linear(x, weight, bias)
            return multiply(x, packed, bias, "none", [], "")

        return rows


class Int8Linear(nn.Module):
    """W x + b in 8 bits, by `fast.cpu_kernels` if available, else by torch.

    The kernels of `fast.cpu_kernels` round each row of inputs with its own scale. torch rounds all
    inputs of a call with one scale. An exception are calls with at most `FEW` rows, for which torch
    uses a 4-bit multiplication if the processor has a fast one.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, bias = linear.weight.detach().float(), linear.bias
        self.in_features, self.out_features = linear.in_features, linear.out_features
        # Rounding adds at most 1 to a pair.
        scales = torch.maximum(weight.abs().amax(1) / LARGEST, largest_pairs(weight) / (PAIR - 1))
        scales = scales.masked_fill(scales == 0, 1.0)  # a row of zeros
        q = (weight / scales[:, None]).round()
        shift = torch.zeros_like(scales) if bias is None else bias.detach().float()
        self.scales = nn.Buffer(scales)
        self.few: Tensor | None = None
        if cpu_kernels.available():
            self.of_rows: Rows = cpu_kernels.int8_rows(q, scales, shift)
            return
        engine, self.reduced = int8_engine()
        self.many = _pack_many(q, shift / scales, engine)
        if multiplies_4_bits() and self.in_features % 2 == 0:
            self.few = _pack_few(q, scales, shift)
        self.of_rows = self._by_torch()

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and x.requires_grad:
            raise InputError("an int8 network has no gradients; use a float32 network")
        y = self.of_rows(x.reshape(-1, self.in_features))
        return y.view(*x.shape[:-1], self.out_features)

    def _by_torch(self) -> Rows:
        few, many, scales, reduced = self.few, self.many, self.scales, self.reduced
        n, k = self.out_features, self.in_features
        # `_op` saves a Python frame per call, which is noticeable in a decoding step.
        multiply_4 = torch.ops.aten._dyn_quant_matmul_4bit.default._op
        multiply_8 = torch.ops.quantized.linear_dynamic.default._op

        def rows(x: Tensor) -> Tensor:
            if few is None or x.shape[0] > FEW:
                return multiply_8(x, many, reduced).mul_(scales)
            high, low = multiply_4(x, few, k, k, 2 * n).split(n, 1)
            return high + low

        return rows


def of_rows(linear: nn.Module) -> Rows:
    """A function that applies a linear layer to rows (rows, inputs), without the overhead of a
    module and without gradients."""
    if isinstance(linear, PackedLinear | Int8Linear):
        return linear.of_rows
    assert isinstance(linear, nn.Linear)
    return partial(F.linear, weight=linear.weight, bias=linear.bias)


def _pack_many(q: Tensor, shift: Tensor, engine: str) -> Any:
    """Pack weights q for 8-bit multiplication. One scale per row would be slow, so they are packed
    with scale 1."""
    with _engine(engine), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the deprecation of quantized tensors
        whole = torch._make_per_tensor_quantized_tensor(q.to(torch.int8), 1.0, 0)
        return torch.ops.quantized.linear_prepack(whole, shift)


def _pack_few(q: Tensor, scales: Tensor, shift: Tensor) -> Tensor:
    """Split 8-bit weights q into 16 * high + low, and pack both halves as one 4-bit matrix."""
    n, k = q.shape
    whole = q.to(torch.int32)
    low = ((whole + 8) & 15) - 8
    high = (whole - low) >> 4
    unsigned = torch.cat([high, low]) + 8
    pairs = ((unsigned[:, 1::2] << 4) | unsigned[:, ::2]).to(torch.uint8)  # two in a byte
    both = torch.cat([16 * scales, scales])[:, None]
    shifts = torch.cat([shift, torch.zeros_like(shift)])
    return torch.ops.aten._dyn_quant_pack_4bit_weight(pairs, both, shifts, k, k, 2 * n)


# What this processor supports, found by trials


@cache
def packs_float32() -> bool:
    """Whether weights can be packed for the kernel of `F.linear`."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    weight, x = _trial()
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        output = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
    except (AttributeError, RuntimeError):
        return False
    return torch.allclose(output, F.linear(x, weight), rtol=1e-5, atol=1e-2)


@cache
def int8_engine() -> tuple[str, bool]:
    """Torch's int8 engine, and whether its inputs must be reduced to 7 bits to avoid overflow."""
    offered = torch.backends.quantized.supported_engines
    q, x = _trial()
    for engine in ("onednn", "x86"):
        for reduced in (False, True):
            if engine in offered and _multiplies_8_bits(engine, reduced, q, x):
                return engine, reduced
    raise InputError(
        f"int8: this machine has no 8-bit matrix multiplication (torch offers "
        f"{', '.join(offered) or 'none'}); use float32"
    )


def _multiplies_8_bits(engine: str, reduced: bool, q: Tensor, x: Tensor) -> bool:
    try:
        packed = _pack_many(q, torch.zeros(q.shape[0]), engine)
        output = torch.ops.quantized.linear_dynamic(x, packed, reduced)
    except (AttributeError, RuntimeError):
        return False
    return _near(output, x @ q.T)


@cache
def multiplies_4_bits() -> bool:
    """Whether this processor has a fast 4-bit matrix multiplication."""
    if not torch.backends.kleidiai.is_available():
        return False
    q, x = _trial()
    try:
        packed = _pack_few(q, torch.ones(q.shape[0]), torch.zeros(q.shape[0]))
        parts = torch.ops.aten._dyn_quant_matmul_4bit(x, packed, *2 * [q.shape[1]], 2 * q.shape[0])
    except (AttributeError, RuntimeError):
        return False
    return _near(sum(parts.chunk(2, dim=1)), x @ q.T)


def _trial() -> tuple[Tensor, Tensor]:
    """Random integer weights and random inputs, to test a kernel. The first rows contain the
    largest values, so that the test detects overflow."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randint(-LARGEST, LARGEST + 1, (8, 64), generator=generator).float()
    x = torch.randn(4, 64, generator=generator)
    q[0], x[0] = LARGEST, x.abs().max()
    return q, x


def _near(output: Any, exact: Tensor) -> bool:
    return bool((output - exact).norm() <= TRIAL * exact.norm())


@contextmanager
def _engine(name: str) -> Iterator[None]:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


class PaddedLinear(nn.Linear):
    """W x + b. In training, it is computed by `linear_in_eights`."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        return linear_in_eights(x, self.weight, self.bias)


def linear_in_eights(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """W x + b, computed with W padded to a multiple of 8 rows; the padding is removed from the
    result. Without padding, the matrix units of a GPU are several times slower, since rows of the
    result do not start at multiples of 16 bytes."""
    rows = weight.shape[0]
    spare = -rows % 8
    if not spare:
        return F.linear(x, weight, bias)
    bias = None if bias is None else F.pad(bias, (0, spare))
    return F.linear(x, F.pad(weight, (0, 0, 0, spare)), bias)[..., :rows]


def pad_heads(network: nn.Module) -> None:
    """Replace the linear layers of language heads by `PaddedLinear`, with the same parameters."""
    for head in network.modules():
        if isinstance(head, LanguageHead) and type(head.linear) is nn.Linear:
            head.linear = _padded(head.linear)


def _padded(linear: nn.Linear) -> PaddedLinear:
    with_bias = linear.bias is not None
    padded = PaddedLinear(linear.in_features, linear.out_features, bias=with_bias, device="meta")
    padded.weight, padded.training = linear.weight, linear.training
    if with_bias:
        padded.bias = linear.bias
    return padded
