"""One seed, one result: every experiment, measured again, gives the numbers that are kept."""

from typing import Any

import pytest
from tests.lab.families import as_kept, quick_data

from translucid_lab.claims import decoded_texts, experiments

TIMES = {  # what is measured in seconds is never the same twice; None: all of it
    "all-at-once": None,
    "recurrence-time": None,
    "rotary-scaling": "time",
    "norm-cost": "ratio",
}
CHEAP = 0.3  # seconds that the full experiment takes: these are measured again by `make test`
KNOWN = {name: each for name, each in experiments().items() if TIMES.get(name, "") is not None}
DEAR = 1.5  # as many or more: on demand
CASES = [
    pytest.param(
        name,
        marks=[]
        if each.seconds <= CHEAP
        else pytest.mark.thorough
        if each.seconds >= DEAR
        else pytest.mark.slow,
    )
    for name, each in KNOWN.items()
]


@pytest.mark.parametrize("name", CASES)
def test_one_seed_gives_one_result(name: str) -> None:
    before = quick_data(KNOWN[name])
    decoded_texts.language_model.cache_clear()  # or the second run would ask the same model
    again = as_kept(KNOWN[name].run(0, True))
    assert _without_times(name, again) == _without_times(name, before)


def _without_times(name: str, data: Any) -> str:
    """As text, in which what is no number equals itself."""
    return repr({key: value for key, value in data.items() if key != TIMES.get(name)})
