"""The latest result of every experiment: findings, rules, date and machine.

A user's results are stored in `results.json` in the output folder; those of the full lab come with
the package. Each file contains the numbers of every seed, so that a verdict can be judged again.
Further files, none of which replaces a full result:

    again.json      measured again with different seeds
    elsewhere.json  measured on a different kind of machine
    quick.json      from a quick run, or with a different number of seeds than the rule requires
    real.json       a second test, on real text and pretrained weights
"""

import json
import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from translucid import __version__
from translucid.core import InputError, saving, write_text
from translucid_lab.engine.experiment import UNSEEN, Experiment
from translucid_lab.engine.fingerprints import digest, fingerprint, frozen_since, outside, source_of
from translucid_lab.engine.intervals import BarComparison
from translucid_lab.engine.runner import ExperimentResult
from translucid_lab.engine.verdict import Data, Finding, same

FILE, AGAIN, QUICK, REAL = "results.json", "again.json", "quick.json", "real.json"
ELSEWHERE = "elsewhere.json"
_PACKAGE = Path(__file__).parents[1]
# Within an installed package, or in the documentation beside `src` in the repository.
SHIPPED = (_PACKAGE, _PACKAGE.parents[1] / "docs" / "lab")


@dataclass(frozen=True)
class Kept:
    """A stored result, with the rules as they were when they were applied."""

    experiment: str
    title: str
    varies: str
    measures: str
    references: tuple[str, ...]
    quick: bool
    seeds: int
    seconds: float  # of all seeds together, one core each
    date: str  # 2026-03-01T12:00:00Z
    machine: str
    version: str
    code: str  # hash of the measuring code
    file: str | None  # of a user's experiment
    rules: Mapping[str, str]  # by claim
    findings: Mapping[str, Finding]
    data: tuple[Data, ...]
    first_seed: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)  # by claim: kind of evidence
    hashes: Mapping[str, str] = field(default_factory=dict)  # of rules, by claim
    frozen: Mapping[str, str] = field(default_factory=dict)  # days, by claim

    @classmethod
    def of(cls, result: ExperimentResult) -> "Kept":
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
            labels={key: rule.label for key, rule in made.claims.items()},
            hashes={key: fingerprint(made, key) for key in made.claims},
            frozen={key: day for key in made.claims if (day := frozen_since(made, key))},
        )

    def judged_again(self, made: Experiment) -> "Kept":
        """The same numbers, judged by the current rules."""
        result = ExperimentResult(made, self.data, self.quick, self.seconds, self.first_seed)
        now = Kept.of(result)
        return replace(
            self, rules=now.rules, findings=now.findings, labels=now.labels, hashes=now.hashes,
            frozen=now.frozen,
        )  # fmt: skip

    @property
    def when(self) -> str:
        """A line on the measurement: its seeds, day, machine and version."""
        much = "quick, " if self.quick else ""
        return (
            f"{much}{self.seeds_text}, {self.date[:10]}, {self.machine}, translucid {self.version}"
        )

    @property
    def seeds_text(self) -> str:
        begin = f" from {self.first_seed} on" if self.first_seed else ""
        return f"{self.seeds} seed{'s' * (self.seeds != 1)}{begin}"

    def stale(self, experiment: Experiment) -> bool:
        """Whether the measuring code has changed since this result."""
        return digest(experiment) != self.code


Results = dict[str, Kept]  # by experiment


# ---- reading and writing ----


def read(folder: Path, file: str = FILE) -> Results:
    """The results in a folder; empty if there are none."""
    path = folder / file
    return _read(path) if path.exists() else {}


def shipped(file: str = FILE) -> Results:
    """The results of the full lab that come with the package."""
    return next((read(folder, file) for folder in SHIPPED if (folder / file).exists()), {})


