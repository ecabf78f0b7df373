# ruff: noqa: E501
"""Hostile bytes, written by hand: pickles and zips of torch, safetensors, GGUF, CTranslate2,
llama2.c, YAML and TOML. Each entry either makes a file, or changes the bytes of a good one.
"""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any

Make = Callable[[], bytes]
Change = Callable[[bytes], bytes]
DOUBLINGS = 45

# ---- what torch.save wrote ----


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def _doubled(first: bytes, join: bytes) -> bytes:
    """A pickle of an object that contains another one twice, which contains another one twice, and
    so on. join: the instructions that make one object of the two on top of the stack."""
    code = first + b"q\x00"
    for i in range(DOUBLINGS):
        code += b"h" + bytes([i]) + b"h" + bytes([i]) + join + b"q" + bytes([i + 1])
    return code


PAIR = b"\x86"
TUPLES = _doubled(b")", PAIR)
NESTED_LISTS = b"".join(
    [b"]q\x00", *(b"]q" + bytes([i + 1]) + b"(h" + bytes([i]) + b"h" + bytes([i]) + b"e"
                  for i in range(DOUBLINGS))]
)  # fmt: skip


def _entry(value: bytes, key: bytes = b"") -> bytes:
    """A checkpoint with this value under every key that a reader uses."""
    names = ("model", "model_state", "args", "cfg", "opt", "vocab", "generator")
    body = b"".join(_text(name) + b"h\xfe" for name in names)
    return b"\x80\x02" + value + b"q\xfe0}(" + body + key + b"u."


