"""Whether several items share a row of a batch (see `data.packed_rows`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from translucid.core.errors import ConfigError
from translucid.data.batching import plan_batches
from translucid.data.packed_rows import ROW, row_lengths
from translucid.models import ModelConfig
from translucid.models.transformer import TransformerConfig
from translucid.parts.positions import POSITIONS
from translucid.tasks.base import Task
from translucid.tasks.in_batches import sizes_of
from translucid.training.batch_shapes import few
from translucid.training.config import TrainingConfig

MANY = 1_000_000  # items from which on finding rows for them, 10 s a million, is left to who asks
MUCH = 0.08  # padding from which on rows are shared; their masks cost some of what they save


def decide(
    config: TrainingConfig, model: ModelConfig, task: Task[Any, Any], items: Sequence[Any]
) -> TrainingConfig:
    """`packing` as true or false; `cuda_graphs` is decided already."""
    if config.packing == "auto" and not _may_pay(config, model, items):
        return config.model_copy(update={"packing": False})
    if config.packing is False:
        return config
    why_not, sizes = _why_not(model, task), sizes_of(task, items)
    if why_not is None and (row := sum(row_lengths(sizes))) > config.batch_tokens:
        why_not = f"a row has {row:,} tokens, and training.batch_tokens = {config.batch_tokens}"
    if config.packing is True and why_not is not None:
        raise ConfigError(f"training.packing = true: {why_not}; set it to false")
    wanted = config.packing is True or (why_not is None and _pays(config, sizes))
    return config.model_copy(update={"packing": wanted})


def _why_not(model: ModelConfig, task: Task[Any, Any]) -> str | None:
    if not task.packs:
        return f"rows are not shared by examples of {task.name}, only by those of translate"
    if not isinstance(model, TransformerConfig):
        return f"model.kind = {model.kind} reads one text in a row; only a transformer reads more"
    if model.norm == "batch":
        return "batch norm would count padding that is no padding"
    return None


def _may_pay(config: TrainingConfig, model: ModelConfig, items: Sequence[Any]) -> bool:
    """Where steps are captured, every shape of a batch costs a graph."""
    if config.cuda_graphs is not True or dist.is_initialized() or len(items) > MANY:
        return False
    return isinstance(model, TransformerConfig) and POSITIONS.source(model.positions) is None


def _pays(config: TrainingConfig, sizes: NDArray[np.int64]) -> bool:
    """Short rows have a kernel to which masks make no difference."""
    if max(row_lengths(sizes)) > ROW:
        return False
    plan = plan_batches(few(sizes, int(sizes.max())), config.batch_tokens, seed=config.seed)
    return plan.slots > int(sizes.sum()) / (1 - MUCH)
