"""The last result of every experiment, in one file: what was found, by which rule, when and where.

A user's own results stand in `results.json` beside the seeds; those of the full lab come with the
package. The numbers of every seed are in it, so that a report needs no further file. What was
measured again, with seeds that begin elsewhere, stands in `again.json`, and what a quick run has
measured in `quick.json`: neither takes a full result's place. What was measured again on another
kind of machine stands in `elsewhere.json`. What was asked again of real text and real weights
stands in `real.json`, as a second answer.
"""

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from translucid._version import __version__
from translucid.atomic_files import saving, write_text
from translucid.errors import InputError
from translucid.lab.engine.claims import Claim, Literature, claims, in_plain_words
from translucid.lab.engine.experiment import UNSEEN, Experiment
from translucid.lab.engine.frozen import fingerprint, frozen_since
from translucid.lab.engine.intervals import Comparison
from translucid.lab.engine.repetition import compared
from translucid.lab.engine.runner import Result, digest, outside, source_of
from translucid.lab.engine.verdict import Data, Finding, Verdict

FILE, AGAIN, QUICK, REAL = "results.json", "again.json", "quick.json", "real.json"
ELSEWHERE = "elsewhere.json"
_PACKAGE = Path(__file__).parents[2]
# Within an installed package, or in the documentation beside `src` in the repository.
SHIPPED = (_PACKAGE / "lab", _PACKAGE.parents[1] / "docs" / "lab")
BEYOND = "asked beyond the books"
LIMITS = {  # what a verdict does not say, by what stands behind it
    "identity": "It holds or fails by algebra: the experiment shows it, and tests this library's "
    "code; it is no finding about trained models.",
    "simulation": "Random weights or made-up numbers were measured, not trained models.",
    "trained toy": "Small nets on made-up tasks were measured; larger ones, and real text, may "
    "differ.",
    "timing": "Times are those of one machine and of this library's code.",
    "real data": "One data set or a few models were measured, not all of them; where weights were "
    "there already, seeds are samples of texts, not of models.",
}
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
    labels: Mapping[str, str] = field(default_factory=dict)  # by claim: what stands behind it
    hashes: Mapping[str, str] = field(default_factory=dict)  # by claim: of the rule that judged
    frozen: Mapping[str, str] = field(default_factory=dict)  # by claim: the day it is frozen since

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
            labels={key: rule.label for key, rule in made.claims.items()},
            hashes={key: fingerprint(made, key) for key in made.claims},
            frozen={key: day for key in made.claims if (day := frozen_since(made, key))},
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
    real: Kept | None = None  # the same claim, beyond toys
    elsewhere: Kept | None = None  # the same code on another kind of machine

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
    def older_rule(self) -> bool:
        """Was it judged by a rule that is not the one of now?"""
        made, kept, key = self.experiment, self.kept, self.claim.key
        if made is None or kept is None or key not in made.claims:
            return False
        return kept.hashes.get(key) != fingerprint(made, key)

    @property
    def rule_text(self) -> str:
        """Which rule has judged, and since when it stands; a sentence."""
        if self.kept is None:
            return ""
        if self.older_rule:
            return (
                "Judged by an older rule than that of now: run it again for a verdict by that one."
            )
        key = self.claim.key
        made, day = self.kept.hashes.get(key, ""), self.kept.frozen.get(key)
        if not day:
            return ""
        seen = self.kept.seeds > 1 and self.kept.first_seed < UNSEEN
        warning = f" These seeds were seen while it was made: --first-seed {UNSEEN} takes others."
        return f"The rule {made} is frozen since {day}.{warning * seen}"

    @property
    def confidence(self) -> list[str]:
        """Sentences: how far the verdict could be pressed, by which rule, and was it repeated?"""
        finding = self.finding
        if finding is None:
            return []
        sentences = [self.rule_text]
        if finding.p is not None:
            decided = [made for made in finding.comparisons if made.side != "across"]
            sentences.append(
                f"It stays the same down to a level of {finding.p:.2g}; {len(decided)} of "
                f"{len(finding.comparisons)} comparisons are decided after Holm's correction."
            )
        sentences += [self.repetition, self.other_machine, self.other_size]
        return [sentence for sentence in sentences if sentence]

    @property
    def in_words(self) -> str:
        """What the verdict means, for people; where nobody has written that, its numbers."""
        if self.finding is None:
            return ""
        return in_plain_words(self.claim.key, self.finding.verdict) or self.finding.why

    @property
    def surprising(self) -> bool:
        """Is it refuted, or decided otherwise than the literature has it?"""
        if self.finding is None or self.finding.verdict in ("undecided", "not tested"):
            return False
        differs = bool(self.difference) and self.claim.literature != "vague"
        return self.finding.verdict == "refuted" or differs

    @property
    def other_machine(self) -> str:
        """Was it measured on another kind of machine, and what came out? A sentence."""
        if self.finding is None or self.kept is None or self.kept.quick:
            return ""
        other = self.repeated_elsewhere
        if self.elsewhere is None or other is None:
            return "Not measured on another kind of machine."
        begin = f"On another kind of machine ({self.elsewhere.machine}; "
        begin += f"{self.elsewhere.seeds_text}):"
        if other.verdict != self.finding.verdict:
            begin = f"{begin} {other.verdict}. {other.why}"
        return " ".join([begin, *compared(self.finding, other)])

    @property
    def other_size(self) -> str:
        """Was it asked of something else than the toy, larger or smaller? A sentence."""
        if self.kept is None or self.kept.quick or self.kept.file is not None:
            return ""
        finding = self.real.findings.get(self.claim.key) if self.real else None
        if finding is None:
            return "Not asked at another size than what was varied here."
        return f"Asked at another size, beyond the toy: {finding.verdict}."

    @property
    def beyond_toys(self) -> str:
        """What real text or real weights say of the claim; a sentence."""
        if self.real is None or (finding := self.real.findings.get(self.claim.key)) is None:
            return ""
        return f"{finding.verdict}: {finding.why} ({self.real.title}; {self.real.when})"

    @property
    def rule_beyond(self) -> str:
        """The rule of that second answer, since when it stands, and what it does not say."""
        key = self.claim.key
        if self.real is None or key not in self.real.rules:
            return ""
        day = self.real.frozen.get(key)
        frozen = f"The rule {self.real.hashes.get(key)} is frozen since {day}." if day else ""
        limits = LIMITS.get(self.real.labels.get(key, ""), "")
        return " ".join(filter(None, [self.real.rules[key], frozen, limits]))

    @property
    def limits(self) -> str:
        """What the verdict does not say."""
        made, key = self.experiment, self.claim.key
        own = made.claims[key].beyond if made is not None and key in made.claims else ""
        return " ".join(filter(None, [own, LIMITS.get(self.label, "")]))

    @property
    def label(self) -> str:
        """What stands behind the claim: an identity, a simulation, small trained nets, ..."""
        if self.experiment is not None and self.claim.key in self.experiment.claims:
            return self.experiment.claims[self.claim.key].label
        return self.kept.labels.get(self.claim.key, "") if self.kept else ""

    @property
    def difference(self) -> str:
        """Where the verdict and the literature differ: a sentence."""
        return difference(self.claim, self.finding.verdict) if self.finding else ""

    @property
    def repeated(self) -> Finding | None:
        """What other seeds gave."""
        return self.again.findings.get(self.claim.key) if self.again else None

    @property
    def repeated_elsewhere(self) -> Finding | None:
        """What another kind of machine gave, with other seeds where there is chance."""
        return self.elsewhere.findings.get(self.claim.key) if self.elsewhere else None

    @property
    def repetitions(self) -> list[Finding]:
        """All that was measured again."""
        return [again for again in (self.repeated, self.repeated_elsewhere) if again is not None]

    @property
    def repetition(self) -> str:
        """How other seeds compare: a sentence."""
        if self.again is None or self.repeated is None or self.finding is None:
            once = self.kept is not None and self.kept.seeds > 1 and not self.kept.quick
            missing = once and self.finding is not None and self.repeated_elsewhere is None
            return "Not measured again with other seeds." if missing else ""
        begin = f"Measured again with {self.again.seeds_text}:"
        if self.repeated.verdict != self.finding.verdict:
            begin = f"{begin} {self.repeated.verdict}. {self.repeated.why}"
        return " ".join([begin, *compared(self.finding, self.repeated)])

    @property
    def wavers(self) -> bool:
        """Did a repetition give another verdict?"""
        first = self.finding
        return first is not None and any(one.verdict != first.verdict for one in self.repetitions)


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
        "not tested": "these measurements could not test it",
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
    """The user's own results, and where there are none, those that come with the package; where
    those are missing too, what a quick run has measured."""
    quick = read(folder, QUICK) if file == FILE else {}
    return {**quick, **shipped(file), **read(folder, file)}


