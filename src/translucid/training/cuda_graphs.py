"""Forward and backward pass as one CUDA graph per batch shape.

A training step of a small Transformer consists of about a thousand kernels of a few microseconds,
which Python launches more slowly than the GPU runs them. A graph has fixed shapes and addresses:
batches are padded to a few shapes (`in_few_shapes`) and copied to the graph's inputs, and gradients
stay at fixed addresses. Dropout uses the generator's seed at launch time, as without graphs.
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from translucid.core.errors import ConfigError, TrainingError
from translucid.fast.attention_kernels import JoinedProjections, with_plans
from translucid.fast.compiled import CompiledLayers
from translucid.models import ModelConfig
from translucid.models.recurrent import RecurrentConfig
from translucid.models.transformer import TransformerConfig
from translucid.parts.positions import POSITIONS
from translucid.tasks.base import Task
from translucid.tasks.batch import IGNORE, Batch
from translucid.tasks.example import MASKS
from translucid.tasks.registry import TASKS
from translucid.training.config import TrainingConfig
from translucid.training.distributed import ALONE, Processes
from translucid.training.gradients import FlatGradients, Gradients


def decide(
    config: TrainingConfig,
    model: ModelConfig,
    device: torch.device,
    say: Callable[[str], None],
    *,
    task: str | None = None,
) -> TrainingConfig:
    """Resolve `cuda_graphs`. If graphs are impossible, raise an error if the value is true, and
    report the reason if it is "auto"."""
    if config.cuda_graphs is False:
        return config
    why_not = _why_not(config, model, device, task)
    if why_not is not None and config.cuda_graphs is True:
        raise ConfigError(f"training.cuda_graphs = true: {why_not}; set cuda_graphs to false")
    if why_not is not None and device.type == "cuda":
        say(f"training.cuda_graphs: {why_not}; steps run without CUDA graphs")
    return config.model_copy(update={"cuda_graphs": why_not is None})


def _why_not(
    config: TrainingConfig, model: ModelConfig, device: torch.device, task: str | None
) -> str | None:
    if device.type != "cuda":
        return f"CUDA graphs need a CUDA GPU, and this runs on {device.type}"
    if dist.is_initialized() and config.parallel == "fsdp":
        return "sharded layers (fsdp) cannot be captured in a graph"
    if dist.is_initialized() and config.cuda_graphs == "auto":
        return "off with several processes, unless you set cuda_graphs to true"
    if isinstance(model, RecurrentConfig):
        return _why_not_recurrent(config, model)
    if not isinstance(model, TransformerConfig):
        return f"steps of model.kind = {model.kind} cannot be captured in a graph"
    if model.norm == "batch":
        return "batch norm would count the rows that pad a batch"
    if model.ensemble_size > 1:
        return "an ensemble trains a different member at each step"
    if task is not None and TASKS.source(task) is not None:
        return f"your own task ({task}) would count the rows that pad a batch"
    if POSITIONS.source(model.positions) is not None:
        return f"your own positions ({model.positions}) cannot be captured in a graph"
    if model.characters:
        return "a model that reads characters cannot be captured in a graph"
    return None


def _why_not_recurrent(config: TrainingConfig, model: RecurrentConfig) -> str | None:
    if model.shape != "decoder":
        return "a recurrent encoder needs the lengths of its texts on the CPU"
    if config.carry_state:
        return "rows that pad a batch would change the carried state"
    if config.activation_regularization or config.temporal_regularization:
        return "penalties on activations cannot be captured in a graph"
    return None


@dataclass(frozen=True)
class _GraphMemory:
    """A graph with its input batch and its loss."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    loss: Tensor


