"""What holds for every experiment of a family: rules and a picture take what it measures."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.runner import jobs_of, measure
from translucid_lab.engine.verdict import Data, Finding, Verdict

Rows = Sequence[Mapping[str, Any]]


folder = Path()  # of what was measured in this session; see conftest.py


def quick_data(experiment: Experiment, seed: int = 0) -> Data:
    """Measured once in a session, and kept as the runner keeps it."""
    (job,) = jobs_of(experiment, folder, seeds=1, first=seed, quick=True)
    found: Data = measure(job)["data"]
    return found


def changed_data(experiment: Experiment, seed: int = 0) -> Data:
    """Of an experiment some of whose parts a test has exchanged: measured for this test alone, and
    the same both times."""
    first, again = (as_kept(experiment.run(seed, True)) for _ in range(2))
    assert repr(first) == repr(again), f"{experiment.name}: one seed, two results"
    return first


def as_kept(data: Data) -> Data:
    """As it is after it was written and read."""
    found: Data = json.loads(json.dumps(data))
    return found


def check(experiment: Experiment, data: Rows) -> None:
    """Rules and picture take these numbers; the picture can be drawn."""
    for key, rule in experiment.claims.items():
        finding = rule.finding(data)
        assert finding.why, key
        json.dumps(finding.numbers, allow_nan=False)
    picture = experiment.draw(data)
    assert picture.json()
    assert picture.svg().startswith("<svg")


def verdict(experiment: Experiment, key: str, data: Rows) -> Verdict:
    return experiment.claims[key].finding(data).verdict


JITTER = tuple(at / 4.5 - 1 for at in range(10))  # ten seeds, from -1 to 1


def judging(experiments: Mapping[str, Experiment]) -> Callable[[str, Rows], Finding]:
    """By the rule that one of these experiments has for a claim."""
    rules = {key: rule for each in experiments.values() for key, rule in each.claims.items()}
    return lambda key, data: rules[key].finding(data)


def around(value: float, spread: float = 0.0, seeds: int = 10) -> list[float]:
    """Numbers of several seeds whose mean is this value."""
    return [value + spread * (2 * i / (seeds - 1) - 1) for i in range(seeds)]
