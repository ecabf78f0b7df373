"""The lab: what the textbooks say, as experiments that run, measure, draw and give a verdict.

What an experiment of one's own needs is imported from here; `translucid lab new NAME` writes one.
"""

from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.verdict import (
    Data,
    Finding,
    Interval,
    Rule,
    Verdict,
    average,
    by_case,
    clearly,
    column,
    decide,
    difference_of,
    fraction_of,
    has_learned,
    mean_of,
    median_of,
    not_tested,
    ratio_of,
    seeds_above,
)

__all__ = [
    "Data",
    "Experiment",
    "Finding",
    "Interval",
    "Rule",
    "Verdict",
    "average",
    "by_case",
    "clearly",
    "column",
    "decide",
    "difference_of",
    "fraction_of",
    "has_learned",
    "mean_of",
    "median_of",
    "not_tested",
    "ratio_of",
    "seeds_above",
]
