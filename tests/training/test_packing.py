"""Rows of several pairs: the loss and its gradients are those of the pairs alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runs.test_resume import same_runs, stop_and_resume
from tests.runs.test_runs import small

from translucid.core.errors import ConfigError, InputError
from translucid.models import RecurrentConfig, build
from translucid.runs.batches import Stream
from translucid.runs.recipe import recipe
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.run import train_recipe
from translucid.runs.setup import set_up
from translucid.training import automatic
from translucid.training.distributed import Processes

POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "relative", "none"]


def still(**model: Any) -> Recipe:
    """Without dropout; its rows are shared."""
    chosen = small("translate", "still", packing=True, batch_tokens=600)
    return chosen.model_copy(update={"model": chosen.model | model})


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_shared_row_is_its_pairs_one_by_one(positions: str) -> None:
    setting = set_up(
        still(positions=positions, **({"window": 4} if positions == "rotary" else {})), _hear
    )
    network, task = setting.network.double(), setting.task
    by_line = {item.line: item for item in setting.items}
    stream = Stream(task, setting.items, setting.recipe)
    for _ in range(2):
        packed = next(stream)
        assert len(packed.lines) > 2 * len(packed.targets)
        found = []
        for batch in (packed, task.collate([by_line[line] for line in packed.lines])):
            network.zero_grad()
            loss = task.loss(network, batch)
            loss.backward()
            gradients = [p.grad for p in network.parameters() if p.grad is not None]
            found.append((loss.detach(), gradients, batch.count))
        torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_an_epoch_has_every_pair_once_and_processes_share_its_rows() -> None:
    setting = set_up(still(), _hear)
    streams = [
        Stream(setting.task, setting.items, setting.recipe, processes=p)
        for p in (Processes(0, 1), Processes(0, 3), Processes(1, 3), Processes(2, 3))
    ]
    lines: list[int] = []
    shapes = set()
    while len(lines) < len(setting.items):
        whole, *parts = (next(stream) for stream in streams)
        lines += whole.lines
        shapes.add(whole.targets.shape)
        shared = [line for part in parts if not part.idle for line in part.lines]
        assert sorted(shared) == sorted(whole.lines)
        assert {part.count for part in parts} == {whole.count}
        assert len({part.targets.shape for part in parts}) == 1
    assert sorted(lines) == sorted(item.line for item in setting.items)
    assert len(shapes) == 1
    assert streams[0].one_shape


@pytest.mark.slow
def test_a_resumed_run_equals_the_uninterrupted_run(tmp_path: Path) -> None:
    chosen = small("translate", "transformer", packing=True, batch_tokens=900, steps=9)
    train_recipe(chosen, tmp_path / "straight", quiet=True)
    stop_and_resume(chosen, tmp_path / "stopped", [1, 4])
    same_runs(tmp_path / "straight", tmp_path / "stopped")
    assert recipe.read(tmp_path / "straight/recipe.toml").training.packing is True
    assert "one shape" in (tmp_path / "straight/log.txt").read_text("utf-8")


def test_packing_is_refused_where_it_is_impossible() -> None:
    refused = {
        "task tag": small("tag", "still", packing=True),
        "model.kind = recurrent": small("translate", "lstm", packing=True),
        "batch norm": still(norm="batch"),
        "a packed row has 128 tokens.*training.batch_tokens = 100": small(
            "translate", "still", packing=True, batch_tokens=100
        ),
    }
    for words, chosen in refused.items():
        with pytest.raises(ConfigError, match=rf"training.packing = true: {words}.*to false"):
            set_up(chosen, _hear)


def test_auto_packing_depends_on_graphs_and_padding() -> None:
    setting = set_up(small("translate", "still", batch_tokens=600), _hear)
    model = setting.network.config
    assert setting.recipe.training.packing is False, "on a CPU"
    captured = setting.recipe.training.model_copy(update={"packing": "auto", "cuda_graphs": True})

    def decided(items: Any, **changed: Any) -> bool:
        config = captured.model_copy(update=changed)
        return automatic.with_packing(config, model, setting.task, items).packing is True

    assert decided(setting.items)
    assert not decided(setting.items, cuda_graphs=False)
    assert not decided(setting.items, packing=False)
    same = [item for item in setting.items if np.array_equal(_size(item), _size(setting.items[0]))]
    assert not decided(same), "without padding there is nothing to gain"


def test_numbers_of_texts_are_for_transformers_and_for_both_masks() -> None:
    numbers, plain = torch.ones(1, 3, dtype=torch.long), torch.ones(1, 3, dtype=torch.bool)
    ids = torch.full((1, 3), 5)
    sizes = {"vocab": 9, "shape": "encoder-decoder", "head": "language", "d_model": 8}
    recurrent = build(RecurrentConfig(**sizes, hidden=8))
    transformer = set_up(still(), _hear).network
    for network, masks in (
        (recurrent, (numbers, numbers)), (transformer, (numbers, plain)),
        (transformer, (plain, numbers)), (transformer, (numbers, None)),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"mask of (source|target) .*boolean"):
            network(ids, ids, *masks)


def _size(item: Any) -> tuple[int, int]:
    return len(item.source), len(item.target)


def _hear(_: str) -> None:
    pass
