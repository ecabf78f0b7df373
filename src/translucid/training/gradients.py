"""Forward and backward pass of a batch, and the update of the weights."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from translucid.fast.attention_kernels import JoinedProjections, ShortRows
from translucid.fast.compiled import CompiledLayers
from translucid.fast.dropout import HashedDropout, LargeDropout
from translucid.tasks.base import Task
from translucid.tasks.batch import Batch
from translucid.training.config import TrainingConfig
from translucid.training.distributed import Processes, whole
from translucid.training.recurrent_training import ActivationRegularization, CarriedState
from translucid.training.state import State


class Gradients:
    """Accumulates the gradients of the batches of a step."""

    def __init__(
        self,
        model: nn.Module,
        task: Task[Any, Any],
        config: TrainingConfig,
        device: torch.device,
        processes: Processes,
        layers: CompiledLayers | None = None,
    ) -> None:
        self.model, self.task, self.device = model, task, device
        self._processes, self._layers = processes, layers
        self._half = config.precision == "bfloat16"
        self._joined: JoinedProjections | None = None
        self._short_rows = ShortRows(model) if ShortRows.fit(device) else None
        self._dropout: LargeDropout | HashedDropout | None = None
        if layers is not None:
            self._dropout = HashedDropout(model, device)
        elif device.type == "cpu":
            self._dropout = LargeDropout(model)
        penalties = (config.activation_regularization, config.temporal_regularization)
        self._penalty = ActivationRegularization(model, *penalties) if any(penalties) else None

    def prepare(self, micro: Sequence[Batch]) -> None:
        """Prepare for these batches before the generators are seeded; the base class does
        nothing."""

    def add(self, batch: Batch, scale: float, *, last: bool) -> Tensor:
        """Add the gradient of scale times the loss; return the loss. Processes exchange gradients
        after the last batch of a step."""
        if batch.first and isinstance(self.model, CarriedState):
            self.model.reset()
        with self._processes.syncing(self.model, last):
            return self._pass(batch.to(self.device), scale)

    def _pass(self, batch: Batch, scale: float | Tensor) -> Tensor:
        with ExitStack() as ways:
            if self._half:
                ways.enter_context(torch.autocast(self.device.type, torch.bfloat16))
            if self._short_rows is not None:
                ways.enter_context(self._short_rows.used())
            if self._dropout is not None:
                ways.enter_context(self._dropout.used())
            if self._layers is not None:
                ways.enter_context(self._layers.used())
            if self._joined is not None:
                ways.enter_context(self._joined.used())
            if self._penalty is not None:
                ways.enter_context(self._penalty.used())
            loss = self.task.loss(self.model, batch)
        total = loss if self._penalty is None else loss + batch.count * self._penalty.total()
        if batch.idle:
            total, loss = total * 0, loss * 0
        self._backward(total * scale)
        return loss.detach()

    def _backward(self, loss: Tensor) -> None:
        loss.backward()

    def clear(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Clear the gradients."""
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)


ALIGNED = 64  # values: gradients start at multiples of 256 bytes for vectorized kernels


class FlatGradients:
    """Stores all gradients in one buffer. The parameters must have the same dtype and device."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        sizes = [-(-p.numel() // ALIGNED) * ALIGNED for p in parameters]
        self.buffer = parameters[0].new_zeros(sum(sizes))
        for p, part in zip(parameters, self.buffer.split(sizes), strict=True):
            p.grad = part[: p.numel()].view(p.shape)

    def sum(self) -> None:
        """Sum the gradients over all processes, in place and without synchronising a GPU."""
        dist.all_reduce(self.buffer)

    def zero(self) -> None:
        self.buffer.zero_()


def clip(parameters: Sequence[Tensor], norm: float, value: float | None = None) -> Tensor:
    """Scale the gradients down to a maximum norm, then limit the absolute value of each entry.
    Return the norm before clipping."""
    before = nn.utils.clip_grad_norm_(parameters, norm)
    if value is not None:
        nn.utils.clip_grad_value_(parameters, value)
    return before


class Update:
    """Updates the weights: clips gradients, applies the optimizers, updates the average."""

    waits = True  # whether `take` returns only when the norm is known

    def __init__(self, state: State, config: TrainingConfig, clear: Callable[[], None]) -> None:
        """clear: a function that clears the gradients."""
        self._state, self._clear = state, clear
        self._clip_norm, self._clip_value = config.clip_norm, config.clip_value
        self._parameters = list(state.network.parameters())
        self._taken = math.nan

    def norm(self) -> float:
        """The gradient norm of the last update, before clipping; if it is not finite, the weights
        did not change."""
        return self._taken

    def take(self, learning_rate: float) -> None:
        """Update the weights and clear the gradients."""
        for group in self._groups():
            group["lr"] = learning_rate * group.get("factor", 1.0)
        # The only synchronisation of a step, after all other work is launched.
        norm = float(whole(clip(self._parameters, self._clip_norm, self._clip_value)))
        if math.isfinite(norm):
            for optimizer in self._state.optimizers:
                optimizer.step()
            if self._state.average is not None:
                self._state.average.update()
        self._clear()
        self._taken = norm

    def _groups(self) -> list[dict[str, Any]]:
        return [group for o in self._state.optimizers for group in o.param_groups]


class CapturedUpdate(Update):
    """Updates the weights as `Update` does, in a CUDA graph. The GPU skips the update if the norm
    is not finite, so the CPU can launch the next gradients without waiting."""

    waits = False

    def __init__(self, state: State, config: TrainingConfig, clear: Callable[[], None]) -> None:
        super().__init__(state, config, clear)
        device = state.device
        self._weight = torch.zeros((), device=device)
        self._rates = [torch.zeros((), device=device) for _ in self._groups()]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._norm: Tensor
        self._copied = torch.zeros((), pin_memory=True)
        self._copying = torch.cuda.Event()

    @staticmethod
    def fits(state: State) -> bool:
        """Whether the optimizers of this state support skipping a step in a graph."""
        return all(
            isinstance(o, torch.optim.Adam | torch.optim.AdamW) and o.defaults["fused"]
            for o in state.optimizers
        )

    def norm(self) -> float:
        """The gradient norm of the last update; call this once per update."""
        self._copying.synchronize()  # does not wait for later work
        norm, average = float(self._copied), self._state.average
        if average is not None and math.isfinite(norm):
            average.steps += 1
        return norm

    def take(self, learning_rate: float) -> None:
        average = self._state.average
        for value, group in zip(self._rates, self._groups(), strict=True):
            value.fill_(learning_rate * group.get("factor", 1.0))
        if average is not None:
            self._weight.fill_(average.next_weight())
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()
        self._copied.copy_(self._norm, non_blocking=True)
        self._copying.record()

    def _capture(self) -> None:
        for value, group in zip(self._rates, self._groups(), strict=True):
            group["lr"], group["capturable"] = value, True
        nn.utils.get_total_norm([p.grad for p in self._parameters if p.grad is not None])  # loads
        torch.cuda.synchronize(self._state.device)
        self._graph = torch.cuda.CUDAGraph()
        # The prefetching thread may allocate CUDA memory meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._norm = clip(self._parameters, self._clip_norm, self._clip_value)
            left_out = (~torch.isfinite(self._norm)).float()
            for optimizer in self._state.optimizers:
                vars(optimizer)["found_inf"] = left_out  # as GradScaler does to skip a step
                optimizer.step()
            if self._state.average is not None:
                self._state.average.move(self._weight * (1 - left_out))
            self._clear()
