"""Files that were made to hurt: they run nothing, change nothing, and take no memory."""

import collections
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.interop.writers import gguf_string

from translucid.core.errors import InputError
from translucid.interop.formats.gguf_file import read_gguf
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.torch_file import read_torch


def as_torch_zip(path: Path, pickled: bytes, **entries: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        for name, content in entries.items():
            archive.writestr(f"a/data/{name}", content)


class Runs:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


CALLS = {
    "system": lambda canary: Runs(os.system, f"touch {canary}"),
    "open": lambda canary: Runs(open, str(canary), "w"),
    "exec": lambda canary: Runs(exec, f"open({str(canary)!r}, 'w')"),
    "eval": lambda canary: Runs(eval, f"open({str(canary)!r}, 'w')"),
    "getattr": lambda canary: Runs(getattr, os, "getcwd"),
    "import": lambda canary: Runs(__import__, "antigravity"),
    "range": lambda canary: Runs(list, Runs(range, 1 << 40)),
    "bytes": lambda canary: Runs(bytearray, 1 << 44),
}


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("name", CALLS)
def test_a_pickle_executes_nothing(tmp_path: Path, name: str, protocol: int) -> None:
    canary = tmp_path / "canary"
    try:
        pickled = pickle.dumps({"w": CALLS[name](canary), "x": 3}, protocol=protocol)
    except TypeError:
        pickled = b"cposix\nsystem\n(Vtouch " + str(canary).encode() + b"\ntR."
    as_torch_zip(tmp_path / "a.pt", pickled)
    try:
        read_torch(tmp_path / "a.pt")
    except InputError as error:
        assert str(tmp_path / "a.pt") in str(error)  # noqa: PT017
    assert not canary.exists()


HAND_MADE = {
    # To set an attribute of a class that the process uses.
    "build on a class": b"\x80\x02ccollections\nOrderedDict\nN}X\x06\x00\x00\x00updateK\x01s\x86b.",
    "build on a type": b"\x80\x02cbuiltins\ndict\nN}X\x03\x00\x00\x00getK\x01s\x86b.",
    "build on a function": b"\x80\x02ccollections\nCounter\n}X\x01\x00\x00\x00aK\x01sb.",
    "extension": b"\x80\x02\x82\x01.",
    "inst": b"(Vtouch x\nios\nsystem\n.",
    "far memo": b"\x80\x02K\x01r\xff\xff\xff\x7f.",
    "out of band": b"\x80\x05\x97.",
    "huge bytearray": b"\x80\x05\x96" + struct.pack("<Q", 1 << 46) + b"x.",
    "huge text": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 46) + b"x.",
    "no end": b"\x80\x02}",
    "bad persistent id": b"\x80\x02K\x01Q.",
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_instructions_that_leave_the_file_are_refused(tmp_path: Path, name: str) -> None:
    before = dict(vars(collections.OrderedDict)), dict(vars(collections.Counter))
    as_torch_zip(tmp_path / "a.pt", HAND_MADE[name])
    if name == "far memo":  # is harmless here, and must not fill the memory
        assert read_torch(tmp_path / "a.pt").metadata == {"content": 1}
    else:
        with pytest.raises(InputError, match="cannot be read as a torch checkpoint"):
            read_torch(tmp_path / "a.pt")
    assert (dict(vars(collections.OrderedDict)), dict(vars(collections.Counter))) == before


def torch_tensor_pickle(shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> bytes:
    """A real pickle of torch with other sizes."""
    held = io.BytesIO()
    torch.save({"w": torch.zeros(4)}, held)
    with zipfile.ZipFile(held) as archive:
        name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        pickled = archive.read(name)

    def numbers(values: tuple[int, ...]) -> bytes:
        packed = b"".join(b"\x8a\x08" + struct.pack("<q", n) for n in values)
        return b"(" + packed + b"t"

    old = b"QK\x00K\x04\x85"
    start = pickled.index(old)
    assert b"K\x01\x85" in pickled[start:]
    end = pickled.index(b"K\x01\x85", start) + len(b"K\x01\x85")
    rest = pickled[end:]
    new = b"Q\x8a\x08" + struct.pack("<q", offset) + numbers(shape) + numbers(stride)
    return pickled[:start] + new + rest


@pytest.mark.parametrize(
    ("shape", "stride", "offset"),
    [((5,), (1,), 0), ((4,), (1,), 1), ((4,), (2,), 0), ((2,), (1,), -1), ((1 << 40,), (0,), 0),
     ((1 << 62, 4), (1, 1), 0), ((-1,), (1,), 0), ((2,), (-1,), 3), ((2, 2), (1,), 0)],
)  # fmt: skip
def test_tensors_stay_inside_their_values(
    tmp_path: Path, shape: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> None:
    fine = torch_tensor_pickle((2, 2), (2, 1), 0)
    as_torch_zip(tmp_path / "a.pt", fine, **{"0": bytes(16)})
    assert read_torch(tmp_path / "a.pt").tensors["w"].read().tolist() == [[0, 0], [0, 0]]
    as_torch_zip(tmp_path / "a.pt", torch_tensor_pickle(shape, stride, offset), **{"0": bytes(16)})
    with pytest.raises(InputError, match=r"a\.pt"):
        read_torch(tmp_path / "a.pt")


def safetensors(header: object, values: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + values


def entry(shape: Any, offsets: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


SAFETENSORS = {
    "a huge header": struct.pack("<Q", 1 << 62),
    "no object": safetensors([]),
    "no tensor": safetensors({"w": 3}),
    "deep": safetensors(b"[" * 100_000),
    "before the values": safetensors(entry([1], [-4, 0]), bytes(4)),
    "after the values": safetensors(entry([2], [0, 8]), bytes(4)),
    "wrong size": safetensors(entry([2], [0, 4]), bytes(4)),
    "negative": safetensors(entry([-1, -1], [0, 4]), bytes(4)),
    "huge": safetensors(entry([1 << 61, 8], [0, 4]), bytes(4)),
    "overflow to fit": safetensors(entry([1 << 62, 1], [0, 0]), bytes(4)),
    "many axes": safetensors(entry([1] * 100, [0, 4]), bytes(4)),
    "floats as sizes": safetensors(entry([1.0], [0, 4]), bytes(4)),
    "true as a size": safetensors(entry([True], [0, 4]), bytes(4)),
    "unknown dtype": safetensors(entry([1], [0, 4], "F32X"), bytes(4)),
    "over each other": safetensors(
        {f"w{i}": entry([64], [0, 256])["w"] for i in range(900)}, bytes(256)
    ),
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_hostile_safetensors(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(SAFETENSORS[name])
    with pytest.raises(InputError, match=str(path)):
        read_safetensors(path)


def gguf(counts: tuple[int, int], body: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, *counts) + body


GGUFS = {
    "many tensors": gguf((1 << 60, 0)),
    "many facts": gguf((0, 1 << 60)),
    "long text": gguf((0, 1), struct.pack("<Q", 1 << 60)),
    "long array": gguf((0, 1), gguf_string("a") + struct.pack("<IIQ", 9, 4, 1 << 60)),
    "many texts": gguf((0, 1), gguf_string("a") + struct.pack("<IIQ", 9, 8, 1 << 60)),
    "nested arrays": gguf((0, 1), gguf_string("a") + struct.pack("<IIQ", 9, 9, 4) * 9),
    "unknown type": gguf((0, 1), gguf_string("a") + struct.pack("<I", 77)),
    "alignment 0": gguf(
        (0, 1), gguf_string("general.alignment") + struct.pack("<II", 4, 0) + bytes(64)
    ),
    "many axes": gguf((1, 0), gguf_string("w") + struct.pack("<I", 1 << 31)),
    "huge tensor": gguf(
        (1, 0), gguf_string("w") + struct.pack("<I2QIQ", 2, 1 << 40, 1 << 30, 0, 0) + bytes(64)
    ),
    "far away": gguf((1, 0), gguf_string("w") + struct.pack("<IQIQ", 1, 4, 0, 1 << 63) + bytes(64)),
    "half a block": gguf((1, 0), gguf_string("w") + struct.pack("<IQIQ", 1, 33, 8, 0) + bytes(64)),
    "unknown quantisation": gguf(
        (1, 0), gguf_string("w") + struct.pack("<IQIQ", 1, 32, 4, 0) + bytes(64)
    ),
    "version 1": b"GGUF" + struct.pack("<III", 1, 0, 0) + bytes(64),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + bytes(64),
}


@pytest.mark.parametrize("name", GGUFS)
def test_hostile_gguf(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(GGUFS[name])
    with pytest.raises(InputError, match=str(path)):
        read_gguf(path)
