"""The last result of every experiment, in one file: what was found, by which rule, when and where.

A user's own results stand in `results.json` beside the seeds; those of the full lab come with the
package. The numbers of every seed are in it, so that a report needs no further file. What was
measured again, with seeds that begin elsewhere, stands in `again.json`: it takes nobody's place.
"""

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from translucid._version import __version__
from translucid.atomic_files import saving, write_text
from translucid.errors import InputError
from translucid.lab.engine.claims import Claim, Literature, claims
from translucid.lab.engine.experiment import Experiment
from translucid.lab.engine.runner import Result, digest, outside, source_of
from translucid.lab.engine.verdict import Data, Finding, Verdict

FILE, AGAIN = "results.json", "again.json"
_PACKAGE = Path(__file__).parents[2]
# Within an installed package, or in the documentation beside `src` in the repository.
SHIPPED = (_PACKAGE / "lab", _PACKAGE.parents[1] / "docs" / "lab")
BEYOND = "asked beyond the books"
AGREE: dict[Literature, Verdict] = {"right": "supported", "wrong": "refuted", "partly": "depends"}


@dataclass(frozen=True)
class Kept:
    """A result as it is kept: with the rule as it was when it was applied."""

    experiment: str
    title: str
    varies: str
    measures: str
    references: tuple[str, ...]
    quick: bool
    seeds: int
    seconds: float  # of all seeds together, each on one core
    date: str  # of the day, as 2026-03-01T12:00:00Z
    machine: str
    version: str
    code: str  # digest of the file
    file: str | None  # of an experiment outside the package
    rules: Mapping[str, str]  # by claim
    findings: Mapping[str, Finding]
    data: tuple[Data, ...]
    first_seed: int = 0

    @classmethod
    def of(cls, result: Result) -> "Kept":
        made = result.experiment
        return cls(
            experiment=made.name,
            title=made.title,
            varies=made.varies,
            measures=made.measures,
            references=made.references,
            quick=result.quick,
            seeds=len(result.data),
            seconds=round(result.seconds, 3),
            date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            machine=machine(),
            version=__version__,
            code=digest(made),
            file=str(source_of(made)) if outside(made) else None,
            rules={key: rule.text for key, rule in made.claims.items()},
            findings=dict(result.findings),
            data=result.data,
            first_seed=result.first,
        )

    @property
    def when(self) -> str:
        """On which day, where, and how much of it."""
        much = "quick, " if self.quick else ""
        return (
            f"{much}{self.seeds_text}, {self.date[:10]}, {self.machine}, translucid {self.version}"
        )

    @property
    def seeds_text(self) -> str:
        begin = f" from {self.first_seed} on" if self.first_seed else ""
        return f"{self.seeds} seed{'s' * (self.seeds != 1)}{begin}"

    def stale(self, experiment: Experiment) -> bool:
        """Has the experiment changed since?"""
        return digest(experiment) != self.code


Results = dict[str, Kept]  # by experiment


@dataclass(frozen=True)
class Row:
    """What is known about one claim."""

    claim: Claim
    experiment: Experiment | None = None
    kept: Kept | None = None
    again: Kept | None = None  # the same code with other seeds

    @property
    def finding(self) -> Finding | None:
        return self.kept.findings.get(self.claim.key) if self.kept else None

    @property
    def state(self) -> str:
        """A verdict, or why there is none."""
        if self.finding is not None:
            return self.finding.verdict
        return "no experiment yet" if self.experiment is None and self.kept is None else "not run"

    @property
    def difference(self) -> str:
        """Where the verdict and the literature differ: a sentence."""
        return difference(self.claim, self.finding.verdict) if self.finding else ""

    @property
    def repeated(self) -> Finding | None:
        """What other seeds gave."""
        return self.again.findings.get(self.claim.key) if self.again else None

    @property
    def repetition(self) -> str:
        """How that compares: a sentence."""
        if self.again is None or self.repeated is None or self.finding is None:
            return ""
        begin = f"Measured again with {self.again.seeds_text}:"
        if not self.wavers:
            return f"{begin} the same verdict."
        return f"{begin} {self.repeated.verdict}. {self.repeated.why}"

    @property
    def wavers(self) -> bool:
        """Did other seeds give another verdict?"""
        return bool(
            self.finding and self.repeated and self.repeated.verdict != self.finding.verdict
        )


