"""safetensors: eight bytes with the length of a JSON header, the header, the values.

The package of this name reads them too, but keeps what it has read in memory.
"""

import json
from pathlib import Path
from typing import Any

import torch

from translucid.errors import InputError
from translucid.interop.formats.stored import (
    Cursor,
    MappedFile,
    ModelFile,
    StoredTensor,
    check_total,
)

LARGEST_HEADER = 100 << 20  # as the reference library has it
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


def read_safetensors(path: Path) -> ModelFile:
    """The tensors of one file."""
    file = MappedFile(path)
    cursor = Cursor(file)
    length = cursor.number("<Q")
    if length > LARGEST_HEADER:
        raise InputError(
            f"{path}: a header of {length:,} bytes, above the limit of {LARGEST_HEADER:,}; this is "
            "no safetensors file, or it is damaged"
        )
    try:
        header = json.loads(cursor.take(length))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: its header is not JSON: {str(error)[:100]}") from None
    if not isinstance(header, dict):
        raise InputError(f"{path}: its header holds {type(header).__name__}, not an object")
    metadata = header.pop("__metadata__", {})
    tensors = {name: _tensor(file, cursor.place, name, entry) for name, entry in header.items()}
    check_total(path, tensors)
    return ModelFile(metadata if isinstance(metadata, dict) else {}, tensors)


def _tensor(file: MappedFile, base: int, name: str, entry: Any) -> StoredTensor:
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise InputError(f"{file.path}: {name[:200]} is not described as a tensor is")
    if dtype not in DTYPES:
        raise InputError(
            f"{file.path}: {name[:200]} holds {dtype[:40]}; {', '.join(DTYPES)} can be read: save "
            "the model in one of these"
        )
    tensor = file.tensor(base + begin, DTYPES[dtype], tuple(shape), name)
    if begin < 0 or tensor.nbytes != end - begin:
        raise InputError(
            f"{file.path}: {name[:200]} of shape {shape} and {dtype} is said to take "
            f"{end - begin:,} bytes, which do not fit; the file is damaged: download it again"
        )
    return tensor
