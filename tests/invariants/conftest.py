"""Store which invariant each test checks in its report, for the summary (`summary.py`)."""

from collections.abc import Iterator

import pytest
import torch


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("invariant")
        if mark is not None:
            item.user_properties.append(("invariant", mark.args[0]))


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    # torch.manual_seed would take 2 ms, because it records the call stack for each accelerator.
    torch.default_generator.manual_seed(0)


@pytest.fixture
def no_grad() -> Iterator[None]:
    """Turn off gradients for tests that only look at values, which makes them twice as fast."""
    with torch.no_grad():
        yield
