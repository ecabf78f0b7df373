"""What every test relies on."""

import os
from pathlib import Path

import torch

# The tensors of the tests are tiny: more threads only get in each other's way.
torch.set_num_threads(1)

# Commands that tests start find the source where pytest finds it (`pythonpath` in pyproject.toml).
os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent / "src")

pytest_plugins = ["tests.invariants.summary"]  # here, since xdist's printing process loads no other
