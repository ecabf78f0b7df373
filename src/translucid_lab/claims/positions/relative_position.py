"""C44: relative position in the dot product."""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.parts.attention import SelfAttention
from translucid.parts.positions import Sinusoidal
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.position_tasks import OTHER, SAME, TESTED
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, by_case, mean_of

WIDTH, DISTANCE = 64, 3
EVERY = 4  # of the places, for the picture


def _dot(seed: int, quick: bool) -> Data:
    """PE(p) · PE(p + 3) by p, as they are and through the projections of an attention layer; and
    PE(p) · PE(p - 3)."""
    torch.manual_seed(seed)
    places = torch.arange(DISTANCE, DISTANCE + TESTED)
    table = Sinusoidal(WIDTH)
    here, after, before = (table.encode(places + by) for by in (0, DISTANCE, -DISTANCE))
    queries, keys, _ = SelfAttention(WIDTH, heads=1).qkv.weight.detach().double().chunk(3)
    return {
        "as they are": (here * after).sum(dim=-1).tolist(),
        "projected": ((here @ queries.T) * (after @ keys.T)).sum(dim=-1).tolist(),
        "before": (here * before).sum(dim=-1).tolist(),
    }


def _judge_dot(data: Sequence[Data]) -> Finding:
    spread = {name: [float(np.std(run[name]) / np.mean(np.abs(run[name]))) for run in data]
              for name in ("as they are", "projected")}  # fmt: skip
    cases = {name: True if max(values) < SAME else False if min(values) > 0.1 else None
             for name, values in spread.items()}  # fmt: skip
    sides = max(float(np.abs(np.subtract(run["as they are"], run["before"])).max())
                for run in data)  # fmt: skip
    cases["before or after"] = True if sides > OTHER else False if sides < SAME else None
    return by_case(
        cases, f"PE(p)·PE(p+{DISTANCE}) by p has a deviation of {max(spread['as they are']):.1e} "
        f"of its size as they are, and of {mean_of(spread['projected'], 'log')} through the "
        f"projections of an untrained layer; PE(p)·PE(p-{DISTANCE}) differs from it by {sides:.1e}",
        "the projections, and on what is to be read",
    )  # fmt: skip


def _draw_dot(data: Sequence[Data]) -> Lines:
    shown = slice(0, TESTED, EVERY)
    (first,) = data[:1]
    sizes = {name: np.array(first[name]) for name in ("as they are", "projected")}
    return Lines(
        f"The dot product of encodings {DISTANCE} places apart",
        Axis("place p", tuple(str(DISTANCE + at) for at in range(TESTED)[shown])),
        "PE(p) · PE(p + 3), in its mean size",
        {name: (values / np.abs(values).mean())[shown] for name, values in sizes.items()},
        note="projected: by the queries and keys of one untrained attention layer",
    )  # fmt: skip


dot_product = Experiment(
    name="relative-term",
    title="Relative position in the dot product of encodings",
    varies="the place; encodings as they are, and through query and key projections",
    measures="the dot product of two encodings three places apart",
    claims={
        "C44": Rule(
            "Holds for encodings as they are, or projected, if the dot product at distance 3 is "
            "the same at every place (within 1e-9 of its size), fails if its deviation over places "
            "is more than a tenth of its size. Holds for before or after if the two distances of 3 "
            "have different dot products. Supported if all three hold, refuted if none, depends if "
            "some.",
            _judge_dot,
            label="identity",
        )
    },
    run=_dot,
    draw=_draw_dot,
    seconds=0.05,
    references=("https://arxiv.org/abs/1911.04474", "https://arxiv.org/abs/2006.15595"),
)
