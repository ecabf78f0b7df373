"""Checks for every experiment: its rules and its picture accept what it measures."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from translucid_lab.claims import experiments
from translucid_lab.engine.experiment import Experiment, for_claim
from translucid_lab.engine.runner import jobs_of, measure
from translucid_lab.engine.verdict import Data, Finding, Verdict

Rows = Sequence[Mapping[str, Any]]


folder = Path()  # for the measurements of this session; see conftest.py


def quick_data(experiment: Experiment, seed: int = 0) -> Data:
    """The quick measurement of an experiment, made once per session and stored as by the runner."""
    (job,) = jobs_of(experiment, folder, seeds=1, first=seed, quick=True)
    found: Data = measure(job)["data"]
    return found


def measured(name: str) -> Data:
    """The quick measurement of the experiment with this name."""
    return quick_data(experiments()[name])


def changed_data(experiment: Experiment, seed: int = 0) -> Data:
    """The quick measurement of an experiment that a test has changed: made for this test alone, and
    checked to be the same both times."""
    first, again = (as_kept(experiment.run(seed, True)) for _ in range(2))
    assert repr(first) == repr(again), f"{experiment.name}: one seed, two results"
    return first


def as_kept(data: Data) -> Data:
    """The data as read back from JSON."""
    found: Data = json.loads(json.dumps(data))
    return found


def check(experiment: Experiment, data: Rows) -> None:
    """Check that rules and picture accept these numbers, and that the picture can be drawn."""
    for key, rule in experiment.claims.items():
        finding = rule.finding(data)
        assert finding.why, key
        json.dumps(finding.numbers, allow_nan=False)
    picture = experiment.draw(data)
    assert picture.json()
    assert picture.svg().startswith("<svg")


def verdict(experiment: Experiment, key: str, data: Rows) -> Verdict:
    return experiment.claims[key].finding(data).verdict


def judge(key: str, data: Rows) -> Finding:
    """The finding on a claim by the rule of its toy experiment."""
    return for_claim(key, experiments()).claims[key].finding(data)


def rule_test(cases: Mapping[str, Sequence[tuple[Any, ...]]]) -> Callable[..., None]:
    """A test of rules. cases: for each claim, rows of numbers, the expected verdict, and words that
    its reason must contain."""
    parameters = [
        pytest.param(key, data, expected, words, id=f"{key}-{number}-{expected}")
        for key, rows in cases.items()
        for number, (data, expected, *words) in enumerate(rows)
    ]

    @pytest.mark.parametrize(("key", "data", "expected", "words"), parameters)
    def test(key: str, data: Rows, expected: Verdict, words: Sequence[str]) -> None:
        finding = judge(key, data)
        assert finding.verdict == expected, finding.why
        assert all(word in finding.why for word in words), finding.why

    return test


JITTER = tuple(at / 4.5 - 1 for at in range(10))  # ten seeds, from -1 to 1


def around(value: float, spread: float = 0.0, seeds: int = 10) -> list[float]:
    """Numbers of several seeds with this mean."""
    return [value + spread * (2 * i / (seeds - 1) - 1) for i in range(seeds)]
