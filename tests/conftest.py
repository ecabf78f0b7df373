"""Settings and plugins for all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# The tensors of the tests are so small that more threads would slow each other down.
torch.set_num_threads(1)

# Commands that tests start import the same source as pytest (`pythonpath` in pyproject.toml).
# Earlier entries of PYTHONPATH are kept.
SOURCE = str(Path(__file__).resolve().parent.parent / "src")
os.environ["PYTHONPATH"] = os.pathsep.join(
    dict.fromkeys([SOURCE, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
)

# A comparison with transformers at each first opening would take seconds in thousands of tests.
os.environ["TRANSLUCID_VERIFY"] = "off"

# Plugins are listed here because the main process of xdist loads no other conftest.py.
pytest_plugins = [
    "tests.invariants.summary", "tests.own_code", "tests.tiny.once", "tests.tiny.toyland",
    "tests.first", "tests.shuffled", "tests.some_cases",
]  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def without_fsync() -> Iterator[None]:
    """Turn off fsync: the files of a test need not survive a power failure, and a small training
    would wait for it thirty times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
