"""What every test relies on."""

import os
from pathlib import Path

import torch

# The tensors of the tests are tiny: more threads only get in each other's way.
torch.set_num_threads(1)

# Commands that tests start find the source where pytest finds it (`pythonpath` in pyproject.toml).
os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent / "src")

# Here, since xdist's first process loads no other.
pytest_plugins = [
    "tests.invariants.summary", "tests.own_code", "tests.tiny.once", "tests.tiny.toyland",
    "tests.first", "tests.some_cases",
]  # fmt: skip
