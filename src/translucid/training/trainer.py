"""The training loop: one function, top to bottom, no callbacks that change what it computes."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from translucid.errors import TrainingError
from translucid.recipe import Config, key
from translucid.tasks.base import Batch, Score, Task
from translucid.training.optim import OptimizerName, ScheduleName, make_optimizer, rate


class TrainingConfig(Config):
    """How to train: what the loop and the optimizer need to know."""

    steps: int = key(2000, "updates of the weights", gt=0)
    minutes: float | None = key(None, "stop after this time even if steps are left", gt=0)
    batch_tokens: int = key(4096, "tokens in a batch, padding counted", gt=0)
    accumulate: int = key(1, "batches per update", gt=0)
    optimizer: OptimizerName = key("adamw", "how a gradient becomes a step")
    learning_rate: float = key(1e-3, "length of the longest steps", gt=0)
    schedule: ScheduleName = key("cosine", "how the learning rate goes down")
    warmup: int = key(100, "steps in which the learning rate goes up", ge=0)
    weight_decay: float = key(0.01, "share of learning_rate by which weights shrink", ge=0)
    momentum: float = key(0.9, "of sgd", ge=0, lt=1)
    clip_norm: float = key(1.0, "longer gradients are cut to this length", gt=0)
    precision: Literal["float32", "bfloat16"] = key(
        "float32", "of the products; weights stay float32"
    )
    compile: bool = key(False, "fuse the model's kernels with torch.compile before training")
    ema: float | None = key(None, "average the weights with this memory, such as 0.999", gt=0, lt=1)
    evaluate_every: int = key(500, "steps between two looks at the validation data", gt=0)
    patience: int | None = key(None, "stop after this many evaluations without a better one", gt=0)
    keep_best: int = key(1, "models to keep; above 1, as checkpoints/step-N", gt=0)
    average_best: bool = key(False, "try the mean of the kept models' weights as best model")
    log_every: int = key(20, "steps between two lines of progress", gt=0)
    tensorboard: bool = key(False, "also write the curves for TensorBoard")
    seed: int = key(0, "of weights, order and dropout", ge=0)
    device: str = key("auto", "auto, cpu, cuda, cuda:1")


@dataclass(frozen=True)
class Progress:
    """One line of the journal: what happened since the last."""

    step: int
    loss: float  # per target
    norm: float  # of the gradient, before clipping
    learning_rate: float
    targets_per_second: float
    seconds: float  # since the start
    memory: int | None  # bytes at the highest point so far, of the GPU or else of the process


@dataclass(frozen=True)
class Watchers:
    """Who may look on, and be told; nobody here changes what is computed."""

    progress: Callable[[Progress], None]
    evaluated: Callable[[int, Score, bool], None]  # step, score, whether it is the best so far
    interrupted: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = lambda line: None


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
    called = Compiled(model, watchers.say) if config.compile else model
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
                loss = task.loss(called, batch)
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
            lr, memory = config.learning_rate * share, peak_memory(device)
            watchers.progress(Progress(done, mean, float(norm), lr, speed, now - began, memory))
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


class Compiled(nn.Module):
    """The same model through torch.compile. Where that cannot work (no compiler, say) the first
    call finds out, says so, and the plain model goes on."""

    def __init__(self, model: nn.Module, say: Callable[[str], None]) -> None:
        super().__init__()
        self._call: Callable[..., torch.Tensor] = self._first_call
        self._plain, self._say = [model], say  # in a list: its weights belong to one module only

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return self._call(**inputs)

    def _first_call(self, **inputs: torch.Tensor) -> torch.Tensor:
        fast = torch.compile(self._plain[0].forward, dynamic=True)
        try:
            outputs = fast(**inputs)
            self._call = fast
        except Exception as error:
            outputs = self._plain[0](**inputs)  # a fault of the model itself shows here
            self._call = self._plain[0].__call__
            reason = str(error).strip().splitlines()[0][:200]
            self._say(f"torch.compile does not work here, going on without ({reason})")
        return outputs


def peak_memory(device: torch.device) -> int | None:
    """Bytes at the highest point so far, where the system tells."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


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
