"""The evidence for each claim: its verdict, the rule behind it, its confidence, and repetitions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from translucid_lab.engine.experiment import (
    UNSEEN,
    Claim,
    Experiment,
    Literature,
    claims,
    in_plain_words,
)
from translucid_lab.engine.fingerprints import fingerprint
from translucid_lab.engine.intervals import BarComparison
from translucid_lab.engine.results import Kept, Results
from translucid_lab.engine.statistics import benjamini_hochberg
from translucid_lab.engine.verdict import UNDECIDED, Finding, Verdict, compared

BEYOND = "a question beyond the books"
LIMITS = {  # what a verdict does not cover, by kind of evidence
    "identity": "It holds or fails by algebra: the experiment demonstrates it and tests this "
    "library's code; it says nothing about trained models.",
    "simulation": "Random weights or made-up numbers were measured, not trained models.",
    "trained toy": "Small networks on made-up tasks were measured; larger ones and real text may "
    "differ.",
    "timing": "Times are those of one machine and of this library's code.",
    "real data": "One data set or a few models were measured; for pretrained weights, seeds are "
    "samples of texts, not of models.",
}
AGREE: dict[Literature, Verdict] = {"right": "supported", "wrong": "refuted", "partly": "depends"}


@dataclass(frozen=True)
class Evidence:
    """The evidence for one claim."""

    claim: Claim
    experiment: Experiment | None = None
    kept: Kept | None = None
    again: Kept | None = None  # the same code with other seeds
    real: Kept | None = None  # the same claim on real data
    elsewhere: Kept | None = None  # the same code on another kind of machine

    @property
    def finding(self) -> Finding | None:
        return self.kept.findings.get(self.claim.key) if self.kept else None

    @property
    def state(self) -> str:
        """The verdict, or why there is none."""
        if self.finding is not None:
            return self.finding.verdict
        return "no experiment yet" if self.experiment is None and self.kept is None else "not run"

    @property
    def older_rule(self) -> bool:
        """Whether the verdict was given by an earlier version of the rule."""
        made, kept, key = self.experiment, self.kept, self.claim.key
        if made is None or kept is None or key not in made.claims:
            return False
        return kept.hashes.get(key) != fingerprint(made, key)

    @property
    def frozen_first(self) -> bool | None:
        """Whether the rule was frozen before the measurement; None if it was never frozen."""
        day = self.kept.frozen.get(self.claim.key) if self.kept else None
        return None if not day or self.kept is None else not later(day, self.kept)

    @property
    def rule_text(self) -> str:
        """A sentence with the hash of the rule that judged, and when the rule was frozen."""
        if self.kept is None:
            return ""
        if self.older_rule:
            return "Judged by an older version of the rule; run it again to apply the current one."
        key = self.claim.key
        made, day = self.kept.hashes.get(key, ""), self.kept.frozen.get(key)
        if not day:
            return ""
        seen = self.kept.seeds > 1 and self.kept.first_seed < UNSEEN
        warning = f" Its authors had seen these seeds; use --first-seed {UNSEEN} for others."
        return f"The rule {made} was frozen on {day}.{later(day, self.kept)}{warning * seen}"

    @property
    def confidence(self) -> list[str]:
        """Sentences on the rule, the significance of the verdict, and its repetitions."""
        finding = self.finding
        if finding is None:
            return []
        sentences = [self.rule_text]
        if finding.p is not None:
            decided = [made for made in finding.comparisons if made.side != "across"]
            sentences.append(
                f"The verdict holds down to a level of {max(finding.p, 1e-12):.2g}; {len(decided)} "
                f"of {len(finding.comparisons)} comparisons are decided after Holm's correction."
            )
        sentences += map(corrected, finding.comparisons)
        sentences += [self.repetition, self.other_machine, self.other_size]
        return [sentence for sentence in sentences if sentence]

    @property
    def in_words(self) -> str:
        """What the verdict means in plain words, or else the numbers behind it."""
        if self.finding is None:
            return ""
        return in_plain_words(self.claim.key, self.finding.verdict) or self.finding.why

    @property
    def surprising(self) -> bool:
        """Whether the claim is refuted, or the verdict differs from the literature, and no
        repetition gave a different verdict."""
        if self.finding is None or self.finding.verdict in UNDECIDED or self.wavers:
            return False
        differs = bool(self.difference) and self.claim.literature != "vague"
        return self.finding.verdict == "refuted" or differs

    @property
    def other_machine(self) -> str:
        """A sentence on the result from another kind of machine."""
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
        """A sentence on the verdict at a different size."""
        if self.kept is None or self.kept.quick or self.kept.file is not None:
            return ""
        finding = self.real.findings.get(self.claim.key) if self.real else None
        if finding is None:
            return "Not tested at another size than what was varied here."
        return f"Tested at another size, beyond the toy: {finding.verdict}."

    @property
    def beyond_toys(self) -> str:
        """A sentence on the verdict from real text or pretrained weights."""
        if self.real is None or (finding := self.real.findings.get(self.claim.key)) is None:
            return ""
        return f"{finding.verdict}: {finding.why} ({self.real.title}; {self.real.when})"

    @property
    def rule_beyond(self) -> str:
        """The rule behind the verdict from real data, the day it was frozen, and its limits."""
        key = self.claim.key
        if self.real is None or key not in self.real.rules:
            return ""
        day = self.real.frozen.get(key)
        frozen = f"The rule {self.real.hashes.get(key)} was frozen on {day}." if day else ""
        frozen += later(day or "", self.real)
        limits = LIMITS.get(self.real.labels.get(key, ""), "")
        return " ".join(filter(None, [self.real.rules[key], frozen, limits]))

    @property
    def limits(self) -> str:
        """A sentence on what the verdict does not cover."""
        made, key = self.experiment, self.claim.key
        own = made.claims[key].beyond if made is not None and key in made.claims else ""
        return " ".join(filter(None, [own, LIMITS.get(self.label, "")]))

    @property
    def label(self) -> str:
        """The kind of evidence: identity, simulation, trained toy, timing or real data."""
        if self.experiment is not None and self.claim.key in self.experiment.claims:
            return self.experiment.claims[self.claim.key].label
        return self.kept.labels.get(self.claim.key, "") if self.kept else ""

    @property
    def difference(self) -> str:
        """A sentence on how the verdict differs from the literature; empty if it does not."""
        return difference(self.claim, self.finding.verdict) if self.finding else ""

    @property
    def repeated(self) -> Finding | None:
        """The finding measured again with different seeds, if any."""
        return self.again.findings.get(self.claim.key) if self.again else None

    @property
    def repeated_elsewhere(self) -> Finding | None:
        """The finding measured on a different kind of machine, if any."""
        return self.elsewhere.findings.get(self.claim.key) if self.elsewhere else None

    @property
    def repetitions(self) -> list[Finding]:
        """The findings of all repetitions."""
        return [again for again in (self.repeated, self.repeated_elsewhere) if again is not None]

    @property
    def repetition(self) -> str:
        """A sentence that compares the result with that of other seeds."""
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
        """Whether a repetition gave a different verdict."""
        first = self.finding
        return first is not None and any(one.verdict != first.verdict for one in self.repetitions)


def corrected(made: BarComparison) -> str:
    """A sentence on a comparison that only the correction leaves open; empty for others."""
    if made.side != "across" or made.low <= made.bar <= made.high:
        return ""
    low, high = made.corrected
    return (
        f"Holm's correction widens the interval of {made.value:.3g} from [{made.low:.3g}, "
        f"{made.high:.3g}] to [{low:.3g}, {high:.3g}], which contains the threshold {made.bar:.3g}."
    )


def later(day: str, kept: Kept) -> str:
    """A remark if a rule was frozen after the measurement that it judges."""
    if day.rstrip("Z") <= kept.date[: len(day.rstrip("Z"))]:  # a day, or a day and a time
        return ""
    return (
        f" That is later than the measurement ({kept.date[:10]}): the rule was changed when its "
        "numbers were known, and new seeds have not confirmed this verdict."
    )


def difference(claim: Claim, verdict: Verdict) -> str:
    known = claim.literature
    if known is None or AGREE.get(known) == verdict:
        return ""
    verdict_of_literature = {
        "right": "calls this right",
        "partly": "calls this partly right",
        "wrong": "calls this wrong",
        "vague": "cannot decide this, since the wording is vague; the nearest measurable question "
        "was tested",
    }[known]
    measured = {
        "supported": "these measurements support it",
        "refuted": "these measurements refute it",
        "depends": "in these measurements it depends",
        "undecided": "these measurements do not decide it",
        "not tested": "these measurements could not test it",
        "illustrates": "this experiment illustrates it and cannot test it",
        "not applicable": "its premise is not met in what was measured",
    }[verdict]
    return f"The literature {verdict_of_literature}; {measured}."


def rows(
    known: Mapping[str, Experiment],
    results: Results,
    again: Results | None = None,
    real: Results | None = None,
    elsewhere: Results | None = None,
) -> list[Evidence]:
    """The evidence for all claims: textbook claims first, then the lab's further questions, then
    the user's own claims. Results in `again` and `elsewhere` are used only if they were measured by
    the same code with the same settings."""
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
        others = repeated.get(name), beyond.get(key), moved.get(name)
        all_rows.append(Evidence(claim, made, results.get(name), *others))
    for kept in results.values():
        if kept.file is not None:
            others = repeated.get(kept.experiment), None, moved.get(kept.experiment)
            for key in kept.findings:
                all_rows.append(Evidence(claim_of(kept, key), None, kept, *others))
    return all_rows


def claim_of(kept: Kept, key: str) -> Claim:
    """The textbook claim with this key, or else a claim described by its experiment."""
    if kept.file is not None:
        return Claim(key, kept.title, None, f"a claim of your own, in {Path(kept.file).name}")
    return claims().get(key) or Claim(key, kept.title, None, BEYOND)


def expected_errors(findings: Iterable[Finding]) -> str:
    """A sentence on how many of these verdicts may be false, by Benjamini and Hochberg's false
    discovery rate; empty if none of them has a p-value."""
    p_values = [finding.p for finding in findings if finding.p is not None]
    if not p_values:
        return ""
    expected = max(benjamini_hochberg(p_values)) * len(p_values)
    number = f"{expected:.1f}" if expected >= 0.05 else f"{expected:.1g}"
    return (
        f"{len(p_values)} verdicts rest on the numbers of several seeds. By Benjamini and "
        f"Hochberg's correction over all of them, at most {number} may be expected to be "
        "false; within each claim, Holm's correction covers all of its comparisons."
    )
