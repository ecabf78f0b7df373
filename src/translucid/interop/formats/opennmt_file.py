"""A checkpoint of OpenNMT-py: all in one .pt file, or the weights beside it as safetensors.

With `save_format: safetensors`, and from its converters, NAME.pt holds options and vocabularies,
and NAME.safetensors (or shards, NAME.00.safetensors and so on) the weights. Read in
OpenNMT/OpenNMT-py: models/model_saver.py and models/model.py of 3.x.
"""

from pathlib import Path

from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside
from translucid.interop.formats.safetensors_file import read_safetensors
from translucid.interop.formats.stored import ModelFile, StoredTensor

MODEL, HEAD = "model", "generator"  # where the one file has the weights
SUFFIX = ".safetensors"


def is_opennmt(checkpoint: ModelFile) -> bool:
    """By the keys that it has."""
    keys = checkpoint.metadata.keys()
    return {"vocab", "opt"} <= keys and ({MODEL, HEAD} <= keys or MODEL not in keys)


def with_weights(path: Path, checkpoint: ModelFile) -> ModelFile:
    """The checkpoint with all its tensors, under the names that the one file has for them."""
    if MODEL in checkpoint.metadata:
        return checkpoint
    names = sorted(
        file.name
        for file in path.parent.iterdir()
        if file.name.startswith(f"{path.stem}.") and file.name.endswith(SUFFIX)
    )
    if not names:
        raise InputError(
            f"{path} holds options and vocabularies, but no weights; put {path.stem}{SUFFIX}, or "
            f"its shards {path.stem}.00{SUFFIX} and so on, into the same folder"
        )
    tensors: dict[str, StoredTensor] = {}
    for name in names:
        for key, tensor in read_safetensors(inside(path.parent, name, str(path))).tensors.items():
            placed = key if key.startswith(f"{HEAD}.") else f"{MODEL}.{key}"
            if placed in tensors:
                raise InputError(
                    f"{path}: {key[:200]} is in {name} and in another of {', '.join(names)[:200]}; "
                    "leave those of one model in the folder"
                )
            tensors[placed] = tensor
    return ModelFile(checkpoint.metadata, checkpoint.tensors | tensors)
