"""How batch norm depends on the size of a batch (C69), the length of its texts (C70), and padding
(C71).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from translucid import NO_TRACE, Trace
from translucid.core import NoTrace
from translucid.parts import BatchNorm, Layout, SelfAttention
from translucid.see import Axis, Lines
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.small_nets import Deep, mean_square, smooth_target
from translucid_lab.engine.intervals import clearly, difference_of, mean_of, median_of, ratio_of
from translucid_lab.engine.verdict import average, by_case, column, decide

# ---- C69: batch size ----


BATCHES = (2, 4, 8, 16, 64, 256)
TRAINED = (2, 4, 64)  # batch sizes a small net is trained at
NETS = 4  # for each seed
FEATURES = 16


def _batch_error(x: Tensor) -> float:
    """Mean squared difference between x and the output of batch norm in training. It would be 0 if
    batch norm used the true mean 0 and the true variance 1."""
    return float(mean_square(BatchNorm(x.shape[-1])(x), x).detach())


def _small_batches(seed: int, quick: bool) -> Data:
    generator = torch.Generator().manual_seed(seed)
    error = []
    for batch in BATCHES:
        draws = max((256 if quick else 8192) // batch, 4)
        error.append(float(np.mean([
            _batch_error(torch.randn(batch, FEATURES, generator=generator)) for _ in range(draws)
        ])))  # fmt: skip
    gap = [float(np.mean([_mode_gap(NETS * seed + at, batch, 40 if quick else 400)
                          for at in range(NETS)])) for batch in TRAINED]  # fmt: skip
    return {"error": error, "gap": gap}


def _mode_gap(seed: int, batch: int, steps: int) -> float:
    """Train with this batch size. Return by how much two losses differ: with batch statistics, as
    in training, and with running statistics, as in evaluation."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, y = smooth_target(256, 8, generator)
    net = Deep(inputs=8, outputs=1, width=32, depth=2, norm="batch")

    def loss() -> Tensor:
        rows = torch.randperm(256, generator=generator)[:batch]
        return mean_square(net(x[rows]), y[rows])

    fit(net, loss, steps=steps, learning_rate=3e-3)
    with torch.no_grad():
        as_used = mean_square(net.eval()(x), y)
        net.train()
        parts = [mean_square(net(x[rows]), y[rows]) for rows in torch.arange(256).split(batch)]
    return abs(float(torch.stack(parts).mean() - as_used))


def _slopes(data: Sequence[Data]) -> list[float]:
    """Of log error over log batch size: -1 if the error falls as 1 / batch."""
    return [
        float(np.polyfit(np.log(BATCHES), np.log(run["error"]), 1)[0]) for run in data
    ]  # fmt: skip


def _judge_small_batches(data: Sequence[Data]) -> Finding:
    slope = mean_of(_slopes(data))
    steep, flat = slope.against(-0.75), slope.against(-1.25)
    smallest, largest = column(data, "gap", 0), column(data, "gap", len(TRAINED) - 1)
    more = difference_of(smallest, largest, "rank")
    falls = True if (steep, flat) == ("below", "above") else (
        False if steep == "above" or flat == "below" else None)  # fmt: skip
    error = mean_of(column(data, "error", 0), "log")
    return decide(
        {
            "the error falls about as 1 / batch": falls,
            "in a trained net, training and use differ more at batch 2 than at 64": clearly(
                more.against(0.0), "above"
            ),
        },
        f"the error falls as batch to the power {slope}, from {error} at batch {BATCHES[0]}; "
        f"losses in training and in use differ by {median_of(smallest)} at "
        f"batch {TRAINED[0]} and {median_of(largest)} at {TRAINED[-1]}",
        {"slope": slope.mean, "gap_more": more.mean},
    )


def _draw_small_batches(data: Sequence[Data]) -> Lines:
    error = average(data, "error").numpy()
    first = error[0] * BATCHES[0]
    return Lines(
        "How far batch norm's statistics are off", Axis("batch size", tuple(map(str, BATCHES))),
        "squared error of the values",
        {"measured": error, "a line that falls as 1 / batch": first / np.array(BATCHES)},
        logarithmic=True, note="against the values that the true mean and variance give",
    )  # fmt: skip


