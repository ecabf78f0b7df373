"""Check once before training that the methods of a user's task return valid values.

Error messages name the file, line and method.
"""

import inspect
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from translucid.core.errors import ConfigError
from translucid.data.records import Record
from translucid.tasks.base import Score, Task
from translucid.tasks.batch import Batch
from translucid.tasks.score import Baseline

FEW = 2  # number of items to check


def check_contract(
    task: Task[Any, Any], network: nn.Module, items: Sequence[Any], valid: Sequence[Any]
) -> None:
    """Raise an error if a method of the task returns something unexpected."""
    few = [items[place] for place in range(min(FEW, len(items)))]
    _is_batch(task, task.collate(few), len(few))
    for count in map(task.targets, few):
        if type(count) is not int or count < 0:
            _refuse(type(task), "targets", count, "a whole number, the number of targets")
    _is_loss(task, network, task.collate(few))
    if valid:
        check_score(task, task.evaluate(network, valid[:FEW]))
        check_baseline(task, task.baseline(few, valid[:FEW]))


def check_encoding(task: Task[Any, Any], record: Any) -> None:
    """Raise an error if `sizes` returns invalid values for an encoded record."""
    sizes = task.sizes(task.encode(record))
    if not isinstance(sizes, tuple) or not sizes or not all(type(n) is int for n in sizes):
        _refuse(type(task), "sizes", sizes, "a tuple of whole numbers, such as (len(item.ids),)")


def check_record(task: type[Task[Any, Any]], record: object) -> None:
    """Raise an error if a record does not derive from `Record`."""
    if not isinstance(record, Record):
        _refuse(task, "read", record, "records that derive from translucid.data.records.Record")


def check_score(task: Task[Any, Any], score: object) -> Score:
    """Raise an error if a score lacks the task's metric."""
    if not isinstance(score, Score):
        _refuse(type(task), "evaluate", score, "a Score, such as tl.Score({'accuracy': 0.5})")
    _has_metric(task, "evaluate", score)
    return score


def check_baseline(task: Task[Any, Any], baseline: object) -> None:
    """Raise an error if a baseline is not a `Baseline` with a valid score."""
    if baseline is None:
        return
    if not isinstance(baseline, Baseline) or not isinstance(baseline.score, Score):
        _refuse(
            type(task), "baseline", baseline,
            f"None, or a tl.Baseline(name, score), such as tl.Baseline('the mean', "
            f"tl.Score({{{task.metric!r}: 0.0}}))",
        )  # fmt: skip
    _has_metric(task, "baseline", baseline.score)


def _has_metric(task: Task[Any, Any], method: str, score: Score) -> None:
    if task.metric not in score.numbers:
        numbers = f"a score with only {', '.join(score.numbers) or 'no numbers'}"
        _refuse(type(task), method, numbers, f"one with {task.metric!r}, the metric of the task")
    for name, value in score.numbers.items():
        if not isinstance(value, Real):
            _refuse(type(task), method, f"{name} = {_kind(value)}", "numbers only, such as 0.5")


def check_metric(task: Task[Any, Any], network: nn.Module, valid: Sequence[Any], name: str) -> None:
    """Raise an error if the task does not compute `training.best_metric`."""
    numbers = task.evaluate(network, valid[:FEW]).numbers
    if name not in numbers:
        raise ConfigError(
            f"training.best_metric = {name!r}: task {task.name} is scored by {', '.join(numbers)}; "
            "choose one of these, or omit the key"
        )


def _is_batch(task: Task[Any, Any], batch: object, rows: int) -> None:
    if not isinstance(batch, Batch):
        _refuse(type(task), "collate", batch, "a tl.Batch(inputs, targets, count, lines)")
    if not isinstance(batch.inputs, dict) or not all(
        isinstance(t, Tensor) and t.dim() and len(t) == rows for t in batch.inputs.values()
    ):
        _refuse(
            type(task), "collate", "other inputs",
            f"a tl.Batch whose inputs are a dict of tensors with one row per item, here {rows}",
        )  # fmt: skip
    if not isinstance(batch.targets, Tensor):
        _refuse(type(task), "collate", batch.targets, "a tl.Batch whose targets are a tensor")
    if type(batch.count) is not int or batch.count < 1:
        _refuse(
            type(task), "collate", batch.count, "a tl.Batch whose count is a whole number above 0"
        )


def _is_loss(task: Task[Any, Any], network: nn.Module, batch: Batch) -> None:
    was_training = network.training
    network.eval()
    try:
        loss = task.loss(network, batch.to(next(network.parameters()).device))
    finally:
        network.train(was_training)
    if not isinstance(loss, Tensor) or loss.dim():
        shape = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else loss
        _refuse(type(task), "loss", shape, "a tensor without axes: the sum over all targets")
    if not loss.requires_grad:
        _refuse(
            type(task), "loss", "a tensor without a gradient",
            "a value computed from the outputs of the model, without .item() or .detach()",
        )  # fmt: skip
    if not bool(torch.isfinite(loss.detach())):
        _refuse(type(task), "loss", f"{float(loss)}", "a finite number before any training")


def _refuse(task: type[Task[Any, Any]], method: str, returned: object, wanted: str) -> NoReturn:
    """Raise an error such as `my_task.py:57 in collate: returned a dict, but must return a
    tl.Batch(...)`."""
    function = inspect.unwrap(getattr(task, method))
    code = function.__code__
    shown = returned if isinstance(returned, str) else _kind(returned)
    raise ConfigError(
        f"{Path(code.co_filename).name}:{code.co_firstlineno} in {method}: returned {shown}, "
        f"but must return {wanted}"
    )


def _kind(value: object) -> str:
    """Describe a value, shortened, with its type."""
    if value is None:
        return "None"
    return f"{value!r:.40} ({type(value).__name__})"
