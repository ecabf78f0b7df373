"""The comparisons behind a verdict as a drawing: each seed a dot, the interval, and the bar."""

from collections.abc import Sequence

import numpy as np

from translucid.see.render.frame import escape
from translucid_lab.engine.intervals import Comparison

WIDE, HIGH = 320, 22  # of one comparison, in the units of the drawing
EDGE = 8
LEAST = 1e-12  # probability that is written out


def dots(comparisons: Sequence[Comparison]) -> str:
    """One row for each comparison, each on a scale of its own; the words below say the numbers."""
    rows = "".join(_row(made) for made in comparisons)
    return f'<ul class="dots">{rows}</ul>'


def _row(made: Comparison) -> str:
    text = (
        f"{made.value:.3g} [{made.low:.3g}, {made.high:.3g}] against {made.bar:.3g}: {made.side}, "
        f"{_p(made.p)}, corrected {_p(made.adjusted)} ({made.method})"
    )
    return f"<li>{_drawing(made, text)}<small>{escape(text)}</small></li>"


def _p(value: float) -> str:
    """Below what floats can tell from 0, nobody knows it."""
    return f"p {value:.2g}" if value >= LEAST else f"p < {LEAST:.0e}"


def _drawing(made: Comparison, text: str) -> str:
    marks = [value for value in (*made.values, made.low, made.high, made.bar) if np.isfinite(value)]
    low, high = min(marks), max(marks)
    scale = (WIDE - 2 * EDGE) / (high - low) if high > low else 0.0

    def x(value: float) -> float:
        return round(EDGE + (min(max(value, low), high) - low) * scale, 1)

    middle = HIGH / 2
    seeds = "".join(
        f'<circle cx="{x(value)}" cy="{middle}" r="3" fill="currentColor" fill-opacity="0.45"/>'
        for value in made.values
        if np.isfinite(value)
    )
    return (
        f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{escape(text)}">'
        f'<path d="M{x(made.low)} {middle}H{x(made.high)}" stroke="currentColor" '
        'stroke-width="1.5"/>'
        f'<path d="M{x(made.bar)} 2V{HIGH - 2}" stroke="currentColor" stroke-width="1.5" '
        f'stroke-dasharray="3 2"/>{seeds}</svg>'
    )
