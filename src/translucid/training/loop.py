"""The training loop: one function, without callbacks that change what it computes."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from translucid.core.errors import TrainingError
from translucid.fast.compiled import CompiledLayers
from translucid.tasks.base import Score, Task
from translucid.tasks.batch import Batch
from translucid.tasks.in_batches import reporting
from translucid.training.config import TrainingConfig
from translucid.training.cuda_graphs import Captured
from translucid.training.distributed import whole
from translucid.training.gradients import CapturedUpdate, Gradients, Update
from translucid.training.optimizers import rate
from translucid.training.state import State, StepPlan, seed_generators
from translucid.training.stop_request import StopRequested, leaving

Ending = Literal["steps", "minutes", "patience", "interrupted"]  # why training ended
FIRST_SAVE = 300.0  # seconds after which a session is saved for the first time
ADVICE = "lower training.learning_rate, increase training.warmup, or check those lines"


@dataclass(frozen=True)
class TrainingProgress:
    """Metrics since the last log line."""

    step: int
    loss: float  # per target
    norm: float  # of the gradient, before clipping
    learning_rate: float
    targets: int
    targets_per_second: float
    seconds: float  # since the start
    memory: int | None  # peak bytes so far, of the GPU or else of the process


@dataclass(frozen=True)
class Step:
    """Metrics of one step."""

    step: int
    loss: float  # of this step only, per target
    norm: float  # of the gradient, before clipping
    learning_rate: float
    sizes: list[float]  # the norm of each parameter's gradient, before clipping


@dataclass(frozen=True)
class _Launched:
    """The batches of a step whose gradients are being computed."""

    micro: list[Batch]
    targets: int
    loss: Tensor  # their sum
    prepared: float  # seconds spent on one-time preparation


def _ignore(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Watchers:
    """Callbacks of the training loop, which do not change what it computes."""

    progress: Callable[[TrainingProgress], None] = _ignore
    evaluated: Callable[[nn.Module, Score, bool], None] = _ignore  # the last: best so far?
    save: Callable[[], None] = _ignore  # write the state
    interrupted: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = _ignore
    watches: Callable[[int], bool] = lambda step: False  # whether to call `stepped`
    stepped: Callable[[Step], None] = _ignore
    # (step, whether the model is evaluated after it) -> whether to call `looked` with the network
    looks: Callable[[int, bool], bool] = lambda step, evaluating: False
    looked: Callable[[nn.Module], None] = _ignore
    # After each step: its number and its seconds, without evaluation and one-time preparation.
    ticked: Callable[[int, float], None] = _ignore
    evaluation_took: Callable[[float], None] = _ignore  # seconds


def train(
    state: State,
    task: Task[Any, Any],
    batches: Iterator[Batch],  # endless
    valid: Sequence[Any],
    config: TrainingConfig,
    watchers: Watchers,
    *,
    one_shape: bool = False,
    new_end: Callable[[StepPlan, int, float], int | None] = lambda plan, step, seconds: None,
) -> Ending:
    """Train in place, from the given state.

    one_shape: all batches have the same shape. new_end: called after each step with the plan, the
    number of the step and the seconds since the start; returns the step at which training should
    end, or None to keep it.
    """
    model, device, processes = state.network, state.device, state.processes
    gradients = _gradients(state, task, config, watchers, one_shape)
    parameters = list(model.parameters())
    update = _update(state, config, gradients)
    marked = time.monotonic()
    began = marked - state.seconds
    targets_then = state.target_sum  # trained in an earlier session
    model.train()
    metric = task.criterion(config.best_metric).metric
    if evaluating := state.unscored:
        _evaluate(state, task, valid, metric, watchers)
        if state.unscored:  # evaluation was interrupted again; the checkpoint is unchanged
            return "interrupted"
        late = _late(state, config)
        state.finished = state.step >= state.plan.end or late or state.best.stalled
        watchers.save()
        model.train()
        marked = time.monotonic()
    if watchers.looks(state.step, evaluating):
        look(state, watchers)
        marked = time.monotonic()

    def launch(step: int) -> _Launched:
        # Divide by the targets of the whole step, so that every target has the same weight.
        micro = [next(batches) for _ in range(config.accumulate)]
        targets = sum(batch.count for batch in micro)
        scale = processes.count / max(targets, 1)  # turns the mean over processes into a sum
        before = time.monotonic()
        gradients.prepare(micro)
        prepared = time.monotonic() - before
        seed_step(config.seed, step, device, processes.rank)
        loss = torch.zeros((), device=device)
        for place, batch in enumerate(micro, start=1):
            loss += gradients.add(batch, scale, last=place == len(micro))
        return _Launched(micro, targets, loss, prepared)

    prefetched: _Launched | None = None  # the next step's gradients, which change no weight
    saved, session_began = False, time.monotonic()
    while not state.finished:
        step_began = time.monotonic()
        place = state.plan.at(state.step)
        factor = rate(place, config.schedule, steps=config.steps, warmup=config.warmup)
        learning_rate = config.learning_rate * factor
        launched = prefetched or launch(state.step)
        targets = launched.targets

        watched = watchers.watches(state.step + 1)
        sizes = gradient_sizes(parameters) if watched else None  # before they are clipped
        loss = processes.sum(launched.loss)
        update.take(learning_rate)
        alone = update.waits or _pauses(state.step + 1, state.plan, config)
        prefetched = None if alone else launch(state.step + 1)
        norm = update.norm()
        if math.isfinite(norm):
            state.loss_sum += loss.float()
            state.target_sum += targets
        else:
            _leave_out(state, norm, launched.micro, config, watchers)
        state.step += 1
        state.batches += config.accumulate
        if sizes is not None:
            mean_loss = float(loss) / max(targets, 1)
            watchers.stepped(Step(state.step, mean_loss, norm, learning_rate, sizes.tolist()))

        now = time.monotonic()
        state.seconds = now - began
        last = state.step >= state.plan.end or _late(state, config)
        if state.step % config.log_every == 0 or last:
            speed = (state.target_sum - targets_then) / max(now - marked, 1e-9)
            watchers.progress(
                TrainingProgress(
                    step=state.step,
                    loss=float(state.loss_sum) / max(state.target_sum, 1),
                    norm=norm,
                    learning_rate=learning_rate,
                    targets=state.target_sum,
                    targets_per_second=speed,
                    seconds=state.seconds,
                    memory=peak_memory(device),
                )
            )
            state.loss_sum.zero_()
            marked, state.target_sum, targets_then = now, 0, 0
        evaluating = state.plan.due(state.step, config.evaluate_every) or last
        if evaluating:
            _evaluate(state, task, valid, metric, watchers)
        if watchers.looks(state.step, evaluating):
            look(state, watchers)
        state.finished = (last or state.best.stalled) and not state.unscored
        unsaved = not saved and time.monotonic() - session_began > FIRST_SAVE
        interrupted, overdue = processes.any_of(watchers.interrupted(), unsaved)
        due = evaluating if config.save_every is None else state.step % config.save_every == 0
        if due or overdue or interrupted or state.finished:
            state.seconds = time.monotonic() - began
            watchers.save()
            saved = True
        if prefetched is not None and (interrupted or state.finished):
            gradients.clear(state.optimizers)
        if interrupted and not state.finished:
            return "interrupted"
        prepared = launched.prepared if prefetched is None else prefetched.prepared
        watchers.ticked(state.step, max(now - step_began - prepared, 0.0))
        if not state.finished and (
            end := new_end(state.plan, state.step, time.monotonic() - began)
        ):
            state.plan = state.plan.ending(end, state.step)
        marked += time.monotonic() - now  # evaluation and saving do not count as training
    return _ending(state)


def _late(state: State, config: TrainingConfig) -> bool:
    """Whether the time limit has passed in any process."""
    if config.minutes is None:
        return False
    return state.processes.any(state.seconds > state.limit)


def _pauses(step: int, plan: StepPlan, config: TrainingConfig) -> bool:
    """Whether the loop evaluates, saves or ends after this step."""
    saves = config.save_every is not None and step % config.save_every == 0
    return step >= plan.end or plan.due(step, config.evaluate_every) or saves


def _ending(state: State) -> Ending:
    """Why a run ended, possibly in an earlier session."""
    if state.step >= state.plan.end:
        return "steps"
    return "patience" if state.best.stalled else "minutes"


def _evaluate(
    state: State, task: Task[Any, Any], valid: Sequence[Any], metric: str, watchers: Watchers
) -> None:
    """Score the network on the validation data; skip the score if a stop is requested."""
    began = time.monotonic()
    with state.readable() as network:
        score = None
        with suppress(StopRequested), leaving(watchers.interrupted), reporting(watchers.say):
            score = task.evaluate(network, valid)
        state.unscored = state.processes.any(score is None)
        if score is not None and not state.unscored:
            value = state.processes.agree(score.numbers[metric])
            valid_loss = state.processes.agree(score.numbers.get("loss", 0.0))
            watchers.evaluated(network, score, state.best.update(value, valid_loss))
            watchers.evaluation_took(time.monotonic() - began)


def _gradients(
    state: State,
    task: Task[Any, Any],
    config: TrainingConfig,
    watchers: Watchers,
    one_shape: bool,
) -> Gradients:
    layers = None
    if config.compile is True:
        layers = CompiledLayers(state.network, watchers.say, one_shape=one_shape)
    if config.cuda_graphs is True:
        return Captured(state.network, task, config, state.device, layers, state.processes)
    called = state.called if state.carried is None else state.carried
    return Gradients(called, task, config, state.device, state.processes, layers)


def _update(state: State, config: TrainingConfig, gradients: Gradients) -> Update:
    captured = config.cuda_graphs is True and CapturedUpdate.fits(state)
    kind = CapturedUpdate if captured else Update
    return kind(state, config, lambda: gradients.clear(state.optimizers))


def gradient_sizes(parameters: Sequence[nn.Parameter]) -> Tensor:
    """The gradient norm of each parameter, 0 without a gradient: (parameters,)."""
    gradients = [p.grad.detach() for p in parameters if p.grad is not None]
    norms = iter(torch._foreach_norm(gradients) if gradients else ())
    zero = torch.zeros((), device=parameters[0].device)
    return torch.stack([zero if p.grad is None else whole(next(norms)).float() for p in parameters])


def look(state: State, watchers: Watchers) -> None:
    """Call `watchers.looked` with the network as it would be saved now. All processes must call
    this function."""
    training = state.network.training
    with state.readable() as network:
        network.eval()
        watchers.looked(network)
    state.network.train(training)


def seed_step(seed: int, step: int, device: torch.device, process: int = 0) -> None:
    """Seed the generators for a step, so that a resumed run draws the same numbers."""
    words = np.random.SeedSequence((seed, step, process)).generate_state(1, np.uint64)
    seed_generators(int(words[0]), device)


def _leave_out(
    state: State, norm: float, micro: Sequence[Batch], config: TrainingConfig, watchers: Watchers
) -> None:
    """Handle a gradient that is not finite: skip the step or, if too many steps were skipped
    before, save the run and raise an error."""
    bad = _not_finite(state.step, norm, micro)
    if state.skipped >= config.skip_bad_batches:
        watchers.save()
        raise TrainingError(f"{bad}; {ADVICE}")
    state.skipped += 1
    if state.carried is not None:  # it may contain NaN
        state.carried.reset()
    watchers.say(f"{bad}: skipped, {state.skipped} so far")


def peak_memory(device: torch.device) -> int | None:
    """Peak memory in bytes, if the system reports it."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _not_finite(step: int, norm: float, micro: Sequence[Batch]) -> str:
    lines = sorted({line for batch in micro for line in batch.lines})
    shown = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
    return f"step {step}: the gradient norm is {norm} (lines {shown} of the training data)"
