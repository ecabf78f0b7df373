"""Topics: layer norm, RMS norm and gradient clipping."""

from typing import Any

import numpy as np

from translucid.practice.topic import DIGITS, Draw, Formula, Part, Topic, slip
from translucid.worked import clip as worked_clip
from translucid.worked import norm as worked_norm


def _draw_norm(draw: Draw) -> dict[str, Any]:
    return {
        "x": draw.shuffled([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0])[:4],
        "gain": draw.halves(4, most=2.0), "shift": draw.halves(4, most=1.0),
    }  # fmt: skip


LAYER_NORM = Topic(
    "layer-norm",
    "Layer norm",
    r"Apply layer norm to the row X, with gain $\gamma$, shift $\beta$ and $\epsilon = 0$.",
    _draw_norm,
    lambda v: worked_norm([v.x], gamma=v.gain, beta=v.shift, digits=DIGITS),
    (
        Part("mean", r"the mean $\mu$", lambda v: v.x.mean(), "layer mean"),
        Part("var", r"the variance $\sigma^2$", lambda v: ((v.x - v.mean) ** 2).mean(),
             "layer variance"),
        Part("n", r"the normalized numbers $\hat{x}$", lambda v: (v.x - v.mean) / np.sqrt(v.var),
             "layer normalized"),
        Part("y", "the output $y$", lambda v: v.gain * v.n + v.shift, "layer output"),
    ),
    (
        slip("sum", "Divide the sum by the number of entries.", mean=lambda v: v.x.sum()),
        slip("no-mean", "Subtract the mean; dividing by the root mean square is RMS norm.",
             mean=lambda v: 0.0),
        slip("n-minus-1", "Divide the squares by n, not by n - 1.",
             var=lambda v: ((v.x - v.mean) ** 2).sum() / (len(v.x) - 1)),
        slip("sum-of-squares", "The variance is the mean of the squares, not their sum.",
             var=lambda v: ((v.x - v.mean) ** 2).sum()),
        slip("not-centered", "The variance uses the distances from the mean.",
             var=lambda v: (v.x**2).mean()),
        slip("absolute", "The variance is the mean of the squares, not of the absolute values.",
             var=lambda v: abs(v.x - v.mean).mean() ** 2),
        slip("no-root", "Divide by the standard deviation, the root of the variance.",
             n=lambda v: (v.x - v.mean) / v.var),
        slip("not-divided", "Divide by the standard deviation.", n=lambda v: v.x - v.mean),
        slip("only-divided", "Subtract the mean before you divide.",
             n=lambda v: v.x / np.sqrt(v.var)),
        slip("no-gain", "Multiply by the gain γ.", y=lambda v: v.n + v.shift),
        slip("no-shift", "Add the shift β.", y=lambda v: v.gain * v.n),
        slip("shift-first", "Multiply by the gain first, then add the shift.",
             y=lambda v: v.gain * (v.n + v.shift)),
        slip("exchanged", "γ is the factor and β is added.", y=lambda v: v.shift * v.n + v.gain),
        slip("minus-shift", "Add the shift β; do not subtract it.",
             y=lambda v: v.gain * v.n - v.shift),
        slip("n-minus-1-mean", "Divide the sum by n, not by n - 1.",
             mean=lambda v: v.x.sum() / (len(v.x) - 1)),
        slip("reversed", "Subtract the mean from each entry, not the entry from the mean.",
             n=lambda v: (v.mean - v.x) / np.sqrt(v.var)),
        slip("plus-mean", "Subtract the mean; do not add it.",
             n=lambda v: (v.x + v.mean) / np.sqrt(v.var)),
        slip("multiplied", "Divide by the standard deviation; do not multiply.",
             n=lambda v: (v.x - v.mean) * np.sqrt(v.var)),
        slip("divided-gain", "Multiply by the gain γ; do not divide.",
             y=lambda v: v.n / v.gain + v.shift),
    ),
)  # fmt: skip

