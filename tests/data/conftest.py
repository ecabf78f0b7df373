"""Files for the readers, and Hypothesis settings without a deadline, so that no test fails on a
busy machine. Every run draws different examples.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

Make = Callable[[str, str | bytes], Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
