"""Unregister the tasks and position schemes that a test has registered."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from translucid.core import extensions
from translucid.core.registry import Registry
from translucid.parts.positions import POSITIONS
from translucid.tasks.registry import TASKS


@pytest.fixture(autouse=True)
def forget_own_code() -> Iterator[None]:
    """After each test, unregister its tasks and position schemes, so that the next test does not
    see them."""
    with forgetting_own_code():
        yield


@contextmanager
def forgetting_own_code() -> Iterator[None]:
    own: list[Registry[Any]] = [TASKS, POSITIONS]
    before, loaded = [dict(registry._sources) for registry in own], dict(extensions._LOADED)
    modules = set(sys.modules)
    yield
    files: set[Path | None] = set(extensions._LOADED.keys() - loaded.keys())
    for registry, known in zip(own, before, strict=True):
        for name in registry._sources.keys() - known.keys():
            files.add(registry._sources[name].path)
            del registry._sources[name], registry._classes[name]
    for path in extensions._LOADED.keys() - loaded.keys():
        del extensions._LOADED[path]
    for name in set(sys.modules) - modules:
        if any(belongs(name, path) for path in files if path is not None):
            del sys.modules[name]


def belongs(name: str, own: Path) -> bool:
    """Whether a module is the user's file, or a file or package beside it. Modules in deeper
    folders, such as an environment or a checkout of Translucid, are not the user's."""
    file = Path(getattr(sys.modules[name], "__file__", None) or "").resolve()
    beside = own.parent / name.partition(".")[0]
    return file in (own, beside.with_suffix(".py")) or file.is_relative_to(beside)
