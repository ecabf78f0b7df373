"""C33: attention without positions."""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.models import Network
from translucid.see import Bars
from translucid_lab import Data, Experiment, Finding, average, by_case, column, median_of
from translucid_lab.claims.position_tasks import (
    OTHER,
    ROWS,
    SAME,
    VOCAB,
    Texts,
    small_transformer,
    train,
)

PLACES = 8
MASKS = ("no mask", "causal mask")  # of an encoder, of a decoder
NO_BETTER, BETTER = 1.5, 2.0  # times the accuracy of guessing


def _order(seed: int, quick: bool) -> Data:
    """Measure two things without positions: how much a token's output changes when the text is
    shuffled, and how well a trained network predicts the position of a token."""
    measured: dict[str, list[float]] = {"change": [], "told": []}
    for causal in (False, True):
        torch.manual_seed(seed)
        net = small_transformer("none", 2, shape="decoder" if causal else "encoder", outputs=PLACES)
        measured["change"].append(_shuffle_change(net.double(), seed))
        measured["told"].append(_place_accuracy(net.float(), seed, 60 if quick else 300))
    return measured


def _shuffle_change(net: Network, seed: int) -> float:
    """Largest change of a token's output when the tokens of its text are shuffled."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCAB, (ROWS, PLACES), generator=generator)
    order = torch.randperm(PLACES, generator=generator)
    with torch.no_grad():
        outputs, shuffled = net.eval()(ids), net(ids[:, order])
    return float((outputs[:, order] - shuffled).abs().max())


def own_place(rows: int, length: int, generator: torch.Generator) -> Texts:
    """Random tokens; the target at each is its own position. The first token is always the same."""
    ids = 1 + torch.randint(VOCAB - 1, (rows, PLACES), generator=generator)
    ids[:, 0] = 0
    return ids, torch.arange(PLACES).expand(rows, -1)


def _place_accuracy(net: Network, seed: int, steps: int) -> float:
    """Accuracy of the predicted positions, except the first."""
    train(net.train(), own_place, steps, torch.Generator().manual_seed(seed))
    ids, wanted = own_place(500, PLACES, torch.Generator().manual_seed(10_000 + seed))
    with torch.no_grad():
        right = net.eval()(ids).argmax(dim=-1) == wanted
    return float(right[:, 1:].double().mean())


GUESSED = 1 / (PLACES - 1)


def _judge_order(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for at, mask in enumerate(MASKS):
        change = column(data, "change", at)
        accuracy = median_of(column(data, "told", at))
        blind = max(change) < SAME and accuracy.against(NO_BETTER * GUESSED) == "below"
        sees = min(change) > OTHER and accuracy.against(BETTER * GUESSED) == "above"
        cases[mask] = True if blind else False if sees else None
        parts.append(f"{mask}: shuffling changes outputs by {max(change):.1e} at most, places are "
                    f"told in {accuracy}")  # fmt: skip
    return by_case(cases, f"{'; '.join(parts)} (guessing {GUESSED:.3g})", "the mask")


def _draw_order(data: Sequence[Data]) -> Bars:
    accuracy = average(data, "told").numpy()
    return Bars(
        "Without positions: does a token know its place?", "fraction of places told right",
        (*MASKS, "guessing"), np.array([*accuracy, GUESSED]),
        note=f"a Transformer of two layers, {PLACES} tokens, the first always the same",
    )  # fmt: skip


order = Experiment.described("order", _order, _draw_order, {"C33": _judge_order})
