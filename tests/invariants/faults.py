"""The deliberate faults of `faults.toml`; `plant.py` inserts them into a copy of the source."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """A deliberate fault: one changed line of the source."""

    file: str  # under src/translucid
    what: str
    old: str  # occurs in the file exactly once
    new: str
    red: str  # the test that must fail: file::function, without `test_`


_TEXT = Path(__file__).with_suffix(".toml").read_text("utf-8")
FAULTS = tuple(Fault(**fault) for fault in tomllib.loads(_TEXT)["fault"])
