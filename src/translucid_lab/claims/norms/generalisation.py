"""C65, C68: norms and new data: generalisation and overfitting."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.parts.norms import NormName
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.shared.deep_net import Deep
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.fit import Step, fit
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Interval,
    Rule,
    Verdict,
    average,
    by_case,
    column,
    difference_of,
    mean_of,
)

NORMS: tuple[NormName, ...] = ("none", "layer", "batch")
BATCHES = (8, 64, 256)  # the last: all of the training data
MOST_STEPS = 4000  # a net that needs more has no number
MARGIN = 0.02  # nats: less than this is no help
FAR = 10**0.5  # a common distance from the middle in 10 dimensions
WRONG = 0.1  # fraction of labels that are wrong


def _new_data(seed: int, quick: bool) -> Data:
    """A noisy classification: the loss on new data when the loss on the training data has come
    down to the same value, for every norm and batch size."""
    goal = 0.5 if quick else 0.3
    measured: dict[str, Any] = {"goal": goal}
    for norm in NORMS:
        measured[norm] = {
            "signs": [_loss_on_new(seed, "signs", norm, batch, goal) for batch in BATCHES],
            "radius": _loss_on_new(seed, "radius", norm, BATCHES[1], goal),
        }
    return measured


def _samples(
    task: str, count: int, generator: torch.Generator, teacher: Tensor
) -> tuple[Tensor, Tensor]:
    """signs: do two directions have the same sign? radius: is the point far out? That is told by
    the scale, which a norm takes away."""
    x = torch.randn(count, len(teacher), generator=generator)
    right = (x @ teacher).prod(dim=1) > 0 if task == "signs" else x.norm(dim=1) > FAR
    return x, (right ^ (torch.rand(count, generator=generator) < WRONG)).long()


def _loss_on_new(seed: int, task: str, norm: NormName, batch: int, goal: float) -> float:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    teacher = torch.randn(10, 2, generator=generator)
    (x, y), (new_x, new_y) = (
        _samples(task, count, generator, teacher) for count in (BATCHES[-1], 2000)
    )
    net = Deep(inputs=10, outputs=2, width=64, depth=2, norm=norm)

    def loss() -> Tensor:
        rows = torch.randperm(len(x), generator=generator)[:batch]
        return F.cross_entropy(net(x[rows]), y[rows])

    def there(step: Step) -> bool:
        return step.done % 5 == 1 and _loss(net, x, y) <= goal

    history = fit(net, loss, steps=MOST_STEPS, learning_rate=3e-3, until=there)
    return _loss(net, new_x, new_y) if len(history) < MOST_STEPS else float("nan")


def _loss(net: Deep, x: Tensor, y: Tensor) -> float:
    """As the net is used: batch norm takes its running statistics."""
    with torch.no_grad():
        loss = float(F.cross_entropy(net.eval()(x), y))
    net.train()
    return loss


def _helps(data: Sequence[Data], norm: str, *path: str | int) -> tuple[bool | None, str]:
    less = difference_of(column(data, norm, *path), column(data, "none", *path))
    return _less(less), str(less)


def _less(change: Interval) -> bool | None:
    """True: it falls; False: not by the margin."""
    if change.against(0.0) == "below":
        return True
    return False if change.against(-MARGIN) == "above" else None


def _judge_new_data(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for norm in NORMS[1:]:
        for place, batch in enumerate(BATCHES):
            cases[f"{norm} norm at batch {batch}"], less = _helps(data, norm, "signs", place)
            parts.append(f"{norm} at batch {batch} {less}")
        cases[f"{norm} norm on radius"], less = _helps(data, norm, "radius")
        parts.append(f"{norm} on radius {less}")
    return by_case(
        cases, f"loss on new data against no norm, at a training loss of {data[0]['goal']}: "
        f"{', '.join(parts)}", "the norm, the batch size and the task",
    )  # fmt: skip


def _judge_overfitting(data: Sequence[Data]) -> Finding:
    outcomes = [_helps(data, "batch", "signs", place) for place in range(len(BATCHES))]
    helps = [value for value, _ in outcomes]
    less = [np.subtract(column(data, "batch", "signs", place), column(data, "none", "signs", place))
            for place in (0, len(BATCHES) - 1)]  # fmt: skip
    grows = mean_of(list(less[0] - less[1]))
    noise = _less(grows)
    verdict: Verdict = "undecided"
    if all(value is False for value in helps):
        verdict = "refuted"
    elif all(helps) and noise is False:
        verdict = "supported"
    elif True in helps and (False in helps or noise is True):
        verdict = "depends"
    summary = ", ".join(
        f"{batch}: {value}" for batch, (_, value) in zip(BATCHES, outcomes, strict=True)
    )
    ending = "; it depends on the batch size, as noise in the statistics would" * (
        verdict == "depends")  # fmt: skip
    return Finding(
        verdict, "loss on new data with batch norm against none at the same training loss, by "
        f"batch size {summary}; from all samples to batch {BATCHES[0]} that changes by {grows}"
        f"{ending}", {"grows": grows.mean},
    )  # fmt: skip


def _draw_new_data(data: Sequence[Data]) -> Lines:
    return Lines(
        "Loss on new data at the same training loss", Axis("batch size", tuple(map(str, BATCHES))),
        "cross-entropy on new data",
        {f"{norm} norm" if norm != "none" else "no norm": average(data, norm, "signs").numpy()
         for norm in NORMS},
        note=f"read when the training loss has come down to {data[0]['goal']}; "
        f"{WRONG:.0%} of the labels are wrong",
    )  # fmt: skip


new_data = Experiment(
    name="norm-new-data",
    title="Norms and new data, by batch size",
    varies="the norm; the batch size, from 8 to all samples; what is to be learned",
    measures="the loss on new data when the training loss has come down to the same value",
    claims={
        "C65": Rule(
            "Holds for a norm, a batch size and a task if the loss on new data, at equal training "
            "loss, is clearly lower than without a norm; fails if it is clearly not lower by 0.02. "
            "Supported if it holds in every case, refuted if in none, depends if in some.",
            _judge_new_data,
        ),
        "C68": Rule(
            "Refuted if batch norm lowers the loss on new data, at equal training loss, at no "
            "batch size. Supported if it does at all of them, and not by 0.02 more with small "
            "batches: smoothing would work for every batch. Depends (on the batch's noise) if it "
            "does at some only, or clearly more with small batches.",
            _judge_overfitting,
        ),
    },
    run=_new_data,
    draw=_draw_new_data,
    seconds=20.0,
    references=("https://arxiv.org/abs/1809.00846", "https://arxiv.org/abs/1802.06455"),
)
