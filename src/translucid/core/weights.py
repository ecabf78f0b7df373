"""Save and load the tensors of a network. Shared tensors are stored once; equal weights give
identical files."""

from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from translucid.core.errors import InputError

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def own_tensors(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and saved buffers by name. A tensor that two parts share appears only once."""
    saved = network.state_dict()
    buffers = {name: value for name, value in network.named_buffers() if name in saved}
    return {name: p.data for name, p in network.named_parameters()} | buffers


def save_weights(network: nn.Module, path: Path) -> None:
    save_file({name: t.contiguous() for name, t in own_tensors(network).items()}, str(path))


def declared_sizes(path: Path) -> list[int]:
    """The number of values in each tensor of a file, read from its header."""
    try:
        with safe_open(str(path), "pt") as file:
            return [prod(file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


@torch.no_grad()
def load_weights(network: nn.Module, path: Path) -> None:
    """Load every tensor of the network; a shared tensor may be stored under any of its names."""
    try:
        tensors = load_file(str(path))
    except SafetensorError as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    places = network.state_dict()
    missing = {tensor.data_ptr(): name for name, tensor in own_tensors(network).items()}
    for name, tensor in tensors.items():
        if name not in places or places[name].shape != tensor.shape:
            raise InputError(
                f"{path} does not fit its config, which has no tensor {name} of shape "
                f"{[*tensor.shape]}; copy the whole folder again"
            )
        _check_values(path, name, tensor, places[name].dtype)
        places[name].copy_(tensor)
        missing.pop(places[name].data_ptr(), None)
    if missing:
        raise InputError(
            f"{path} does not fit its config: the file lacks {', '.join(missing.values())}; copy "
            "the whole folder again"
        )


def _check_values(path: Path, name: str, tensor: Tensor, wanted: torch.dtype) -> None:
    """Raise an error if the values cannot be converted exactly or are not finite."""
    fits = tensor.dtype in FLOATS if wanted in FLOATS else tensor.dtype == wanted
    if not fits:
        raise InputError(
            f"{path}: {name} contains values of type {tensor.dtype}, but {wanted} is needed; only "
            "floating-point types can be converted"
        )
    if tensor.is_floating_point() and not tensor.isfinite().all():
        raise InputError(
            f"{path}: {name} contains values that are not finite (NaN or infinity), so all results "
            "would be wrong; use an earlier checkpoint, or train again"
        )
