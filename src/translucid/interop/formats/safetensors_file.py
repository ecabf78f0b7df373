"""Read safetensors files: eight bytes with the length of a JSON header, the header, the values.

The package safetensors reads and checks the header: it rejects overlapping tensors, gaps between
them and bytes after the last. The values are memory-mapped, as in all formats; the package would
keep them in memory.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from translucid.core.errors import InputError
from translucid.interop.formats.stored import Cursor, MappedFile, ModelFile, StoredTensor

LARGEST_HEADER = 4 << 20  # bytes: about 40,000 tensors
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


def read_safetensors(path: Path) -> ModelFile:
    """Read the tensors of one safetensors file."""
    file = MappedFile(path)
    length = Cursor(file).number("<Q")
    if length > LARGEST_HEADER:
        raise InputError(
            f"{path} has a header of {length:,} bytes; the limit is {LARGEST_HEADER:,}; it is not "
            "a safetensors file, or damaged"
        )
    tensors: dict[str, StoredTensor] = {}
    place = 8 + length  # offset of the next tensor: they follow each other without gaps
    try:
        with safe_open(str(path), "pt") as header:
            metadata = header.metadata()
            for name in header.offset_keys():
                described = header.get_slice(name)
                dtype, shape = described.get_dtype(), tuple(described.get_shape())
                if dtype not in DTYPES:
                    raise InputError(
                        f"{path}: {name[:200]} has the unsupported type {dtype}; supported: "
                        f"{', '.join(DTYPES)}; save the model in one of these"
                    )
                tensors[name] = file.tensor(place, DTYPES[dtype], shape, name)
                place += tensors[name].nbytes
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} is damaged, or not a safetensors file ({str(error)[:200]}); download it again"
        ) from None
    return ModelFile(dict(metadata or {}), tensors)
