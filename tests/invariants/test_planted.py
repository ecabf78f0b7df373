"""The list of planted faults is kept: each can be planted, is in the README, and is caught."""

from pathlib import Path

import pytest
from tests.invariants.faults import FAULTS, Fault
from tests.invariants.plant import caught

import translucid

SOURCE = Path(translucid.__file__).parent
README = Path(__file__).parent / "README.md"
faults = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)


@faults
def test_the_line_to_break_is_there(fault: Fault) -> None:
    assert (SOURCE / fault.file).read_text("utf-8").count(fault.old) == 1


def test_the_readme_lists_every_fault() -> None:
    text = README.read_text("utf-8")
    assert [f.what for f in FAULTS if f"| {f.file} | {f.what} | {f.red} |" not in text] == []


@pytest.mark.thorough
@faults
def test_caught(fault: Fault) -> None:
    assert caught(SOURCE.parent, fault) is None
