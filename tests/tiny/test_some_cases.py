"""Of many cases `make test` runs some, CI the others, and nobody leaves one out.

What is left out is not made where `-m` says so in the words of `make test` and CI; with other words
it is made and deselected: both ways run the same.
"""

import pytest

pytest_plugins = ["pytester"]

SOME = {2: 2, 5: 2, 12: 3, 40: 7}  # of so many cases
MANY = "import pytest" + "".join(f"""
@pytest.mark.parametrize("n", range({cases}))
def test_{cases}(n): pass
""" for cases in SOME)  # fmt: skip
MANY += """
@pytest.mark.parametrize("n", [
    0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.thorough)])
def test_few(n): pass
@pytest.mark.thorough
@pytest.mark.parametrize("n", range(3))
def test_whole_grid(n): pass
@pytest.mark.parametrize("n", [pytest.param(0, marks=pytest.mark.thorough)])
def test_none_now(n): pass
def test_alone(): pass
@pytest.fixture
def running(): pass
@pytest.fixture
def page(running): pass
def test_page(page): pass
"""
OPTIONS = ("-p", "tests.some_cases", "-p", "no:cacheprovider", "-o", "markers=slow\nthorough")


def names(pytester: pytest.Pytester, kind: str) -> set[str]:
    passed, skipped, failed = pytester.inline_run(*OPTIONS, "-m", kind).listoutcomes()
    assert not skipped
    assert not failed
    return {report.nodeid.partition("::")[2] for report in passed}


def test_some_now_and_the_rest_later(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MANY)
    now, ci = (names(pytester, kind) for kind in ("not slow and not thorough", "not thorough"))
    later = names(pytester, "slow")
    assert names(pytester, "not (slow or thorough)") == now
    assert names(pytester, "not (thorough)") == ci
    many = {f"test_{cases}[{n}]" for cases in SOME for n in range(cases)}
    assert now | later == ci == many | {"test_few[0]", "test_few[1]", "test_alone", "test_page"}
    assert not now & later
    grid = {f"test_whole_grid[{n}]" for n in range(3)}
    assert names(pytester, "") - ci == grid | {"test_few[2]", "test_none_now[0]"}
    for cases, some in SOME.items():
        run = [name for name in now if name.startswith(f"test_{cases}[")]
        assert some - 1 <= len(run) <= some + 1
    assert {"test_few[0]", "test_alone"} <= now
    assert {"test_few[1]", "test_page"} <= later


def test_a_case_that_is_named_is_not_lost(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MANY)
    named = [f"test_it.py::test_40[{n}]" for n in range(6)]
    ran = pytester.inline_run(*OPTIONS, "-m", "not slow and not thorough", *named)
    assert ran.ret == 0  # five are deselected, and none is unknown
