"""C71: padding in the statistics of batch norm."""

from collections.abc import Sequence

import torch

from translucid.parts.norms import BatchNorm
from translucid.see.pictures import Axis, Lines
from translucid_lab.claims.norms.batch_norm_batch_size import FEATURES
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Rule,
    average,
    clearly,
    column,
    decide,
    mean_of,
    ratio_of,
)

MAX_LENGTH = 32
MIN_LENGTHS = (32, 24, 16, 8, 4)  # lengths are drawn from here to MAX_LENGTH
TRUE_MEAN = 2.0


def _padding(seed: int, quick: bool) -> Data:
    """Batch statistics of texts padded with zeros, the padding counted or masked."""
    generator = torch.Generator().manual_seed(seed)
    texts = 16 if quick else 64
    measured: dict[str, list[float]] = {
        name: [] for name in ("padded", "counted", "masked", "counted_sd", "masked_sd", "chance")
    }
    for min_length in MIN_LENGTHS:
        lengths = torch.randint(min_length, MAX_LENGTH + 1, (texts,), generator=generator)
        mask = torch.arange(MAX_LENGTH) < lengths[:, None]  # (texts, MAX_LENGTH)
        x = TRUE_MEAN + torch.randn(texts, MAX_LENGTH, FEATURES, generator=generator)
        x = x * mask[..., None]
        measured["padded"].append(float((~mask).float().mean()))
        measured["chance"].append(float(mask.sum()) ** -0.5)  # of a mean of that many values
        for name in ("counted", "masked"):
            norm = BatchNorm(FEATURES, momentum=1.0, count_padding=name == "counted")
            norm(x, mask)
            measured[name].append(float((norm.running_mean - TRUE_MEAN).square().mean().sqrt()))
            measured[f"{name}_sd"].append(float(norm.running_variance.sqrt().mean()))
    return measured


def _judge_padding(data: Sequence[Data]) -> Finding:
    last = len(MIN_LENGTHS) - 1
    sampling = column(data, "chance", last)
    counted, masked = (ratio_of(column(data, name, last), sampling)
                       for name in ("counted", "masked"))  # fmt: skip
    return decide(
        {
            "counted padding is off by more than 3 sampling errors": clearly(
                counted.against(3.0), "above"
            ),
            "without it, it is not": clearly(masked.against(3.0), "below"),
        },
        f"with {mean_of(column(data, 'padded', last)).mean:.0%} padding the mean is off by "
        f"{counted} sampling errors and the deviation, truly 1, becomes "
        f"{mean_of(column(data, 'counted_sd', last))}; with padding masked out the mean is off by "
        f"{masked} and the deviation is {mean_of(column(data, 'masked_sd', last))}",
        {"counted": counted.mean, "masked": masked.mean},
    )


def _draw_padding(data: Sequence[Data]) -> Lines:
    names = {"counted": "mean, padding counted", "masked": "mean, padding masked out",
             "chance": "chance alone"}  # fmt: skip
    padded = average(data, "padded")
    return Lines(
        "What padding does to batch norm's mean",
        Axis("fraction of padding", tuple(f"{fraction:.0%}" for fraction in padded.tolist())),
        f"error of the mean, truly {TRUE_MEAN:g}",
        {label: average(data, name).numpy() for name, label in names.items()},
    )  # fmt: skip


padding = Experiment(
    name="padding",
    title="Padding in batch norm's statistics",
    varies="how short the shortest of the padded texts may be; padding counted or masked out",
    measures="the error of the batch's mean, its deviation, and the error that chance alone makes",
    claims={
        "C71": Rule(
            "Supported if with lengths of 4 to 32 the mean is off by more than 3 sampling errors "
            "when padding is counted, and by less when it is masked out; refuted if either clearly "
            "fails.",
            _judge_padding,
            label="simulation",
        )
    },
    run=_padding,
    draw=_draw_padding,
    seconds=0.2,
    references=("https://arxiv.org/abs/2003.07845",),
)
