"""The order of the tests: any, by a seed; and what a warning of other packages may do to it."""

import warnings
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.shuffled import LONGEST, SEED, shuffled

pytest_plugins = ["pytester"]

ITEMS: list[Any] = [
    SimpleNamespace(path=Path(f"test_{file}.py"), name=name) for file in "abcdef" for name in "xyz"
]


def test_a_seed_is_an_order_of_files_whose_tests_stay_together() -> None:
    orders = [shuffled(ITEMS, seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    for order in orders:
        assert sorted(map(id, order)) == sorted(map(id, ITEMS))
        assert sum(one.path != other.path for one, other in pairwise(order)) == 5
    within = {tuple(i.name for i in order if i.path.name == "test_a.py") for order in
              (shuffled(ITEMS, seed) for seed in range(1, 20))}  # fmt: skip
    assert len(within) == 6, "all orders of three tests"
    longest = SimpleNamespace(path=Path(LONGEST), name="x")
    assert all(shuffled([*ITEMS, longest], seed)[0] is longest for seed in range(1, 20))


def test_a_test_that_needs_another_before_it_is_found(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As written it passes, and in about half of the orders."""
    pytester.makepyfile("made = []\ndef test_make(): made.append(1)\ndef test_use(): assert made\n")
    failed = set()
    for seed in range(8):
        monkeypatch.setenv(SEED, str(seed))
        outcome = pytester.inline_run(
            "-p", "tests.shuffled", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"
        )
        failed.add(len(outcome.listoutcomes()[2]))
        assert seed or failed == {0}
    assert failed == {0, 1}


@pytest.mark.parametrize("kind", [DeprecationWarning, FutureWarning])
def test_what_other_packages_deprecate_fails_no_test_and_what_we_call_does(
    kind: type[Warning],
) -> None:
    """torch imports parts of itself when they are needed: in whichever test comes first."""
    for module in ("torch.jit._script", "torch", "sympy.core"):
        warnings.warn_explicit("is deprecated", kind, "somewhere.py", 1, module=module)
    for module in ("translucid.parts.norms", "tests.parts.test_norms", "torchlike"):
        with pytest.raises(kind):
            warnings.warn_explicit("is deprecated", kind, "somewhere.py", 1, module=module)
