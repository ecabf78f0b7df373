"""Where tensors live."""

import os

import torch

from translucid.errors import InputError


def pick_device(wanted: str, name: str = "device") -> torch.device:
    """auto: a CUDA GPU if there is one, else the CPU. `name`: what the caller calls its choice."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and "LOCAL_RANK" in os.environ:  # each process its own
        wanted = f"cuda:{os.environ['LOCAL_RANK']}"
    try:
        return torch.zeros((), device=wanted).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"{name} = {wanted!r}: {error}; try auto or cpu") from None
