"""Resolve training settings that are "auto": compilation (`fast.compiled`) and sequence packing
(`data.packing`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from translucid.core.device import has_triton
from translucid.core.errors import ConfigError
from translucid.data.batching import plan_batches
from translucid.data.packing import ROW, row_lengths
from translucid.models import ModelConfig
from translucid.models.transformer import TransformerConfig
from translucid.parts.positions import POSITIONS
from translucid.tasks.base import Task
from translucid.tasks.in_batches import sizes_of
from translucid.training.config import TrainingConfig
from translucid.training.cuda_graphs import few
from translucid.training.memory import count

# Weights times tokens of a run above which compiling (20 s) saves time (a third of each step): at 8
# million weights two minutes of training on an H200, at 60 million half a minute.
WORTH_COMPILING = 2e15


def likely(config: TrainingConfig, model: ModelConfig) -> bool:
    """Whether layers will probably be compiled in a run with this configuration."""
    if config.compile != "auto":
        return config.compile
    tokens = float(config.batch_tokens) * config.accumulate * config.steps
    return isinstance(model, TransformerConfig) and count(model)[0] * tokens >= WORTH_COMPILING


def with_compilation(
    config: TrainingConfig, model: ModelConfig, device: torch.device
) -> TrainingConfig:
    """Resolve `compile` if it is "auto"; `cuda_graphs` must be resolved before."""
    if config.compile is False:
        return config
    if not isinstance(model, TransformerConfig):
        if config.compile is True:
            raise ConfigError(
                "training.compile = true: only the layers of a transformer can be compiled, but "
                f"model.kind = {model.kind}; set training.compile = false"
            )
        return config.model_copy(update={"compile": False})
    if config.compile is True:
        if config.deterministic:
            raise ConfigError(
                "training.compile = true: compiled kernels are chosen by timing them, so results "
                "are not deterministic, as training.deterministic = true requires; set one of the "
                "two to false"
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


TOO_MANY_TO_PACK = 1_000_000  # items; packing takes about 10 s per million
WORTH_PACKING = 0.08  # fraction of padding above which packing saves time despite its masks


def with_packing(
    config: TrainingConfig, model: ModelConfig, task: Task[Any, Any], items: Sequence[Any]
) -> TrainingConfig:
    """Resolve `packing` if it is "auto"; `cuda_graphs` must be resolved before."""
    if config.packing == "auto" and not _may_pay(config, model, items):
        return config.model_copy(update={"packing": False})
    if config.packing is False:
        return config
    why_not, sizes = _why_not(model, task), sizes_of(task, items)
    if why_not is None and (row := sum(row_lengths(sizes))) > config.batch_tokens:
        batch = f"training.batch_tokens = {config.batch_tokens}"
        why_not = f"a packed row has {row:,} tokens, more than a batch ({batch})"
    if config.packing is True and why_not is not None:
        raise ConfigError(f"training.packing = true: {why_not}; set packing to false")
    wanted = config.packing is True or (why_not is None and _pays(config, sizes))
    return config.model_copy(update={"packing": wanted})


def _why_not(model: ModelConfig, task: Task[Any, Any]) -> str | None:
    if not task.packs:
        return f"task {task.name} does not support packing, only translate does"
    if not isinstance(model, TransformerConfig):
        return f"model.kind = {model.kind} reads one text per row; only a transformer reads several"
    if model.norm == "batch":
        return "batch norm does not support packed rows"
    return None


def _may_pay(config: TrainingConfig, model: ModelConfig, items: Sequence[Any]) -> bool:
    """Whether packing can save time: only with CUDA graphs, because each batch shape needs its own
    graph."""
    if config.cuda_graphs is not True or dist.is_initialized() or len(items) > TOO_MANY_TO_PACK:
        return False
    return isinstance(model, TransformerConfig) and POSITIONS.source(model.positions) is None


def _pays(config: TrainingConfig, sizes: NDArray[np.int64]) -> bool:
    """Whether packing saves time. It does if rows are short, so that the kernel handles masks at no
    cost, and if batches would contain much padding without packing."""
    if max(row_lengths(sizes)) > ROW:
        return False
    plan = plan_batches(few(sizes, int(sizes.max())), config.batch_tokens, seed=config.seed)
    return plan.slots > int(sizes.sum()) / (1 - WORTH_PACKING)
