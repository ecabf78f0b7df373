"""C82: filling a gap with a clue on its left or on its right."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid.models import Network, TransformerConfig, build
from translucid.see import Bars
from translucid.tasks import IGNORE
from translucid_lab import Data, Experiment, Finding
from translucid_lab.claims.markov_chain import train
from translucid_lab.engine.intervals import clearly, median_of
from translucid_lab.engine.verdict import all_hold, average, column, decide, has_learned

FILLERS, CLUES, PLACES = 4, 8, 9
GAP = FILLERS + CLUES  # its id
READERS = ("both sides", "left side only")
SIDES = ("clue on the left", "clue on the right")


def clozes(count: int, side: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random texts of fillers with a gap and a clue. At the gap, the target is the clue's number;
    all other targets are IGNORE. side: on which side of the gap the clue is."""
    ids = torch.randint(FILLERS, (count, PLACES), generator=generator)
    clue = torch.randint(CLUES, (count,), generator=generator)
    near, far = (torch.randint(1, 4, (count,), generator=generator) for _ in range(2))
    gap, place = near + 2, near + 2 + far
    if side == SIDES[0]:
        gap, place = PLACES - 1 - gap, PLACES - 1 - place
    rows = torch.arange(count)
    ids[rows, gap], ids[rows, place] = GAP, clue + FILLERS
    targets = torch.full_like(ids, IGNORE)
    targets[rows, gap] = clue
    return ids, targets


def _cloze(seed: int, quick: bool) -> Data:
    """Accuracy of an encoder and of a causal decoder at filling gaps whose clue is on either
    side."""
    measured = {}
    for reader in READERS:
        generator = torch.Generator().manual_seed(seed)
        net = _reader(reader, seed)

        def batch() -> tuple[Tensor, Tensor]:
            both = [clozes(32, side, generator) for side in SIDES]  # noqa: B023 (used in this round)
            return torch.cat([ids for ids, _ in both]), torch.cat([to for _, to in both])

        train(net, batch, 50 if quick else 200, rate=1e-2)
        measured[reader] = [_filled(net, side, generator) for side in SIDES]
    return measured


def _reader(reader: str, seed: int) -> Network:
    torch.manual_seed(seed)
    return build(
        TransformerConfig(shape="encoder" if reader == "both sides" else "decoder", head="tag",
                          outputs=CLUES, vocab=GAP + 1, d_model=32, heads=2, layers=1, dropout=0.0)
    )  # fmt: skip


@torch.no_grad()
def _filled(net: Network, side: str, generator: torch.Generator) -> float:
    ids, targets = clozes(400, side, generator)
    gaps = targets >= 0
    return float((net(ids).argmax(dim=-1)[gaps] == targets[gaps]).float().mean())


def _judge_cloze(data: Sequence[Data]) -> Finding:
    both, left = ([median_of(column(data, reader, at)) for at in (0, 1)] for reader in READERS)
    why = (
        f"gaps filled right with the clue on the left and on the right: {both[0]} and {both[1]} "
        f"by one who sees both sides, {left[0]} and {left[1]} by one who sees the left (chance "
        f"{1 / CLUES:.3g})"
    )
    return decide(
        {
            "who sees both sides fills gaps from both": all_hold(
                clearly(interval.against(0.9), "above") for interval in both),
            "who sees the left does not from the right": clearly(left[1].against(0.5), "below"),
        },
        why,
        {"both": [side.mean for side in both], "left": [side.mean for side in left]},
        learned={"a masked net that fills gaps": has_learned(column(data, READERS[1], 0), 0.9)},
    )  # fmt: skip


def _draw_cloze(data: Sequence[Data]) -> Bars:
    labels = [f"sees {reader}: {side}" for reader in READERS for side in SIDES]
    values = [value for reader in READERS for value in average(data, reader).tolist()]
    return Bars("Filling a gap whose clue stands left or right", "gaps filled right",
                (*labels, "chance"), np.array([*values, 1 / CLUES]))  # fmt: skip


cloze = Experiment.described("cloze", _cloze, _draw_cloze, {"C82": _judge_cloze})
