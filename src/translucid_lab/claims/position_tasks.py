"""Shared by the experiments on positions: a small Transformer, and tasks in which positions matter.

Shapes: ids and wanted (rows, length). Ids 0 to 7 are symbols, 8 to 15 fillers.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.models import DecoderModel, EncoderModel, Network, Stack, TransformerConfig, build
from translucid.parts import PositionName
from translucid.tasks import IGNORE
from translucid_lab import Data, Interval, column, fit, median_of

SYMBOLS, VOCAB = 8, 16
WIDTH = 32  # d_model
GUESSING = 1 / SYMBOLS
TRAINED, TESTED = 16, 64  # tokens
BACK = 3
DENSITIES = (0.5, 0.25, 0.1, 0.05)  # fraction of letters in a text, for near and far ones
ROWS, RATE = 32, 1.5e-2
STEPS = {True: 120, False: 400}  # quick, or not
INSIDE = slice(BACK, TRAINED)
TWICE, FOUR_TIMES = slice(TRAINED, 2 * TRAINED), slice(2 * TRAINED, 4 * TRAINED)

Texts = tuple[Tensor, Tensor]  # ids, and the target at every position
Task = Callable[[int, int, torch.Generator], Texts]  # rows, length, generator


def small_transformer(
    positions: PositionName,
    layers: int,
    *,
    shape: Literal["encoder", "decoder"] = "decoder",
    outputs: int = SYMBOLS,
    scaling: float = 1.0,
) -> Network:
    """A Transformer with an output at every position, initialised with torch's global generator."""
    return build(
        TransformerConfig(
            shape=shape, head="tag", outputs=outputs, vocab=VOCAB, d_model=WIDTH, heads=4, d_ff=64,
            layers=layers, dropout=0.0, positions=positions, max_length=TESTED,
            rotary_scaling=scaling,
        )
    )  # fmt: skip


def stack(net: Network) -> Stack:
    """The network's stack of embedding, positions and layers."""
    assert isinstance(net, EncoderModel | DecoderModel)
    part = net.encoder if isinstance(net, EncoderModel) else net.decoder
    assert isinstance(part, Stack)
    return part


# ---- tasks ----


def copy_back(rows: int, length: int, generator: torch.Generator) -> Texts:
    """The target is the letter three positions back."""
    ids = torch.randint(SYMBOLS, (rows, length), generator=generator)
    wanted = torch.full_like(ids, IGNORE)
    wanted[:, BACK:] = ids[:, :-BACK]
    return ids, wanted


def latest(rows: int, length: int, generator: torch.Generator) -> Texts:
    """The target is the latest letter, across fillers; the first token is a letter."""
    which = torch.randint(len(DENSITIES), (rows, 1), generator=generator)
    letter = torch.rand(rows, length, generator=generator) < torch.tensor(DENSITIES)[which]
    letter[:, 0] = True
    return _last_letter(letter, generator)


def far_letter(rows: int, length: int, generator: torch.Generator) -> Texts:
    """Like `latest`, with a letter only at the start: at position p, the target is p positions
    back."""
    letter = torch.zeros(rows, length, dtype=torch.bool)
    letter[:, 0] = True
    return _last_letter(letter, generator)


def _last_letter(letter: Tensor, generator: torch.Generator) -> Texts:
    drawn = torch.randint(SYMBOLS, letter.shape, generator=generator)
    places = torch.arange(letter.shape[1])
    last = torch.where(letter, places, 0).cummax(dim=1).values
    return torch.where(letter, drawn, SYMBOLS + drawn), drawn.gather(1, last)


# ---- training and evaluation ----


def train(
    net: Network, task: Task, steps: int, generator: torch.Generator, length: int = TRAINED
) -> None:
    def loss() -> Tensor:
        ids, wanted = task(ROWS, length, generator)
        return F.cross_entropy(net(ids).flatten(0, 1), wanted.flatten(), ignore_index=IGNORE)

    fit(net, loss, steps=steps, learning_rate=RATE, schedule="wsd", cooldown=1 / 3)


def by_place(net: Network, task: Task, seed: int, length: int = TESTED) -> list[float]:
    """Accuracy at every position of new texts; 0 where there is no target."""
    ids, wanted = task(200, length, torch.Generator().manual_seed(10_000 + seed))
    with torch.no_grad():
        right = net.eval()(ids).argmax(dim=-1) == wanted
    return right.double().mean(dim=0).tolist()


def learned(seed: int, positions: PositionName, task: Task, quick: bool) -> Network:
    """A network trained on texts of length TRAINED only."""
    torch.manual_seed(seed)
    net = small_transformer(positions, layers=1 if quick else 2)
    train(net, task, STEPS[quick], torch.Generator().manual_seed(seed))
    return net


# ---- of several seeds ----


def over(data: Sequence[Data], places: slice, *path: str | int) -> list[float]:
    """The mean accuracy over these places, of every seed."""
    length = range(TESTED)[places]
    every = [column(data, *path, place) for place in length]
    return [sum(value) / len(length) for value in zip(*every, strict=True)]


def kept(data: Sequence[Data], places: slice, *path: str | int) -> Interval:
    """How much of what is known above chance inside the trained length is known there."""
    inside, there = over(data, INSIDE, *path), over(data, places, *path)
    return median_of([(b - GUESSING) / max(a - GUESSING, 1e-9)
                    for a, b in zip(inside, there, strict=True)])  # fmt: skip


SAME, OTHER = 1e-9, 1e-3  # in float64: rounding error, and a real difference