small_batches = Experiment.described(
    "small-batches", _small_batches, _draw_small_batches, {"C69": _judge_small_batches}
)


# ---- C70: long sequences, small batches ----


LENGTHS = (16, 32, 64, 128, 256)
BUDGET = 16 * 2**20  # bytes that one attention layer may keep for its backward pass
WAYS = {"scores kept": "pattern", "fused": None}  # tracing the pattern disables the fused kernel
ALIKE = {
    "unlike": 0.0,
    "alike": 0.5,
}  # the fraction of variance that the words of a text have in common


def _kept_bytes(length: int, looked_at: str | None) -> int:
    """Bytes that an attention layer keeps for the backward pass of one example."""
    layer = SelfAttention(64, 4)
    own = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    sizes: dict[int, int] = {}

    def note(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
        return value

    trace: NoTrace = NO_TRACE if looked_at is None else Trace(looked_at)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        kept = layer(torch.randn(1, length, 64), Layout(), trace=trace)
    assert kept.requires_grad  # and keep it alive, so that no address is reused
    return sum(sizes.values())


def _long_sequences(seed: int, quick: bool) -> Data:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    draws = 4 if quick else 40
    measured: dict[str, list[float]] = {}
    for way, looked_at in WAYS.items():
        batches = [BUDGET // _kept_bytes(length, looked_at) for length in LENGTHS]
        measured[way] = [float(batch) for batch in batches]
        for name, common in ALIKE.items():
            measured[f"{way}, {name}"] = [
                float(
                    np.mean([_text_error(batch, length, common, generator) for _ in range(draws)])
                )
                for batch, length in zip(batches, LENGTHS, strict=True)
            ]
    return measured


def _text_error(batch: int, length: int, common: float, generator: torch.Generator) -> float:
    text = torch.randn(batch, 1, 4, generator=generator)
    word = torch.randn(batch, length, 4, generator=generator)
    return _batch_error(common**0.5 * text + (1 - common) ** 0.5 * word)


def _judge_long_sequences(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    lines = []
    for way in WAYS:
        batches = average(data, way).numpy()
        power = float(np.polyfit(np.log(LENGTHS), np.log(batches), 1)[0])
        lines.append(f"{way}: the largest batch falls from {batches[0]:.0f} to {batches[-1]:.0f}, "
                    f"as length to the power {power:.2f}")  # fmt: skip
        for name in ALIKE:
            case = f"{way}, {name}"
            worse = ratio_of(column(data, case, len(LENGTHS) - 1), column(data, case, 0))
            cases[case] = False if power > -0.95 else clearly(worse.against(1.5), "above")
            lines.append(f"with words {name}, batch norm's error is multiplied by {worse}")
    return by_case(
        cases, f"from length {LENGTHS[0]} to {LENGTHS[-1]}, {'; '.join(lines)}",
        "whether attention keeps its scores, and on how much the words of a text have in common",
    )  # fmt: skip


def _draw_long_sequences(data: Sequence[Data]) -> Lines:
    series = {
        f"{way}, words {name}": average(data, f"{way}, {name}").numpy()
        for way in WAYS for name in ALIKE
    }  # fmt: skip
    return Lines(
        "Batch norm's error with the largest batch that fits",
        Axis("words in a text", tuple(map(str, LENGTHS))), "squared error of the values", series,
        logarithmic=True, note=f"{BUDGET // 2**20} MiB for one attention layer, width 64, 4 heads",
    )  # fmt: skip


long_sequences = Experiment.described(
    "long-sequences", _long_sequences, _draw_long_sequences, {"C70": _judge_long_sequences}
)


MAX_LENGTH = 32
MIN_LENGTHS = (32, 24, 16, 8, 4)  # lengths are drawn from here to MAX_LENGTH
TRUE_MEAN = 2.0


def _padding(seed: int, quick: bool) -> Data:
    """Compute batch statistics of zero-padded texts, with the padding counted and with it masked,
    and compare them with the true mean and variance."""
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
        measured["chance"].append(
            float(mask.sum()) ** -0.5
        )  # standard error of a mean of that many values
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


padding = Experiment.described("padding", _padding, _draw_padding, {"C71": _judge_padding})
