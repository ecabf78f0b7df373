"""Features on one scale or not (C64), what the output of a norm for one token depends on (C72,
C75), and whether a norm stops one feature from dominating (C73).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from translucid.models import MLP, MLPConfig
from translucid.parts import BatchNorm, LayerNorm, RMSNorm, Standardise, make_norm
from translucid.see import Axis, Bars, Heat, Lines
from translucid_lab import Data, Experiment, Finding, fit
from translucid_lab.claims.small_nets import mean_square
from translucid_lab.engine.intervals import clearly, mean_of, ratio_of
from translucid_lab.engine.verdict import average, by_case, column, decide

NORMS = ("layer", "rms", "batch", "batch, in use")
CHANGES = ("other company", "longer padding", "times 1000", "plus 1")
WIDTH = 512


def _invariance(seed: int, quick: bool) -> Data:
    generator = torch.Generator().manual_seed(seed)
    token = torch.randn(1, 1, WIDTH, generator=generator)
    others = torch.randn(8 if quick else 64, 12, WIDTH, generator=generator)
    return {
        "change": [[_largest_change(name, change, token, others) for change in CHANGES]
                   for name in NORMS],
        "parameters": [sum(p.numel() for p in norm(WIDTH).parameters())
                       for norm in (LayerNorm, RMSNorm)],
        "width": WIDTH,
    }  # fmt: skip


def _largest_change(name: str, change: str, token: Tensor, others: Tensor) -> float:
    """Largest change of a token's normalised values when it, or its context, is changed."""
    norm = _fresh(name)
    company = others.clone()
    company[:1, :1] = token
    mask = torch.ones(company.shape[:2], dtype=torch.bool)
    match change:
        case "other company":
            before, after = norm(company[:2], mask[:2]), norm(company, mask)
        case "longer padding":
            mask[:, 6:] = False
            before, after = norm(company[:, :6], mask[:, :6]), norm(company * mask[..., None], None)
        case "times 1000":
            before, after = norm(company, mask), norm(1000 * company, mask)
        case _:
            before, after = norm(company, mask), norm(company + 1, mask)
    return float((before[0, 0] - after[0, 0]).abs().max().detach())


def _fresh(name: str) -> nn.Module:
    match name:
        case "layer" | "rms" | "batch":
            return make_norm(name, WIDTH)
        case _:
            return make_norm("batch", WIDTH).eval()


def _change(data: Sequence[Data], norm: str, change: str) -> list[float]:
    return column(data, "change", NORMS.index(norm), CHANGES.index(change))


def _judge_alone(data: Sequence[Data]) -> Finding:
    layer = max(max(_change(data, "layer", change)) for change in CHANGES[:2])
    batch = min(min(_change(data, "batch", change)) for change in CHANGES[:2])
    used = max(_change(data, "batch, in use", "other company"))
    return decide(
        {
            "layer norm gives a token the same bits in any company": True if layer == 0 else
            False if layer > 1e-5 else None,
            "batch norm does not": True if batch > 1e-3 else False if batch == 0 else None,
        },
        f"in other company a token's values change by at most {layer:.1e} under layer norm and by "
        f"at least {batch:.2g} under batch norm while training (in use, with running statistics, "
        f"by {used:.1e})",
        {"layer": layer, "batch": batch},
    )  # fmt: skip


def _judge_rms(data: Sequence[Data]) -> Finding:
    scaled = max(_change(data, "rms", "times 1000"))
    shifted, layer_shifted = min(_change(data, "rms", "plus 1")), max(
        _change(data, "layer", "plus 1"))  # fmt: skip
    layer, rms = data[0]["parameters"]
    width = data[0]["width"]
    return decide(
        {
            "one learned number for each feature, where layer norm has two": (layer, rms)
            == (2 * width, width),
            "scaling changes nothing": True if scaled < 1e-4 else False if scaled > 1e-2 else None,
            "a shift changes the output": True if shifted > 1e-2 else
            False if shifted < 1e-4 else None,
        },
        f"at width {width} RMS norm learns {rms} numbers and layer norm {layer}; times 1000 "
        f"changes RMS norm's output by at most {scaled:.1e}, a shift by 1 by at least "
        f"{shifted:.2g} (layer norm's by at most {layer_shifted:.1e}). Which models use it is not "
        "measured here",
        {"scaled": scaled, "shifted": shifted},
    )  # fmt: skip


def _draw_invariance(data: Sequence[Data]) -> Heat:
    values = average(data, "change").numpy()
    return Heat(
        "By how much one token's normalised values change", values,
        Axis("norm", NORMS), Axis("what is changed", CHANGES), "positive", most=1.0,
        texts=tuple(tuple(f"{value:.2g}" for value in row) for row in values),
        note="the largest change; 0: not one bit",
    )  # fmt: skip


invariance = Experiment.described(
    "norm-invariance", _invariance, _draw_invariance, {"C72": _judge_alone, "C75": _judge_rms}
)


SCALES = (1, 3, 10, 30)
RATES = tuple(float(rate) for rate in np.logspace(0, -4, 17))  # from the largest down
PATIENCE = 20_000  # steps
GOAL = 0.001