RMS_NORM = Topic(
    "rms-norm",
    "RMS norm",
    r"Apply RMS norm to the row X, with gain $\gamma$ and $\epsilon = 0$.",
    _draw_norm,
    lambda v: worked_norm([v.x], gamma=v.gain, digits=DIGITS),
    (
        Part("rms", r"the root mean square $\mathrm{rms}$", lambda v: np.sqrt((v.x**2).mean()),
             "rms rms"),
        Part("n", r"the normalized numbers $\hat{x}$", lambda v: v.x / v.rms, "rms normalized"),
        Part("y", "the output $y$", lambda v: v.gain * v.n, "rms output"),
    ),
    (
        slip("standard-deviation", "RMS norm does not subtract the mean.",
             rms=lambda v: v.x.std()),
        slip("length", "Divide the sum of the squares by the number of entries.",
             rms=lambda v: np.sqrt((v.x**2).sum())),
        slip("no-root", "Take the root of the mean square.", rms=lambda v: (v.x**2).mean()),
        slip("mean-outside", "Divide by n inside the root.",
             rms=lambda v: np.sqrt((v.x**2).sum()) / len(v.x)),
        slip("absolute", "Use squares, not absolute values.", rms=lambda v: abs(v.x).mean()),
        slip("mean", "Divide by the root mean square, not by the mean.", rms=lambda v: v.x.mean()),
        slip("n-minus-1", "Divide the squares by n, not by n - 1.",
             rms=lambda v: np.sqrt((v.x**2).sum() / (len(v.x) - 1))),
        slip("centered", "RMS norm does not subtract the mean.",
             n=lambda v: (v.x - v.x.mean()) / v.rms),
        slip("multiplied", "Divide by the root mean square.", n=lambda v: v.x * v.rms),
        slip("no-gain", "Multiply by the gain γ.", y=lambda v: v.n),
        slip("added-gain", "Multiply by the gain γ; do not add it.", y=lambda v: v.n + v.gain),
        slip("divided-gain", "Multiply by the gain γ; do not divide.", y=lambda v: v.n / v.gain),
        slip("largest", "Use all entries, not only the largest.", rms=lambda v: abs(v.x).max()),
        slip("root-of-sum", "Square the entries before you add them.",
             rms=lambda v: np.sqrt(abs(v.x.sum()) / len(v.x)) if v.x.sum() else None),
        slip("subtracted", "Divide by the root mean square; do not subtract it.",
             n=lambda v: v.x - v.rms),
        slip("absolute-entries", "Keep the signs of the entries.", n=lambda v: abs(v.x) / v.rms),
        slip("one-more", "Multiply by γ itself, not by 1 + γ.", y=lambda v: (1 + v.gain) * v.n),
        slip("reversed-gain", "Each entry has its own gain.", y=lambda v: v.gain[::-1] * v.n),
        slip("gain-of-input", "Multiply the normalized numbers, not the input.",
             y=lambda v: v.gain * v.x),
    ),
)  # fmt: skip


def _long(formula: Formula) -> Formula:
    """A wrong norm, if the gradient is still clipped; otherwise the mistake cannot be told from
    leaving the gradient as it is."""

    def wrong(v: Any) -> Any:
        size = formula(v)
        return size if size > 1.05 * v.norm else None

    return wrong


CLIPPING = Topic(
    "clipping",
    "Clip a gradient by its norm",
    r"Clip the gradient g by norm; $c_{\mathrm{value}}$ belongs to clipping by value.",
    lambda draw: {"g": draw.halves(3, most=4.0), "norm": draw.choice([1.5, 2.0, 2.5]),
                  "value": draw.choice([0.5, 1.0])},
    lambda v: worked_clip([v.g], norm=v.norm, value=v.value, digits=DIGITS),
    (
        Part("size", r"the norm $\lVert g \rVert$", lambda v: np.sqrt((v.g**2).sum()), "norm"),
        Part("s", "the factor $s$", lambda v: np.minimum(1, v.norm / (v.size + 1e-6)), "factor"),
        Part("out", "the clipped gradient $g'$", lambda v: v.s * v.g, "clipped by norm"),
    ),
    (
        slip("no-root", "The norm is the root of the sum of the squares.",
             size=_long(lambda v: (v.g**2).sum())),
        slip("absolute", "The norm adds up squares, not absolute values.",
             size=_long(lambda v: abs(v.g).sum())),
        slip("largest", "The norm uses all entries, not only the largest.",
             size=_long(lambda v: abs(v.g).max())),
        slip("mean", "The norm is the root of the sum of the squares, not of their mean.",
             size=_long(lambda v: np.sqrt((v.g**2).mean()))),
        slip("sum", "Square the entries before you add them.",
             size=_long(lambda v: abs(v.g.sum()))),
        slip("n-minus-1", "Add up the squares; nothing is divided.",
             size=_long(lambda v: np.sqrt((v.g**2).sum() / (len(v.g) - 1)))),
        slip("two-of-three", "The norm uses all three entries.",
             size=_long(lambda v: np.sqrt((v.g[:2] ** 2).sum()))),
        slip("unit", "The clipped gradient has the length c, not 1.", s=lambda v: 1 / v.size),
        slip("inverted", "The factor is c divided by the norm.", s=lambda v: v.size / v.norm),
        slip("not-clipped", "The norm is larger than c, so scale the gradient.", s=lambda v: 1.0),
        slip("other-limit", "Clipping by norm uses the maximum norm.",
             s=lambda v: v.value / v.size),
        slip("by-value", "That is clipping by value, which limits each entry by itself.",
             out=lambda v: np.clip(v.g, -v.value, v.value)),
        slip("entry-by-entry", "Scale the whole gradient; do not limit each entry.",
             out=lambda v: np.clip(v.g, -v.norm, v.norm)),
        slip("subtracted", "Multiply by the factor.", out=lambda v: v.g - v.s),
        slip("root-factor", "The factor is c divided by the norm, without a root.",
             s=lambda v: np.sqrt(v.norm / v.size)),
        slip("difference", "Divide c by the norm; do not subtract.", s=lambda v: v.size - v.norm),
        slip("limit-as-factor", "Divide c by the norm first.", s=lambda v: v.norm),
        slip("one-entry", "Scale all entries, not only the largest.",
             out=lambda v: np.where(abs(v.g) == abs(v.g).max(), v.s * v.g, v.g)),
        slip("absolute-entries", "Keep the signs of the entries.", out=lambda v: v.s * abs(v.g)),
    ),
    fits=lambda v: bool(v.size > 1.2 * v.norm),
)  # fmt: skip

TOPICS = (LAYER_NORM, RMS_NORM, CLIPPING)
