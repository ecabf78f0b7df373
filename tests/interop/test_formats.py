"""What other tools write comes out as it went in; what is cut short is refused by name."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.interop.writers import (
    LLAMA2C,
    llama2c_weights,
    quantise,
    write_ctranslate2,
    write_gguf,
    write_llama2c,
)

from translucid.core.errors import InputError
from translucid.interop.families.llama2c import read_llama2c
from translucid.interop.formats.ctranslate2_file import read_ctranslate2
from translucid.interop.formats.gguf_file import read_gguf
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.stored import ModelFile
from translucid.interop.formats.torch_file import read_torch

Read = Callable[[Path], ModelFile]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8,
          torch.uint8, torch.bool]  # fmt: skip


def mixed() -> dict[str, torch.Tensor]:
    tensors = {str(dtype): (10 * torch.randn(3, 5)).to(dtype) for dtype in DTYPES}
    return tensors | {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 4)}


def assert_same(file: ModelFile, wanted: dict[str, torch.Tensor]) -> None:
    assert file.tensors.keys() == wanted.keys()
    for name, tensor in wanted.items():
        stored = file.tensors[name]
        assert stored.shape == tensor.shape
        values = stored.read()
        assert values.dtype == tensor.dtype
        assert torch.equal(values, tensor), name
        stored.release()  # and what was let go can be read again
        assert torch.equal(stored.read(), tensor), name


def test_safetensors(tmp_path: Path) -> None:
    tensors = mixed()
    save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    file = read_safetensors(tmp_path / "a.safetensors")
    assert file.metadata == {"format": "pt"}
    assert_same(file, tensors)


@pytest.mark.parametrize("version", [2, 3])
def test_gguf(tmp_path: Path, version: int) -> None:
    facts = {"a.count": 7, "a.ratio": 0.5, "a.name": "näme", "a.flag": True, "a.words": ["x", "Ġy"],
             "a.kinds": [1, -3], "a.scores": [0.5, -2.0]}  # fmt: skip
    plain = {"f32": torch.randn(2, 3, 4), "f16": torch.randn(5).half(), "bf": torch.randn(3, 3)}
    plain["bf"] = plain["bf"].bfloat16()
    kinds = {"f32": "F32", "f16": "F16", "bf": "BF16"}
    raw = {n: t.view(torch.uint8).numpy().tobytes() for n, t in plain.items()}
    write_gguf(
        tmp_path / "a.gguf", facts, {n: (kinds[n], plain[n].shape, raw[n]) for n in plain}, version
    )
    file = read_gguf(tmp_path / "a.gguf")
    assert file.metadata == facts
    assert_same(file, plain)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_quantised_blocks_mean_what_the_definition_says(tmp_path: Path, kind: str) -> None:
    values = np.random.default_rng(1).normal(size=(6, 96)).astype(np.float32)
    packed, meant = quantise(kind, values)
    write_gguf(tmp_path / "a.gguf", {}, {"w": (kind, values.shape, packed)})
    stored = read_gguf(tmp_path / "a.gguf").tensors["w"]
    assert stored.dtype == kind
    np.testing.assert_allclose(stored.read().numpy(), meant.reshape(6, 96), rtol=0, atol=1e-6)
    assert np.abs(meant.reshape(6, 96) - values).max() < 0.5


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("shared", [True, False])
def test_llama2c(tmp_path: Path, version: int, shared: bool) -> None:
    weights = llama2c_weights(LLAMA2C, shared)
    write_llama2c(tmp_path / "a.bin", LLAMA2C, weights, version)
    file = read_llama2c(tmp_path / "a.bin")
    assert file.metadata == LLAMA2C | {"version": version, "shared_classifier": shared}
    assert_same(file, weights)


def test_llama2c_in_int8(tmp_path: Path) -> None:
    """Version 2: groups of int8, each with a scale behind all values of its tensor."""
    weights = llama2c_weights(LLAMA2C, shared=True)
    names = [n for n in weights if n != "norm.weight" and "_norm" not in n]
    order = ["tok_embeddings", "wq", "wk", "wv", "wo", "w1", "w2", "w3"]
    names.sort(key=lambda n: (next(i for i, part in enumerate(order) if part in n), n))
    norms = [weights[f"layers.{i}.{n}.weight"] for n in ("attention_norm", "ffn_norm")
             for i in range(2)]  # fmt: skip
    body = b"".join(t.numpy().tobytes() for t in (*norms, weights["norm.weight"]))
    meant = {}
    for name in names:
        groups = weights[name].reshape(-1, 4)
        scale = groups.abs().amax(dim=1, keepdim=True) / 127
        values = (groups / scale).round().to(torch.int8)
        body += values.numpy().tobytes() + scale.numpy().tobytes()
        meant[name] = (values.float() * scale).view(weights[name].shape)
    header = struct.pack("<Ii7iBi", 0x616B3432, 2, *LLAMA2C.values(), True, 4).ljust(256, b"\0")
    (tmp_path / "a.bin").write_bytes(header + body)
    assert_same(read_llama2c(tmp_path / "a.bin"), weights | meant)


@pytest.mark.parametrize("version", [2, 3, 4, 6])
def test_ctranslate2(tmp_path: Path, version: int) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4, 6)).astype(np.float32)
    scale = (127 / np.abs(w).max(axis=1)).astype(np.float32)
    quantised = np.round(w * scale[:, None]).astype(np.int8)
    variables = {"a/weight": w, "b/weight": quantised, "b/weight_scale": scale,
                 "heads": np.array(8, dtype=np.int16)}  # fmt: skip
    if version >= 4:
        variables["c/bias"] = w[0].astype(np.float16)
    aliases = {"d/weight": "a/weight"} if version >= 3 else {}
    write_ctranslate2(tmp_path / "model.bin", variables, aliases, version)
    file = read_ctranslate2(tmp_path / "model.bin")
    assert file.metadata == {"spec": "TransformerSpec", "revision": 7, "heads": 8}
    wanted = {"a/weight": w, "b/weight": quantised / scale[:, None]}
    wanted |= {n: variables[n] for n in ("c/bias",) if n in variables}
    wanted |= dict.fromkeys(aliases, w)
    assert_same(file, {name: torch.from_numpy(value) for name, value in wanted.items()})


class Vocabulary:
    """Stands for a class of the tool that saved a checkpoint."""

    def __init__(self) -> None:
        self.words, self.table = ["a", "b"], torch.arange(6.0).view(2, 3).t()


@pytest.mark.parametrize("legacy", [False, True])
def test_torch(tmp_path: Path, legacy: bool) -> None:
    tensors = mixed()
    base = torch.randn(4, 6)
    tensors |= {"view": base[1:, ::2], "base": base, "parameter": torch.nn.Parameter(base.t()).data}
    saved = {"model": dict(tensors), "opt": Vocabulary(), "lr": 0.5, "names": ("x", {"y"})}
    torch.save(saved, tmp_path / "a.pt", _use_new_zipfile_serialization=not legacy)
    file = read_torch(tmp_path / "a.pt")
    wanted = {f"model.{name}": tensor for name, tensor in tensors.items()}
    assert_same(file, wanted | {"opt.table": saved["opt"].table})  # type: ignore[attr-defined]
    assert file.metadata["lr"] == 0.5
    assert file.metadata["names"] == ["x", ["y"]]
    assert file.metadata["opt"]["words"] == ["a", "b"]
    assert file.metadata["opt"]["class"].endswith("Vocabulary")


def test_a_pickled_module_is_its_state_dict(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    torch.save(module, tmp_path / "a.pt")
    assert_same(read_torch(tmp_path / "a.pt"), dict(module.state_dict()))


def written(folder: Path) -> dict[str, tuple[Path, Read]]:
    """A small file of every format."""
    save_file(mixed(), folder / "a.safetensors")
    packed, _ = quantise("Q4_1", np.arange(64, dtype=np.float32))
    write_gguf(folder / "a.gguf", {"words": ["a", "b"]}, {"w": ("Q4_1", (2, 32), packed)})
    for version in (0, 1):
        write_llama2c(folder / f"l{version}.bin", LLAMA2C, llama2c_weights(LLAMA2C, True), version)
    write_ctranslate2(folder / "model.bin", {"a": np.ones((3, 4), np.float32)}, {"b": "a"})
    torch.save({"w": torch.ones(9)}, folder / "zip.pt")
    torch.save({"w": torch.ones(9)}, folder / "old.pt", _use_new_zipfile_serialization=False)
    readers: dict[str, Read] = {
        "a.safetensors": read_safetensors, "a.gguf": read_gguf, "l0.bin": read_llama2c,
        "l1.bin": read_llama2c, "model.bin": read_ctranslate2, "zip.pt": read_torch,
        "old.pt": read_torch,
    }  # fmt: skip
    return {name: (folder / name, read) for name, read in readers.items()}


FORMATS = ["a.safetensors", "a.gguf", "l0.bin", "l1.bin", "model.bin", "zip.pt", "old.pt"]


@pytest.mark.parametrize("name", FORMATS)
def test_cut_short_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    path, read = written(tmp_path)[name]
    whole = path.read_bytes()
    read(path)
    # A GGUF file ends in bytes that fill its last block of 32.
    ends = len(whole) - (24 if name == "a.gguf" else 0)
    for length in {0, 1, 7, *range(0, ends, max(ends // 40, 1)), ends - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=str(path)):
            read(path)


@pytest.mark.parametrize("name", FORMATS)
def test_flipped_bytes_are_read_or_refused_by_name(tmp_path: Path, name: str) -> None:
    path, read = written(tmp_path)[name]
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        for place in rng.integers(0, min(len(whole), 400), size=3):
            damaged[place] = rng.choice([0, 255, 127, int(rng.integers(256))])
        path.write_bytes(damaged)
        try:
            tensors = read(path).tensors
            assert sum(t.size for t in tensors.values()) < 1_000_000
            for tensor in tensors.values():
                tensor.read()
        except InputError as error:
            assert str(path) in str(error)  # noqa: PT017


@pytest.mark.parametrize("name", FORMATS)
def test_other_kinds_of_files_are_refused(tmp_path: Path, name: str) -> None:
    path, read = written(tmp_path)[name]
    others: dict[str, Any] = {
        "text": b"hello, " * 500,
        "zeros": bytes(5000),
        "ones": b"\xff" * 5000,
    }
    others |= {
        other: p.read_bytes() for other, (p, r) in written(tmp_path).items() if r is not read
    }
    for content in others.values():
        path.write_bytes(content)
        with pytest.raises(InputError, match=str(path)):
            read(path)
    path.unlink()
    with pytest.raises(InputError, match="is missing"):
        read(path)
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="symbolic link"):
        read(path)
