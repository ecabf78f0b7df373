"""What the demo of regression draws: fitted curves and boundaries are the networks' outputs."""

import math

import pytest
import torch
from tests.demo.small_runs import Run, small_run

from translucid.demo import fits
from translucid.demo import regress_sections as report
from translucid.runs.recipe import recipe
from translucid.runs.recipe.recipe import Recipe
from translucid.tasks.regress import RegressItem


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return small_run(tmp_path_factory, "regress")


def trained(run: Run, steps: int) -> Recipe:
    return recipe.parse(run[2].model_dump(), [f"training.steps={steps}"])


def test_the_widest_sine_is_the_model_of_the_run(run: Run) -> None:
    _, model, chosen = run
    lesson = report.learn(model, chosen)
    assert [fit.width for fit in lesson.sine.fits] == [1, 2, 4, 8, 16, 32]
    assert [fit.width for fit in lesson.staircase.fits] == [1, 2, 4, 8, 16, 32]
    wanted = [y for (y,) in model.predict([[x] for x in lesson.sine.x])]
    last = lesson.sine.fits[-1]
    assert last.y == pytest.approx(wanted)
    squares = [(a - b) ** 2 for a, b in zip(last.y, lesson.sine.target, strict=True)]
    assert last.rmse == pytest.approx(math.sqrt(sum(squares) / len(squares)))


def test_the_targets_are_what_their_names_say() -> None:
    assert [fits.staircase(x) for x in (0, 0.99, 1, 1.5, 2, 3)] == [0, 0, 1, 1, 3, 3]
    assert fits.sine(0.5) == pytest.approx(1)
    assert fits.sine(1) == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_two_units_make_two_steps_where_one_cannot(run: Run) -> None:
    curve = fits.fit_curve("stairs", fits.staircase, (0, 3), trained(run, 600), (1, 2))
    one, two = curve.fits
    assert one.rmse > 0.3
    assert two.rmse < 0.25


def test_the_boundary_is_the_network_over_the_plane() -> None:
    class Tilted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0.6 * x[:, :1] + 0.1 * x[:, 1:]

    found = fits.boundary("tilted", Tilted(), [0, 0, 1, 0], points=5)
    assert found.ticks == pytest.approx([-0.5, 0, 0.5, 1, 1.5])
    for row, second in zip(found.outputs, found.ticks, strict=True):
        assert row == pytest.approx([0.6 * first + 0.1 * second for first in found.ticks])
    assert found.accuracy == 0.75  # (1, 1) gives 0.7, and 0 was wanted


@pytest.mark.slow
def test_a_line_parts_and_but_not_xor_and_a_hidden_layer_parts_xor(run: Run) -> None:
    found = fits.learn_logic(trained(run, 300))
    accuracy = {each.name: each.accuracy for each in found.boundaries}
    assert accuracy["perceptron: AND"] == 1
    assert accuracy["perceptron: XOR"] <= 0.75
    assert accuracy["MLP: XOR"] == 1
    assert found.mistakes["AND"][-1] == 0
    assert min(found.mistakes["XOR"]) > 0


def test_fitting_leaves_the_random_numbers_alone(run: Run) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    fits.fit_mlp([RegressItem((0.0,), (1.0,), 0)], 2, run[2])
    assert torch.equal(torch.rand(2), wanted)


def test_the_pictures_have_the_numbers_of_the_networks(run: Run) -> None:
    lesson = report.learn(run[1], run[2])
    drawn = report.fitted(lesson.sine)
    assert list(drawn.series["target"]) == lesson.sine.target
    for fit, (name, values) in zip(lesson.sine.fits, list(drawn.series.items())[1:], strict=True):
        assert name.startswith(f"{fit.width} hidden unit")
        assert name.endswith(f"RMSE {fit.rmse:.3f}")
        assert list(values) == fit.y
    assert [label for label in drawn.x.labels if label] == ["-1", "-0.5", "0", "0.5", "1"]
    assert drawn.x.labels[60] == "-0.5"
    errors = report.errors(lesson.staircase, lesson.sine)
    assert list(errors.series["sine"]) == [fit.rmse for fit in lesson.sine.fits]
    plane = report.plane(lesson.logic.boundaries[1])
    assert plane.title == f"perceptron: XOR, {lesson.logic.boundaries[1].accuracy:.0%} right"
    for row, column in plane.frames:
        x, y = float(plane.columns.labels[column]), float(plane.rows.labels[row])
        assert plane.texts[row][column] == f"{float(x != y):g}"
    assert len(set(plane.frames)) == 4


def test_the_plane_has_the_second_input_upwards() -> None:
    class Tilted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0.1 * x[:, :1] + 0.3 * x[:, 1:]

    heat = report.plane(fits.boundary("tilted", Tilted(), [0, 0, 0, 0], points=5))
    assert heat.rows.labels == ("1.5", "1", "0.5", "0", "-0.5")
    for row, second in enumerate(heat.rows.labels):
        for column, first in enumerate(heat.columns.labels):
            wanted = 0.1 * float(first) + 0.3 * float(second)
            assert heat.values[row, column] == pytest.approx(wanted, abs=1e-6)
