"""What every test relies on."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# The tensors of the tests are tiny: more threads only get in each other's way.
torch.set_num_threads(1)

# Commands that tests start find the source where pytest finds it (`pythonpath` in pyproject.toml).
# What was on the path before stays there.
SOURCE = str(Path(__file__).resolve().parent.parent / "src")
os.environ["PYTHONPATH"] = os.pathsep.join(
    dict.fromkeys([SOURCE, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
)

# A comparison with transformers at each first opening would take seconds in thousands of tests.
os.environ["TRANSLUCID_VERIFY"] = "off"

# Here, since xdist's first process loads no other.
pytest_plugins = [
    "tests.invariants.summary", "tests.own_code", "tests.tiny.once", "tests.tiny.toyland",
    "tests.first", "tests.some_cases", "tests.shuffled",
]  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def without_fsync() -> Iterator[None]:
    """What a test writes need not survive a power failure; a small training waits thirty times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
