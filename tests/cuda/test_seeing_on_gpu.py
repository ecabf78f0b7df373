"""Pictures of a model on a GPU: the same as on a CPU, and nothing is copied that is not shown."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from tests.see.small import pair
from torch.utils._python_dispatch import TorchDispatchMode

from translucid.see.pictures import Grid, Heat
from translucid.see.reading import read

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TEXT = " ".join(["the dog sees a cat ."] * 12)
WIDE = {"transformer": {"d_model": 32}, "lstm": {"d_model": 32, "hidden": 32}}


class Copied(TorchDispatchMode):
    """Counts what leaves the GPU."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        moved = isinstance(out, torch.Tensor) and not out.is_cuda
        if moved and any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args):
            self.numbers += out.numel()
        return out


@pytest.mark.parametrize("family", ["transformer", "lstm"])
def test_only_what_is_shown_is_copied(family: str) -> None:
    task, network = pair("language", family, layers=2, **WIDE[family])
    here = read(network, task, TEXT)
    there = read(deepcopy(network).cuda(), task, TEXT)
    patterns = ["decoder.embedding.lookup"]
    if family == "transformer":
        patterns += ["*.self_attention.pattern", "decoder.layers.1.self_attention.masked"]
    else:
        patterns += ["*.lstm.*_gate"]
    for pattern in patterns:
        with Copied() as copied:
            picture = there.figure(pattern)
        heats = picture.heats if isinstance(picture, Grid) else (picture,)
        assert all(isinstance(heat, Heat) for heat in heats)
        assert copied.numbers == sum(heat.values.size for heat in heats)
        wanted = here.figure(pattern)
        expected = wanted.heats if isinstance(wanted, Grid) else (wanted,)
        for mine, its in zip(heats, expected, strict=True):
            np.testing.assert_allclose(mine.values, its.values, atol=1e-9)
