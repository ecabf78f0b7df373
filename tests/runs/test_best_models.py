"""Which models stay, and the mean of their weights."""

from pathlib import Path

import torch
from tests.runs.test_runs import small

from translucid.runs import best_models
from translucid.runs.run import train_recipe
from translucid.tasks import model_folder
from translucid.tasks.base import Score
from translucid.tasks.classify import Classify


def test_the_best_few_stay(tmp_path: Path) -> None:
    """Scores that go up and down: the two best are on disk after every evaluation."""
    held = train_recipe(small("classify", "gru"), tmp_path / "run", quiet=True)
    task = Classify(held.tokenizers["tokenizer"], held.labels)
    keeping = best_models.BestModels(tmp_path / "kept", task, 2, task.criterion())
    seen: list[tuple[float, int]] = []
    for step, score in enumerate([0.5, 0.3, 0.9, 0.2, 0.7, 0.95], start=1):
        now = model_folder.Bundle(
            held.network, "classify", held.tokenizers, held.labels, {"step": step}
        )
        keeping.keep(now, Score({"accuracy": score}), best=False)
        seen.append((score, step))
        kept = {p.name for p in (tmp_path / "kept/checkpoints").iterdir()}
        assert kept == {f"step-{step:06}" for _, step in sorted(seen)[-2:]}


def test_the_predictions_are_those_of_the_best(tmp_path: Path) -> None:
    held = train_recipe(small("classify", "gru"), tmp_path / "run", quiet=True)
    task = Classify(held.tokenizers["tokenizer"], held.labels)
    keeping = best_models.BestModels(tmp_path / "kept", task, 1, task.criterion())
    for step, (label, best) in enumerate([("a", True), ("b", True), ("c", False)], start=1):
        now = model_folder.Bundle(
            held.network, "classify", held.tokenizers, held.labels, {"step": step}
        )
        score = Score({"accuracy": 0.5}, predictions=[label, f"{label}\n{label}"])
        keeping.keep(now, score, best=best)
    assert (tmp_path / "kept/valid.predictions.txt").read_text("utf-8") == "b\nb b\n"


def test_the_mean_is_the_mean_tied_weights_and_all(tmp_path: Path) -> None:
    chosen = small("language", "transformer", evaluate_every=1, keep_best=3, average_best=True)
    best = train_recipe(chosen, tmp_path / "run", quiet=True)
    kept = [model_folder.load(p) for p in sorted((tmp_path / "run/checkpoints").iterdir())]
    assert [each.facts["step"] for each in kept] == [1, 2, 3]
    mean = best_models.average(kept).network.state_dict()
    again = [
        model_folder.load(p).network.state_dict()
        for p in sorted((tmp_path / "run/checkpoints").iterdir())
    ]
    for name, weight in mean.items():
        expected = sum(state[name].double() for state in again) / 3
        torch.testing.assert_close(weight.double(), expected, rtol=0, atol=1e-6)
    log = (tmp_path / "run/log.txt").read_text("utf-8")
    assert "average of the 3 best, valid: perplexity" in log
    if "saved as best/" in log:
        assert best.facts["averaged"] == 3
    else:
        assert best.facts["step"] == 3
