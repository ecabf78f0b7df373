"""Things that many tests need and that no test changes, made once for all processes of a session.

    folder = once("two translators", make)     # calls make(folder) if no process has filled it yet

pytest-xdist's processes share the folder: the first one that needs it fills it, while the others
wait. A test that writes must use a copy.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest
from filelock import FileLock

# In the environment, so that the processes of xdist inherit it.
PLACE = "TRANSLUCID_TESTS_SHARED"
SESSION = "TRANSLUCID_TESTS_SESSION"  # the id of the first process


def once(name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name. If filling it failed halfway, it is made again."""
    place = Path(os.environ[PLACE])
    folder = place / re.sub(r"\W+", "-", name)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            half = Path(mkdtemp(dir=place))
            make(half)
            half.rename(folder)
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """Create the shared folder in the main process; the processes of xdist find it in the
    environment."""
    if not hasattr(config, "workerinput"):
        os.environ[PLACE] = mkdtemp(prefix="translucid-tests-")
        os.environ[SESSION] = str(os.getpid())


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(PLACE), ignore_errors=True)
