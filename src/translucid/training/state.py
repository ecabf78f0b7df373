"""Everything that changes during training, which a checkpoint stores and a resume restores:
weights, their exponential moving average, the optimizer, the random generators."""

import copy
import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
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
from translucid.training.optimisers import make_optimizer
from translucid.training.parameter_groups import freeze, rate_factors
from translucid.training.recurrent_training import CarriedState


class Average:
    """mean = d * mean + (1 - d) * weights after every step n, d = min(decay, n / (n + 10))."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        # Two lists in the same order; to gather them anew would take as long as to average.
        self._means = list(self.weights.values())
        self._own: list[Tensor] = list(model.parameters())

    @torch.no_grad()
    def update(self) -> None:
        weight = self.next_weight()
        self.steps += 1
        torch._foreach_lerp_(self._means, self._own, weight)

    def next_weight(self) -> float:
        """1 - d of the next step."""
        steps = self.steps + 1
        return 1 - min(self.decay, steps / (steps + 10))  # a young mean forgets its start

    @torch.no_grad()
    def move(self, weight: Tensor) -> None:
        """The same by a weight that the GPU knows; steps are counted by the caller."""
        apart = torch._foreach_sub(self._own, self._means)
        torch._foreach_mul_(apart, weight)
        torch._foreach_add_(self._means, apart)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Within the block the model has the mean weights; afterwards its own."""
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
    """Remembers the best score, and for how many evaluations nothing better came."""

    def __init__(self, criterion: Criterion, patience: int | None) -> None:
        self.criterion, self.patience = criterion, patience
        self.value: float | None = None
        self.loss = math.inf  # of the best, which decides between equal values
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


class State:
    """A network, its optimizers, and how far they have come.

    Random draws are not here: each step seeds the generators anew, from the run's seed and the
    step, so that they do not depend on what was drawn before.
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
        """rows: of the largest batch, if the state of a recurrent network is carried from one to
        the next."""
        self.network, self.processes = network, processes
        if next(network.parameters()).is_cuda:
            pad_heads(network)
        freeze(network, config.freeze)
        self._whole = copy.deepcopy(network) if processes.sharded else None
        # Before the optimizers: it may change the tensors. Captured steps exchange by themselves.
        captured = config.cuda_graphs is True and not processes.sharded
        self.called = network if captured else processes.wrap(network)
        if rows is not None and not processes.alone:
            raise ConfigError(
                "training.carry_state = true is for one process, not several; leave out torchrun"
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
        self.step = 0  # updates done
        self.batches = 0  # taken for them
        self.skipped = 0  # updates left out, since their gradient was not finite
        self.seconds = 0.0  # spent so far, in all sittings
        self.finished = False
        self.unscored = False  # the evaluation that this step is due was left
        self.device = next(network.parameters()).device
        # Since the last line of progress:
        self.loss_sum, self.target_sum = torch.zeros((), device=self.device), 0

    def tensors(self) -> dict[str, Tensor]:
        """By name; they are the state itself, not copies."""
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
        return {
            "step": self.step,
            "batches": self.batches,
            "skipped": self.skipped,
            "seconds": self.seconds,
            "finished": self.finished,
            "unscored": self.unscored,
            "best": self.best.value,
            "best_loss": self.best.loss,
            "waited": self.best.waited,
            "target_sum": self.target_sum,
            "average_steps": self.average.steps if self.average is not None else None,
        }

    def put_back(
        self, fill: Callable[[dict[str, Tensor]], None], numbers: Mapping[str, Any]
    ) -> None:
        """Continue from a checkpoint: `fill` writes the tensors as they were, in place."""
        fill(self.tensors())
        if self.average is not None:
            self.average.steps = numbers["average_steps"]
        self.step, self.batches = numbers["step"], numbers["batches"]
        self.skipped = numbers["skipped"]
        self.seconds, self.finished = numbers["seconds"], numbers["finished"]
        self.unscored = numbers.get("unscored", False)  # not in older checkpoints
        self.best.value, self.best.waited = numbers["best"], numbers["waited"]
        # Older runs did not note it: then an equal value is not better, as it was with them.
        self.best.loss = numbers.get("best_loss", -math.inf)
        self.target_sum = numbers["target_sum"]

    def _make_moments(self) -> None:
        """Optimizers make their tensors when a parameter first has a gradient, in an ensemble at
        any time: take a step of length 0, and undo what it has counted."""
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
        """The network to evaluate and keep: the average if there is one, and whole."""
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
    """Seed the generators that a network on this device draws from, and no others.

    `torch.manual_seed` seeds those of all accelerators, also of one that is not in use yet: then as
    soon as it is, behind the back of whoever uses it first.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    elif device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


@contextmanager
def random_state_kept(device: torch.device | None = None) -> Iterator[None]:
    """Whatever is drawn or seeded inside, afterwards all generators of the process go on as if
    nothing had been. `device`: the one in use, if it is not the CPU."""
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
