"""Choose a device for tensors, and query its free memory."""

import os
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import torch

from translucid.core.errors import InputError
from translucid.core.untrusted_files import ram_bytes


def pick_device(wanted: str, name: str = "device") -> torch.device:
    """The torch device for an option's value. auto: a CUDA GPU if there is one, else the CPU. name:
    the option's name, for error messages."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and "LOCAL_RANK" in os.environ:  # one GPU per process
        wanted = f"cuda:{os.environ['LOCAL_RANK']}"
    try:
        return torch.zeros((), device=wanted).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"{name} = {wanted!r}: {error}; try auto or cpu") from None


@lru_cache
def has_triton() -> bool:
    """Whether Triton kernels can be compiled."""
    return find_spec("triton") is not None


def on_device(part: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a CPU tensor to a device. Copies to a GPU are asynchronous."""
    return staged(part, device).to(device, non_blocking=True)


def staged(part: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy of a CPU tensor in pinned memory if a CUDA device will read it, so that the transfer
    can be asynchronous; for other devices, the tensor itself."""
    return part.pin_memory() if device.type == "cuda" else part


def available_bytes(device: torch.device) -> int | None:
    """Free memory of a device in bytes; None if unknown."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    if device.type != "cpu":
        return None
    known = [size for size in (_free_ram(), _left_to_group()) if size is not None]
    return min(known, default=ram_bytes())


def _free_ram() -> int | None:
    """Free memory and swap in bytes, on Linux."""
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        values = {name: int(rest.split()[0]) for name, _, rest in (s.partition(":") for s in lines)}
        return 1024 * (values["MemAvailable"] + values.get("SwapFree", 0))
    except (OSError, ValueError, LookupError):
        return None


def _left_to_group(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The memory in bytes that remains below the memory limit of this process's container (cgroup).
    File caches do not count as used. None if there is no limit."""
    for limit, used, stat, cache in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
         "total_inactive_file"),
    ):  # fmt: skip
        with suppress(OSError, ValueError, LookupError):
            most, now = (int((root / name).read_text("utf-8")) for name in (limit, used))
            lines = (root / stat).read_text("utf-8").splitlines()
            files = {name: int(size) for name, size in (line.split() for line in lines)}[cache]
            return max(most - max(now - files, 0), 0)
    return None
