"""The weights of a folder in Hugging Face's layout: one file or several, safetensors first."""

from collections.abc import Callable, Mapping
from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, present, read_object
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.stored import ModelFile, StoredTensor
from translucid.interop.formats.torch_file import read_torch

Read = Callable[[Path], ModelFile]
SINGLE: Mapping[str, Read] = {
    "model.safetensors": read_safetensors,
    "pytorch_model.bin": read_torch,
}
SHARDED: Mapping[str, Read] = {f"{name}.index.json": read for name, read in SINGLE.items()}


def read_weights(folder: Path) -> ModelFile:
    """All tensors of the folder; shards are mapped, so that only what is looked at is read."""
    for name, read in SINGLE.items():
        if present(folder / name):
            return read(inside(folder, name, "a model"))
        index = f"{name}.index.json"
        if present(folder / index):
            return _read_shards(folder, index, SHARDED[index])
    others = sorted(path.name for path in folder.iterdir() if path.suffix in (".h5", ".msgpack"))
    remedy = f"it has {others[0]}: save the model as safetensors" if others else "copy it again"
    raise InputError(
        f"{folder} holds no weights: none of {', '.join([*SINGLE, *SHARDED])} is there; {remedy}"
    )


def _read_shards(folder: Path, index: str, read: Read) -> ModelFile:
    content = read_object(inside(folder, index, "a model"))
    shards = content.get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(n, str) for n in shards.values()):
        raise InputError(f"{folder / index} lacks a weight_map that says which file has what")
    files = {
        name: read(inside(folder, name, str(folder / index)))
        for name in dict.fromkeys(shards.values())
    }
    tensors: dict[str, StoredTensor] = {}
    missing = []
    for name, file in shards.items():
        if name in files[file].tensors:
            tensors[name] = files[file].tensors[name]
        else:
            missing.append(name)
    if missing:
        raise InputError(
            f"{folder / index}: {len(missing):,} tensors are not in the file that it names for "
            f"them, such as {str(missing[0])[:100]} in {shards[missing[0]]}; download the model "
            "again"
        )
    facts = content.get("metadata")
    return ModelFile(facts if isinstance(facts, dict) else {}, tensors)
