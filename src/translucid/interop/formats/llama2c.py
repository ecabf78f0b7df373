"""llama2.c: a few sizes, then all weights in a fixed order, without names.

The first files have seven numbers and nothing else; newer ones begin with "24ka" and a version: 1
is float32, 2 is int8 in groups, each with a scale. The names here are those of the model in that
repository.
"""

from collections.abc import Iterator
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.interop.formats.stored import (
    Cursor,
    MappedFile,
    ModelFile,
    StoredTensor,
    checked_size,
)

MAGIC = 0x616B3432
HEADER = 256  # bytes, of files with a version
KEYS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
LARGEST = {"n_layers": 10_000, "n_heads": 65_536, "n_kv_heads": 65_536}
Shape = tuple[int, ...]


def read_llama2c(path: Path) -> ModelFile:
    """Sizes as metadata, with `version` and `shared_classifier`; tensors by name."""
    file = MappedFile(path)
    cursor = Cursor(file)
    version = 0
    if cursor.number("<I") == MAGIC:
        version = cursor.number("<i")
        if version not in (1, 2):
            raise InputError(
                f"{path}: llama2.c version {version}; the versions 0, 1 and 2 can be read: export "
                "the model again"
            )
    else:
        cursor.place = 0
    sizes = {key: cursor.number("<i") for key in KEYS}
    shared = sizes["vocab_size"] > 0 if version == 0 else bool(cursor.number("<B"))
    sizes["vocab_size"] = abs(sizes["vocab_size"])
    _check_sizes(path, sizes)
    metadata = sizes | {"version": version, "shared_classifier": shared}
    group = cursor.number("<i") if version == 2 else 0
    if version:
        cursor.place = HEADER
    layout = _first_layout if version == 0 else _later_layout
    tensors: dict[str, StoredTensor] = {}
    for name, shape in layout(sizes, shared):
        if version == 2 and len(shape) == 2:
            tensors[name], cursor.place = _grouped(file, cursor.place, shape, group, name)
        else:
            tensors[name] = file.tensor(cursor.place, torch.float32, shape, name)
            cursor.place += 4 * prod(shape)
    if cursor.place != file.size:
        raise InputError(
            f"{path}: a llama2.c model of these sizes ({_shown(sizes)}) has {cursor.place:,} "
            f"bytes, but the file has {file.size:,}; it is another kind of file, or damaged"
        )
    return ModelFile(metadata, {n: t for n, t in tensors.items() if not n.startswith("freqs")})


def _check_sizes(path: Path, sizes: dict[str, int]) -> None:
    wrong = [key for key in KEYS if not 0 < sizes[key] <= LARGEST.get(key, 1 << 31)]
    if not wrong and (sizes["dim"] % sizes["n_heads"] or sizes["n_heads"] % sizes["n_kv_heads"]):
        wrong = ["n_heads"]
    if wrong:
        raise InputError(
            f"{path} is no llama2.c model: its header would say {wrong[0]} = {sizes[wrong[0]]} "
            f"({_shown(sizes)})"
        )


def _shown(sizes: dict[str, int]) -> str:
    return ", ".join(f"{key} {size}" for key, size in sizes.items())


def _matrices(sizes: dict[str, int]) -> dict[str, Shape]:
    dim, hidden = sizes["dim"], sizes["hidden_dim"]
    kv = dim // sizes["n_heads"] * sizes["n_kv_heads"]
    return {
        "attention.wq": (dim, dim), "attention.wk": (kv, dim), "attention.wv": (kv, dim),
        "attention.wo": (dim, dim), "feed_forward.w1": (hidden, dim),
        "feed_forward.w2": (dim, hidden), "feed_forward.w3": (hidden, dim),
    }  # fmt: skip


def _of_layers(sizes: dict[str, int], part: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    for layer in range(sizes["n_layers"]):
        yield f"layers.{layer}.{part}.weight", shape


def _first_layout(sizes: dict[str, int], shared: bool) -> Iterator[tuple[str, Shape]]:
    dim, vocab = sizes["dim"], sizes["vocab_size"]
    yield "tok_embeddings.weight", (vocab, dim)
    yield from _of_layers(sizes, "attention_norm", (dim,))
    for part, shape in _matrices(sizes).items():
        if part == "feed_forward.w1":
            yield from _of_layers(sizes, "ffn_norm", (dim,))
        yield from _of_layers(sizes, part, shape)
    yield "norm.weight", (dim,)
    for table in ("freqs_cos", "freqs_sin"):  # of rotary positions: computed anew
        yield table, (sizes["max_seq_len"], dim // sizes["n_heads"] // 2)
    if not shared:
        yield "output.weight", (vocab, dim)


def _later_layout(sizes: dict[str, int], shared: bool) -> Iterator[tuple[str, Shape]]:
    dim, vocab = sizes["dim"], sizes["vocab_size"]
    yield from _of_layers(sizes, "attention_norm", (dim,))
    yield from _of_layers(sizes, "ffn_norm", (dim,))
    yield "norm.weight", (dim,)
    yield "tok_embeddings.weight", (vocab, dim)
    for part, shape in _matrices(sizes).items():
        yield from _of_layers(sizes, part, shape)
    if not shared:
        yield "output.weight", (vocab, dim)


def _grouped(
    file: MappedFile, start: int, shape: Shape, group: int, name: str
) -> tuple[StoredTensor, int]:
    """int8 values, then one scale for every `group` of them; and where the next tensor begins."""
    count = checked_size(shape, f"{file.path}: {name}")
    if group <= 0 or count % group:
        raise InputError(f"{file.path}: groups of {group} do not divide {name} of {list(shape)}")
    scales = start + count
    end = scales + count // group * 4
    file.bytes(end, 0, name)

    def read() -> Tensor:
        values = file.view(start, torch.int8, (count // group, group), name)
        return (values * file.view(scales, torch.float32, (count // group, 1), name)).view(shape)

    return StoredTensor(
        shape, "int8", end - start, read, lambda: file.release(start, end - start)
    ), end
