"""The palette is the studio's, tokens and ramps, and what is written on it is readable."""

import re
from pathlib import Path

import pytest

import translucid
from translucid.see.render.palette import DARK, LIGHT, LINES, RAMPS, THEMES, css, luminance, on

STATIC = Path(translucid.__file__).parent / "studio" / "static"


def tokens(theme: str) -> dict[str, str]:
    """What tokens.css declares for a theme."""
    text = (STATIC / "css" / "tokens.css").read_text("utf-8")
    (block,) = re.findall(rf'\[data-theme="{theme}"\] \{{(.*?)\}}', text, flags=re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


@pytest.mark.parametrize(("theme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_the_tokens_are_those_of_the_studio(theme: str, palette: dict[str, str]) -> None:
    assert len(palette) == 10
    assert palette == {name: tokens(theme)[name] for name in palette}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_ramps_are_those_of_the_studio(theme: str) -> None:
    text = (STATIC / "js" / "ink.js").read_text("utf-8")
    (block,) = re.findall(rf"  {theme}: \{{(.*?)\n  \}}", text, flags=re.DOTALL)
    lines = {name: re.findall(r"#[0-9A-F]{6}", line) for name, line in
             re.findall(r"(\w+): (.*),", block)}  # fmt: skip
    assert {name: [each.lower() for each in line] for name, line in lines.items()} == RAMPS[theme]


def test_both_themes_have_the_same_names_and_css_has_both_colours() -> None:
    light, dark = THEMES["light"], THEMES["dark"]
    assert list(light) == list(dark)
    assert css({"ink", "u0", "numbers"}) == (
        f"--ink: light-dark({light['ink']}, {dark['ink']}); "
        f"--u0: light-dark({light['u0']}, {dark['u0']});"
    )


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one) + 0.05, luminance(other) + 0.05), reverse=True)
    return high / low


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast(theme: str) -> None:
    colours = THEMES[theme]
    for step in [f"{kind}{n}" for kind in "us" for n in range(33)]:
        assert contrast(colours[step], colours[on(step)]) > 4.3, step
    for ink in ("ink", "ink2", "ink3", "accent", "pos", "neg"):
        assert contrast(colours[ink], colours["pane"]) > 4.5, ink
    assert len(LINES[theme]) == len(set(LINES[theme])) == 8


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_ramp_is_monotone_in_lightness(theme: str) -> None:
    """So that grey prints read the same: each arm goes one way from clear."""
    colours = THEMES[theme]
    for arm in ([f"u{n}" for n in range(33)], [f"s{n}" for n in range(16, 33)],
                [f"s{n}" for n in range(16, -1, -1)]):  # fmt: skip
        light = [luminance(colours[name]) for name in arm]
        assert light == sorted(light, reverse=theme == "light")
