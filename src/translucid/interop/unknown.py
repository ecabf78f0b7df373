"""What is said of a folder that is no model: what stands in it, and what may have been meant."""

import os
from collections.abc import Sequence
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path

from translucid.core.errors import InputError
from translucid.interop.source import CONFIG, KNOWN, YAML, kind_of
from translucid.tasks import model_folder

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
    """Of a folder without a config.json that is no model of another tool either."""
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
    """Whether a folder looks like a model's, of ours or of another tool."""
    try:
        return os.path.lexists(model_folder.place(folder) / CONFIG) or kind_of(folder) is not None
    except (InputError, OSError):
        return False
