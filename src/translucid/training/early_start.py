"""What training on a GPU needs and takes seconds to load, begun while the data are read: libraries
are loaded and tokenizers learned outside of Python for the most part."""

from contextlib import suppress
from importlib import import_module
from threading import Thread

import torch

from translucid.core.device import has_triton
from translucid.models import ModelConfig
from translucid.training import compilation
from translucid.training.config import TrainingConfig

KERNELS = ("translucid.fast.short_attention", "translucid.fast.loss_kernel")
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.async_compile")


def begin(config: TrainingConfig, model: ModelConfig, device: torch.device) -> None:
    """model: as far as it is known before the data are."""
    if device.type != "cuda":
        return
    modules = list(KERNELS) if has_triton() else []
    if modules and compilation.likely(config, model):
        modules += COMPILER
    Thread(target=_load, args=(device, modules), name="early start", daemon=True).start()


def _load(device: torch.device, modules: list[str]) -> None:
    with suppress(Exception):  # whoever needs it meets the same, and tells of it
        some = torch.ones(16, 16, device=device)
        some @ some  # the device, and its library of matrix multiplications
        for module in modules:
            import_module(module)
