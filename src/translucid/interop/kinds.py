"""Which tool wrote the model at a path, the file here that reads it, and what is said of a folder
that is no model.

The file of a tool has LAYOUT (for people) and the functions of `Tool`; it is imported when a model
of its kind is opened.
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
from translucid.core.untrusted_files import inside, open_regular, present, read_object
from translucid.interop.families.plan import CONFIG, WEIGHT_FILES, ForeignModel, ImportPlan
from translucid.interop.formats.stored import TORCH, ModelFile
from translucid.interop.formats.torch_file import read_torch
from translucid.interop.tokenizers.specs import ReadTokenizers
from translucid.tasks import model_folder

# By kind: the file that reads it.
TOOLS: Mapping[str, str] = {
    "huggingface": "huggingface_layout", "gguf": "llama_cpp", "llama2c": "llama2c",
    "ctranslate2": "ctranslate2", "opennmt": "opennmt", "fairseq": "fairseq",
    "joeynmt": "joeynmt", "mapping": "mapping",
}  # fmt: skip
YAML = "config.yaml"  # JoeyNMT's options
GGUF = b"GGUF"  # what a file of llama.cpp begins with
KNOWN = (
    "a folder that training wrote; one in Hugging Face's layout (config.json and "
    "model.safetensors), of CTranslate2 (model.bin) or of JoeyNMT (config.yaml and a .ckpt file); "
    "a .gguf file; a .bin file of llama2.c; a .pt file of OpenNMT-py or fairseq; or a mapping file "
    "(.toml) that says what the tensors of a file are"
)
# Files of Keras, TensorFlow and Flax, by their endings.
NOT_READ = (".h5", ".hdf5", ".keras", ".index", ".pb", ".msgpack")


class Tool(Protocol):
    """How the models of a tool are opened."""

    LAYOUT: str  # what its models are stored in, for people

    def read(self, path: Path, checkpoint: ModelFile | None) -> ForeignModel:
        """The description and the tensors. checkpoint: the file, where it had to be read to know
        which tool wrote it."""

    def plan(self, model: ForeignModel) -> ImportPlan: ...

    def tokenizers(self, model: ForeignModel, plan: ImportPlan) -> ReadTokenizers: ...


def tool_of(kind: str) -> Tool:
    return cast(Tool, import_module(f"translucid.interop.families.{TOOLS[kind]}"))


def kind_of(path: Path) -> str | None:
    """Which kind of foreign model this is; None: not a known one, or one of our own."""
    return _kind_of_folder(path) if path.is_dir() else _kind_of_file(path)[0]


def _kind_of_folder(path: Path) -> str | None:
    if present(path / "model.bin"):
        return "ctranslate2"
    if (path / CONFIG).is_file():
        with suppress(InputError):  # opening it as one of ours says what is wrong with it
            config = read_object(inside(path, CONFIG, "a model"))
            foreign = "model_type" in config or "architectures" in config
            return "huggingface" if foreign and not model_folder.is_own(config) else None
        return None
    if present(path / YAML) and any(path.glob("*.ckpt")):
        return "joeynmt"
    return "gguf" if len(list(path.glob("*.gguf"))) == 1 else None


def _kind_of_file(path: Path) -> tuple[str | None, ModelFile | None]:
    """The kind, and the checkpoint where it had to be read to know."""
    if path.suffix == ".toml" or not path.is_file():
        return ("mapping" if path.is_file() else None), None
    with open_regular(path.resolve(), 1 << 62) as file:
        begin = file.read(4)
    if begin == GGUF:
        return "gguf", None
    if path.name == "model.bin" and present(path.parent / CONFIG):
        return "ctranslate2", None
    if path.name.removesuffix(".index.json") in WEIGHT_FILES:
        return _kind_of_folder(path.parent), None
    if begin in TORCH:
        checkpoint = read_torch(path.resolve())
        return _kind_of_checkpoint(checkpoint), checkpoint
    return ("llama2c" if path.suffix == ".bin" else None), None


def _kind_of_checkpoint(checkpoint: ModelFile) -> str | None:
    """Which tool saved it, by its keys; None: weights alone, or another tool's."""
    keys = checkpoint.metadata.keys()
    if {"vocab", "opt"} <= keys and ("generator" in keys or "model" not in keys):
        return "opennmt"
    if "model_state" in keys:
        return "joeynmt"
    return "fairseq" if "model" in keys and {"args", "cfg"} & keys else None


