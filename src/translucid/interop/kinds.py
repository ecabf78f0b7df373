"""Identify the tool that wrote the model at a path, and read the model with that tool's module.

Each tool's module has LAYOUT and the functions of `Tool`, and is imported only when one of its
models is opened.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Protocol, cast

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside, present, read_object
from translucid.interop.families.plan import (
    CONFIG,
    WEIGHT_FILES,
    ForeignModel,
    ImportPlan,
    Origin,
)
from translucid.interop.formats.stored import GGUF, TORCH, ModelFile, open_weights
from translucid.interop.formats.torch_file import read_torch
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.tasks.model_folder import is_own, place

# The module that reads each kind.
TOOLS: Mapping[str, str] = {
    "huggingface": "huggingface_layout", "gguf": "llama_cpp", "llama2c": "llama2c",
    "ctranslate2": "ctranslate2", "opennmt": "opennmt", "fairseq": "fairseq",
    "joeynmt": "joeynmt", "mapping": "mapping",
}  # fmt: skip
YAML = "config.yaml"  # JoeyNMT's options
KNOWN = (
    "a folder written by training, or in Hugging Face's layout (config.json and "
    "model.safetensors), CTranslate2's (model.bin) or JoeyNMT's (config.yaml and a .ckpt file); "
    "a .gguf file; a llama2.c .bin file; an OpenNMT-py or fairseq .pt file; or a mapping file "
    "(.toml) that describes the tensors in a file"
)
# File suffixes of Keras, TensorFlow and Flax.
NOT_READ = (".h5", ".hdf5", ".keras", ".index", ".pb", ".msgpack")


class Tool(Protocol):
    """The interface of a tool's module, with which its models are opened."""

    LAYOUT: str  # name of its storage layout, for messages

    def read(self, origin: Origin) -> ForeignModel: ...

    def plan(self, model: ForeignModel) -> ImportPlan: ...

    def tokenizers(self, model: ForeignModel, plan: ImportPlan) -> ReadTokenizers: ...


def tool_of(kind: str) -> Tool:
    return cast(Tool, import_module(f"translucid.interop.families.{TOOLS[kind]}"))


def identify(path: Path) -> Origin:
    """Identify the tool that wrote the model at a path."""
    return _identify_folder(path) if path.is_dir() else _identify_file(path)


def _identify_folder(path: Path) -> Origin:
    if present(path / "model.bin"):
        return Origin(path, "ctranslate2")
    if (path / CONFIG).is_file():
        with suppress(InputError):  # opening it as a Translucid model reports what is wrong
            config = read_object(inside(path, CONFIG, "a model"))
            if ("model_type" in config or "architectures" in config) and not is_own(config):
                return Origin(path, "huggingface", config)
        return Origin(path)
    if present(path / YAML) and any(path.glob("*.ckpt")):
        return Origin(path, "joeynmt")
    return Origin(path, "gguf" if len(list(path.glob("*.gguf"))) == 1 else None)


def _identify_file(path: Path) -> Origin:
    if not path.is_file():
        return Origin(path)
    named, path = path, path.resolve()  # the user named the file, so it may be a link
    if named.suffix == ".toml":
        return Origin(path, "mapping")
    with open_weights(path) as file:
        begin = file.read(4)
    if begin == GGUF:
        return Origin(path, "gguf")
    # In the hub's cache, this file is a link to one in a different folder.
    folder = path.parent if present(path.parent / CONFIG) else named.parent
    if named.name == "model.bin" and present(folder / CONFIG):
        return Origin(folder, "ctranslate2")
    if named.name.removesuffix(".index.json") in WEIGHT_FILES:
        return _identify_folder(folder)
    if begin in TORCH:
        checkpoint = read_torch(path)
        return Origin(path, _kind_of_checkpoint(checkpoint), checkpoint=checkpoint)
    return Origin(path, "llama2c" if named.suffix == ".bin" else None)


