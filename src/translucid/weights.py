"""The tensors of a network on disk: each once, in a file that is the same for the same weights."""

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from translucid.errors import InputError


def own_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and what else the network saves; a table that two parts share has one name."""
    saved = network.state_dict()
    buffers = {name: value for name, value in network.named_buffers() if name in saved}
    return {name: p.data for name, p in network.named_parameters()} | buffers


def save_weights(network: nn.Module, path: Path) -> None:
    save_file({name: t.contiguous() for name, t in own_tensors(network).items()}, str(path))


@torch.no_grad()
def load_weights(network: nn.Module, path: Path, today: Callable[[str], str] | None = None) -> None:
    """Read every tensor of the network; a shared one may stand under any of its names.

    today: what a name in the file is called now, where names have changed since."""
    try:
        tensors = load_file(str(path))
    except SafetensorError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    places = network.state_dict()
    missing = {tensor.data_ptr(): name for name, tensor in own_tensors(network).items()}
    for written, tensor in tensors.items():
        name = today(written) if today else written
        if name not in places or places[name].shape != tensor.shape:
            raise InputError(
                f"{path}: does not fit its config: {written} of shape {[*tensor.shape]}"
            )
        places[name].copy_(tensor)
        missing.pop(places[name].data_ptr(), None)
    if missing:
        raise InputError(f"{path}: does not fit its config: {', '.join(missing.values())} missing")
