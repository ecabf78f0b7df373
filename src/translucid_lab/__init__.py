"""The lab: experiments that test textbook claims, draw a figure and give a verdict.

Import what an experiment of your own needs from here; `translucid lab new NAME` writes one.
"""

from typing import TYPE_CHECKING

from translucid.core import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid_lab.engine.experiment import Experiment as Experiment
    from translucid_lab.engine.fit import FitStep as FitStep
    from translucid_lab.engine.fit import fit as fit
    from translucid_lab.engine.fit import random_rows as random_rows
    from translucid_lab.engine.intervals import Interval as Interval
    from translucid_lab.engine.intervals import clearly as clearly
    from translucid_lab.engine.intervals import difference_of as difference_of
    from translucid_lab.engine.intervals import fraction_of as fraction_of
    from translucid_lab.engine.intervals import mean_of as mean_of
    from translucid_lab.engine.intervals import median_of as median_of
    from translucid_lab.engine.intervals import ratio_of as ratio_of
    from translucid_lab.engine.intervals import seeds_above as seeds_above
    from translucid_lab.engine.verdict import Data as Data
    from translucid_lab.engine.verdict import Finding as Finding
    from translucid_lab.engine.verdict import Rule as Rule
    from translucid_lab.engine.verdict import Verdict as Verdict
    from translucid_lab.engine.verdict import average as average
    from translucid_lab.engine.verdict import by_case as by_case
    from translucid_lab.engine.verdict import column as column
    from translucid_lab.engine.verdict import decide as decide
    from translucid_lab.engine.verdict import has_learned as has_learned
    from translucid_lab.engine.verdict import not_tested as not_tested

_INTERVALS = [
    "Interval", "clearly", "difference_of", "fraction_of", "mean_of", "median_of", "ratio_of",
    "seeds_above",
]  # fmt: skip
_VERDICTS = [
    "Data", "Finding", "Rule", "Verdict", "average", "by_case", "column", "decide", "has_learned",
    "not_tested",
]  # fmt: skip
__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "engine.experiment": ["Experiment"],
        "engine.fit": ["FitStep", "fit", "random_rows"],
        "engine.intervals": _INTERVALS,
        "engine.verdict": _VERDICTS,
    },
)
