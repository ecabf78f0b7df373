"""C22, C32: recurrent weights that make gradients explode, with clipping and without."""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from translucid.models.recurrent import RecurrentEncoder
from translucid.see.pictures import Axis, Lines
from translucid.tasks.batch import Batch
from translucid_lab.claims.shared.sequence_tasks import (
    NEVER_CLIP,
    Draw,
    History,
    recurrent_net,
    train,
)
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Interval,
    Rule,
    average,
    clearly,
    column,
    decide,
    difference_of,
    fraction_of,
    not_tested,
)

VALUES = 8
GAINS = {"gain 1": 1.0, "gain 2": 2.0}  # of orthogonal recurrent weights
CLIPS = {"not clipped": NEVER_CLIP, "clipped at 1": 1.0}
NETS = 2  # for each seed
DIVERGED = 10.0  # times the first loss
MOST = 6.0  # log10: a larger loss, or none at all, is drawn as this


def squared_error(network: nn.Module, batch: Batch) -> Tensor:
    return (network(**batch.inputs)[:, 0] - batch.targets).square().sum()


def adding(length: int) -> Draw:
    """Two values are marked, one in each half: what is their sum? Ids from VALUES on are marked."""

    def draw(generator: torch.Generator, rows: int) -> Batch:
        ids = torch.randint(VALUES, (rows, length), generator=generator)
        places = torch.randint(length // 2, (rows, 2), generator=generator)
        places = places + torch.tensor([0, length - length // 2])
        sums = ids.gather(1, places).sum(dim=1) / VALUES
        return Batch({"ids": ids.scatter_add(1, places, torch.full((rows, 2), VALUES))}, sums, rows)

    return draw


def _explosion(seed: int, quick: bool) -> Data:
    """Gradient descent on sums, with small and large recurrent weights, clipped and not: how long
    the first gradient was, how many runs diverged, log10 of the loss by step."""
    length, steps = (30, 15) if quick else (40, 100)
    measured: dict[str, Any] = {"steps": steps, "runs": NETS}
    for gain, size in GAINS.items():
        measured[gain] = {}
        for label, clip in CLIPS.items():
            runs = [_descend(NETS * seed + at, size, clip, length, steps) for at in range(NETS)]
            measured[gain][label] = {
                "norm": float(np.mean([math.log10(run.norms[0]) for run in runs])),
                "diverged": sum(diverged(run) for run in runs),
                "losses": np.mean([_drawn(run, steps) for run in runs], axis=0).tolist(),
            }
    return measured


def _descend(seed: int, gain: float, clip: float, length: int, steps: int) -> History:
    net = recurrent_net(seed, "rnn", vocab=2 * VALUES, outputs=1)
    with torch.no_grad():
        cast(RecurrentEncoder, net.encoder).recurrent.weights(0, "forward")[1].mul_(gain)
    return train(net, adding(length), seed=seed, steps=steps, rate=0.1, clip=clip,
                 optimizer="sgd", loss=squared_error)  # fmt: skip


def diverged(run: History) -> bool:
    """Did a loss come to be ten times the first, or no number any more?"""
    return run.broke or not all(loss <= DIVERGED * run.losses[0] for loss in run.losses)


def _drawn(run: History, steps: int) -> list[float]:
    losses = [*run.losses, *[math.inf] * (steps - run.steps)]
    return [min(math.log10(loss), MOST) if loss < math.inf else MOST for loss in losses]


def _fraction(data: Sequence[Data], gain: str, clip: str) -> Interval:
    runs = sum(int(run["runs"]) for run in data)
    return fraction_of(int(sum(column(data, gain, clip, "diverged"))), runs)


def _judge_explosion(data: Sequence[Data]) -> Finding:
    norms = {gain: column(data, gain, "not clipped", "norm") for gain in GAINS}
    longer = difference_of(norms["gain 2"], norms["gain 1"])
    large, small = (_fraction(data, gain, "not clipped") for gain in ("gain 2", "gain 1"))
    return decide(
        {
            "the gradient is more than ten times as long": clearly(longer.against(1.0), "above"),
            "most runs with large weights diverge": clearly(large.against(0.5), "above"),
            "most with small ones do not": clearly(small.against(0.5), "below"),
        },
        f"with recurrent weights of gain 2 the first gradient is 10^{longer} times as long as with "
        f"gain 1; {large} of the runs diverge, and {small} with gain 1",
        {"longer": longer.mean, "large": large.mean, "small": small.mean},
    )


def _judge_clipping(data: Sequence[Data]) -> Finding:
    without, clipped = (_fraction(data, "gain 2", clip) for clip in CLIPS)
    why = f"fraction of runs that diverge: {without} without clipping, {clipped} with it"
    if without.against(0.5) != "above":
        return not_tested(why, ["without clipping, most runs that diverge"])
    return decide(
        {"most clipped runs do not": clearly(clipped.against(0.5), "below")}, why,
        {"without": without.mean, "clipped": clipped.mean},
    )  # fmt: skip


def _draw_explosion(data: Sequence[Data]) -> Lines:
    steps = data[0]["steps"]
    shown = list(range(0, steps, max(steps // 12, 1)))
    return Lines(
        "Loss by step with exploding gradients", Axis("step", tuple(map(str, shown))),
        "training loss",
        {f"{gain}, {clip}": 10.0 ** average(data, gain, clip, "losses").numpy()[shown]
         for gain in reversed(GAINS) for clip in CLIPS},
        logarithmic=True, note=f"mean of the logarithms; above 10^{MOST:.0f} as that",
    )  # fmt: skip


explosion = Experiment(
    name="exploding-gradients",
    title="Recurrent weights that make gradients explode, with clipping and without",
    varies="the gain of orthogonal recurrent weights; clipping",
    measures="the length of the first gradient, the runs that diverge, the loss by step",
    claims={
        "C22": Rule(
            "A run diverges if its loss comes to be ten times the first, or no number. Supported "
            "if with recurrent weights of gain 2 the first gradient is clearly more than ten times "
            "as long as with gain 1, and clearly more than half of the unclipped runs diverge, but "
            "clearly less than half with gain 1; refuted if one clearly fails.",
            _judge_explosion,
        ),
        "C32": Rule(
            "With gain 2, clearly more than half of the runs must diverge without clipping, else "
            "nothing is tested. Supported if with clipping clearly less than half do, refuted if "
            "clearly more.",
            _judge_clipping,
        ),
    },
    run=_explosion,
    draw=_draw_explosion,
    seconds=12.0,
    references=("https://arxiv.org/abs/1211.5063", "https://arxiv.org/abs/1905.11881"),
)
