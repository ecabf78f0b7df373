"""The operations of `fast.plain_kernels`, and matrix multiplication in float32 and 8 bits, in C
(`cpu_kernels.c`) for x86 and ARM processors.

They are compiled when the package is installed, if there is a C compiler (`hatch_build.py`), for
several instruction sets (`Path`); `path` chooses one when they are first used. If they are not
`available`, the plain counterparts are used: `fast.plain_kernels`, and torch's matrix
multiplication in `fast.packed_linear`.
"""

import ctypes
import itertools
import os
import pathlib
import zlib
from ctypes import CFUNCTYPE, c_char_p, c_double, c_int, c_long, c_void_p
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.fast import plain_kernels
from translucid.fast.plain_kernels import (
    FEW,
    advance_one,
    embed,
    feedforward,
    linear,
    rotate_newest,
    top_and_normaliser,
)
from translucid.parts.cache import Timeline
from translucid.parts.norms import LayerNorm, RMSNorm

__all__ = [
    "FEW", "LARGEST", "PAIR", "CompiledRows", "Path", "add_norm", "advance_one", "attend_newest",
    "attention_job", "available", "embed", "feedforward", "float_rows", "function", "int8_rows",
    "largest_pairs", "linear", "norm_job", "path", "paths", "reason", "rotate_newest",
    "top_and_normaliser", "visible", "visible_source",
]  # fmt: skip

SOURCE = pathlib.Path(__file__).with_suffix(".c")
VARIABLE = "TRANSLUCID_CPU_KERNELS"  # the name of a path, or "torch"
LARGEST = 119  # largest 8-bit weight: the maximum of 16 * high + low, if both are from -8 to 7
PAIR = 128  # largest sum of two neighboring weights of the same sign: see the C
RUN = 16  # the C reads 8-bit inputs filled up to a multiple of this number
NONE = 0  # a null pointer
MOST = 9  # a limit on the paths in the C, which end in a null pointer


def library_path(source: pathlib.Path = SOURCE) -> pathlib.Path:
    """The path of the compiled kernels, which contains a checksum of the source."""
    return source.with_name(f"cpu_kernels-{zlib.crc32(source.read_bytes()):08x}.so")


class Path(ctypes.Structure):
    """The kernels for one instruction set, as in the C. Weights are stored in blocks of `outputs`
    outputs; in 8 bits, `group` inputs of an output stay together."""

    _fields_ = (
        ("_name", c_char_p),
        ("outputs", c_long),
        ("group", c_long),
        ("supported", CFUNCTYPE(c_int)),
    )

    @property
    def name(self) -> str:
        return str(self._name.decode())


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(library_path()))


@cache
def paths() -> dict[str, Path]:
    """The paths that this processor supports by name, the fastest first; empty if nothing was
    compiled."""
    if not library_path().exists():
        return {}
    listed = (ctypes.POINTER(Path) * MOST).in_dll(_library(), "paths")
    compiled = [pointer.contents for pointer in itertools.takewhile(bool, listed)]
    return {path.name: path for path in compiled if path.supported()}


@cache
def reason() -> str:
    """Why the kernels cannot be used; empty if they can."""
    if not library_path().exists():
        return "not compiled, since there was no C compiler when Translucid was installed"
    try:
        library = _library()
    except OSError as error:
        return f"not loaded: {error}"
    if not library.shares_threads():
        return "not used, since torch has no OpenMP threads that they could share"
    if not paths():
        return "not used, since this processor has neither AVX2 nor NEON"
    return "" if _wanted() != "torch" else f"switched off by {VARIABLE}=torch"


def _wanted() -> str:
    """The path that the environment variable names, "torch", or an empty string."""
    name = os.environ.get(VARIABLE, "")
    if name in ("", "torch") or name in paths():
        return name
    raise InputError(
        f"{VARIABLE}={name}: this machine supports {', '.join(paths())} and torch; use one of "
        "these names, or unset the variable to use the fastest"
    )


@cache
def path() -> Path:
    """The path to use: the fastest, or the one that the environment variable names."""
    return paths()[_wanted() or next(iter(paths()))]


def available() -> bool:
    return not reason()


@cache
def function(name: str) -> Any:
    function = getattr(_library(), name)
    function.restype, *function.argtypes = FUNCTIONS[name]
    return function


