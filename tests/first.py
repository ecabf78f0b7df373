"""In a fresh clone, let one process collect the tests before the others do.

Collecting compiles the imported modules and rewrites the asserts of every test, which takes longer
than the collection itself. Without this file, all processes would do it at the same time; with it,
the others find the compiled files.

Garbage collection is off during collection, because searching the collected tests again and again
would take a fifth of the time.
"""

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from filelock import FileLock
from tests.tiny.once import PLACE


@pytest.hookimpl(trylast=True)  # the shared folder exists by then
def pytest_configure(config: pytest.Config) -> None:
    compiled = config.rootpath / "tests/cli/__pycache__"  # any folder without plugins would do
    if not hasattr(config, "workerinput") and (compiled.exists() or sys.dont_write_bytecode):
        _done().touch()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    gc.disable()
    collected = yield from one_first(session)
    gc.collect()
    gc.freeze()
    gc.enable()
    return collected


def one_first(session: pytest.Session) -> Generator[None, object, object]:
    if session.config.pluginmanager.hasplugin("dsession"):  # xdist's main process collects nothing
        return (yield)
    with FileLock(_done().with_suffix(".lock")):
        if not _done().exists():
            collected = yield
            _done().touch()
            return collected
    return (yield)


def _done() -> Path:
    return Path(os.environ[PLACE]) / "collected"