PICKLES: dict[str, Make] = {
    "lists that contain each other": lambda: _entry(NESTED_LISTS),
    "tuples that contain each other": lambda: _entry(TUPLES),
    "such a tuple as a key": lambda: b"\x80\x02}" + TUPLES + b"K\x01s.",
    "such a tuple as one of the keys": lambda: b"\x80\x02}(" + TUPLES + b"K\x01u.",
    "such a tuple in a dict": lambda: b"\x80\x02(" + TUPLES + b"K\x01d.",
    "such a tuple in a set": lambda: (
        b"\x80\x02cbuiltins\nset\n(" + b"]" + TUPLES + b"a" + b"tR."
    ),
    "such a tuple in a frozen set": lambda: b"\x80\x04(" + TUPLES + b"\x91.",
    "such a tuple added to a set": lambda: b"\x80\x04\x8f(" + TUPLES + b"\x90.",
    "such a tuple as a persistent id": lambda: b"\x80\x02" + TUPLES + b"Q.",
    "such a tuple as an option": lambda: b"\x80\x02}(" + b"".join(
        _text(key) + b"}" + _text("heads") + TUPLES + b"s" for key in ("opt", "args", "vocab")
    ) + _text("model") + b"}u.",
    "such a tuple as a shape": lambda: (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(N" + b"K\x00" + TUPLES + TUPLES + b"tR."
    ),
    "pairs for a dict": lambda: (
        b"\x80\x02ccollections\nOrderedDict\n(](" + TUPLES + b"K\x01\x86etR."
    ),
    "a list copied again and again": lambda: _copied(b"cbuiltins\nlist\n", b"](" + b"N" * 20_000 + b"e"),
    "a dict copied again and again": lambda: _copied(
        b"ccollections\nOrderedDict\n",
        b"}(" + b"".join(b"M" + struct.pack("<H", i) + b"N" for i in range(20_000)) + b"u",
    ),
    "a text encoded again and again": lambda: _copied(b"c_codecs\nencode\n", _text("a" * 200_000)),
    "a state set again and again": lambda: (
        b"\x80\x02}(" + b"".join(b"M" + struct.pack("<H", i) + b"N" for i in range(20_000))
        + b"uq\x01cfoo\nBar\n)\x81" + b"h\x01b" * 20_000 + b"."
    ),
    "deep lists": lambda: b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "modules inside modules": lambda: (
        b"\x80\x02" + (b"}" + _text("_modules")) * 3000 + b"}" + b"s" * 3000 + b"."
    ),
    "a key of 5,000 digits": lambda: b"\x80\x02}\x8b" + struct.pack("<i", 4000) + b"\x7f" * 4000 + b"K\x01s.",
    "a number of 5,000 digits": lambda: (
        b"\x80\x02}" + _text("model") + b"\x8b" + struct.pack("<i", 4000) + b"\x7f" * 4000 + b"s."
    ),
    "a number of 5,000 digits as a text": lambda: b"\x80\x02}" + _text("model") + b"L" + b"9" * 5000 + b"L\ns.",
    "a part of the values by text": lambda: _view(_text("a")),
    "a part of the values by None": lambda: _view(b"N"),
    "a part of the values by lists": lambda: _view(b"]"),
    "many small objects": lambda: b"\x80\x02](" + b"}" * 1_000_000 + b"e.",
    "many instructions": lambda: b"\x80\x02N" + b"N0" * 1_000_000 + b".",
    "many classes": lambda: b"\x80\x02" + b"".join(b"ca\nb%d\n0" % i for i in range(50_000)) + b"N.",
}  # fmt: skip


def _copied(function: bytes, value: bytes) -> bytes:
    code = b"\x80\x02" + function + b"q\x01" + value + b"q\x020](" + b"h\x01h\x02\x85R" * 20_000
    return code + b"e."


def _view(first: bytes) -> bytes:
    identity = (b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text("0") + _text("cpu")
                + b"K\x04" + b"(" + _text("0") + first + b"K\x02tt")  # fmt: skip
    return (b"\x80\x02}" + _text("w") + b"ctorch._utils\n_rebuild_tensor_v2\n(" + identity
            + b"QK\x00K\x02\x85K\x01\x85NNtRs.")  # fmt: skip


def _zip(entries: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", how) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return held.getvalue()


def _packed(name: str) -> bytes:
    """A zip with ordinary entries and one that packs 100 MB of zeros into 100 KB."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for each in ("a/data.pkl", "a/byteorder", "a/version", "a/data/0"):
            how = zipfile.ZIP_DEFLATED if each == name else zipfile.ZIP_STORED
            content = bytes(100 << 20) if each == name else b"\x80\x02}."
            archive.writestr(each, content, how)
    return held.getvalue()


def _twice() -> bytes:
    import warnings

    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("a/data.pkl", b"\x80\x02}.")
        archive.writestr("a/data.pkl", b"\x80\x02N.")
    return held.getvalue()


def _encrypted() -> bytes:
    raw = bytearray(_zip({"a/data.pkl": b"\x80\x02}."}))
    for start, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(start) + place] |= 1
    return bytes(raw)


def _views() -> bytes:
    """A checkpoint with thousands of tensors that all view the same megabyte."""
    identity = (b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text("0") + _text("cpu")
                + b"J" + struct.pack("<i", 1 << 18) + b"t")  # fmt: skip
    one = (b"ctorch._utils\n_rebuild_tensor_v2\n(" + identity + b"QK\x00J"
           + struct.pack("<i", 1 << 18) + b"\x85K\x01\x85NNtR")  # fmt: skip
    body = b"".join(_text(f"w{i}") + one for i in range(3000))
    return _zip({"a/data.pkl": b"\x80\x02}(" + body + b"u.", "a/data/0": bytes(1 << 20)})


ZIPS: dict[str, Make] = {
    "zeros as byteorder": partial(_packed, "a/byteorder"),
    "zeros as data.pkl": partial(_packed, "a/data.pkl"),
    "zeros as values": partial(_packed, "a/data/0"),
    "zeros as version": partial(_packed, "a/version"),
    "two entries of one name": _twice,
    "encrypted": _encrypted,
    "100,000 entries": lambda: _zip({f"a/data/{i}": b"" for i in range(100_000)}
                                    | {"a/data.pkl": b"\x80\x02}."}),
    "no data.pkl": lambda: _zip({"a/b": b""}),
    "nothing": lambda: _zip({}),
    "views of one megabyte": _views,
    "a name with a NUL": lambda: _zip({"a\0b/data.pkl": b"\x80\x02}."}),
}  # fmt: skip


def torch_files() -> dict[str, Make]:
    pickles = {name: partial(_as_zip, make) for name, make in PICKLES.items()}
    return {**pickles, **ZIPS}


def _as_zip(make: Make) -> bytes:
    return _zip({"a/data.pkl": make(), "a/data/0": bytes(16)})


def legacy_file() -> bytes:
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
    return magic + pickle.dumps({"little_endian": True}, 2) + PICKLES[
        "tuples that contain each other"
    ]() + pickle.dumps([], 2)  # fmt: skip


# ---- safetensors ----


def _header(change: Callable[[dict[str, Any]], Any], more: bytes = b"", at: int = -1) -> Change:
    def changed(raw: bytes) -> bytes:
        (size,) = struct.unpack("<Q", raw[:8])
        held = change(json.loads(raw[8 : 8 + size]))
        text = held if isinstance(held, bytes) else json.dumps(held).encode()
        values = raw[8 + size :]
        values = values + more if at < 0 else values[:at] + more + values[at:]
        return struct.pack("<Q", len(text)) + text + values

    return changed


def _tensors(header: dict[str, Any]) -> list[str]:
    return [name for name in header if name != "__metadata__"]


def _with(header: dict[str, Any], **new: Any) -> dict[str, Any]:
    name = _tensors(header)[0]
    return header | {name: header[name] | new}


def _again(header: dict[str, Any]) -> dict[str, Any]:
    """Add a tensor that uses the bytes of another."""
    first = _tensors(header)[0]
    return header | {"again": header[first]}


def _double_key(header: dict[str, Any]) -> bytes:
    first = _tensors(header)[0]
    end = max(header[name]["data_offsets"][1] for name in _tensors(header))
    other = header[first] | {"data_offsets": [end, end + header[first]["data_offsets"][1]
                                             - header[first]["data_offsets"][0]]}  # fmt: skip
    body = json.dumps(header)[1:-1]
    return ("{" + body + f", {json.dumps(first)}: {json.dumps(other)}" + "}").encode()


def _shifted(header: dict[str, Any]) -> dict[str, Any]:
    """Move all tensors by four bytes, which leaves a gap before the first."""
    return {
        name: value if name == "__metadata__" else
        value | {"data_offsets": [n + 4 for n in value["data_offsets"]]}
        for name, value in header.items()
    }  # fmt: skip


def _filled(value: float) -> Change:
    return lambda raw: raw[:-4] + struct.pack("<f", value)


def _empties(count: int) -> Change:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return _header(lambda header: header | {f"empty{i}": entry for i in range(count)})


SAFETENSORS: dict[str, Change] = {
    "overlap": _header(_again),
    "a key twice": _header(_double_key, bytes(1 << 16)),
    "a hole": _header(_shifted, bytes(4)),
    "bytes behind the last": _header(lambda header: header, bytes(4)),
    "bytes behind the last, many": _header(lambda header: header, bytes(1 << 16)),
    **{f"{n} bytes inserted": _header(lambda header: header, b"\xff" * n, 0) for n in (1, 2, 4, 64)},
    "bytes inserted in the middle": _header(lambda header: header, b"\xff\xff\xff", 99),
    "500,000 empty tensors": _empties(500_000),
    "40,000 empty tensors": _empties(40_000),
    "NaN": _filled(float("nan")), "infinity": _filled(float("inf")),
    "an unknown type": _header(lambda header: _with(header, dtype="F8_E4M3")),
    "a type that is none": _header(lambda header: _with(header, dtype=7)),
    "a list of shapes": _header(lambda header: _with(header, shape=[[1]])),
    "a huge shape": _header(lambda header: _with(header, shape=[1 << 40, 1 << 40])),
    "metadata that is a list": _header(lambda header: header | {"__metadata__": [1]}),
    "metadata that is deep": _header(lambda header: b'{"__metadata__":' * 3000),
    "a header of spaces": _header(lambda header: b" " * (3 << 20) + json.dumps(header).encode()[:-1]),
    "a huge header": lambda raw: struct.pack("<Q", 1 << 62) + raw[8:],
    "no tensors": _header(lambda header: {}),
    "a surrogate in a name": _header(
        lambda header: json.dumps(header).replace(_tensors(header)[0], "\\ud800").encode()),
    "cut": lambda raw: raw[:-1],
}  # fmt: skip

# ---- GGUF, CTranslate2, llama2.c ----


def _gguf(tensors: int, facts: int, body: bytes) -> Change:
    return lambda raw: b"GGUF" + struct.pack("<IQQ", 3, tensors, facts) + body


def _name(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _tensor(name: str, shape: tuple[int, ...], kind: int, place: int) -> bytes:
    return _name(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, place)


GGUF: dict[str, Change] = {
    "many tensors": _gguf(1 << 60, 0, b""), "many facts": _gguf(0, 1 << 60, b""),
    "2,000,000 empty texts": _gguf(0, 1, _name("a") + struct.pack("<IIQ", 9, 8, 2_000_000) + bytes(16_000_000)),
    "8,000,000 numbers": _gguf(0, 1, _name("a") + struct.pack("<IIQ", 9, 0, 8_000_000) + bytes(8_000_000)),
    "200,000 facts": _gguf(0, 200_000, b"".join(_name(f"{i:06}") + struct.pack("<IB", 0, 1) for i in range(200_000))),
    "50,000 empty tensors": _gguf(50_000, 0, b"".join(_tensor(f"{i:06}", (0,), 0, 0) for i in range(50_000)) + bytes(64)),
    "tensors over each other": _gguf(5000, 0, b"".join(_tensor(f"{i}", (1 << 16,), 0, 0) for i in range(5000)) + bytes(1 << 18)),
    "axes": _gguf(1, 0, _name("w") + struct.pack("<I", 1 << 31)),
    "arrays in arrays": _gguf(0, 1, _name("a") + struct.pack("<IIQ", 9, 9, 4) * 5000),
    "an unknown type": _gguf(0, 1, _name("a") + struct.pack("<I", 99)),
    "a long text": _gguf(0, 1, struct.pack("<Q", 1 << 62)),
    "a tensor far away": _gguf(1, 0, _tensor("w", (4,), 0, 1 << 63) + bytes(64)),
    "a huge tensor": _gguf(1, 0, _tensor("w", (1 << 40, 1 << 40), 0, 0) + bytes(64)),
    "an unknown quantisation": _gguf(1, 0, _tensor("w", (32,), 77, 0) + bytes(64)),
    "version 1": lambda raw: raw[:4] + struct.pack("<I", 1) + raw[8:],
    "big-endian": lambda raw: raw[:4] + struct.pack(">I", 3) + raw[8:],
    "alignment": lambda raw: raw.replace(b"general.architecture", b"general.alignmentxxx"),
    "a token of 200,000 bytes": lambda raw: _long_token(raw),
    "NaN": lambda raw: raw[:-4] + struct.pack("<f", float("nan")),
    "cut": lambda raw: raw[: len(raw) // 2],
}  # fmt: skip


def _long_token(raw: bytes) -> bytes:
    place = raw.index(b"tokenizer.ggml.tokens") + 21 + 4 + 4 + 8
    (size,) = struct.unpack_from("<Q", raw, place)
    return raw[:place] + struct.pack("<Q", 200_000) + b"a" * 200_000 + raw[place + 8 + size :]


def _ct2(body: bytes, version: int = 6) -> Change:
    head = struct.pack("<I", version) + _short("TransformerSpec") + struct.pack("<I", 7)
    return lambda raw: head + body


def _short(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def _variable(name: str, shape: tuple[int, ...], kind: int, raw: bytes) -> bytes:
    return (_short(name) + struct.pack(f"<B{len(shape)}I", len(shape), *shape)
            + struct.pack("<BI", kind, len(raw)) + raw)  # fmt: skip


CTRANSLATE2: dict[str, Change] = {
    "many variables": _ct2(struct.pack("<I", (1 << 32) - 1)),
    "many aliases": _ct2(struct.pack("<I", 0) + struct.pack("<I", (1 << 32) - 1)),
    "50,000 aliases": _ct2(struct.pack("<I", 1) + _variable("a", (1 << 14,), 0, bytes(1 << 16))
                           + struct.pack("<I", 50_000)
                           + b"".join(_short(f"{i}") + _short("a") for i in range(50_000))),
    "an alias of nothing": _ct2(struct.pack("<II", 0, 1) + _short("a") + _short("b")),
    "50,000 numbers": _ct2(struct.pack("<I", 50_000) + b"".join(_variable(f"{i}", (), 1, b"\1") for i in range(50_000)) + struct.pack("<I", 0)),
    "255 axes": _ct2(struct.pack("<I", 1) + _variable("a", (1,) * 255, 0, bytes(4)) + bytes(4)),
    "a huge shape": _ct2(struct.pack("<I", 1) + _variable("a", (1 << 31,) * 8, 0, bytes(4)) + bytes(4)),
    "an unknown type": _ct2(struct.pack("<I", 1) + _variable("a", (1,), 99, bytes(4)) + bytes(4)),
    "int8 without a scale": _ct2(struct.pack("<I", 1) + _variable("weight", (1,), 1, bytes(1)) + bytes(4)),
    "version 99": lambda raw: struct.pack("<I", 99) + raw[4:],
    "version 3": lambda raw: struct.pack("<I", 3) + raw[4:],
    "another spec": lambda raw: raw.replace(b"TransformerSpec", b"XransformerSpec"),
    "cut": lambda raw: raw[: len(raw) // 2],
    "longer": lambda raw: raw + bytes(1000),
}  # fmt: skip


def llama2c_headers() -> dict[str, Change]:
    """Changes of the header: every size, with every kind of wrong value."""

    def patched(place: int, value: int) -> Change:
        return lambda raw: raw[:place] + struct.pack("<i", value) + raw[place + 4 :]

    values = (0, -1, 1, 3, 9999, (1 << 31) - 1, -(1 << 31))
    return {f"header {i} = {value}": patched(4 * i, value) for i in range(1, 9) for value in values}


# ---- texts ----

YAML: dict[str, Make] = {
    "references": lambda: b"a: &a [x, x]\n" + b"".join(
        b"a%d: &a%d [*a%s, *a%s]\n" % (i, i, str(i - 1).encode() * (i > 1), str(i - 1).encode() * (i > 1)) for i in range(1, 40)),
    "objects": lambda: b"a: !!python/object/apply:os.system [true]\n",
    "names of objects": lambda: b"a: !!python/name:os.system\n",
    "deep brackets": lambda: b"a: " + b"[" * 900,
    "many brackets": lambda: b"a: " + b"[" * 200_000,
    "deep by spaces": lambda: b"".join(b" " * i + b"a:\n" for i in range(600)),
    "deep lists": lambda: b"- " * 100_000,
    "200 KB of keys": lambda: b"".join(b"k%d: 1\n" % i for i in range(18_000)),
    "too long": lambda: b"a: b\n" * 200_000,
    "a huge number": lambda: b"a: " + b"9" * 100_000 + b"\n",
    "numbers to the base of 60": lambda: b"a: 1" + b":59" * 20_000 + b"\n",
    "a question mark": lambda: b"? [a, b]\n: c\n",
    "a key that is a list": lambda: b"? - a\n  - b\n: c\n",
    "an odd time": lambda: b"a: 9999-99-99\n",
    "documents": lambda: b"a: 1\n---\nb: 2\n",
    "merges": lambda: b"<<: {a: 1}\nb: 2\n",
    "empty": lambda: b"", "NUL": lambda: b"\0", "no UTF-8": lambda: b"\xff\xfe\0",
    "a list": lambda: b"- a\n", "a text": lambda: b"a\n", "tabs": lambda: b"\ta: 1\n",
}  # fmt: skip
TOML: dict[str, Change] = {
    "200,000 unknown keys": lambda raw: b"".join(b"k%d=1\n" % i for i in range(200_000)) + raw,
    "50,000 unknown keys": lambda raw: b"".join(b"k%d=1\n" % i for i in range(50_000)) + raw,
    "30 unknown keys": lambda raw: b"".join(b"k%d=1\n" % i for i in range(30)) + raw,
    "a key of 500,000 characters": lambda raw: b"k" * 500_000 + b"=1\n" + raw,
    "a key of 10,000 parts": lambda raw: b"a." * 10_000 + b"a=1\n" + raw,
    "many keys of many parts": lambda raw: b"".join(b"a." * 50 + b"k%d=1\n" % i for i in range(5000)) + raw,
    "a deep list": lambda raw: b"a=" + b"[" * 100_000 + b"\n" + raw,
    "a deep list that ends": lambda raw: b"a=" + b"[" * 900 + b"]" * 900 + b"\n" + raw,
    "a deep table": lambda raw: b"a=" + b"{a=" * 50_000 + b"\n" + raw,
    "a huge number": lambda raw: b"a=" + b"9" * 100_000 + b"\n" + raw,
    "an unending text": lambda raw: b'a="""' + b"x" * 900_000,
    "20,000 names": lambda raw: raw.replace(b"[names]", b"[names]\n" + b"".join(b'"x%d" = "y"\n' % i for i in range(20_000))),
    "1,900 names": lambda raw: raw.replace(b"[names]", b"[names]\n" + b"".join(b'"x%d" = "source.weight"\n' % i for i in range(1_900))),
    "a name with many stars": lambda raw: b'ignored = ["' + b"*a" * 40 + b'b"]\n' + raw,
    "an ignored name with stars": lambda raw: b'ignored = ["' + b"*e" * 5000 + b'"]\n' + raw,
    "100,000 ignored names": lambda raw: b"ignored = [" + b'"a*",' * 100_000 + b"]\n" + raw,
    "names with many numbers": lambda raw: raw.replace(b"[names]", b'[names]\n"{i}{i}{i}" = "{i}{i}{i}{i}{i}*"\n'),
    "weights elsewhere": lambda raw: raw.replace(b"translator.pt", b"/etc/passwd"),
    "weights that are the mapping": lambda raw: raw.replace(b"translator.pt", b"gru.toml"),
    "a task that is none": lambda raw: raw.replace(b"translate", b"fly"),
    "tokens twice": lambda raw: raw + b"\n[source]\n", "empty": lambda raw: b"",
    "not UTF-8": lambda raw: b"\xff" + raw, "NUL": lambda raw: b"\0" + raw,
    "16 MB": lambda raw: b"#" * (16 << 20) + raw,
}  # fmt: skip
