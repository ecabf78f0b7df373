"""Every fault of `faults.toml` can be planted and is caught."""

from pathlib import Path

import pytest
from tests.invariants.faults import FAULTS, Fault
from tests.invariants.plant import caught

import translucid

SOURCE = Path(translucid.__file__).parent
faults = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)


@faults
def test_the_line_to_break_occurs_once(fault: Fault) -> None:
    assert (SOURCE / fault.file).read_text("utf-8").count(fault.old) == 1


@pytest.mark.thorough
@faults
def test_caught(fault: Fault) -> None:
    assert caught(SOURCE.parent, fault) is None
