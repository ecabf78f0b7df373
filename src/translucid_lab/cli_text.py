"""Output of `translucid lab`: progress, results, claims, and JSON for scripts."""

import shlex
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from translucid.core import Progress, duration

if TYPE_CHECKING:
    from translucid_lab.engine.evidence import Evidence
    from translucid_lab.engine.results import Kept
    from translucid_lab.engine.runner import Job, SeedDone

RUNS = Path("runs") / "lab"


def print_findings(kept: "Kept") -> None:
    """Print a paragraph for each claim of a finished experiment."""
    from translucid_lab.engine.evidence import claim_of, difference

    for key, finding in kept.findings.items():
        claim = claim_of(kept, key)
        quick = " (quick)" if kept.quick else ""
        print_wrapped(f"{key}  {finding.verdict}{quick}: {claim.says}", indent=5)
        print_wrapped(f"     {finding.why}", indent=5)
        if differs := difference(claim, finding.verdict):
            print_wrapped(f"     {differs}", indent=5)


def print_summary(results: "Sequence[Kept]", out: Path, seconds: float) -> None:
    from translucid_lab.engine.results import QUICK, read

    if not results:
        return
    counts = Counter(finding.verdict for kept in results for finding in kept.findings.values())
    claims = f"{counts.total()} claim{'s' * (counts.total() != 1)}"
    typer.echo(f"\n{out}: {claims}, {count_verdicts(counts)}, in {duration(seconds)}")
    aside = read(out, QUICK)
    if any(kept.quick for kept in results):
        typer.echo("a quick run measures less: it never refutes a claim or replaces a full result")
    elif any(aside.get(kept.experiment) == kept for kept in results):
        typer.echo("the rule requires a different number of seeds: full results are not replaced")
    first = next(iter(results[0].findings))
    where = [] if out == RUNS else ["--results", str(out)]
    if counts.total() == 1:
        typer.echo(f"next: {shlex.join(['translucid', 'lab', 'show', first, *where])}")
    else:
        words = ["translucid", "lab", "report", "--out", "report", *where]
        typer.echo(f"next: {shlex.join(words)}")


def facts(row: "Evidence") -> list[tuple[str, str]]:
    made, kept, key = row.experiment, row.kept, row.claim.key
    lines = [("claim", row.claim.says)]
    about = made or kept
    if about is not None:
        name = made.name if made else f"{kept.experiment} in {kept.file}" if kept else ""
        lines += [
            ("experiment", f"{name}: {about.title}"),
            ("varied", about.varies),
            ("measured", about.measures),
        ]
    if kept is not None and key in kept.rules:
        lines.append(("rule", kept.rules[key]))
    elif made is not None:
        lines.append(("rule", made.claims[key].text))
    if row.label:
        lines.append(("kind", row.label))
    if row.finding is not None and kept is not None:
        lines.append(("verdict", f"{row.finding.verdict}: {row.finding.why}"))
        if row.in_words != row.finding.why:
            lines.append(("in words", row.in_words))
        lines.append(("ran", kept.when))
        lines += [("confidence" if not at else "", text) for at, text in enumerate(row.confidence)]
        if made is not None and kept.stale(made):
            lines.append(("", "the code of the experiment has changed since; run it again"))
        if row.beyond_toys:
            lines += [("beyond toys", row.beyond_toys), ("", row.rule_beyond)]
        if row.limits:
            lines.append(("limits", row.limits))
    elif made is not None:
        seconds = duration(made.seconds * made.seeds)
        lines.append(("verdict", f"not run; all seeds take about {seconds}"))
    else:
        lines.append(("verdict", row.state))
    if row.claim.literature is not None:
        lines.append(("literature", f"{row.claim.literature}. {row.claim.notes}"))
    else:
        lines.append(("literature", row.claim.notes))
    if row.difference:
        lines.append(("", row.difference))
    return lines + [("see", address) for address in (about.references if about else ())]


def print_wrapped(text: str, indent: int) -> None:
    typer.echo(textwrap.fill(text, _columns(), subsequent_indent=" " * indent))


def fit_to_terminal(text: str, before: int) -> str:
    """Shorten text to fit one line of the terminal; unchanged if the output is not a terminal."""
    room = _columns() - before
    if not sys.stdout.isatty() or len(text) <= room:
        return text
    return textwrap.shorten(text, max(room, 20), placeholder=" …")


