"""What the demo of regression teaches: wider networks bend more, and a line cannot part XOR."""

from dataclasses import dataclass

import numpy as np

from translucid.demo import fits
from translucid.demo.fits import Boundary, Curve, Logic
from translucid.demo.report import Section
from translucid.model import Model
from translucid.models.mlp import MLP
from translucid.runs.recipe.recipe import Recipe
from translucid.see.picture_data import Axis
from translucid.see.pictures import Grid, Heat, Lines
from translucid.tasks.regress import Regress, RegressItem


@dataclass(frozen=True)
class Lesson:
    """The networks that stand beside the model of the run."""

    sine: Curve  # its last fit is the model of the run
    staircase: Curve
    logic: Logic

    def sections(self) -> list[Section]:
        bend = Section(
            "Wider networks bend more",
            "Each hidden unit adds one soft step, so two units can make the staircase's two jumps, "
            "and a few more follow a smooth wave. That enough units can come as close as one likes "
            "is a theorem; that training finds the weights is not, as the errors show.",
            [fitted(self.staircase), fitted(self.sine), errors(self.staircase, self.sine)],
        )
        mistakes = {name: np.array(counts, float) for name, counts in self.logic.mistakes.items()}
        passes = tuple(str(n + 1) for n in range(fits.PASSES))
        part = Section(
            "What a line cannot part",
            "A perceptron answers 1 on one side of a line. For AND there is such a line; for XOR "
            "there is none, so it changes its weights for ever. A hidden layer bends the line. "
            "Framed: the four corners, with what is right there.",
            [
                Grid("", tuple(map(plane, self.logic.boundaries)), 3),
                Lines("", Axis("pass over the four corners", passes), "perceptron's mistakes",
                      mistakes),
            ],
        )  # fmt: skip
        return [bend, part]


def learn(model: Model, recipe: Recipe) -> Lesson:
    """Train the networks that stand beside the model of the run."""
    wave = fits.fit_curve("sine", fits.sine, (-1, 1), recipe, fits.WIDTHS[:-1])
    items = [RegressItem((a,), (b,), 0) for a, b in zip(wave.x, wave.target, strict=True)]
    assert isinstance(model.network, MLP)
    assert isinstance(model.task, Regress)
    width = sum(model.network.config.hidden)
    wave.fits.append(fits.measure(width, model.network, items, model.task))
    stairs = fits.fit_curve("staircase", fits.staircase, (0, 3), recipe)
    return Lesson(wave, stairs, fits.learn_logic(recipe))


def fitted(curve: Curve) -> Lines:
    """A curve, and what networks of each width make of it."""
    series = {"target": np.array(curve.target)}
    for fit in curve.fits:
        units = "1 hidden unit" if fit.width == 1 else f"{fit.width} hidden units"
        series[f"{units}, RMSE {fit.rmse:.3f}"] = np.array(fit.y)
    return Lines(curve.name, Axis("x", _halves(curve.x)), "y", series)


def _halves(ticks: list[float]) -> tuple[str, ...]:
    """A label at every half."""
    return tuple(f"{round(2 * x) / 2:g}" if abs(2 * x - round(2 * x)) < 1e-6 else "" for x in ticks)


def errors(*curves: Curve) -> Lines:
    widths = tuple(str(fit.width) for fit in curves[0].fits)
    series = {curve.name: np.array([fit.rmse for fit in curve.fits]) for curve in curves}
    return Lines("", Axis("hidden units", widths), "RMSE", series, logarithmic=True)


def plane(boundary: Boundary) -> Heat:
    """What a network answers over the plane, the second input upwards."""
    ticks = boundary.ticks
    texts = [["" for _ in ticks] for _ in ticks]
    frames = []
    for (x, y), wanted in zip(boundary.corners, boundary.wanted, strict=True):
        row = len(ticks) - 1 - min(range(len(ticks)), key=lambda at: abs(ticks[at] - y))
        column = min(range(len(ticks)), key=lambda at: abs(ticks[at] - x))
        texts[row][column] = f"{wanted:g}"
        frames.append((row, column))
    labels = _halves(ticks)
    return Heat(
        f"{boundary.name}, {boundary.accuracy:.0%} right", np.array(boundary.outputs[::-1]),
        Axis("second input", labels[::-1]), Axis("first input", labels), "unit",
        frames=tuple(frames), texts=tuple(map(tuple, texts)),
    )  # fmt: skip
