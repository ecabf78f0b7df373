"""The contract between a task and the loop that trains for it.

A task turns records into items (token ids, once), items into batches (tensors), and a batch into a
loss. The loss is a SUM over targets and `Batch.count` says over how many, so the loop can divide by
the targets of a whole step: accumulation and several processes then train as one large batch does.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from translucid.data.batching import plan_batches
from translucid.errors import ConfigError, InputError
from translucid.models.autoregressive import GenerationInputs

TaskName = Literal["regress", "language", "classify", "tag", "translate"]

IGNORE = -100  # a target that does not count: padding, or a subword that carries no tag

Record = TypeVar("Record")
Item = TypeVar("Item")


@dataclass(frozen=True)
class Batch:
    """What the model is called with, and what it should have said."""

    inputs: dict[str, Tensor]
    targets: Tensor
    count: int  # targets that count
    lines: tuple[int, ...] = ()  # where the items stand in their file, for messages
    idle: bool = False  # its loss does not count: only there to keep step with other processes

    def to(self, device: torch.device) -> "Batch":
        """On a device. A GPU copies from pinned memory while the CPU goes on."""
        aside = device.type == "cuda"
        inputs = {name: t.to(device, non_blocking=aside) for name, t in self.inputs.items()}
        return replace(self, inputs=inputs, targets=self.targets.to(device, non_blocking=aside))


@dataclass(frozen=True)
class Score:
    """How well a model does: named numbers, and notes such as a metric's signature."""

    numbers: dict[str, float]
    notes: tuple[str, ...] = ()

    def line(self) -> str:
        return "  ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())


class Task(ABC, Generic[Record, Item]):
    """One task, with the vocabulary and labels it was given."""

    name: ClassVar[TaskName]
    metric: ClassVar[str]  # the number in Score that chooses the best model
    higher_is_better: ClassVar[bool]

    @abstractmethod
    def encode(self, record: Record) -> Item:
        """Token ids of one record."""

    @abstractmethod
    def sizes(self, item: Item) -> tuple[int, ...]:
        """How many tokens the item takes on each side, for batching."""

    @abstractmethod
    def targets(self, item: Item) -> int:
        """How many targets of the item count."""

    @abstractmethod
    def shorten(self, item: Item, longest: int) -> Item:
        """The beginning of an item, no side above `longest` tokens, ended as items end."""

    def split(self, item: Item, longest: int) -> list[Item]:
        """The parts of a long item, where each can be learnt from by itself."""
        raise ConfigError(
            f"data.long = 'split': half an example of task {self.name} has no target of its own; "
            "choose truncate or skip"
        )

    @abstractmethod
    def collate(self, items: Sequence[Item]) -> Batch:
        """The items as padded tensors."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The summed loss of a batch."""

    @abstractmethod
    def evaluate(self, model: nn.Module, items: Sequence[Item]) -> Score:
        """Scores on held-out items."""


class LazyItems(Sequence[Item]):
    """Items that are made when they are asked for; their sizes are known before."""

    sizes: NDArray[np.int64]  # (items, sides)


def sizes_of(task: Task[Any, Item], items: Sequence[Item]) -> NDArray[np.int64]:
    """What batches are planned with. (items, sides)"""
    if isinstance(items, LazyItems):
        return items.sizes
    sizes = np.array([task.sizes(item) for item in items], dtype=np.int64)
    return sizes.reshape(len(items), -1) if len(items) else sizes.reshape(0, 1)


def cross_entropy(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, never: Sequence[int] = ()
) -> Tensor:
    """-Σ log p(target), over the targets that are not IGNORE.

    Smoothing spreads that share of the target's mass over all classes but those in `never`: a
    word that no model may write, such as padding, gets none.
    """
    logits = logits.flatten(0, -2).float()  # (targets, classes)
    targets = targets.flatten()
    if smoothing == 0:
        return F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
    # -log p(class) = log Z - logit(class) for every class. No index by a mask or a list, which
    # would make a GPU wait for the CPU.
    counts = targets != IGNORE
    log_z = logits.logsumexp(dim=-1)
    said = logits.gather(1, targets.clamp(min=0)[:, None])[:, 0]
    allowed = logits.sum(dim=-1)
    for column in never:
        allowed = allowed - logits[:, column]
    hard = log_z - said
    soft = log_z - allowed / (logits.shape[-1] - len(never))
    return (((1 - smoothing) * hard + smoothing * soft) * counts).sum()


def given(batch: Batch) -> tuple[list[list[int]], GenerationInputs | None]:
    """The prefixes of a batch without their padding, and the sources."""
    inputs = batch.inputs
    if "source" in inputs:
        ids, real = inputs["target"], inputs["target_real"]
        sources = GenerationInputs.of(inputs["source"], inputs["source_real"])
    else:
        ids, sources = inputs["ids"], None
        real = inputs.get("real", torch.ones_like(ids, dtype=torch.bool))
    return [row[kept].tolist() for row, kept in zip(ids, real, strict=True)], sources


def check_length(tokens: int, longest: int | None, where: str) -> None:
    """Refuse what is longer than the positions that a model has learned."""
    if longest is not None and tokens > longest:
        raise InputError(
            f"{where}: {tokens:,} tokens, but this model has learned {longest:,} positions; "
            "shorten the text, or train a model with a larger model.max_length or with "
            "model.positions = rotary, sinusoidal or alibi"
        )


@torch.no_grad()
def in_batches(
    model: nn.Module,
    items: Sequence[Item],
    task: Task[Any, Item],
    act: Callable[[Batch], Sequence[Any]],
    batch_tokens: int = 8192,
) -> list[Any]:
    """One result per item, in the order of the items, computed longest first in few batches."""
    if not items:
        return []
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    results: list[Any] = [None] * len(items)
    sizes = sizes_of(task, items)
    budget = max(batch_tokens, int(sizes.sum(axis=1).max()))  # one long item must fit alone
    for places in plan_batches(sizes, budget, shuffle=False).batches:
        batch = task.collate([items[i] for i in places]).to(device)
        for place, result in zip(places, act(batch), strict=True):
            results[place] = result
    model.train(was_training)
    return results


def summed_loss(model: nn.Module, items: Sequence[Item], task: Task[Any, Item]) -> float:
    """-Σ log p(target) over all items, without smoothing: what perplexity is made of."""

    def act(batch: Batch) -> list[float]:
        total = float(cross_entropy(model(**batch.inputs), batch.targets))
        return [total] + [0.0] * (len(batch.lines) - 1)  # put on the first item of the batch

    return float(sum(in_batches(model, items, task, act)))
