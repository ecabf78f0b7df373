"""Regression: curves fitted by networks of growing width, and what a line cannot part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.demo.report import fits, page, pictures
from translucid.demo.report.fits import Boundary, Curve, Logic
from translucid.model import Model
from translucid.models.mlp import MLP
from translucid.recipe.recipe import Recipe
from translucid.tasks.regress import RegressItem


@dataclass(frozen=True)
class Lesson:
    """All that the report draws."""

    sine: Curve  # its last fit is the model of the run
    staircase: Curve
    logic: Logic


def learn(model: Model, recipe: Recipe) -> Lesson:
    """Train the networks that stand beside the model of the run."""
    wave = fits.fit_curve("sine", fits.sine, (-1, 1), recipe, fits.WIDTHS[:-1])
    items = [RegressItem((a,), (b,), 0) for a, b in zip(wave.x, wave.target, strict=True)]
    assert isinstance(model.network, MLP)
    width = sum(model.network.config.hidden)
    wave.fits.append(fits.measure(width, model.network, items))
    stairs = fits.fit_curve("staircase", fits.staircase, (0, 3), recipe)
    return Lesson(wave, stairs, fits.learn_logic(recipe))


def write(folder: Path, lesson: Lesson, score: Mapping[str, float]) -> Path:
    """Write the report of a regression run."""
    curves = pictures.read_curves(folder, "r_squared")
    parts = [
        page.score_table(score, ["Of the widest network, on points of the sine it never saw."]),
        page.section("How it learnt"),
        page.figure(
            pictures.draw_curves(curves, loss="training loss per point", metric="R², validation")
        ),
        page.section(
            "Wider networks bend more",
            "Each hidden unit adds one soft step, so two units can make the staircase's two jumps, "
            "and a few more follow a smooth wave. That enough units can come as close as one likes "
            "is a theorem; that training finds the weights is not, as the errors show.",
        ),
        *(page.figure(draw_fits(curve)) for curve in (lesson.staircase, lesson.sine)),
        page.figure(draw_errors([lesson.staircase, lesson.sine])),
        page.section(
            "What a line cannot part",
            "A perceptron answers 1 on one side of a line. For AND there is such a line; for XOR "
            "there is none, so it changes its weights for ever. A hidden layer bends the line.",
        ),
        page.figure(draw_boundaries(lesson.logic.boundaries)),
        page.figure(draw_mistakes(lesson.logic.mistakes)),
    ]
    return page.write_page(
        folder,
        "Curves and corners, learnt on this machine",
        "Perceptrons and multi-layer perceptrons, trained from scratch.",
        parts,
    )


def draw_fits(curve: Curve) -> Any:
    """The curve with the fit of each width, in a panel of its own."""
    from matplotlib.figure import Figure

    columns = 3
    rows = -(-len(curve.fits) // columns)
    drawn = Figure(figsize=(7.6, 2 * rows), layout="constrained")
    panels = drawn.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
    for panel, fit in zip(panels, curve.fits, strict=False):
        panel.plot(curve.x, fit.y, color=pictures.BLUE, linewidth=2.5)
        panel.plot(curve.x, curve.target, color=pictures.BLACK, linewidth=1, linestyle="--")
        units = "1 hidden unit" if fit.width == 1 else f"{fit.width} hidden units"
        panel.set_title(f"{units}, RMSE {fit.rmse:.3f}", fontsize=9)
    for panel in panels[len(curve.fits) :]:
        panel.set_visible(False)
    drawn.supxlabel("x", fontsize=10)
    drawn.supylabel("y", fontsize=10)
    drawn.suptitle(f"{curve.name}: dashed the target, blue the network", fontsize=10)
    return drawn


def draw_errors(curves: Sequence[Curve]) -> Any:
    drawn, (axes,) = pictures.empty(7, 2.6)
    for curve, colour, marker in zip(curves, (pictures.BLUE, pictures.ORANGE), "os", strict=True):
        widths = [fit.width for fit in curve.fits]
        errors = [fit.rmse for fit in curve.fits]
        axes.plot(widths, errors, color=colour, marker=marker, label=curve.name)
    axes.set(xlabel="hidden units", ylabel="RMSE", yscale="log")
    axes.set_xscale("log", base=2)
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.legend(frameon=False, fontsize=9)
    return drawn


def draw_boundaries(found: Sequence[Boundary]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("sides", ["#f6c9a8", "#ffffff", "#a8cfe8"])
    drawn, panels = pictures.empty(2.7 * len(found), 3, columns=len(found))
    for panel, each in zip(panels, found, strict=True):
        panel.contourf(
            each.ticks, each.ticks, each.outputs, levels=[-99, 0, 0.25, 0.5, 0.75, 1, 99],
            cmap=colours, vmin=0, vmax=1,
        )  # fmt: skip
        if any(value > 0.5 for row in each.outputs for value in row):
            panel.contour(each.ticks, each.ticks, each.outputs, levels=[0.5], colors="#1d2430")
        for (x, y), wanted in zip(each.corners, each.wanted, strict=True):
            style = ("s", pictures.BLUE) if wanted else ("o", pictures.ORANGE)
            panel.plot(x, y, style[0], color=style[1], markersize=11, markeredgecolor="white")
        panel.set_title(f"{each.name}, {each.accuracy:.0%} right", fontsize=10)
        panel.set(xlabel="first input", ylabel="second input", aspect="equal")
        panel.set_xticks([0, 1])
        panel.set_yticks([0, 1])
    return drawn


def draw_mistakes(mistakes: Mapping[str, Sequence[int]]) -> Any:
    drawn, (axes,) = pictures.empty(7, 2.2)
    styles = {"AND": (pictures.BLUE, "o"), "XOR": (pictures.ORANGE, "s")}
    for name, counts in mistakes.items():
        colour, marker = styles[name]
        axes.plot(
            range(1, len(counts) + 1), counts, color=colour, marker=marker, markersize=4, label=name
        )
    axes.set(xlabel="pass over the four corners", ylabel="perceptron's mistakes", ylim=(-0.2, 4.2))
    axes.legend(frameon=False, fontsize=9)
    return drawn