class Captured(Gradients):
    """Computes the same gradients as `Gradients`, with a CUDA graph for every batch shape."""

    def __init__(
        self,
        model: nn.Module,
        task: Task[Any, Any],
        config: TrainingConfig,
        device: torch.device,
        layers: CompiledLayers | None = None,
        processes: Processes = ALONE,
    ) -> None:
        super().__init__(model, task, config, device, processes, layers)
        self._held: dict[tuple[Any, ...], _GraphMemory] = {}
        self._deterministic = config.deterministic
        self._scale = torch.zeros((), device=device)
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()  # shared: only one graph runs at a time
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._joined = JoinedProjections(model)
        self._adds = config.accumulate > 1
        self._flat: FlatGradients | None = None
        if not processes.alone:
            self._flat = FlatGradients(self._parameters)
        else:
            for p in self._parameters:
                p.grad = torch.zeros_like(p)

    def prepare(self, micro: Sequence[Batch]) -> None:
        """Capture graphs for new batch shapes; this draws random numbers and adds to gradients."""
        for batch in micro:
            if _shape(batch) not in self._held:
                self._held[_shape(batch)] = self._capture(batch)
                self._zero()

    def add(self, batch: Batch, scale: float, *, last: bool) -> Tensor:
        """Like `Gradients.add`, but processes sum their gradients after the last batch, outside the
        graph."""
        held = self._held[_shape(batch)]
        for name, tensor in batch.inputs.items():
            held.batch.inputs[name].copy_(tensor, non_blocking=True)
        held.batch.targets.copy_(batch.targets, non_blocking=True)
        counts = 0.0 if batch.idle else 1.0
        self._scale.fill_(counts * scale / self._processes.count)
        held.graph.replay()
        if self._flat is not None and last:
            self._flat.sum()
        return held.loss * counts if batch.idle else held.loss

    def clear(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._zero()

    def _backward(self, loss: Tensor) -> None:
        """Write gradients to their fixed addresses with few kernels."""
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        pairs = [
            (p.grad, g) for p, g in zip(self._parameters, gradients, strict=True) if g is not None
        ]
        kept, new = [kept for kept, _ in pairs if kept is not None], [new for _, new in pairs]
        if self._adds:
            torch._foreach_add_(kept, new)
        else:
            torch._foreach_copy_(kept, new)

    def _zero(self) -> None:
        if not self._adds:  # the gradients will be overwritten
            return
        if self._flat is not None:
            self._flat.zero()
            return
        torch._foreach_zero_([p.grad for p in self._parameters if p.grad is not None])

    def _capture(self, batch: Batch) -> _GraphMemory:
        batch = replace(batch.to(self.device), idle=False)  # later batches may not be idle
        graph = torch.cuda.CUDAGraph()
        masked = any(tensor.dtype is torch.bool for tensor in batch.inputs.values())
        # Graphs cannot be captured on the default stream. The passes before use the same stream,
        # since autograd remembers where a gradient was accumulated.
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            # Ragged batches have masks and come in many shapes; full ones in few.
            with with_plans(not masked and not self._deterministic):
                with torch.cuda.stream(self._stream):
                    self._pass(batch, self._scale)  # selects and loads kernels
                    with _no_waiting():
                        self._pass(batch, self._scale)
                # The prefetching thread may allocate CUDA memory meanwhile.
                with torch.cuda.graph(
                    graph, self._pool, self._stream, capture_error_mode="thread_local"
                ):
                    loss = self._pass(batch, self._scale)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise TrainingError(
                f"training.cuda_graphs = true: this model's step cannot be captured ({reason}); "
                "set training.cuda_graphs=false"
            ) from error
        torch.cuda.current_stream(self.device).wait_stream(self._stream)
        return _GraphMemory(graph, batch, loss)


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Within the block, raise an error if the CPU waits for the GPU, which a graph cannot do. An
    error during the capture itself would leave the random generator unusable."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)


def _shape(batch: Batch) -> tuple[Any, ...]:
    named = (("targets", batch.targets), *batch.inputs.items())
    return tuple((name, *tensor.shape) for name, tensor in named)


SMALLEST = 4  # lengths are rounded up to multiples of this
SHORT = 128  # length up to which masks without padding are kept
FINENESS = 8  # lengths above 8 * SMALLEST are rounded up by less than 1 / FINENESS


def few(lengths: Any, max_length: int) -> NDArray[np.int64]:
    """Round lengths up so that few different ones remain: long lengths to larger multiples than
    short ones, but not beyond max_length."""
    lengths = np.asarray(lengths, dtype=np.int64)
    powers = 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    steps = np.maximum(powers // FINENESS, SMALLEST)
    return np.minimum(-(-lengths // steps) * steps, np.maximum(lengths, max_length))


def without_needless_masks(batch: Batch) -> Batch:
    """Remove masks without padding from a batch, which makes attention slightly faster."""
    inputs = {
        name: t
        for name, t in batch.inputs.items()
        if name not in MASKS.values() or not bool(t.all())
    }
    return replace(batch, inputs=inputs)


def in_few_shapes(
    batch: Batch, budget: int, max_length: int, *, processes: int = 1, causal: bool = False,
    full: bool = False,
) -> Batch:  # fmt: skip
    """Pad a batch to one of a few shapes, with padding and rows without targets; the loss does not
    change. causal: whether the model is a language model. full: whether all batches of the run are
    without padding.

    The number of rows is the largest that fits the token budget (of this process), or a half, a
    quarter or an eighth of that number.
    """
    inputs = {
        name: _lengthen(t, max_length, False if t.dtype is torch.bool else 0)
        for name, t in batch.inputs.items()
    }
    targets = _lengthen(batch.targets, max_length, IGNORE)
    count = len(targets)
    length = sum(t.shape[1] for t in inputs.values() if t.dtype is not torch.bool)
    rows = -(-(budget // length) // processes)
    while rows // 2 >= count:
        rows //= 2
    chosen = torch.tensor([*range(count), *[0] * (rows - count)])
    targets = targets[chosen]
    targets[count:] = IGNORE
    needless = MASKS.values() if full else ("mask", "target_mask") if causal else ("target_mask",)
    inputs = {name: t[chosen] for name, t in inputs.items() if not _needless(name, t, needless)}
    return replace(batch, inputs=inputs, targets=targets)


def _needless(name: str, tensor: Tensor, behind: Collection[str]) -> bool:
    """Whether a mask can be removed, so that attention uses a faster kernel with the same results.
    behind: the names of masks that can always be removed, because their padding is at the end,
    where no real position attends to it. Other masks can be removed from long rows without padding.
    From short rows they are not removed, so that one kind of batch is compiled only once."""
    if tensor.dtype is not torch.bool:
        return False
    return name in behind or (tensor.shape[1] > SHORT and bool(tensor.all()))


def _lengthen(tensor: Tensor, max_length: int, value: int) -> Tensor:
    """Pad a tensor (rows, length) so that its length is rounded up; (rows,) stays unchanged."""
    if tensor.dim() == 1:
        return tensor
    length = tensor.shape[1]
    return F.pad(tensor, (0, int(few(length, max_length)) - length), value=value)
