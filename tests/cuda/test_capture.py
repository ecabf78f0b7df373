"""Steps as CUDA graphs compute what steps kernel by kernel compute; a resumed run is the same."""

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs.test_resume import same_runs, stop_and_resume
from tests.runs.test_runs import small

from translucid.core.errors import TrainingError
from translucid.runs.batches import Stream
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.recorder import lines
from translucid.runs.run import train_recipe
from translucid.runs.session import Recording
from translucid.runs.setup import Setup, set_up
from translucid.tasks.batch import Batch
from translucid.training.cuda_graphs import Captured
from translucid.training.loop import TrainingProgress, Watchers, seed_step, train
from translucid.training.state import State

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

TASKS = ["translate", "language", "classify", "tag"]


def on_gpu(task: str, family: str = "still", **training: Any) -> Recipe:
    settings = {
        "device": "cuda", "cuda_graphs": True, "batch_tokens": 600, "steps": 12, "packing": False
    }  # fmt: skip
    return small(task, family, **(settings | training))


class Training:
    """A run without a folder. The batches are those of a captured run in any case."""

    def __init__(self, setting: Setup, *, capture: bool, **changed: Any) -> None:
        update = {"cuda_graphs": capture} | changed
        config = setting.recipe.training.model_copy(update=update)
        network = set_up(setting.recipe, lambda _: None).network
        self.state, self.log, self.said = (
            State(network, config),
            list[TrainingProgress](),
            list[str](),
        )
        stream = Stream(setting.task, setting.items, setting.recipe)
        watchers = Watchers(self.log.append, say=self.said.append)
        self.go = lambda: train(
            self.state, setting.task, stream, setting.valid[:4], config, watchers
        )


def trained(setting: Setup, *, capture: bool) -> Training:
    training = Training(setting, capture=capture)
    training.go()
    return training