def read_source(
    path: Path, mapping: Path | None = None, ignored_keys: Sequence[str] = ()
) -> ForeignModel:
    """A foreign model as its headers describe it. mapping: a mapping file that says what these
    weights are. ignored_keys: keys of config.json of unknown meaning that are to be ignored."""
    if mapping is not None:
        from translucid.interop.families.mapping import read_with

        return read_with(mapping, path)
    kind, checkpoint = (_kind_of_folder(path), None) if path.is_dir() else _kind_of_file(path)
    path = path.resolve() if path.is_file() else path  # the user named it: it may be a link
    if kind is not None:
        model = tool_of(kind).read(path, checkpoint)
        return replace(model, ignored_keys=tuple(ignored_keys))
    if path.suffix in NOT_READ:
        raise InputError(
            f"{path}: {path.suffix} files are not read; save the variables as safetensors "
            "(safetensors.numpy.save_file) and write a mapping file"
        )
    raise InputError(f"{path} is no model that can be opened; give {KNOWN}")


LOOKED_AT = 1000  # entries of a folder
NAMED = 6
# What a folder may hold, and what to do then; the first that fits. {}: the first such file.
REMEDIES = (
    ("*.gguf", "name one of its .gguf files, such as {}"),
    *((weights, f"{CONFIG} is missing beside {{}}: copy it too, or write a mapping file")
      for weights in ("*.safetensors", "pytorch_model*.bin")),
    ("*.ckpt", f"{YAML} of JoeyNMT is missing beside {{}}: copy it too, or write a mapping file"),
    ("*.pt", "name the checkpoint itself: {}"),
    ("*.pth", "weights alone, such as {}, need a mapping file"),
    ("*.bin", "name the file itself: {}"),
    ("*.npz", "Marian's own .npz is not read: convert {} into Hugging Face's layout"),
    ("*.onnx", "graphs such as {} are not read: take the model that it was made of"),
    *((f"*.{ending}", "{} is not read: save the variables as safetensors and write a mapping file")
      for ending in ("h5", "hdf5", "keras", "msgpack", "index", "pb")),
    (YAML, f"checkpoints (.ckpt) of JoeyNMT are missing beside {YAML}: copy one too"),
)  # fmt: skip


def refusal(folder: Path) -> InputError:
    """The error for a folder without a config.json that no other tool wrote either."""
    with os.scandir(folder) as listing:
        entries = sorted(islice(listing, LOOKED_AT), key=lambda entry: entry.name)
    names = [entry.name for entry in entries]
    models = [e.name for e in entries if e.is_dir(follow_symlinks=False) and is_model(Path(e.path))]
    held = ", ".join(names[:NAMED]) + f" and {len(names) - NAMED} more" * (len(names) > NAMED)
    return InputError(
        f"{folder} is no model folder: it holds no {CONFIG}, but {held or 'nothing'}; "
        f"{_remedy(folder, names, models)}"
    )


def _remedy(folder: Path, names: Sequence[str], models: Sequence[str]) -> str:
    if models:
        return f"did you mean {' or '.join(str(folder / name) for name in models[:3])}?"
    for pattern, remedy in REMEDIES:
        if fitting := [name for name in names if fnmatch(name.lower(), pattern)]:
            return remedy.format(folder / fitting[0])
    return f"give {KNOWN}"


def is_model(folder: Path) -> bool:
    """Whether a folder looks like a model of ours or of another tool."""
    try:
        return os.path.lexists(model_folder.place(folder) / CONFIG) or kind_of(folder) is not None
    except (InputError, OSError):
        return False
