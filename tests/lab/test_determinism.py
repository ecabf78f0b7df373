"""One seed, one result: every experiment, measured again, gives the numbers that are kept."""

from typing import Any

import pytest
from _pytest.mark import ParameterSet
from tests.lab.families import as_kept, check, quick_data

from translucid_lab.claims import decoded_texts, experiments

TIMES = {  # what is measured in seconds is never the same twice; None: all of it
    "all-at-once": None,
    "recurrence-time": None,
    "rotary-scaling": "time",
    "norm-cost": "ratio",
}
CHEAP = 0.3  # seconds that the full experiment takes: these are measured again by `make test`
KNOWN = {name: each for name, each in experiments().items() if TIMES.get(name, "") is not None}


def cases(thorough_from: float) -> list[ParameterSet]:
    """The experiments by name; what takes as many seconds or more is run on demand."""
    marks = {
        name: [] if made.seconds <= CHEAP else
        [pytest.mark.thorough if made.seconds >= thorough_from else pytest.mark.slow]
        for name, made in KNOWN.items()
    }  # fmt: skip
    return [pytest.param(name, marks=marks[name]) for name in KNOWN]


@pytest.mark.parametrize("name", cases(thorough_from=20.0))
def test_rules_and_picture_accept_what_is_measured(name: str) -> None:
    check(KNOWN[name], [quick_data(KNOWN[name])] * KNOWN[name].seeds)


@pytest.mark.parametrize("name", cases(thorough_from=1.5))
def test_one_seed_gives_one_result(name: str) -> None:
    before = quick_data(KNOWN[name])
    decoded_texts.language_model.cache_clear()  # or the second run would ask the same model
    again = as_kept(KNOWN[name].run(0, True))
    assert _without_times(name, again) == _without_times(name, before)


def _without_times(name: str, data: Any) -> str:
    """As text, in which what is no number equals itself."""
    return repr({key: value for key, value in data.items() if key != TIMES.get(name)})