FUNCTIONS: dict[str, list[Any]] = {  # result, then arguments
    "linear": [c_int, c_void_p, c_void_p, c_long, c_void_p, c_long],
    "add_norm": [None, c_void_p, c_long, c_long],
    "attend_newest": [c_int, c_void_p, c_long],
    "run_layers": [c_int, c_void_p, c_long, c_long, c_long, c_long],
}


def _fields(pointers: str, numbers: str, reals: str = "") -> list[tuple[str, Any]]:
    """The fields of a C struct: the names of its pointers, integers and floats, in this order."""
    kinds = ((pointers, c_void_p), (numbers, c_long), (reals, c_double))
    return [(name, kind) for names, kind in kinds for name in names.split()]


# Matrix multiplication


class _Linear(ctypes.Structure):
    _fields_ = _fields("path weights bias scales sums", "inputs outputs relu")


class CompiledRows:
    """A linear layer as a function of rows: x (rows, inputs) to W x + b (rows, outputs), in float32
    or 8 bits, with weights stored for one path."""

    def __init__(
        self,
        path: Path,
        parts: tuple[Tensor | None, ...],
        inputs: int,
        outputs: int,
        *,
        relu: bool = False,
    ) -> None:
        self.path, self.parts = path, parts  # the C code reads `parts`
        self.inputs, self.outputs = inputs, outputs
        self.layer = _Linear(ctypes.addressof(path), *map(_at, parts), inputs, outputs, relu)
        self.address, self.run = ctypes.addressof(self.layer), function("linear")

    def with_relu(self) -> "CompiledRows":
        """The same layer followed by max(0, y); it shares the weights with this one."""
        return CompiledRows(self.path, self.parts, self.inputs, self.outputs, relu=True)

    def __call__(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or not x.is_cpu or x.shape[1] != self.inputs:
            raise InputError(
                f"a layer prepared for decoding reads rows of {self.inputs} float32 on a CPU, not "
                f"a tensor {tuple(x.shape)} of {x.dtype} on {x.device}"
            )
        x, rows = x.contiguous(), x.shape[0]
        y = torch.empty(rows, self.outputs)
        if not self.run(self.address, x.data_ptr(), rows, y.data_ptr(), torch.get_num_threads()):
            raise MemoryError(
                f"not enough memory for {rows} rows of {self.inputs} inputs in 8 bits"
            )
        return y


def float_rows(weight: Tensor, bias: Tensor | None) -> CompiledRows:
    """Prepare a linear layer for multiplication in float32."""
    outputs, inputs = weight.shape
    blocks = _filled(weight.detach(), 0).view(-1, path().outputs, inputs).transpose(1, 2)
    shift = torch.zeros(outputs) if bias is None else bias.detach().float()
    parts = (blocks.contiguous(), _filled(shift), None, None)
    return CompiledRows(path(), parts, inputs, outputs)


def int8_rows(q: Tensor, scales: Tensor, bias: Tensor) -> CompiledRows:
    """Prepare a linear layer W = scales * q for multiplication in 8 bits; x is rounded to 8 bits
    row by row."""
    outputs, inputs = q.shape
    if (q.abs() > LARGEST).any() or (largest_pairs(q) > PAIR).any():
        raise ValueError(f"8-bit weights above {LARGEST}, or pairs above {PAIR}, would overflow")
    filled = _filled(q.to(torch.int8), -inputs % RUN)
    groups = filled.view(-1, path().outputs, filled.shape[1] // path().group, path().group)
    sums = filled.sum(dim=1, dtype=torch.int32)
    parts = (groups.transpose(1, 2).contiguous(), _filled(bias), _filled(scales), sums)
    return CompiledRows(path(), parts, inputs, outputs)


def largest_pairs(weight: Tensor) -> Tensor:
    """For each output, the largest absolute sum of two neighboring weights, of which those with
    the other sign count as 0."""
    pairs = F.pad(weight, (0, weight.shape[1] % 2)).unflatten(1, (-1, 2))
    return torch.maximum(pairs.clamp(min=0).sum(2), -pairs.clamp(max=0).sum(2)).amax(1)


def _filled(values: Tensor, inputs: int | None = None) -> Tensor:
    """Fill up the outputs, the first dimension, to whole blocks; and add `inputs` columns."""
    columns = () if inputs is None else (0, inputs)
    return F.pad(values, (*columns, 0, -values.shape[0] % path().outputs))


# One decoding step


def visible(timeline: Timeline, like: Tensor) -> Tensor | None:
    """The mask of the slots that each beam sees: (sources, beams, slots); None if all see every
    slot in use."""
    return None if timeline.everything_seen else timeline.seen


def visible_source(mask: Tensor, like: Tensor) -> Tensor | None:
    """The mask of an encoder's output (sources, keys) as (sources, 1, keys); None if there is no
    padding."""
    return None if bool(mask.all()) else mask.contiguous()[:, None]


def add_norm(x: Tensor, branch: Tensor | None, norm: nn.Module, *, keep_sum: bool) -> Tensor:
    """Return norm(x + branch). With `keep_sum`, x is changed in place to the sum. x, branch: (rows,
    width)."""
    if not x.is_contiguous() or (branch is not None and not branch.is_contiguous()):
        return plain_kernels.add_norm(x, branch, norm, keep_sum=keep_sum)
    y = torch.empty_like(x)
    job = norm_job(x, branch, y, norm, keep_sum=keep_sum)
    function("add_norm")(ctypes.byref(job), x.shape[0], torch.get_num_threads())
    return y


class NormArguments(ctypes.Structure):
    _fields_ = _fields("path x y branch gain shift", "width keep_sum rms", "eps")


def norm_job(
    x: Tensor, branch: Tensor | None, y: Tensor, norm: nn.Module, *, keep_sum: bool
) -> NormArguments:
    """The arguments of the C function that computes y = norm(x + branch). All tensors must exist as
    long as they are used."""
    assert isinstance(norm, LayerNorm | RMSNorm)
    rms = isinstance(norm, RMSNorm)
    shift = None if isinstance(norm, RMSNorm) else norm.shift
    return NormArguments(
        ctypes.addressof(path()), x.data_ptr(), y.data_ptr(), _at(branch), norm.gain.data_ptr(),
        _at(shift), x.shape[1], keep_sum, rms, norm.eps,
    )  # fmt: skip


def _at(tensor: Tensor | None) -> int:
    return NONE if tensor is None else tensor.data_ptr()


class Attention(ctypes.Structure):
    _fields_ = _fields(
        "path q new_keys new_values keys values out seen room",
        "q_row new_row at_source at_head at_slot seen_source seen_beam "
        "sources beams heads kv_heads d slots start",
        "scale",
    )


def attend_newest(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    beams: int,
    scale: float,
    seen: Tensor | None,
    new: tuple[Tensor, Tensor, int] | None = None,
) -> Tensor:
    """Do what `plain_kernels.attend_newest` does. seen: the mask that `visible` or `visible_source`
    returns."""
    out = torch.empty(q.shape)
    job, held = attention_job(q, keys, values, out, beams=beams, scale=scale, seen=seen, new=new)
    if not function("attend_newest")(ctypes.byref(job), torch.get_num_threads()):
        raise MemoryError(f"not enough memory for attention over {keys.shape[2]} slots")
    del held  # needed until now
    return out


def attention_job(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    out: Tensor,
    *,
    beams: int,
    scale: float,
    seen: Tensor | None,
    new: tuple[Tensor, Tensor, int] | None,
) -> tuple[Attention, tuple[Tensor, ...]]:
    """The arguments of the C function that writes the result of `attend_newest` to `out`, and
    tensors that must exist as long as these arguments are used."""
    if new is None and (keys.stride() != values.stride() or keys.stride(3) != 1):
        keys, values = keys.contiguous(), values.contiguous()  # a cache has equal strides
    sources, kv_heads, slots, d = keys.shape
    k_at, v_at, new_row, start = NONE, NONE, 0, 0
    if new is not None:
        k, v, start = new
        k_at, v_at, new_row, slots = k.data_ptr(), v.data_ptr(), k.stride(0), start + beams
    seen_source, seen_beam = 0, 0
    if seen is not None:
        seen_source, seen_beam = seen.stride(0), seen.stride(1) if seen.shape[1] > 1 else 0
    job = Attention(
        ctypes.addressof(path()), q.data_ptr(), k_at, v_at, keys.data_ptr(), values.data_ptr(),
        out.data_ptr(), _at(seen), NONE, q.stride(0), new_row, *keys.stride()[:3], seen_source,
        seen_beam, sources, beams, q.shape[1] // d, kv_heads, d, slots, start, scale,
    )  # fmt: skip
    return job, (keys, values)
