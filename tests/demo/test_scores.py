"""Shortened demos reach a stated score on sentences of toyland that they never saw.

The floors lie below what was measured on one CPU thread [in brackets], so that another machine's
rounding does not matter, and far above what a model gets that has learnt nothing of the order of
words.
"""

import json
from pathlib import Path

import pytest

from translucid.demo.recipes import RECIPES, DemoTask
from translucid.runs.recipe import recipe, shipped
from translucid.runs.run import train_recipe

# Metric, floor [measured], and what makes the demo shorter.
FLOORS: dict[DemoTask, tuple[str, float, list[str]]] = {
    "translate": (
        "bleu", 60.0,  # [75.4]
        ["training.steps=500", "training.evaluate_every=500", "data.toyland=20000",
         "training.learning_rate=5e-3", "model.d_model=64", "model.d_ff=128"],
    ),
    "tag": ("span_f1", 0.95, ["training.steps=400", "training.evaluate_every=400"]),  # [0.986]
    "classify": ("accuracy", 0.95, ["training.steps=1000", "training.evaluate_every=500"]),  # [1]
    "language": (
        "perplexity", 9.5,  # [8.3; from the word before only: 13]
        ["training.steps=400", "training.evaluate_every=400", "data.toyland=20000"],
    ),
    "regress": ("r_squared", 0.99, ["training.steps=500"]),  # [0.9993]
}  # fmt: skip


@pytest.mark.parametrize("task", [
    pytest.param(
        task, marks=pytest.mark.slow if task == "regress" else pytest.mark.thorough
    )
    for task in FLOORS
])  # fmt: skip
def test_a_shortened_demo_reaches_its_score(task: DemoTask, tmp_path: Path) -> None:
    metric, floor, shorter = FLOORS[task]
    out = tmp_path / task
    train_recipe(recipe.read(shipped.find(RECIPES[task]), shorter), out, quiet=True)
    score = json.loads((out / "test.json").read_text("utf-8"))["test"][metric]
    assert score <= floor if metric == "perplexity" else score >= floor, f"{metric} {score:.4f}"
