"""How sure all verdicts are together: what corrections leave, and how many may be false."""

from collections.abc import Iterable
from dataclasses import dataclass

from translucid_lab.engine.statistics import benjamini_hochberg
from translucid_lab.engine.verdict import Finding


@dataclass(frozen=True)
class Surety:
    """Of all verdicts that rest on seeds."""

    verdicts: int
    rate: float  # of false ones among them, at most, on average

    @property
    def false(self) -> float:
        """How many of them to expect to be false, at most."""
        return self.rate * self.verdicts

    def __str__(self) -> str:
        if not self.verdicts:
            return ""
        number = f"{self.false:.1f}" if self.false >= 0.05 else f"{self.false:.1g}"
        return (
            f"{self.verdicts} verdicts rest on the numbers of several seeds. By Benjamini and "
            f"Hochberg's correction over all of them, at most {number} may be expected to be "
            "false; within each claim, Holm's correction covers all of its comparisons."
        )


def surety(findings: Iterable[Finding]) -> Surety:
    """The rate of false discoveries at which all of these verdicts are called decided."""
    p_values = [finding.p for finding in findings if finding.p is not None]
    return Surety(len(p_values), max(benjamini_hochberg(p_values), default=0.0))