def latest(folder: Path, file: str = FILE) -> Results:
    """The latest result of each experiment: the user's own if there is one, otherwise the one that
    comes with the package, otherwise that of a quick run."""
    quick = read(folder, QUICK) if file == FILE else {}
    return {**quick, **shipped(file), **read(folder, file)}


def keep(folder: Path, result: ExperimentResult) -> Kept:
    """Store a result in the folder; it replaces an older result of the same kind."""
    made, file = Kept.of(result), FILE if result.first in (0, UNSEEN) else AGAIN
    first = read(folder).get(made.experiment)
    if file == AGAIN and first is not None and first.machine != made.machine:
        file = ELSEWHERE
    decides = not result.quick and len(result.data) == result.experiment.seeds
    file = QUICK if not decides else REAL if result.experiment.real else file
    write(folder, file, {**read(folder, file), made.experiment: made})
    return made


def write(folder: Path, file: str, results: Results) -> None:
    """Write all results of a file."""
    entries = [{**asdict(results[name]), "data": results[name].data} for name in sorted(results)]
    content = {
        "about": "what `translucid lab run` measured last",
        "results": without_infinity(entries, _as_object),
    }
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / file, json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n")


def _read(path: Path) -> Results:
    try:
        entries = json.loads(path.read_text("utf-8"))["results"]
        return {entry["experiment"]: _kept(_numbers(entry)) for entry in entries}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {error}); remove it and run again: "
            "the seeds that were measured are kept"
        ) from None


def _kept(entry: dict[str, Any]) -> Kept:
    findings = {key: _finding(finding) for key, finding in entry.pop("findings").items()}
    for name in ("data", "references"):
        entry[name] = tuple(entry[name])
    return Kept(findings=findings, **entry)


def _finding(entry: dict[str, Any]) -> Finding:
    made = entry.pop("comparisons", ())
    lists = ("values", "corrected")
    comparisons = (
        BarComparison(**{**value, **{name: tuple(value[name]) for name in lists if name in value}})
        for value in made
    )
    return Finding(comparisons=tuple(comparisons), **entry)


def without_infinity(value: Any, instead: Callable[[float], Any] = lambda number: None) -> Any:
    """Replace infinity and NaN, which JSON cannot express, in nested data; by default with null."""
    if isinstance(value, Mapping):
        return {str(key): without_infinity(part, instead) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_infinity(part, instead) for part in value]
    return instead(value) if isinstance(value, float) and not math.isfinite(value) else value


def _as_object(number: float) -> dict[str, str]:
    """Encode infinity or NaN for storage in JSON."""
    return {"float": str(number)}


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["float"] and isinstance(value["float"], str):
            return float(value["float"])
        return {key: _numbers(part) for key, part in value.items()}
    return [_numbers(part) for part in value] if isinstance(value, list) else value


def machine() -> str:
    """Describe the system that the numbers may depend on, without naming a computer or a person."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{platform.system()} {platform.machine()}, {cores} core{'s' * (cores != 1)}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


Agreement = Literal["same", "differs", "older rule"]


@dataclass(frozen=True)
class CheckedVerdict:
    """A stored verdict, and the verdict that follows from its stored numbers now."""

    key: str
    stored: Finding
    now: Finding | None  # None: the verdict was given by an older rule
    state: Agreement


def verified(known: Mapping[str, Experiment], results: Results) -> Iterator[CheckedVerdict]:
    """Judge the stored numbers of known experiments again."""
    for kept in results.values():
        if kept.file is not None or kept.experiment not in known:
            continue
        made = known[kept.experiment]
        for key, stored in kept.findings.items():
            if key not in made.claims or kept.hashes.get(key) != fingerprint(made, key):
                yield CheckedVerdict(key, stored, None, "older rule")
                continue
            result = ExperimentResult(made, kept.data, kept.quick, kept.seconds, kept.first_seed)
            now = result.finding(key)
            yield CheckedVerdict(key, stored, now, "same" if same(stored, now) else "differs")