def _scales(seed: int, quick: bool) -> Data:
    """The number of steps of gradient descent at the best rate until the error is small, for raw
    and for standardised inputs. The target is a linear function of two features on different
    scales."""
    scales = SCALES[:3] if quick else SCALES
    rates = RATES[::2] if quick else RATES
    measured: dict[str, list[float]] = {"scales": [float(scale) for scale in scales]}
    for name in ("raw", "standardised"):
        measured[name] = []
        for scale in scales:
            generator = torch.Generator().manual_seed(seed)
            x = torch.randn(256, 2, generator=generator)
            y = x @ torch.randn(2, 1, generator=generator)  # of the features before they are scaled
            x = x * torch.tensor([1.0, float(scale)])
            measured[name].append(_best(x, y, rates, standardise=name != "raw"))
    return measured


def _best(x: Tensor, y: Tensor, rates: Sequence[float], *, standardise: bool) -> float:
    """The number of steps at the best of the learning rates, which are tried from the largest down
    until a smaller one takes no fewer steps."""
    best = PATIENCE
    for rate in rates:
        steps = _steps(x, y, rate, best, standardise=standardise)
        if steps == best < PATIENCE:
            break
        best = steps
    return float(best)


def _steps(x: Tensor, y: Tensor, rate: float, most: int, *, standardise: bool) -> int:
    """The number of steps until the mean squared error reaches the goal; `most` if it does not."""
    net = MLP(MLPConfig(inputs=2, hidden=(), standardise=standardise))
    nn.init.zeros_(net.output.linear.weight)
    if net.standardise is not None:
        net.standardise.fit(x)
    history = fit(
        net, lambda: mean_square(net(x), y), steps=most, learning_rate=rate, optimizer="sgd",
        until=lambda step: step.loss <= GOAL or not step.loss < 1e6,  # reached, or diverged
    )  # fmt: skip
    last = history[-1]
    return last.done - 1 if last.loss <= GOAL else most  # the loss is that before the step


def _judge_scales(data: Sequence[Data]) -> Finding:
    last = len(data[0]["scales"]) - 1
    raw, even = column(data, "raw", last), column(data, "standardised", last)
    ratio = ratio_of(raw, even)
    return decide(
        {"standardised features need fewer steps": clearly(ratio.against(1.0), "above")},
        f"with scales 1 and {data[0]['scales'][last]:g}, each with its best rate: "
        f"{mean_of(raw, 'log')} steps raw and {mean_of(even, 'log')} standardised, "
        f"{ratio} times as many",
        {"ratio": ratio.mean},
    )


def _draw_scales(data: Sequence[Data]) -> Lines:
    return Lines(
        "Steps of gradient descent, one feature wider than the other",
        Axis("scale of the second feature", tuple(f"{scale:g}" for scale in data[0]["scales"])),
        f"steps to an error of {GOAL:g}",
        {"as they are": average(data, "raw").numpy(),
         "standardised": average(data, "standardised").numpy()},
        logarithmic=True, note="each with the best of its learning rates",
    )  # fmt: skip


feature_scales = Experiment.described(
    "feature-scales", _scales, _draw_scales, {"C64": _judge_scales}
)


METHODS = ("as it is", "standardised inputs", "batch norm", "layer norm")
LARGE = 100.0
FEATURES, FAIR = 16, 1 / 16


def _dominance(seed: int, quick: bool) -> Data:
    """Make one of sixteen features a hundred times as large, and measure how it dominates before
    and after normalisation: the feature's fraction of a token's squared norm, and the ratio of the
    widest to the narrowest range of a feature."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(256 if quick else 2048, FEATURES, generator=generator)
    x[:, 0] *= LARGE
    fitted = Standardise(FEATURES)
    fitted.fit(x)
    made = (x, fitted(x), BatchNorm(FEATURES)(x), LayerNorm(FEATURES)(x))
    fraction, ranges = [], []
    for values in made:
        squares = values.detach().square()
        fraction.append(float((squares[:, 0] / squares.sum(dim=1)).mean()))
        spread = values.detach().amax(dim=0) - values.detach().amin(dim=0)  # (features,)
        ranges.append(float(spread.max() / spread.min()))
    return {"share": fraction, "ranges": ranges}


def _judge_dominance(data: Sequence[Data]) -> Finding:
    cases: dict[str, bool | None] = {}
    parts = []
    for place, method in enumerate(METHODS):
        fraction = mean_of(column(data, "share", place), "logit")
        ranges = mean_of(column(data, "ranges", place), "log")
        parts.append(f"{method} {fraction}, ranges {ranges.mean:.3g} to 1")
        if method != METHODS[0]:
            low, high = fraction.against(2 * FAIR), fraction.against(4 * FAIR)
            cases[method] = True if low == "below" else False if high == "above" else None
    return by_case(
        cases, f"the large feature's fraction of a token (fair: {FAIR:.3g}): {'; '.join(parts)}",
        "whether mean and variance are taken over samples or over the features of a token",
    )  # fmt: skip


def _draw_dominance(data: Sequence[Data]) -> Bars:
    values = [*average(data, "share").tolist(), FAIR]
    return Bars(
        "How much of a token one feature of sixteen makes up", "fraction of the squared length",
        (*METHODS, "a fair fraction"), np.array(values),
        note=f"the feature's deviation is {LARGE:g} times that of the others",
    )  # fmt: skip


dominance = Experiment.described(
    "large-feature", _dominance, _draw_dominance, {"C73": _judge_dominance}
)
