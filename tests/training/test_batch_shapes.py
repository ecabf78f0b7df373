"""Few shapes: the loss and its gradients stay, the budget holds, every example comes once."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.test_runs import small
from torch import Tensor

from translucid.runs.batches import Stream, epoch_plan
from translucid.runs.recipe.recipe import Recipe
from translucid.runs.setup import Setup, set_up
from translucid.tasks.batch import Batch
from translucid.training.cuda_graphs import SMALLEST, few, in_few_shapes
from translucid.training.distributed import ALONE, Processes

TASKS = ["translate", "language", "classify", "tag", "embed"]


def captured(task: str, batch_tokens: int = 600) -> tuple[Setup, Recipe]:
    """What a captured run would be given; the network stays on the CPU."""
    setting = set_up(small(task, "still", batch_tokens=batch_tokens), lambda _: None)
    training = setting.recipe.training.model_copy(update={"cuda_graphs": True})
    return setting, setting.recipe.model_copy(update={"training": training})


def outcome(setting: Setup, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """The loss of a batch and its gradients, in float64."""
    network = setting.network.double()
    network.zero_grad()
    loss = setting.task.loss(network, batch)
    loss.backward()
    return loss.detach(), [p.grad for p in network.parameters() if p.grad is not None]


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30), st.integers(0, 50))
def test_lengths_grow_little_and_only_once(lengths: list[int], spare: int) -> None:
    longest = max(lengths) + spare
    rounded = few(lengths, longest)
    for length, after in zip(lengths, rounded.tolist(), strict=True):
        assert length <= after <= longest
        assert after - length < max(SMALLEST, length / 4)
    assert np.array_equal(few(rounded, longest), rounded)


def test_few_lengths_are_few() -> None:
    assert len(np.unique(few(range(1, 257), 256))) == 20
    assert few([200, 199, 7], 200).tolist() == [200, 200, 8]  # rows of a language model stay whole


@pytest.mark.parametrize("task", TASKS)
def test_rows_that_pad_a_batch_do_not_count(task: str) -> None:
    setting, _ = captured(task)
    items = [setting.task.shorten(item, 50) for item in setting.items]
    stream = Stream(setting.task, items, setting.recipe)
    for _ in range(4):
        batch = next(stream)
        filled = in_few_shapes(batch, 900, 99, causal=task == "language")
        assert ("mask" in filled.inputs) == (task not in ("language", "translate"))
        assert filled.targets.shape[0] > batch.targets.shape[0]
        assert filled.targets.shape[1:] > batch.targets.shape[1:] or task in ("classify", "embed")
        torch.testing.assert_close(outcome(setting, filled), outcome(setting, batch))
        assert (filled.count, filled.lines) == (batch.count, batch.lines)


@pytest.mark.parametrize("family", ["still", "lstm", "captured"])
@pytest.mark.parametrize("task", [name for name in TASKS if name != "language"])
def test_masks_without_padding_are_dropped(task: str, family: str) -> None:
    """Of texts that are all as long; what is computed stays."""
    setting, in_graphs = captured(task)
    if family == "lstm":
        chosen = small(task, family, batch_tokens=600)
        spelt = {"characters": 8} if task == "tag" else {}
        chosen = chosen.model_copy(update={"model": chosen.model | {"dropout": 0.0} | spelt})
        setting = set_up(chosen, lambda _: None)
    items = [setting.task.shorten(i, 6) for i in setting.items if min(setting.task.sizes(i)) >= 6]
    assert len(items) > 20
    recipe = in_graphs if family == "captured" else setting.recipe
    batch = next(Stream(setting.task, items, recipe))
    assert not set(batch.inputs) & {"mask", "source_mask", "target_mask"}
    by_line = {item.line: item for item in items}
    masked = setting.task.collate([by_line[line] for line in batch.lines])
    assert set(masked.inputs) - set(batch.inputs)
    torch.testing.assert_close(outcome(setting, batch), outcome(setting, masked))


@pytest.mark.parametrize("task", ["translate", "classify"])
def test_a_mask_that_hides_something_stays(task: str) -> None:
    setting, in_graphs = captured(task)
    pad_id = next(iter(setting.task.vocabularies.values())).pad_id
    ids, mask = ("source", "source_mask") if task == "translate" else ("ids", "mask")
    for chosen in (setting.recipe, in_graphs):
        stream = Stream(setting.task, setting.items, chosen)
        inputs = [next(stream).inputs for _ in range(12)]
        padded = [i for i in inputs if bool((i[ids] == pad_id).any())]
        assert len(padded) > 3
        for some in padded:
            assert torch.equal(some[mask], some[ids] != pad_id)


@pytest.mark.parametrize("task", TASKS)
def test_a_stream_in_few_shapes_has_every_item_once_within_the_budget(task: str) -> None:
    setting, chosen = captured(task)
    plan = epoch_plan(setting.task, setting.items, chosen, 0)
    stream = Stream(setting.task, setting.items, chosen)
    batches = [next(stream) for _ in plan.batches]
    lines = [line for batch in batches for line in batch.lines]
    assert sorted(lines) == sorted(item.line for item in setting.items)
    for batch in batches:
        ids = [t for t in batch.inputs.values() if t.dtype is not torch.bool]
        assert sum(t.numel() for t in ids) <= chosen.training.batch_tokens
        assert len({len(t) for t in (*batch.inputs.values(), batch.targets)}) == 1
    shapes = {batch.targets.shape for batch in batches}
    plain = Stream(setting.task, setting.items, setting.recipe)
    assert len(shapes) <= len({next(plain).targets.shape for _ in batches})
    assert plan.tokens == sum(sum(setting.task.sizes(item)) for item in setting.items)


@pytest.mark.parametrize("batch_tokens", [56, 600])
def test_streams_of_two_processes_are_shares_of_one(batch_tokens: int) -> None:
    """With few tokens a process may get no row, and its batch does not count."""
    setting, chosen = captured("translate", batch_tokens)
    network, streams = setting.network.double(), []
    for processes in (ALONE, Processes(0, 2, "ddp"), Processes(1, 2, "ddp")):
        streams.append(Stream(setting.task, setting.items, chosen, processes=processes))
    idle = 0
    for _ in range(6):
        whole, *shares = map(next, streams)
        losses = [setting.task.loss(network, batch) * (not batch.idle) for batch in shares]
        torch.testing.assert_close(sum(losses), setting.task.loss(network, whole))
        assert [batch.count for batch in shares] == [whole.count] * 2
        assert all(2 * len(batch.targets) <= len(whole.targets) + 1 for batch in shares)
        idle += sum(batch.idle for batch in shares)
    assert bool(idle) == (batch_tokens == 56)
