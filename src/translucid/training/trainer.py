"""The training loop: one function, top to bottom, no callbacks that change what it computes."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn

from translucid.errors import TrainingError
from translucid.recipe import Config
from translucid.tasks.base import Batch, Score, Task
from translucid.training.optim import OptimizerName, ScheduleName, make_optimizer, rate


class TrainingConfig(Config):
    """How to train: what the loop and the optimizer need to know."""

    steps: int = Field(default=2000, gt=0)  # updates of the weights
    minutes: float | None = Field(default=None, gt=0)  # stop after this time even if steps are left
    batch_tokens: int = Field(default=4096, gt=0)  # tokens in a batch, padding counted
    accumulate: int = Field(default=1, gt=0)  # batches per update
    optimizer: OptimizerName = "adamw"
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: ScheduleName = "cosine"
    warmup: int = Field(default=100, ge=0)  # steps
    weight_decay: float = Field(default=0.01, ge=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)  # of sgd
    clip_norm: float = Field(default=1.0, gt=0)  # longer gradients are cut to this length
    precision: Literal["float32", "bfloat16"] = "float32"
    ema: float | None = Field(default=None, gt=0, lt=1)  # average the weights with this memory
    evaluate_every: int = Field(default=500, gt=0)
    patience: int | None = Field(default=None, gt=0)  # stop after this many evaluations not better
    log_every: int = Field(default=20, gt=0)
    seed: int = Field(default=0, ge=0)
    device: str = "auto"  # auto, cpu, cuda, cuda:1


@dataclass(frozen=True)
class Progress:
    """One line of the journal: what happened since the last."""

    step: int
    loss: float  # per target
    norm: float  # of the gradient, before clipping
    learning_rate: float
    targets_per_second: float
    seconds: float  # since the start


@dataclass(frozen=True)
class Watchers:
    """Who may look on, and be told; nobody here changes what is computed."""

    progress: Callable[[Progress], None]
    evaluated: Callable[[int, Score, bool], None]  # step, score, whether it is the best so far
    interrupted: Callable[[], bool] = lambda: False


def train(
    model: nn.Module,
    task: Task[Any, Any],
    batches: Iterator[Batch],  # endless
    valid: Sequence[Any],
    config: TrainingConfig,
    watchers: Watchers,
) -> int:
    """Train in place and return the number of steps taken; `evaluated` is told when to save."""
    device = next(model.parameters()).device
    optimizers = make_optimizer(
        model,
        config.optimizer,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        momentum=config.momentum,
    )
    average = Average(model, config.ema) if config.ema is not None else None
    best = Best(task.higher_is_better, config.patience)
    began = marked = time.monotonic()
    loss_sum, target_sum = torch.zeros((), device=device), 0
    model.train()

    for step in range(config.steps):
        share = rate(step, config.schedule, steps=config.steps, warmup=config.warmup)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate * share

        # Divide by the targets of the whole step: batches of unequal length weigh as they should.
        micro = [next(batches).to(device) for _ in range(config.accumulate)]
        targets = sum(batch.count for batch in micro)
        for batch in micro:
            with _precision(config, device):
                loss = task.loss(model, batch)
            (loss / max(targets, 1)).backward()
            loss_sum += loss.detach()
        target_sum += targets

        norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        if not torch.isfinite(norm):
            raise TrainingError(_not_finite(step, float(norm), micro))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if average is not None:
            average.update(model)

        done, now = step + 1, time.monotonic()
        out_of_time = config.minutes is not None and now - began > 60 * config.minutes
        last = done == config.steps or out_of_time or watchers.interrupted()
        if done % config.log_every == 0 or last:
            speed = target_sum / max(now - marked, 1e-9)
            mean = float(loss_sum) / max(target_sum, 1)
            watchers.progress(
                Progress(done, mean, float(norm), config.learning_rate * share, speed, now - began)
            )
            loss_sum.zero_()
            marked, target_sum = now, 0
        if done % config.evaluate_every == 0 or last:
            with average.swapped_in(model) if average is not None else nullcontext():
                score = task.evaluate(model, valid)
                watchers.evaluated(done, score, best.update(score.numbers[task.metric]))
            marked = time.monotonic()  # the time of an evaluation is not the time of training
        if last or best.stalled:
            break
    return done


class Best:
    """Remembers the best score, and for how many evaluations nothing better came."""

    def __init__(self, higher_is_better: bool, patience: int | None) -> None:
        self.sign = 1 if higher_is_better else -1
        self.value: float | None = None
        self.waited, self.patience = 0, patience

    def update(self, value: float) -> bool:
        better = self.value is None or self.sign * value > self.sign * self.value
        self.value = value if better else self.value
        self.waited = 0 if better else self.waited + 1
        return better

    @property
    def stalled(self) -> bool:
        return self.patience is not None and self.waited >= self.patience


class Average:
    """A running mean of the weights, for evaluation: steadier than the last step's."""

    def __init__(self, model: nn.Module, memory: float) -> None:
        self.memory, self.steps = memory, 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model: nn.Module) -> None:
        self.steps += 1
        memory = min(self.memory, self.steps / (self.steps + 10))  # a young mean forgets its start
        with torch.no_grad():
            for name, p in model.named_parameters():
                self.weights[name].lerp_(p, 1 - memory)

    def swapped_in(self, model: nn.Module) -> "_Swap":
        return _Swap(model, self.weights)


class _Swap:
    """Within the block the model has other weights; afterwards its own."""

    def __init__(self, model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
        self.model, self.weights = model, weights

    def _swap(self) -> None:
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                kept = p.clone()
                p.copy_(self.weights[name])
                self.weights[name] = kept

    def __enter__(self) -> None:
        self._swap()

    def __exit__(self, *_: object) -> None:
        self._swap()


def _precision(config: TrainingConfig, device: torch.device) -> Any:
    if config.precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def _not_finite(step: int, norm: float, micro: Sequence[Batch]) -> str:
    lines = sorted({line for batch in micro for line in batch.lines})
    shown = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
    return (
        f"step {step}: the gradient norm is {norm} (lines {shown} of the training data); lower "
        f"training.learning_rate, lengthen training.warmup, or look at those lines"
    )
