"""One set of colours for everything that is drawn, told apart by colour-blind eyes too.

Zero is clear. Weights and probabilities go from clear to glass green; signed numbers from violet
over clear to amber. The lightness of each arm is monotone, so grey prints read the same.
"""

from functools import cache
from typing import Any

from translucid.see.picture_data import Scale

INK, PALE, EDGE = "#11201d", "#5f6f6a", "#d5deda"
GREEN, VIOLET, AMBER = "#016f5f", "#5e2cba", "#964702"
MARK = "#c26726"  # frames
# For lines that stand side by side, beside different dashes: from Okabe and Ito's.
LINES = ("#016f5f", "#c26726", "#5e2cba", "#0072b2", "#cc79a7", "#1d2430", "#e69f00", "#56b4e9")
DASHES = ("-", "--", "-.", ":")

_CLEAR = "#f0f4f2"
_UNSIGNED = ("#b0d8ce", "#7db6a8", "#4b9485", "#097363", "#004e42")
_NEGATIVE = ("#cac0fe", "#a390ed", "#7f61d5", "#5e2cba")
_POSITIVE = ("#f2c0a3", "#dc9366", "#c26726", "#964702")


@cache
def ramp(scale: Scale) -> Any:
    """As matplotlib wants it."""
    from matplotlib.colors import LinearSegmentedColormap

    steps = [_CLEAR, *_UNSIGNED]
    if scale == "signed":
        steps = [*reversed(_NEGATIVE), _CLEAR, *_POSITIVE]
    made = LinearSegmentedColormap.from_list(f"translucid-{scale}", steps)
    return made.with_extremes(bad=(1.0, 1.0, 1.0, 0.0))
