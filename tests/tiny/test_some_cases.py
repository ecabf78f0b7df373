"""Of many cases `make test` runs some, CI draws some of the others, and no case is never drawn.

What is left out is not made where `-m` says so in the words of `make test` and CI; with other words
it is made and deselected: both ways run the same.
"""

import pytest
from tests.shuffled import SEED
from tests.some_cases import SHARE, undrawn

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
@pytest.mark.slow
def test_slow(): pass
@pytest.mark.slow
@pytest.mark.parametrize("n", range(5))
def test_slow_1(n): pass
@pytest.mark.slow
@pytest.mark.parametrize("n", range(5))
def test_slow_2(n): pass
"""
# Hypothesis would be imported again in each run.
OPTIONS = ("-p", "tests.some_cases", "-p", "no:cacheprovider", "-p", "no:hypothesispytest",
           "-o", "markers=slow\nthorough\nundrawn")  # fmt: skip
CI = "not thorough and not undrawn"


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
    single = {"test_few[0]", "test_few[1]", "test_alone", "test_page", "test_slow"}
    both = {f"test_slow_{i}[{n}]" for i in (1, 2) for n in range(5)}
    assert now | later == ci == many | single | both
    assert not now & later
    grid = {f"test_whole_grid[{n}]" for n in range(3)}
    assert names(pytester, "") - ci == grid | {"test_few[2]", "test_none_now[0]"}
    for cases, some in SOME.items():
        run = [name for name in now if name.startswith(f"test_{cases}[")]
        assert some - 1 <= len(run) <= some + 1
    assert {"test_few[0]", "test_alone"} <= now
    assert {"test_few[1]", "test_page"} <= later


def test_ci_draws_some_of_the_slow_cases(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MANY)
    ci = names(pytester, CI)
    assert names(pytester, f"({CI})") == ci  # whether or not the others are created
    now, later = (names(pytester, kind) for kind in ("not slow and not thorough", "slow"))
    assert now | {"test_few[1]", "test_page", "test_slow"} <= ci
    for test in {name.partition("[")[0] for name in later}:
        of_test = {name for name in later if name.partition("[")[0] == test}
        assert len(of_test & ci) == -(-len(of_test) // SHARE)
    one, other = ({n for n in range(5) if f"test_{t}[{n}]" in ci} for t in ("slow_1", "slow_2"))
    assert one == other, "tests of a file share their fixtures"
    printed = pytester.runpytest_inprocess(*OPTIONS, "-m", CI).stdout
    printed.fnmatch_lines(f"slow cases that this seed does not draw: {len(later - ci)}")


def test_every_seed_draws_other_cases_and_every_case_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [f"{model}-{size}" for model in ("rnn", "lstm", "gru") for size in range(4)]
    left = []
    for seed in range(1, 40):
        monkeypatch.setenv(SEED, str(seed))
        left.append(frozenset(undrawn(cases, "tests/test_it.py")))
        assert left[-1] == undrawn(cases[::-1], "tests/test_it.py") != undrawn(cases, "tests/b.py")
        assert len(left[-1]) == len(cases) - len(cases) // SHARE
    assert len(set(left)) > 30
    assert not frozenset.intersection(*left)
    assert undrawn(["one"], "tests/test_it.py") == set()


def test_a_case_that_is_named_is_not_lost(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MANY)
    named = [f"test_it.py::test_40[{n}]" for n in range(6)]
    ran = pytester.inline_run(*OPTIONS, "-m", "not slow and not thorough", *named)
    assert ran.ret == 0  # five are deselected, and none is unknown
