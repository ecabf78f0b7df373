"""Run only some cases of a parametrized test in `make test`, and mark the others as `slow`.

CI runs all cases, and so does `-m "not thorough"`. The chosen cases are spread over all cases and
differ from test to test: if thirty tests have the same sixty models as cases, each model is used in
some of them. Tests that need a browser are `slow` too.

`make test` runs a fifth of the 20,000 cases. The others are not created, because creating them
would take as long as importing all tests.
"""

from collections.abc import Generator
from zlib import crc32

import pytest

DEARER = frozenset({"slow", "thorough"})
BROWSER = "running"  # the fixture that starts one
LEFT_OUT = {
    "not slow and not thorough": DEARER,
    "not thorough": frozenset({"thorough"}),
}  # by the argument of -m


def one_in(cases: int) -> int:
    """Run every n-th case: n = 2 from 3 cases on, 3 from 6, 4 from 12, 6 from 32."""
    return 1 + (cases >= 3) + (cases >= 6) + (cases >= 12) + 2 * (cases >= 32)


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
    options = metafunc.config.option
    left_out = LEFT_OUT.get(options.markexpr, frozenset())
    if left_out and not any("[" in name for name in options.file_or_dir):  # no case is named
        kept = [c for c in cases if not left_out & (of_all | {mark.name for mark in c.marks})]
        # Keep at least one case, which is then deselected: with none, pytest would run the test
        # once, without parameters.
        metafunc._calls[:] = kept or cases[:1]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and BROWSER in item.fixturenames:
            item.add_marker(pytest.mark.slow)
