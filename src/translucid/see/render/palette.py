"""The colour palette for all drawings and the studio, light and dark.

Weights and probabilities range from clear to green, signed values from violet through clear (zero)
to amber. Lightness is monotone on each side, so greyscale prints keep the order, and colour-blind
readers can tell the two sides apart.

Drawings refer to colours by name. Files use the light theme; on a page each name is a CSS custom
property that follows the reader's theme.
"""

from collections.abc import Collection, Sequence

LIGHT = {
    "bg": "#f6f8f7", "pane": "#ffffff", "cell0": "#f0f4f2", "ink": "#11201d", "ink2": "#43534f",
    "ink3": "#5f6f6a", "line": "#d5deda", "accent": "#016f5f", "neg": "#5e2cba", "pos": "#964702",
}  # fmt: skip
DARK = {
    "bg": "#0b1110", "pane": "#121b19", "cell0": "#182320", "ink": "#ecf4f1", "ink2": "#b3c2bd",
    "ink3": "#8c9c97", "line": "#283733", "accent": "#4cdfc4", "neg": "#bfb1ff", "pos": "#feb66a",
}  # fmt: skip
# Colour ramps, starting at clear.
RAMPS = {
    "light": {
        "zero": ["#f0f4f2"],
        "neg": ["#cac0fe", "#a390ed", "#7f61d5", "#5e2cba"],
        "pos": ["#f2c0a3", "#dc9366", "#c26726", "#964702"],
        "seq": ["#b0d8ce", "#7db6a8", "#4b9485", "#097363", "#004e42"],
    },
    "dark": {
        "zero": ["#182320"],
        "neg": ["#453e64", "#6c5f9e", "#9583d9", "#bfb1ff"],
        "pos": ["#5e3f1d", "#966125", "#cf8835", "#feb66a"],
        "seq": ["#1b4c42", "#237566", "#33a08c", "#4acdb4", "#64fbde"],
    },
}
# Line colours, from the palette of Okabe and Ito; dashes also differ.
LINES = {
    "light": ("#016f5f", "#c26726", "#5e2cba", "#0072b2", "#cc79a7", "#1d2430", "#e69f00",
              "#56b4e9"),
    "dark": ("#4cdfc4", "#feb66a", "#bfb1ff", "#5fa8f5", "#f09fcc", "#ecf4f1", "#e0c040",
             "#9bd3f5"),
}  # fmt: skip
STEPS = 32  # number of colours in a ramp, not counting the first
_READ = {"d": "#06110f", "w": "#ffffff"}  # text on a colour: dark or white


def mixed(stops: Sequence[str], at: float) -> str:
    """Interpolate the colour at a fraction of the way along a ramp."""
    place = min(max(at, 0.0), 1.0) * (len(stops) - 1)
    before = min(int(place), len(stops) - 2)
    ends = [[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in stops[before : before + 2]]
    part = place - before
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(*ends, strict=True))


def luminance(colour: str) -> float:
    """Relative luminance of a colour, as in WCAG's definition of contrast."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _theme(name: str, tokens: dict[str, str]) -> dict[str, str]:
    ramps = RAMPS[name]
    unsigned = [*ramps["zero"], *ramps["seq"]]
    signed = [*reversed(ramps["neg"]), *ramps["zero"], *ramps["pos"]]
    return {
        **tokens,
        "mark": ramps["pos"][2],  # frames
        **{f"series{place}": colour for place, colour in enumerate(LINES[name])},
        **{f"u{step}": mixed(unsigned, step / STEPS) for step in range(STEPS + 1)},
        **{f"s{step}": mixed(signed, step / STEPS) for step in range(STEPS + 1)},
    }


THEMES = {"light": _theme("light", LIGHT), "dark": _theme("dark", DARK)}


def on(name: str) -> str:
    """The text colour with the best contrast on a colour, by name: on-dw is dark in the light theme
    and white in the dark theme."""
    return "on-" + "".join(_readable(theme[name]) for theme in THEMES.values())


def _readable(ground: str) -> str:
    light = luminance(ground) + 0.05
    return "w" if 1.05 / light > light / 0.0548 else "d"


for _place, _tokens in enumerate(THEMES.values()):
    _tokens.update({f"on-{both}": _READ[both[_place]] for both in ("dd", "dw", "wd", "ww")})


def css(names: Collection[str]) -> str:
    """CSS declarations for the names that are colours; the `color-scheme` property selects light or
    dark."""
    light, dark = THEMES.values()
    return " ".join(
        f"--{name}: light-dark({light[name]}, {dark[name]});" for name in light if name in names
    )
