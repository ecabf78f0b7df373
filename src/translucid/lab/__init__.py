"""The lab: what the textbooks say, as experiments that run, measure, draw and give a verdict.

What an experiment of one's own needs is imported from here; `translucid lab new NAME` writes one.
"""

from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.verdict import (
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
    mean_of,
    ratio_of,
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
    "mean_of",
    "ratio_of",
    "fraction_of",
]
