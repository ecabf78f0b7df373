"""Of a test with many cases `make test` runs some, spread over all of them; the rest are `slow`.

So they are run by CI, and by who names a case or says `-m "not thorough"`. Which ones differs from
test to test: of thirty equalities that are asked of sixty models, each model meets some. Whatever
needs a browser is `slow` too.
"""

from collections import defaultdict
from zlib import crc32

import pytest

DEARER = ("slow", "thorough")
BROWSER = "running"  # the fixture that starts one


def one_in(cases: int) -> int:
    """Of 4 cases every second, of 12 every third, of 32 or more every fourth."""
    return 1 + (cases >= 4) + (cases >= 12) + (cases >= 32)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and BROWSER in item.fixturenames:
            item.add_marker(pytest.mark.slow)
        name, case, _ = item.nodeid.partition("[")
        if case and not any(item.get_closest_marker(kind) for kind in DEARER):
            cases[name].append(item)
    for name, made in cases.items():
        step = one_in(len(made))
        for number, item in enumerate(made, start=crc32(name.encode())):
            if number % step:
                item.add_marker(pytest.mark.slow)