def _columns() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 200)


def time_of(row: "Evidence") -> str:
    if row.kept is not None:
        return duration(row.kept.seconds)
    if row.experiment is not None:
        return "~" + duration(row.experiment.seconds * row.experiment.seeds)
    return "-"


def count_verdicts(counts: "Counter[Any]") -> str:
    order = ("supported", "refuted", "depends", "illustrates", "undecided", "not tested",
             "not applicable", "not run", "no experiment yet")  # fmt: skip
    return ", ".join(f"{counts[name]} {name}" for name in order if counts[name])


def row_as_dict(row: "Evidence") -> dict[str, Any]:
    made, kept = row.experiment, row.kept
    return {
        "claim": row.claim.key,
        "says": row.claim.says,
        "literature": row.claim.literature,
        "notes": row.claim.notes,
        "state": row.state,
        "difference": row.difference,
        "experiment": made.name if made else kept.experiment if kept else None,
        "seconds_expected": made.seconds * made.seeds if made else None,
        "stale": kept.stale(made) if made and kept else None,
        "label": row.label or None,
        "older_rule": row.older_rule,
        "result": kept_as_dict(kept, row.claim.key) if kept else None,
        "again": kept_as_dict(row.again, row.claim.key) if row.again else None,
        "real": kept_as_dict(row.real, row.claim.key) if row.real else None,
        "elsewhere": kept_as_dict(row.elsewhere, row.claim.key) if row.elsewhere else None,
    }


def kept_as_dict(kept: "Kept", only: str | None = None) -> dict[str, Any]:
    """A result for scripts, without the numbers of every seed."""
    from translucid_lab.engine.results import without_infinity

    values = {name: value for name, value in vars(kept).items() if name not in ("findings", "data")}
    chosen = {key: finding for key, finding in kept.findings.items() if only in (None, key)}
    for name in ("rules", "labels", "hashes", "frozen"):
        values[name] = {key: text for key, text in values[name].items() if key in chosen}
    values["findings"] = {key: without_infinity(asdict(finding)) for key, finding in chosen.items()}
    return values


EVERY = 5.0  # seconds between progress lines if the output is not a terminal


class SeedMeter:
    """A progress bar for all seeds, and one for each running experiment."""

    def __init__(self, jobs: "Sequence[Job]", processes: int, progress: Progress) -> None:
        self._progress, self._processes = progress, processes
        self._totals = Counter(job.experiment.name for job in jobs)
        self._done: Counter[str] = Counter()
        self._to_measure = sum(job.experiment.seconds for job in jobs if not job.kept)
        self._measured = 0.0  # expected seconds of the seeds measured so far
        self._show_running()

    @property
    def seconds(self) -> float:
        return self._progress.seconds

    def move(self, step: "SeedDone") -> None:
        self._done[step.experiment.name] += 1
        if not step.kept:
            self._measured += step.experiment.seconds
        self._progress.move(self._done.total(), self._left())
        self._show_running()

    def _left(self) -> str:
        """The remaining time, estimated from the expected seconds per seed and the speed so far."""
        if not self._measured:
            return ""
        rest = (self._to_measure - self._measured) * self.seconds / self._measured
        return f"{duration(max(rest, 0.0))} left"

    def _show_running(self) -> None:
        unfinished = [name for name in self._totals if self._done[name] < self._totals[name]]
        at_work = unfinished[: self._processes]  # seeds run in this order
        for name, total in self._totals.items():
            self._progress.move_part(name, self._done[name], total, visible=name in at_work)


@contextmanager
def seed_meter(jobs: "Sequence[Job]", processes: int) -> Iterator[SeedMeter]:
    with Progress("seeds", len(jobs), every=EVERY) as progress:
        if not progress.live:
            kept = sum(job.kept for job in jobs)
            before = f", {kept} of them measured before" if kept else ""
            count = len({job.experiment.name for job in jobs})
            experiments = f"{count} experiment{'s' * (count != 1)}"
            progress.say(f"{experiments}, {len(jobs)} seed{'s' * (len(jobs) != 1)}{before}")
        yield SeedMeter(jobs, processes, progress)
