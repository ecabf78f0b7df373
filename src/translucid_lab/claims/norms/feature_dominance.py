"""C73: does zero mean and unit variance stop a feature from dominating?"""

from collections.abc import Sequence

import numpy as np
import torch

from translucid.parts.norms import BatchNorm, LayerNorm, Standardise
from translucid.see.pictures import Bars
from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import Data, Finding, Rule, average, by_case, column, mean_of

METHODS = ("as it is", "standardised inputs", "batch norm", "layer norm")
LARGE = 100.0
FEATURES, FAIR = 16, 1 / 16


def _dominance(seed: int, quick: bool) -> Data:
    """One feature of sixteen is a hundred times as large: its fraction of a token's squared length,
    and how far apart the widest and the narrowest feature's ranges are, before and after."""
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


dominance = Experiment(
    name="large-feature",
    title="Does normalisation stop a large feature from dominating?",
    varies="the method: standardised inputs, batch norm, layer norm",
    measures="the fraction of the squared length that a feature of scale 100 is, and the ranges",
    claims={
        "C73": Rule(
            "Holds for a method if the large feature's fraction is clearly below twice the fair "
            "one, fails if clearly above four times it. Supported if it holds for all, refuted if "
            "for none, depends if for some.",
            _judge_dominance,
            label="simulation",
        )
    },
    run=_dominance,
    draw=_draw_dominance,
    seconds=0.1,
    references=("https://arxiv.org/abs/2105.06990", "https://arxiv.org/abs/2208.07339"),
)