def keep(folder: Path, result: Result) -> Kept:
    """Add a result to the folder's; it takes the place of an older one of its kind."""
    made, file = Kept.of(result), FILE if result.first in (0, UNSEEN) else AGAIN
    first = read(folder).get(made.experiment)
    if file == AGAIN and first is not None and first.machine != made.machine:
        file = ELSEWHERE
    file = QUICK if result.quick else REAL if result.experiment.real else file
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
    findings = {key: _finding(finding) for key, finding in entry.pop("findings").items()}
    for name in ("data", "references"):
        entry[name] = tuple(entry[name])
    return Kept(findings=findings, **entry)


def _finding(entry: dict[str, Any]) -> Finding:
    made = entry.pop("comparisons", ())
    comparisons = (Comparison(**{**value, "values": tuple(value["values"])}) for value in made)
    return Finding(comparisons=tuple(comparisons), **entry)


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
    known: Mapping[str, Experiment],
    results: Results,
    again: Results | None = None,
    real: Results | None = None,
    elsewhere: Results | None = None,
) -> list[Row]:
    """Every claim of the books, what the lab asks beyond them, then the user's own. What was
    measured `again`, or `elsewhere`, counts only where the code and the setting are the same."""
    beyond = {key: kept for kept in (real or {}).values() for key in kept.findings}
    repeated, moved = (
        {name: kept for name, kept in (others or {}).items() if name in results
         and (kept.code, kept.quick) == (results[name].code, results[name].quick)}
        for others in (again, elsewhere)
    )  # fmt: skip
    deciding = {key: experiment for experiment in known.values() for key in experiment.claims}
    all_rows = []
    for key in {**claims(), **deciding}:
        made = deciding.get(key)
        claim = claims().get(key) or Claim(key, deciding[key].title, None, BEYOND)
        name = made.name if made else ""
        all_rows.append(Row(claim, made, results.get(name), repeated.get(name), beyond.get(key),
                            moved.get(name)))  # fmt: skip
    for kept in results.values():
        if kept.file is not None:
            others = repeated.get(kept.experiment), None, moved.get(kept.experiment)
            all_rows += [Row(claim_of(kept, key), None, kept, *others) for key in kept.findings]
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
