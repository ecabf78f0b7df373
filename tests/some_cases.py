"""Run only some cases of a parametrized test in `make test`, and mark the others as `slow`.

The chosen cases are spread over all cases and differ from test to test: if thirty tests have the
same sixty models as cases, each model is used in some of them. Tests that need a browser are `slow`
too.

Of the slow cases of a test, CI runs one in `SHARE`: the seed of the order draws them
(tests/shuffled.py), and the others are marked `undrawn`. A test with one slow case always runs it.
`-m "not thorough"` runs all cases, as CI does every week.

Cases that are left out are not created, because creating them would take as long as importing all
tests.
"""

import os
from collections.abc import Generator
from hashlib import sha256
from typing import Any
from zlib import crc32

import pytest
from tests.shuffled import SEED

DEARER = frozenset({"slow", "thorough"})
BROWSER = "running"  # the fixture that starts one
SHARE = 4
LATER = pytest.StashKey[int]()  # number of undrawn cases
LEFT_OUT = {
    "not slow and not thorough": DEARER,
    "not thorough and not undrawn": frozenset({"thorough", "undrawn"}),
    "not thorough": frozenset({"thorough"}),
}  # by the argument of -m


def one_in(cases: int) -> int:
    """Run every n-th case: n = 2 from 3 cases on, 3 from 6, 4 from 12, 6 from 32."""
    return 1 + (cases >= 3) + (cases >= 6) + (cases >= 12) + 2 * (cases >= 32)


def undrawn(slow: list[str], file: str) -> set[str]:
    """The names of the slow cases that the seed does not draw.

    Tests of the same file draw the same cases, which share fixtures."""
    seed = os.environ.get(SEED, "0")
    order = sorted(slow, key=lambda name: sha256(f"{seed} {file} {name}".encode()).digest())
    return set(order[-(-len(order) // SHARE) :])


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    yield
    cases = metafunc._calls
    of_all = {mark.name for mark in metafunc.definition.iter_markers()}
    if BROWSER in metafunc.fixturenames:
        of_all.add("slow")
    if not of_all & DEARER:
        cheap = [case for case in cases if not DEARER & {mark.name for mark in case.marks}]
        step = one_in(len(cheap))
        for number, case in enumerate(cheap, start=crc32(metafunc.definition.nodeid.encode())):
            if number % step:
                case.marks.append(pytest.mark.slow.mark)
    if "thorough" not in of_all:
        slow = [c for c in cases if (of_all | {m.name for m in c.marks}) & DEARER == {"slow"}]
        later = undrawn([c.id for c in slow], metafunc.definition.nodeid.partition("::")[0])
        for case in slow:
            if case.id in later:
                case.marks.append(pytest.mark.undrawn.mark)
    options = metafunc.config.option
    left_out = LEFT_OUT.get(options.markexpr, frozenset())
    if left_out and not any("[" in name for name in options.file_or_dir):  # no case is named
        kept = [c for c in cases if not left_out & (of_all | {mark.name for mark in c.marks})]
        # Keep at least one case, which is then deselected: with none, pytest would run the test
        # once, without parameters.
        if "undrawn" in left_out:
            config = metafunc.config
            config.stash[LATER] = config.stash.get(LATER, 0) + sum(
                "undrawn" in {mark.name for mark in case.marks} for case in cases
            )
        metafunc._calls[:] = kept or cases[:1]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and BROWSER in item.fixturenames:
            item.add_marker(pytest.mark.slow)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # the main process of xdist collects no tests
        session.config.workeroutput["undrawn"] = session.config.stash.get(LATER, 0)


@pytest.hookimpl(optionalhook=True)  # xdist's
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LATER] = getattr(node, "workeroutput", {}).get("undrawn", 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if left := config.stash.get(LATER, 0):
        terminalreporter.write_line(f"slow cases that this seed does not draw: {left}")
