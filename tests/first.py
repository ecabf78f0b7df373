"""In a fresh clone one process collects the tests before the others do.

What it imports it compiles, and pytest rewrites the asserts of every test: that takes longer than
to collect. All at once would do it once each; so the others find it done.

What is collected stays until the end: to look through it for garbage, again and again, takes a
fifth of the time.
"""

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from filelock import FileLock
from tests.tiny.once import PLACE


@pytest.hookimpl(trylast=True)  # the place is there
def pytest_configure(config: pytest.Config) -> None:
    compiled = config.rootpath / "tests/cli/__pycache__"  # of any folder that is no plugin's
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
    if session.config.pluginmanager.hasplugin("dsession"):  # xdist's first process collects nothing
        return (yield)
    with FileLock(_done().with_suffix(".lock")):
        if not _done().exists():
            collected = yield
            _done().touch()
            return collected
    return (yield)


def _done() -> Path:
    return Path(os.environ[PLACE]) / "collected"
