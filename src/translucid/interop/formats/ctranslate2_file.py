"""Read and write CTranslate2's model.bin: named variables, some quantised to int8 or int16 with a
scale, then aliases.

Scalars are options of the model, such as the number of heads, and become metadata. A quantised
weight is read as float32: weight / weight_scale, with one scale per row (int8) or per tensor
(int16).
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.interop.formats.stored import (
    Cursor,
    MappedFile,
    ModelFile,
    StoredTensor,
    check_total,
)

VERSIONS = range(2, 7)
OF_SIZE = {4: torch.float32, 2: torch.int16, 1: torch.int8}  # by item size, before version 4
OF_TYPE = dict(enumerate((
    torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16,
)))  # fmt: skip
MOST_ALIASES = 8  # names per tensor, on average
SCALE = "_scale"  # suffix added to the weight's name


def read_ctranslate2(path: Path) -> ModelFile:
    """Read model.bin: tensors by name, and as metadata the options, `spec` and `revision`."""
    file = MappedFile(path)
    cursor = Cursor(file)
    version = cursor.number("<I")
    if version not in VERSIONS:
        raise InputError(
            f"{path} begins with {version}, not with a version of CTranslate2's model.bin from "
            f"{VERSIONS[0]} to {VERSIONS[-1]}; convert the model again, or use a different file"
        )
    metadata: dict[str, Any] = {"spec": _string(cursor), "revision": cursor.number("<I")}
    stored: dict[str, tuple[torch.dtype, StoredTensor]] = {}
    for _ in range(cursor.check_count(cursor.number("<I"), 9, "variables")):
        name, dtype, tensor = _variable(cursor, version)
        stored[name] = dtype, tensor
    if version >= 3:
        for _ in range(cursor.check_count(cursor.number("<I"), 4, "aliases")):
            alias, name = _string(cursor), _string(cursor)
            if name not in stored:
                raise InputError(f"{path}: {alias[:100]} refers to {name[:100]}, which is missing")
            stored[alias] = stored[name]
    tensors: dict[str, StoredTensor] = {}
    for name, (dtype, tensor) in stored.items():
        if not tensor.shape:
            metadata[name] = tensor.read().item()
        elif not name.endswith(SCALE):
            tensors[name] = _floats(path, name, dtype, tensor, stored)
    check_total(path, tensors, MOST_ALIASES)
    return ModelFile(metadata, tensors)


def _string(cursor: Cursor) -> str:
    length = cursor.number("<H")
    return cursor.take(length, "a name").removesuffix(b"\0").decode("utf-8", errors="replace")


def _variable(cursor: Cursor, version: int) -> tuple[str, torch.dtype, StoredTensor]:
    file, name = cursor.file, _string(cursor)
    axes = cursor.number("<B")
    shape = tuple(cursor.number("<I") for _ in range(axes))
    kind, count = cursor.number("<B"), cursor.number("<I")
    types = OF_TYPE if version >= 4 else OF_SIZE
    if kind not in types:
        raise InputError(f"{file.path}: {name[:100]} has the unknown type {kind}")
    dtype = types[kind]
    length = count if version >= 4 else count * dtype.itemsize
    tensor = file.tensor(cursor.place, dtype, shape, name)
    if tensor.nbytes != length:
        raise InputError(
            f"{file.path}: {name[:100]} of shape {list(shape)} and {dtype} cannot take "
            f"{length:,} bytes, as the file declares; the file is damaged: copy it again"
        )
    cursor.place += length
    return name, dtype, tensor


def _floats(
    path: Path,
    name: str,
    dtype: torch.dtype,
    tensor: StoredTensor,
    stored: dict[str, tuple[torch.dtype, StoredTensor]],
) -> StoredTensor:
    """The tensor, dequantised if necessary."""
    if dtype not in (torch.int8, torch.int16) or not name.endswith("weight"):
        return tensor
    if name + SCALE not in stored:
        raise InputError(f"{path}: {name[:100]} is quantized, but {name[:100]}{SCALE} is missing")
    scale = stored[name + SCALE][1]
    if scale.shape not in ((), tensor.shape[:1]):
        raise InputError(f"{path}: {name[:100]}{SCALE} has the shape {list(scale.shape)}")

    def read() -> Tensor:
        values = scale.read().float()
        return tensor.read() / (values[:, None] if values.dim() else values)

    return StoredTensor(tensor.shape, tensor.dtype, tensor.nbytes, read, tensor.release)


def write_ctranslate2(
    path: Path,
    spec: str,
    revision: int,
    scalars: Mapping[str, np.generic],
    tensors: Mapping[str, Tensor],
    aliases: Mapping[str, str],
) -> None:
    """Write a model.bin in version 6 of the format. aliases: additional names of tensors."""
    numbers = {dtype: number for number, dtype in OF_TYPE.items()}
    variables = {**{name: torch.from_numpy(np.asarray(value)) for name, value in scalars.items()},
                 **tensors}  # fmt: skip
    with path.open("xb") as file:

        def string(text: str) -> None:
            raw = text.encode() + b"\0"
            file.write(struct.pack("<H", len(raw)) + raw)

        file.write(struct.pack("<I", VERSIONS[-1]))
        string(spec)
        file.write(struct.pack("<II", revision, len(variables)))
        for name, value in sorted(variables.items()):
            string(name)
            file.write(struct.pack(f"<B{value.dim()}I", value.dim(), *value.shape))
            file.write(struct.pack("<BI", numbers[value.dtype], value.nbytes))
            file.write(value.contiguous().numpy().tobytes())
        file.write(struct.pack("<I", len(aliases)))
        for alias, name in sorted(aliases.items()):
            string(alias)
            string(name)
