"""What a test makes known of its own, tasks and positions, is unknown to the next."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from translucid import extensions
from translucid.parts.positions import POSITIONS
from translucid.registry import Registry
from translucid.tasks.registry import TASKS

OWN_CODE = (tempfile.gettempdir(), str(Path(__file__).parent.parent / "examples"))


@pytest.fixture(autouse=True)
def forget_own_code() -> Iterator[None]:
    """Tasks and positions that a test registers are unknown to the next."""
    with forgetting_own_code():
        yield


@contextmanager
def forgetting_own_code() -> Iterator[None]:
    own: list[Registry[Any]] = [TASKS, POSITIONS]
    before, loaded = [dict(registry._sources) for registry in own], dict(extensions._LOADED)
    modules = set(sys.modules)
    yield
    for registry, known in zip(own, before, strict=True):
        for name in registry._sources.keys() - known.keys():
            del registry._sources[name], registry._classes[name]
    for path in extensions._LOADED.keys() - loaded.keys():
        del extensions._LOADED[path]
    for name in set(sys.modules) - modules:  # files of the user's, not parts of the package
        file = str(Path(getattr(sys.modules[name], "__file__", None) or "").resolve())
        if file.startswith(OWN_CODE):
            del sys.modules[name]
