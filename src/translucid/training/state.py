"""The training state that a checkpoint stores: weights, their exponential moving average, the
optimizer, progress. Also functions that seed and restore random generators."""

import copy
import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError
from translucid.core.weights import own_tensors
from translucid.fast.packed_linear import pad_heads
from translucid.tasks.score import Criterion
from translucid.training.config import TrainingConfig
from translucid.training.distributed import ALONE, Processes, whole
from translucid.training.optimizers import make_optimizer
from translucid.training.parameter_groups import freeze, rate_factors
from translucid.training.recurrent_training import CarriedState


class Average:
    """Exponential moving average of the weights: mean = d * mean + (1 - d) * weights after every
    step n, with d = min(decay, n / (n + 10))."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        # Two lists in the same order, since gathering them takes as long as averaging.
        self._means = list(self.weights.values())
        self._own: list[Tensor] = list(model.parameters())

    @torch.no_grad()
    def update(self) -> None:
        weight = self.next_weight()
        self.steps += 1
        torch._foreach_lerp_(self._means, self._own, weight)

    def next_weight(self) -> float:
        """1 - d for the next step; at first d is smaller, to forget the initial weights."""
        steps = self.steps + 1
        return 1 - min(self.decay, steps / (steps + 10))

    @torch.no_grad()
    def move(self, weight: Tensor) -> None:
        """Update the mean with `weight` = 1 - d, a tensor on the GPU; the caller counts the
        steps."""
        apart = torch._foreach_sub(self._own, self._means)
        torch._foreach_mul_(apart, weight)
        torch._foreach_add_(self._means, apart)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Within the block, the model has the mean weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for mean, own in zip(self._means, self._own, strict=True):
            kept = own.clone()
            own.copy_(mean)
            mean.copy_(kept)


class Best:
    """The best score, and the number of evaluations since then."""

    def __init__(self, criterion: Criterion, patience: int | None) -> None:
        self.criterion, self.patience = criterion, patience
        self.value: float | None = None
        self.loss = math.inf  # of the best, to break ties
        self.waited = 0

    def update(self, value: float, loss: float = 0.0) -> bool:
        better = self.value is None or self._rank(value, loss) > self._rank(self.value, self.loss)
        if better:
            self.value, self.loss = value, loss
        self.waited = 0 if better else self.waited + 1
        return better

    def _rank(self, value: float, loss: float) -> tuple[float, float]:
        return self.criterion.rank({"loss": loss, self.criterion.metric: value})

    @property
    def stalled(self) -> bool:
        return self.patience is not None and self.waited >= self.patience


@dataclass(frozen=True)
class StepPlan:
    """The last step of training, and the position of each step in the schedule of the learning rate
    and of the evaluations. If the last step changes during training, the rest of the schedule is
    stretched or compressed."""

    steps: int  # of the schedule
    end: int
    since: int = 0  # the step at which the end changed, and its place in the schedule
    place: float = 0.0

    def at(self, step: int) -> float:
        """The position of a step in the schedule. Positions are counted in steps of the schedule as
        it was planned."""
        if not self.since:
            return step
        return self.place + (step - self.since) / self.stretch

    @property
    def stretch(self) -> float:
        """The number of training steps for each step of the planned schedule."""
        return max(self.end - self.since, 1) / max(self.steps - self.place, 1e-9)

    def due(self, step: int, every: int) -> bool:
        """Whether an evaluation is due after this step. every: the interval between evaluations, in
        steps of the planned schedule."""
        return int(self.at(step) / every) > int(self.at(step - 1) / every)

    def ending(self, end: int, step: int) -> "StepPlan":
        """The plan from this step on, if training ends at another step."""
        return StepPlan(self.steps, end, step, self.at(step))


NUMBERS = ("step", "batches", "skipped", "seconds", "finished", "unscored", "target_sum")


class State:
    """A network, its optimizers and the progress of training.

    It contains no random generators: each step seeds them from the run's seed and the step.
    """

    def __init__(
        self,
        network: nn.Module,
        config: TrainingConfig,
        processes: Processes = ALONE,
        *,
        criterion: Criterion = Criterion("score"),  # noqa: B008 (frozen)
        rows: int | None = None,
    ) -> None:
        """rows: number of rows of the largest batch, if `training.carry_state` is on."""
        self.network, self.processes = network, processes
        self.limit = math.inf if config.minutes is None else 60 * config.minutes  # of `seconds`
        if next(network.parameters()).is_cuda:
            pad_heads(network)
        freeze(network, config.freeze)
        self._whole = copy.deepcopy(network) if processes.sharded else None
        # Before the optimizers, since it may replace tensors. Captured steps sum gradients
        # themselves.
        captured = config.cuda_graphs is True and not processes.sharded
        self.called = network if captured else processes.wrap(network)
        if rows is not None and not processes.alone:
            raise ConfigError(
                "training.carry_state = true works only in one process; start it without torchrun"
            )
        self.carried = None if rows is None else CarriedState(network, rows)
        self.optimizers = make_optimizer(
            network,
            config.optimizer,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            momentum=config.momentum,
            betas=config.betas,
            decay_embeddings=config.decay_embeddings,
            factors=rate_factors(network, config),
        )
        self._make_moments()
        self.average = Average(network, config.ema) if config.ema is not None else None
        self.best = Best(criterion, config.patience)
        self.plan = StepPlan(config.steps, config.steps)
        self.step = 0  # number of updates
        self.batches = 0  # used for them
        self.skipped = 0  # updates skipped because their gradient was not finite
        self.seconds = 0.0  # in all sessions
        self.finished = False
        self.unscored = False  # the evaluation of this step was interrupted
        self.device = next(network.parameters()).device
        # Since the last log line:
        self.loss_sum, self.target_sum = torch.zeros((), device=self.device), 0

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the state by name (not copies)."""
        tensors = {f"network.{name}": value for name, value in own_tensors(self.network).items()}
        for number, optimizer in enumerate(self.optimizers):
            for place, values in optimizer.state_dict()["state"].items():
                for key, value in values.items():
                    tensors[f"optimizer.{number}.{place}.{key}"] = value
        if self.average is not None:
            tensors |= {f"average.{name}": value for name, value in self.average.weights.items()}
        if self.carried is not None:
            tensors |= {f"carried.{name}": value for name, value in self.carried.tensors().items()}
        return tensors | {"loss_sum": self.loss_sum}

    def numbers(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in NUMBERS} | {
            "best": self.best.value,
            "best_loss": self.best.loss,
            "waited": self.best.waited,
            "average_steps": self.average.steps if self.average is not None else None,
            "plan": [self.plan.end, self.plan.since, self.plan.place],
        }

    def restore(
        self, fill: Callable[[dict[str, Tensor]], None], numbers: Mapping[str, Any]
    ) -> None:
        """Continue from a checkpoint: `fill` restores the tensors in place."""
        fill(self.tensors())
        if self.average is not None:
            self.average.steps = numbers["average_steps"]
        for name, value in ({"unscored": False} | dict(numbers)).items():  # older: no `unscored`
            if name in NUMBERS:
                setattr(self, name, value)
        self.best.value, self.best.waited = numbers["best"], numbers["waited"]
        # Older checkpoints do not have it; in those runs an equal value was not better.
        self.best.loss = numbers.get("best_loss", -math.inf)
        if "plan" in numbers:  # not in older checkpoints
            end, since, place = numbers["plan"]
            self.plan = StepPlan(self.plan.steps, int(end), int(since), float(place))

    def _make_moments(self) -> None:
        """Create the optimizers' tensors by a step of length 0, and set all of them to 0. Without
        this, the tensors would be created only with the first gradient of each parameter."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = 0.0
                for p in group["params"]:
                    p.grad = torch.zeros_like(p)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            for moments in optimizer.state.values():
                for value in moments.values():
                    value.zero_()

    @contextmanager
    def readable(self) -> Iterator[nn.Module]:
        """Within the block, the network that is evaluated and saved. It is not sharded and, if the
        weights are averaged, has the averaged weights."""
        if self._whole is None:
            with self.average.swapped_in() if self.average else nullcontext():
                yield self.network
            return
        means = self.average.weights if self.average is not None else {}
        with torch.no_grad():
            for name, tensor in own_tensors(self._whole).items():
                ours = means.get(name, own_tensors(self.network)[name])
                tensor.copy_(whole(ours))
        yield self._whole


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed the generators that a network on this device uses, and no others: `torch.manual_seed`
    seeds those of all accelerators, even of ones that are initialised later."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    elif device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


@contextmanager
def random_state_kept(device: torch.device | None = None) -> Iterator[None]:
    """Restore all random generators of the process after the block. device: the accelerator in
    use, if any."""
    on_cpu = device is None or device.type == "cpu"
    accelerator = None if on_cpu else torch.get_device_module(device)
    ours, theirs = random.getstate(), np.random.get_state()
    before = torch.get_rng_state()
    there = None if accelerator is None else accelerator.get_rng_state(device)
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(theirs)
        torch.set_rng_state(before)
        if accelerator is not None:
            accelerator.set_rng_state(there, device)
