"""Demos trained for a few steps, for tests that compare a picture's numbers with the model's."""

from pathlib import Path

import pytest

from translucid.demo.recipes import DemoTask, recipe_values
from translucid.model import Model
from translucid.runs.recipe import recipe
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.run import train_recipe

Run = tuple[Path, Model, Recipe]
QUICK = ("training.steps=4", "training.evaluate_every=2", "training.log_every=1",
         "data.toyland=300")  # fmt: skip


def small_run(factory: pytest.TempPathFactory, task: DemoTask, *overrides: str) -> Run:
    """The demo's own recipe, cut short."""
    chosen = recipe.parse(recipe_values(task, overrides), [*QUICK, *overrides])
    out = factory.mktemp("runs") / f"demo-{task}"
    return out, Model(train_recipe(chosen, out, quiet=True)), chosen