def same_weights(one: State, other: State, *, but: Sequence[str] = ()) -> None:
    """but: endings of the names of those that may differ."""
    for name, tensor in one.tensors().items():
        if not name.endswith(tuple(but)):
            expected = other.tensors()[name]
            torch.testing.assert_close(tensor, expected, rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("accumulate", [1, 3])
def test_captured_steps_are_plain_steps(task: str, accumulate: int) -> None:
    clip_value = None if accumulate == 1 else 0.01
    recipe = on_gpu(task, accumulate=accumulate, ema=0.9, clip_value=clip_value)
    setting = set_up(recipe, lambda _: None)
    stream = Stream(setting.task, setting.items, setting.recipe)
    shapes = {next(stream).targets.shape for _ in range(12 * accumulate)}
    assert len(shapes) > 1 or task == "language"
    plain, captured = (trained(setting, capture=flag) for flag in (False, True))
    assert [p.loss for p in captured.log] == pytest.approx([p.loss for p in plain.log], rel=1e-4)
    assert [p.norm for p in captured.log] == pytest.approx([p.norm for p in plain.log], rel=1e-3)
    same_weights(captured.state, plain.state)


@pytest.mark.parametrize("family", ["still", "lstm"])
def test_rows_of_several_pairs_and_recurrent_language_models_are_captured(family: str) -> None:
    task, chosen = ("translate", {"packing": True}) if family == "still" else ("language", {})
    recipe = on_gpu(task, family, **chosen)
    if family == "lstm":  # torch's own dropout between layers does not draw by step
        recipe = recipe.model_copy(update={"model": recipe.model | {"dropout": 0.0}})
    setting = set_up(recipe, lambda _: None)
    plain, captured = (trained(setting, capture=flag) for flag in (False, True))
    assert [p.loss for p in captured.log] == pytest.approx([p.loss for p in plain.log], rel=1e-4)
    assert [p.norm for p in captured.log] == pytest.approx([p.norm for p in plain.log], rel=1e-3)
    same_weights(captured.state, plain.state)


def test_a_graph_draws_anew_in_every_step_and_the_same_for_the_same_step() -> None:
    """Whatever was captured in between."""
    setting = set_up(on_gpu("translate", "transformer"), lambda _: None)
    stream = Stream(setting.task, setting.items, setting.recipe)
    batches = [next(stream) for _ in range(12)]
    one = batches[0]
    other = next(b for b in batches if b.targets.shape != one.targets.shape)
    captured = Captured(
        setting.network, setting.task, setting.recipe.training, torch.device("cuda")
    )
    losses = []
    for step, batch in ((0, one), (1, one), (2, other), (0, one), (1, one), (2, other)):
        captured.prepare([batch])
        seed_step(0, step, torch.device("cuda", 0))
        losses.append(float(captured.add(batch, 1.0, last=True)))
    assert losses[:3] == losses[3:]
    assert len(set(losses)) == 3


@pytest.mark.parametrize(("capture", "deterministic"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("task", ["translate", "language"])
def test_a_resumed_run_equals_the_uninterrupted_run(
    task: str, capture: bool, deterministic: bool, tmp_path: Path
) -> None:
    chosen = on_gpu(
        task, "transformer", cuda_graphs=capture, deterministic=deterministic, steps=11, ema=0.9,
        evaluate_every=4, precision="bfloat16",
    )  # fmt: skip
    train_recipe(chosen, tmp_path / "straight", quiet=True)
    stop_and_resume(chosen, tmp_path / "stopped", [1, 2, 4, 1])
    same_runs(tmp_path / "straight", tmp_path / "stopped")
    assert "batches" not in {thread.name for thread in threading.enumerate()}


def bad_at(setting: Setup, line: int) -> None:
    """The loss of a batch with this line is infinite. Batches tell their lines to nobody on a GPU,
    so it is found by its ids."""
    item = next(item for item in setting.items if item.line == line)
    ids = torch.tensor(item.source, device="cuda")
    plain = setting.task.loss

    def loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        source = batch.inputs["source"]
        width = min(len(ids), source.shape[1])
        found = (source[:, :width] == ids[:width]).all(dim=1).any() & (width == len(ids))
        return plain(model, batch) * torch.where(found, torch.inf, 1.0)

    setting.task.loss = loss  # type: ignore[method-assign]


def test_a_record_changes_no_captured_run(tmp_path: Path) -> None:
    """Norms are taken between two launches; a probe is read kernel by kernel."""
    chosen = on_gpu("translate", "transformer", deterministic=True, ema=0.9)
    train_recipe(chosen, tmp_path / "plain", quiet=True)
    train_recipe(chosen, tmp_path / "seen", quiet=True, recording=Recording("The dog sleeps."))
    same_runs(tmp_path / "plain", tmp_path / "seen")
    *steps, end = lines(tmp_path / "seen/studio/steps.jsonl")
    assert (len(steps), end["end"]) == (12, "finished")
    for each in steps:
        assert math.hypot(*each["grad"]) == pytest.approx(each["norm"], rel=1e-4)


def test_a_bad_batch_is_left_out_of_captured_steps_too() -> None:
    chosen = on_gpu("translate", steps=30, skip_bad_batches=9, evaluate_every=99)
    setting = set_up(chosen, lambda _: None)
    bad_at(setting, setting.items[0].line)
    plain, captured = (trained(setting, capture=flag) for flag in (False, True))
    assert captured.state.skipped == plain.state.skipped > 0
    assert captured.said == plain.said
    same_weights(captured.state, plain.state)
    assert all(tensor.isfinite().all() for tensor in captured.state.tensors().values())


def test_a_bad_batch_stops_captured_steps_before_it_does_harm() -> None:
    chosen = on_gpu("translate", steps=30, evaluate_every=99, schedule="constant")
    setting = set_up(chosen, lambda _: None)
    bad_at(setting, setting.items[0].line)
    stopped = Training(setting, capture=True)
    with pytest.raises(TrainingError, match=r"gradient norm is (nan|inf) \(lines .*; lower"):
        stopped.go()
    assert 0 < stopped.state.step < 30
    plain = Training(setting, capture=False, steps=stopped.state.step)
    plain.go()
    same_weights(stopped.state, plain.state)


def test_a_model_that_makes_the_cpu_wait_is_refused_with_the_remedy() -> None:
    setting = set_up(on_gpu("classify"), lambda _: None)
    plain = setting.task.loss

    def loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        return plain(model, batch) * float(batch.targets.sum() > -1e9)

    setting.task.loss = loss  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match=r"cannot be captured \(.*training.cuda_graphs=false"):
        trained(setting, capture=True)


def test_auto_captures_a_transformer_but_not_a_recurrent_encoder(
    tmp_path: Path,
) -> None:
    for family, wanted in (("transformer", True), ("gru", False)):
        said: list[str] = []
        setting = set_up(on_gpu("translate", family, cuda_graphs="auto"), said.append)
        assert setting.recipe.training.cuda_graphs is wanted
        assert any("training.cuda_graphs" in line for line in said) is not wanted
