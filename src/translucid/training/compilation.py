"""Whether the layers of a model are compiled before it is trained (see `fast.compiled`)."""

from importlib import import_module
from threading import Thread

import torch

from translucid.device import has_triton
from translucid.errors import ConfigError
from translucid.models import ModelConfig
from translucid.models.transformer import TransformerConfig
from translucid.parts.positions import POSITIONS
from translucid.training.config import TrainingConfig

LONG = 2000  # steps from which on compiling, which takes 10 to 20 s, is soon made good


def import_early(config: TrainingConfig, device: torch.device) -> None:
    """Begin to import the compiler, which takes five seconds, where it is likely to be used: data
    are read and tokenizers learned meanwhile, outside of Python for the most part."""
    likely = config.compile is True or (config.compile == "auto" and config.steps >= LONG)
    if likely and device.type == "cuda" and has_triton():
        names = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.async_compile")
        Thread(target=lambda: [import_module(name) for name in names], daemon=True).start()


def decide(config: TrainingConfig, model: ModelConfig, device: torch.device) -> TrainingConfig:
    """`compile` as true or false; `cuda_graphs` is decided already."""
    if config.compile is False:
        return config
    if not isinstance(model, TransformerConfig):
        if config.compile is True:
            raise ConfigError(
                "training.compile = true: only the layers of a transformer are compiled, and this "
                f"is model.kind = {model.kind}; set it to false"
            )
        return config.model_copy(update={"compile": False})
    if config.compile is True:
        if config.deterministic:
            raise ConfigError(
                "training.compile = true: compiled kernels are chosen by trying them, so they do "
                "not repeat to the bit as training.deterministic = true asks; set one to false"
            )
        return config
    worth_it = (
        device.type == "cuda"
        and config.cuda_graphs is True
        and not config.deterministic
        and config.steps >= LONG
        and POSITIONS.source(model.positions) is None
        and has_triton()
    )
    return config.model_copy(update={"compile": worth_it})
