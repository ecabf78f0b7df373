"""Judge stored numbers again, without measuring: does each verdict follow from its seeds?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from translucid_lab.engine.experiment import Experiment
from translucid_lab.engine.frozen import fingerprint
from translucid_lab.engine.repetition import same
from translucid_lab.engine.results import Results
from translucid_lab.engine.runner import Result
from translucid_lab.engine.verdict import Finding

State = Literal["same", "differs", "older rule"]


@dataclass(frozen=True)
class Checked:
    """One verdict, and what the numbers that are stored with it give now."""

    key: str
    stored: Finding
    now: Finding | None  # None: by an older rule, and these numbers cannot be judged by that of now
    state: State


def verified(known: Mapping[str, Experiment], results: Results) -> Iterator[Checked]:
    """Every verdict of the experiments that are known."""
    for kept in results.values():
        if kept.file is not None or kept.experiment not in known:
            continue
        made = known[kept.experiment]
        for key, stored in kept.findings.items():
            if key not in made.claims or kept.hashes.get(key) != fingerprint(made, key):
                yield Checked(key, stored, None, "older rule")
                continue
            result = Result(made, kept.data, kept.quick, kept.seconds, kept.first_seed)
            now = result.finding(key)
            yield Checked(key, stored, now, "same" if same(stored, now) else "differs")
