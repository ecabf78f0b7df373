"""Made-up sequences to practise on, and the library's own training loop to practise with.

Shapes: ids (rows, length); targets (rows,) for one label of a text, (rows, length) for one at each
place.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from translucid.errors import TrainingError
from translucid.models import Network, RecurrentConfig, build
from translucid.parts.recurrent_kernel import CellName
from translucid.tasks.base import IGNORE, Batch, Score, Task, TaskName, cross_entropy
from translucid.training.config import TrainingConfig
from translucid.training.optim import OptimizerName
from translucid.training.state import State
from translucid.training.trainer import Progress, Watchers, train

Draw = Callable[[torch.Generator, int], Batch]  # so many rows, made of these random numbers

NEVER_CLIP = 1e30  # the loop always clips; no gradient that it takes is as long as this
RECENT = 20  # steps whose mean loss says whether a net has learned enough


def batch_of(inputs: Tensor, targets: Tensor, name: str = "ids") -> Batch:
    return Batch({name: inputs}, targets, int((targets != IGNORE).sum()))


class Drill(Task[Any, Batch]):
    """Whole batches that need no tokenizer, no padding and no plan; labels for texts or places."""

    name: ClassVar[TaskName] = "classify"
    metric = "accuracy"
    higher_is_better = True

    def encode(self, record: Batch) -> Batch:
        return record

    def sizes(self, item: Batch) -> tuple[int, ...]:
        return tuple(item.targets.shape)

    def targets(self, item: Batch) -> int:
        return item.count

    def shorten(self, item: Batch, longest: int) -> Batch:
        return item

    def collate(self, items: Sequence[Batch]) -> Batch:
        (item,) = items
        return item

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(self.answers(model, batch), batch.targets)

    def answers(self, model: nn.Module, batch: Batch) -> Tensor:
        """Logits, with one more axis than the targets."""
        logits: Tensor = model(**batch.inputs)
        return logits

    def evaluate(self, model: nn.Module, items: Sequence[Batch]) -> Score:
        was_training = model.training
        model.eval()
        with torch.no_grad():
            found = [right(self.answers(model, item), item.targets) for item in items]
        model.train(was_training)
        return Score({"accuracy": sum(found) / len(found)})


def right(logits: Tensor, targets: Tensor) -> float:
    """The share of targets that are the likeliest class."""
    counts = targets != IGNORE
    return float((logits.argmax(-1) == targets)[counts].double().mean())


@dataclass
class Practice:
    """What became of a net."""

    accuracy: float = 0.0  # on new rows
    losses: list[float] = field(default_factory=list)  # by step
    norms: list[float] = field(default_factory=list)  # of the gradient, before clipping
    broke: bool = False  # a gradient was no number any more

    @property
    def steps(self) -> int:
        return len(self.losses)


def practise(
    network: nn.Module,
    draw: Draw,
    *,
    seed: int,
    steps: int,
    rate: float = 3e-3,
    clip: float = 1.0,
    optimizer: OptimizerName = "adam",
    rows: int = 32,
    enough: float = 0.0,
    task: Drill | None = None,
) -> Practice:
    """Train in place on rows that are drawn anew at every step, then count on new ones. It ends
    before the last step once the loss was below `enough` for a while."""
    config = TrainingConfig(
        steps=steps, optimizer=optimizer, learning_rate=rate, schedule="constant", warmup=0,
        weight_decay=0.0, momentum=0.0, clip_norm=clip, evaluate_every=steps + 1, log_every=1,
        seed=seed, device="cpu",
    )  # fmt: skip
    task, found = task or Drill(), Practice()
    recent: deque[float] = deque(maxlen=RECENT)

    def watch(progress: Progress) -> None:
        found.losses.append(progress.loss)
        found.norms.append(progress.norm)
        recent.append(progress.loss)

    watchers = Watchers(
        progress=watch,
        interrupted=lambda: len(recent) == RECENT and sum(recent) < enough * RECENT,
    )
    chance = torch.Generator().manual_seed(seed)
    new = [draw(torch.Generator().manual_seed(seed + 10**6), 512)]
    try:
        train(State(network, config), task, _endless(draw, chance, rows), new, config, watchers)
    except TrainingError:
        found.broke = True
    found.accuracy = task.evaluate(network, new).numbers["accuracy"]
    return found


def _endless(draw: Draw, chance: torch.Generator, rows: int) -> Iterator[Batch]:
    while True:
        yield draw(chance, rows)


def reader(
    seed: int,
    cell: CellName,
    *,
    vocab: int,
    outputs: int,
    hidden: int = 32,
    tags: bool = False,
    forget_bias: float = 1.0,
) -> Network:
    """A recurrent net from left to right, with one label at its end or one at each place."""
    torch.manual_seed(seed)
    return build(
        RecurrentConfig(
            shape="encoder", head="tag" if tags else "classify", pooling="last", cell=cell,
            vocab=vocab, outputs=outputs, d_model=hidden, hidden=hidden, dropout=0.0,
            forget_bias=forget_bias,
        )
    )  # fmt: skip


# ---- what to practise ----

SYMBOLS = 8


def recall(length: int) -> Draw:
    """Which symbol stood first? All others are noise."""

    def draw(chance: torch.Generator, rows: int) -> Batch:
        ids = torch.randint(SYMBOLS, (rows, length), generator=chance)
        return batch_of(ids, ids[:, 0])

    return draw
