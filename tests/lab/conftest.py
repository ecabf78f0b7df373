"""Quick measurements of experiments are stored once per session and shared by all processes."""

import os

import pytest
from tests.lab import families


@pytest.fixture(scope="session", autouse=True)
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    families.folder = shared / "quick-lab"
