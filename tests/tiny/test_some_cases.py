"""Of many cases `make test` runs some, CI the others, and nobody leaves one out."""

import pytest

pytest_plugins = ["pytester"]

MANY = """
import pytest
@pytest.mark.parametrize("n", range(COUNT))
def test_many(n): pass
@pytest.mark.parametrize("n", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_few(n): pass
def test_alone(): pass
@pytest.fixture
def running(): pass
@pytest.fixture
def page(running): pass
def test_page(page): pass
"""
OPTIONS = ("-p", "tests.some_cases", "-p", "no:cacheprovider", "-o", "markers=slow thorough")


def names(pytester: pytest.Pytester, kind: str) -> set[str]:
    passed, skipped, failed = pytester.inline_run(*OPTIONS, "-m", kind).listoutcomes()
    assert not skipped
    assert not failed
    return {report.nodeid.partition("::")[2] for report in passed}


@pytest.mark.parametrize(("cases", "some"), [(3, 3), (5, 2), (12, 4), (40, 10)])
def test_some_now_and_the_rest_later(pytester: pytest.Pytester, cases: int, some: int) -> None:
    pytester.makepyfile(MANY.replace("COUNT", str(cases)))
    now, later = (names(pytester, kind) for kind in ("not slow", "slow"))
    many = {f"test_many[{n}]" for n in range(cases)}
    assert now | later == many | {"test_few[0]", "test_few[1]", "test_alone", "test_page"}
    assert not now & later
    assert some - 1 <= len(now & many) <= some + 1
    assert {"test_few[0]", "test_alone"} <= now
    assert {"test_few[1]", "test_page"} <= later
