"""Synthetic sequence tasks, and recurrent networks that are trained on them.

Shapes: ids (rows, length); targets (rows,) for one label per text, (rows, length) for one per
position.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from translucid import Batch
from translucid.core import TrainingError
from translucid.models import Network, RecurrentConfig, build
from translucid.parts import CellName
from translucid.tasks import IGNORE, cross_entropy
from translucid.training import OptimizerName
from translucid_lab import FitStep, fit

Draw = Callable[[torch.Generator, int], Batch]  # a batch of this many rows

BETAS = (0.9, 0.98)  # of Adam, the defaults of this library
NEVER_CLIP = 1e30  # larger than any gradient norm
RECENT = 20  # steps of the mean loss that may end training


def batch_of(inputs: Tensor, targets: Tensor, name: str = "ids") -> Batch:
    return Batch({name: inputs}, targets, int((targets != IGNORE).sum()))


def right(logits: Tensor, targets: Tensor) -> float:
    """Accuracy over the targets that are not IGNORE."""
    counts = targets != IGNORE
    return float((logits.argmax(-1) == targets)[counts].double().mean())


@dataclass
class History:
    """Losses and gradient norms of a training run."""

    losses: list[float] = field(default_factory=list)  # by step
    norms: list[float] = field(default_factory=list)  # of the gradient, before clipping
    broke: bool = False  # a gradient was not finite

    @property
    def steps(self) -> int:
        return len(self.losses)


def summed_loss(network: nn.Module, batch: Batch) -> Tensor:
    return cross_entropy(network(**batch.inputs), batch.targets)


def train(
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
    loss: Callable[[nn.Module, Batch], Tensor] = summed_loss,
) -> History:
    """Train in place on new random rows at every step; stop early once the mean of recent losses is
    below `enough`."""
    history = History()
    generator = torch.Generator().manual_seed(seed)

    def drawn() -> Tensor:
        batch = draw(generator, rows)
        return loss(network, batch) / batch.count

    def look(step: FitStep) -> bool:
        history.losses.append(step.loss)
        history.norms.append(step.norm)
        recent = history.losses[-RECENT:]
        return len(recent) == RECENT and sum(recent) < enough * RECENT

    try:
        fit(network, drawn, steps=steps, learning_rate=rate, optimizer=optimizer, betas=BETAS,
            clip_norm=clip, until=look)  # fmt: skip
    except TrainingError:
        history.broke = True
    return history


def accuracy(network: nn.Module, draw: Draw, seed: int) -> float:
    """Accuracy on new rows."""
    new = draw(torch.Generator().manual_seed(seed + 10**6), 512)
    with torch.no_grad():
        return right(network.eval()(**new.inputs), new.targets)


def recurrent_net(
    seed: int,
    cell: CellName,
    *,
    vocab: int,
    outputs: int,
    hidden: int = 32,
    tags: bool = False,
    forget_bias: float = 1.0,
) -> Network:
    """A left-to-right recurrent network with one label per text or per position."""
    torch.manual_seed(seed)
    return build(
        RecurrentConfig(
            shape="encoder", head="tag" if tags else "classify", pooling="last", cell=cell,
            vocab=vocab, outputs=outputs, d_model=hidden, hidden=hidden, dropout=0.0,
            forget_bias=forget_bias,
        )
    )  # fmt: skip


SYMBOLS = 8


def recall(length: int) -> Draw:
    """Random symbols; the target is the first symbol, and all others are noise."""

    def draw(generator: torch.Generator, rows: int) -> Batch:
        ids = torch.randint(SYMBOLS, (rows, length), generator=generator)
        return batch_of(ids, ids[:, 0])

    return draw
