"""Of a test with many cases `make test` runs some, spread over all of them; the rest are `slow`.

So they are run by CI, and by who says `-m "not thorough"`. Which ones differs from test to test: of
thirty equalities that are asked of sixty models, each model meets some. Whatever needs a browser is
`slow` too.

Of 20,000 cases `make test` runs a fifth: those that it leaves out are not made, since to make them
would take as long as to import all tests.
"""

from collections.abc import Generator
from zlib import crc32

import pytest

DEARER = frozenset({"slow", "thorough"})
BROWSER = "running"  # the fixture that starts one
LEFT_OUT = {
    "not slow and not thorough": DEARER,
    "not thorough": frozenset({"thorough"}),
}  # by what stands behind -m


def one_in(cases: int) -> int:
    """Of 3 cases every second, of 6 every third, of 12 every fourth, of 32 or more every sixth."""
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
        metafunc._calls[:] = kept or cases[:1]  # one, to be deselected: none would be one without


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and BROWSER in item.fixturenames:
            item.add_marker(pytest.mark.slow)
