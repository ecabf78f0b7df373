"""Run the tests in a random order: files first, then the tests of each file.

The tests of a file stay together, so that its fixtures are created once. `LONGEST` is
first: if it were last, the other processes would wait for it. The seed is printed;
`TRANSLUCID_TESTS_SEED=1234 make test` repeats an order, and 0 keeps the order of the files.
"""

import os
import random

import pytest

LONGEST = "test_website.py"  # two minutes
SEED = "TRANSLUCID_TESTS_SEED"  # in the environment, so that all processes of xdist share it


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[SEED] = os.environ.get(SEED) or str(random.SystemRandom().randrange(1, 10_000))


def pytest_report_header() -> str:
    return f"order of the tests: {SEED}={os.environ[SEED]}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode
) -> None:
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(pytest_report_header())


@pytest.hookimpl(tryfirst=True)  # afterwards, pytest groups the tests that share a fixture
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if int(os.environ[SEED]):
        items[:] = shuffled(items, int(os.environ[SEED]))


def shuffled(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    chosen = random.Random(seed)
    files = {item.path: chosen.random() - (item.path.name == LONGEST) for item in items}
    return sorted(items, key=lambda item: (files[item.path], chosen.random()))
