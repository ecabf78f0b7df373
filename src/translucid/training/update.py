"""From gradients to weights: clip, step, average. Plain, or as one CUDA graph."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from translucid.training.config import TrainingConfig
from translucid.training.distributed import whole
from translucid.training.state import State


class Update:
    """One update of the weights after another."""

    waits = True  # is it known when `take` returns whether the norm is finite?

    def __init__(self, state: State, config: TrainingConfig, clear: Callable[[], None]) -> None:
        """clear: forgets the gradients."""
        self._state, self._clip_norm, self._clear = state, config.clip_norm, clear
        self._parameters = list(state.network.parameters())
        self._taken = math.nan

    def norm(self) -> float:
        """Of the gradient of the last update, before clipping; if it is not finite, the update
        has changed nothing."""
        return self._taken

    def take(self, learning_rate: float) -> None:
        """Move the weights, and forget the gradients."""
        for group in self._groups():
            group["lr"] = learning_rate * group.get("factor", 1.0)
        # The one number of a step that the CPU waits for, once all work before it is launched.
        norm = float(whole(nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)))
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
    """The same as a CUDA graph. That a norm is not finite is seen on the GPU, so the CPU need not
    wait for it, and may launch the next gradients meanwhile."""

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
        """Are the optimizers such that a graph can leave a step out?"""
        return all(
            isinstance(o, torch.optim.Adam | torch.optim.AdamW) and o.defaults["fused"]
            for o in state.optimizers
        )

    def norm(self) -> float:
        """To be asked once for every update."""
        self._copying.synchronize()  # not with what was launched since
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
        # The thread that makes batches may ask CUDA for memory meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._norm = nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
            left_out = (~torch.isfinite(self._norm)).float()
            for optimizer in self._state.optimizers:
                vars(optimizer)["found_inf"] = left_out  # by which GradScaler leaves a step out
                optimizer.step()
            if self._state.average is not None:
                self._state.average.move(self._weight * (1 - left_out))
            self._clear()
