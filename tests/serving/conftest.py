"""One server for all tests of a file."""

from collections.abc import Iterator

import pytest
from tests.serving.running import Running, running, usual


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(usual()) as one:
        yield one