def difference(claim: Claim, verdict: Verdict) -> str:
    known = claim.literature
    if known is None or AGREE.get(known) == verdict:
        return ""
    verdict_of_literature = {
        "right": "calls this right",
        "partly": "calls this partly right",
        "wrong": "calls this wrong",
        "vague": "cannot decide on it, since the wording is vague: the nearest measurable question "
        "was asked",
    }[known]
    measured = {
        "supported": "these measurements support it",
        "refuted": "these measurements refute it",
        "depends": "in these measurements it depends",
        "undecided": "these measurements do not decide it",
    }[verdict]
    return f"The literature {verdict_of_literature}; {measured}."


# ---- reading and writing ----


def read(folder: Path, file: str = FILE) -> Results:
    """What ran with this folder; nothing, if nothing has."""
    path = folder / file
    return _read(path) if path.exists() else {}


def shipped(file: str = FILE) -> Results:
    """The full lab as it ran before this version was published."""
    return next((read(folder, file) for folder in SHIPPED if (folder / file).exists()), {})


def latest(folder: Path, file: str = FILE) -> Results:
    """The user's own results, and where there are none, those that come with the package."""
    return {**shipped(file), **read(folder, file)}


def keep(folder: Path, result: Result) -> Kept:
    """Add a result to the folder's; it takes the place of an older one."""
    made, file = Kept.of(result), AGAIN if result.first else FILE
    results = {**read(folder, file), made.experiment: made}
    content = {"about": "what `translucid lab run` measured last", "results": []}
    content["results"] = [_plain(_as_dict(results[name])) for name in sorted(results)]
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / file, json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n")
    return made


def _as_dict(kept: Kept) -> dict[str, Any]:
    return {**asdict(kept), "data": list(kept.data)}


def _read(path: Path) -> Results:
    try:
        entries = json.loads(path.read_text("utf-8"))["results"]
        return {entry["experiment"]: _kept(_numbers(entry)) for entry in entries}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {error}); remove it, and run again: "
            "what was measured is kept beside it"
        ) from None


def _kept(entry: dict[str, Any]) -> Kept:
    findings = {key: Finding(**finding) for key, finding in entry.pop("findings").items()}
    for name in ("data", "references"):
        entry[name] = tuple(entry[name])
    return Kept(findings=findings, **entry)


def _plain(value: Any) -> Any:
    """JSON has no word for infinity or for what is no number; here it is {"float": "inf"}."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def finite(value: Any) -> Any:
    """For scripts: what is not a number is null."""
    if isinstance(value, Mapping):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["float"] and isinstance(value["float"], str):
            return float(value["float"])
        return {key: _numbers(part) for key, part in value.items()}
    return [_numbers(part) for part in value] if isinstance(value, list) else value


# ---- all claims together ----


def rows(
    known: Mapping[str, Experiment], results: Results, again: Results | None = None
) -> list[Row]:
    """Every claim of the books, what the lab asks beyond them, then the user's own. What was
    measured `again` counts only where the code and the setting are the same."""
    repeated = {
        name: kept
        for name, kept in (again or {}).items()
        if name in results and (kept.code, kept.quick) == (results[name].code, results[name].quick)
    }
    deciding = {key: experiment for experiment in known.values() for key in experiment.claims}
    all_rows = []
    for key in {**claims(), **deciding}:
        made = deciding.get(key)
        claim = claims().get(key) or Claim(key, deciding[key].title, None, BEYOND)
        name = made.name if made else ""
        all_rows.append(Row(claim, made, results.get(name), repeated.get(name)))
    for kept in results.values():
        if kept.file is not None:
            other = repeated.get(kept.experiment)
            all_rows += [Row(claim_of(kept, key), None, kept, other) for key in kept.findings]
    return all_rows


def claim_of(kept: Kept, key: str) -> Claim:
    """A claim of the books, or one of which nothing is known but what the experiment says."""
    if kept.file is not None:
        return Claim(key, kept.title, None, f"a claim of your own, in {Path(kept.file).name}")
    return claims().get(key) or Claim(key, kept.title, None, BEYOND)


def machine() -> str:
    """What the numbers may depend on, and no name of a computer or a person."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{platform.system()} {platform.machine()}, {cores} core{'s' * (cores != 1)}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
