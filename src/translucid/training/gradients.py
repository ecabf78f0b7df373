"""Forward and backward pass of a batch, launched from Python; the gradients of several processes
are summed in one flat buffer."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from translucid.fast.attention_kernels import ShortRows
from translucid.fast.compiled import CompiledLayers
from translucid.fast.dropout import HashedDropout, LargeDropout
from translucid.fast.joined_projections import JoinedProjections
from translucid.tasks.base import Task
from translucid.tasks.batch import Batch
from translucid.training.activation_regularization import ActivationRegularization
from translucid.training.carried_state import CarriedState
from translucid.training.config import TrainingConfig
from translucid.training.distributed import Processes


class Gradients:
    """Adds up the gradients of the batches of a step, in the parameters."""

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
        """Do what must be done before the random draws of a step begin: nothing."""

    def add(self, batch: Batch, scale: float, *, last: bool) -> Tensor:
        """Add the gradient of scale times the loss; returns the loss. Gradients are exchanged
        between processes after the last batch of a step."""
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
        """Forget the gradients of a step."""
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)


ALIGNED = 64  # values: kernels read several at a time, from places that are multiples of 256 bytes


class FlatGradients:
    """Makes every gradient a view into one buffer. Parameters of one dtype, on one device."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        sizes = [-(-p.numel() // ALIGNED) * ALIGNED for p in parameters]
        self.buffer = parameters[0].new_zeros(sum(sizes))
        for p, part in zip(parameters, self.buffer.split(sizes), strict=True):
            p.grad = part[: p.numel()].view(p.shape)

    def sum(self) -> None:
        """Over all processes, in place. On a GPU the CPU does not wait for it."""
        dist.all_reduce(self.buffer)

    def zero(self) -> None:
        self.buffer.zero_()
