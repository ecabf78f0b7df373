"""Gradients in one buffer are those of the parameters, and sum up over processes."""

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from translucid.models import TransformerConfig, build
from translucid.training.gradients import ALIGNED, FlatGradients

SHAPE: dict[str, Any] = {
    "shape": "decoder", "head": "language", "vocab": 11, "d_model": 8, "heads": 2, "layers": 1,
    "dropout": 0.0,
}  # fmt: skip
IDS = torch.arange(24).view(4, 6) % 11


def network() -> nn.Module:
    torch.manual_seed(0)
    return build(TransformerConfig(**SHAPE))


def backward(model: nn.Module, ids: Tensor) -> None:
    logits = model(ids=ids).flatten(0, 1)
    F.cross_entropy(logits, ids.flatten(), reduction="sum").backward()


def expected(times: int) -> list[Tensor]:
    model = network()
    for _ in range(times):
        backward(model, IDS)
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_gradients_add_up_where_they_are_and_are_forgotten_at_once() -> None:
    model = network()
    parameters = list(model.parameters())
    flat = FlatGradients(parameters)
    places = [p.grad.data_ptr() for p in parameters if p.grad is not None]
    for _ in range(2):
        backward(model, IDS)
    gradients = [p.grad for p in parameters if p.grad is not None]
    torch.testing.assert_close(gradients, expected(2))
    assert [g.data_ptr() for g in gradients] == places
    assert all((place - places[0]) % (4 * ALIGNED) == 0 for place in places)
    flat.zero()
    assert not any(g.any() for g in gradients)


def half(rank: int, folder: str) -> None:
    """One of two processes, with every second row."""
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    model = network()
    flat = FlatGradients(list(model.parameters()))
    backward(model, IDS[rank::2])
    flat.sum()
    torch.save(
        [p.grad.clone() for p in model.parameters() if p.grad is not None], f"{folder}/{rank}"
    )
    dist.destroy_process_group()


@pytest.mark.skipif(os.name == "nt", reason="forks")
def test_two_processes_sum_to_the_gradients_of_all_rows(tmp_path: Path) -> None:
    forks = multiprocessing.get_context("fork")
    both = [forks.Process(target=half, args=(rank, str(tmp_path))) for rank in (0, 1)]
    for process in both:
        process.start()
    for process in both:
        process.join(timeout=120)
    assert [process.exitcode for process in both] == [0, 0]
    for rank in (0, 1):
        torch.testing.assert_close(torch.load(tmp_path / str(rank)), expected(1))
