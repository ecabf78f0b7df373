"""Whether the layers of a model are compiled before it is trained (see `fast.compiled`)."""

import torch

from translucid.core.device import has_triton
from translucid.core.errors import ConfigError
from translucid.models import ModelConfig
from translucid.models.transformer import TransformerConfig
from translucid.parts.positions import POSITIONS
from translucid.training.config import TrainingConfig
from translucid.training.memory import count

# Weights times tokens of a run, above which compiling, 20 s, is made good: steps take a third less.
# At 8 million weights that is more than two minutes of training on an H200, at 60 million half one.
MUCH = 2e15


def likely(config: TrainingConfig, model: ModelConfig) -> bool:
    """Will layers be compiled, as far as these two say?"""
    if config.compile != "auto":
        return config.compile
    return isinstance(model, TransformerConfig) and _work(config, model) >= MUCH


def _work(config: TrainingConfig, model: ModelConfig) -> float:
    tokens = float(config.batch_tokens) * config.accumulate * config.steps
    return count(model)[0] * tokens


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
        and likely(config, model)
        and POSITIONS.source(model.positions) is None
        and has_triton()
    )
    return config.model_copy(update={"compile": worth_it})