def _kind_of_checkpoint(checkpoint: ModelFile) -> str | None:
    """The tool that saved a checkpoint, recognised by its keys; None: weights alone, or unknown."""
    keys = checkpoint.metadata.keys()
    if {"vocab", "opt"} <= keys and ("generator" in keys or "model" not in keys):
        return "opennmt"
    if "model_state" in keys:
        return "joeynmt"
    return "fairseq" if "model" in keys and {"args", "cfg"} & keys else None


def read_source(
    path: Path, mapping: Path | None = None, ignored_keys: Sequence[str] = ()
) -> ForeignModel:
    """Read the description and the tensor headers of a model. mapping: a mapping file that
    describes these weights. ignored_keys: keys of config.json to ignore, although their meaning is
    unknown."""
    if mapping is not None:
        from translucid.interop.families.mapping import read_with

        return read_with(mapping, path)
    return read_origin(identify(path), ignored_keys)


def read_origin(origin: Origin, ignored_keys: Sequence[str] = ()) -> ForeignModel:
    if origin.kind is None:
        raise refusal(origin.path)
    return replace(tool_of(origin.kind).read(origin), ignored_keys=tuple(ignored_keys))


MAX_ENTRIES, NAMED = 1000, 6  # number of a folder's entries that are read, and shown
# Files that a folder may contain, and what to do then; the first match applies. {}: that file.
REMEDIES = (
    ("*.gguf", "give one of its .gguf files, such as {}"),
    *((weights, f"{CONFIG} is missing next to {{}}: copy it too, or write a mapping file")
      for weights in ("*.safetensors", "pytorch_model*.bin")),
    ("*.ckpt", f"{YAML} of JoeyNMT is missing next to {{}}: copy it too, or write a mapping file"),
    ("*.pt", "give the checkpoint itself: {}"),
    ("*.pth", "weights alone, such as {}, need a mapping file"),
    ("*.bin", "give the file itself: {}"),
    ("*.npz", "Marian's own .npz is not supported: convert {} into Hugging Face's layout"),
    ("*.onnx", "ONNX graphs such as {} cannot be opened: use the model that was exported"),
    *((f"*.{ending}", "{} cannot be read: save the weights as safetensors and write a mapping file")
      for ending in ("h5", "hdf5", "keras", "msgpack", "index", "pb")),
    (YAML, f"checkpoints (.ckpt) of JoeyNMT are missing next to {YAML}: copy one too"),
)  # fmt: skip


def refusal(path: Path) -> InputError:
    """The error for a file or folder that is not a known kind of model."""
    if path.suffix in NOT_READ:
        return InputError(
            f"{path}: {path.suffix} files are not supported; save the weights as safetensors "
            "(safetensors.numpy.save_file) and write a mapping file"
        )
    if not path.is_dir() or os.path.lexists(path / CONFIG):
        return InputError(f"{path} is not a model that can be opened; expected {KNOWN}")
    with os.scandir(path) as listing:
        entries = sorted(islice(listing, MAX_ENTRIES), key=lambda entry: entry.name)
    names = [entry.name for entry in entries]
    models = [e.name for e in entries if e.is_dir(follow_symlinks=False) and is_model(Path(e.path))]
    held = ", ".join(names[:NAMED]) + f" and {len(names) - NAMED} more" * (len(names) > NAMED)
    return InputError(
        f"{path} is not a model folder: it contains no {CONFIG}, but {held or 'nothing'}; "
        f"{_remedy(path, names, models)}"
    )


def _remedy(folder: Path, names: Sequence[str], models: Sequence[str]) -> str:
    if models:
        return f"did you mean {' or '.join(str(folder / name) for name in models[:3])}?"
    for pattern, remedy in REMEDIES:
        if fitting := [name for name in names if fnmatch(name.lower(), pattern)]:
            return remedy.format(folder / fitting[0])
    return f"expected {KNOWN}"


def is_model(folder: Path) -> bool:
    """Whether a folder looks like a model of Translucid or of another tool."""
    try:
        return os.path.lexists(place(folder) / CONFIG) or identify(folder).kind is not None
    except (InputError, OSError):
        return False
