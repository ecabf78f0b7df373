"""The commands `translucid lab ...`, which test textbook claims by experiment."""

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from translucid.core import ConfigError, InputError
from translucid_lab.cli_text import (
    RUNS,
    count_verdicts,
    facts,
    fit_to_terminal,
    kept_as_dict,
    print_findings,
    print_summary,
    print_wrapped,
    row_as_dict,
    seed_meter,
    time_of,
)

if TYPE_CHECKING:
    from translucid_lab.engine.evidence import Evidence
    from translucid_lab.engine.experiment import Experiment
    from translucid_lab.engine.results import Kept
    from translucid_lab.engine.runner import Failure

app = typer.Typer(
    help="Test textbook claims by experiment.",
    epilog="Example: translucid lab run C46",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Results = Annotated[
    Path, typer.Option("--results", help="Output folder of `lab run`; missing results are taken "
                       "from the package.")
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@app.command("list")
def list_claims(results: Results = RUNS, as_json: AsJson = False) -> None:
    """List all claims with their latest verdicts.

    Example: translucid lab list --json
    """
    rows = _rows(results)
    if as_json:
        typer.echo(json.dumps([row_as_dict(row) for row in rows], indent=2, ensure_ascii=False))
        return
    states = [
        row.state
        + (", quick" if row.kept and row.kept.quick else "")
        + (", older rule" if row.older_rule else "")
        for row in rows
    ]
    widths = [max(map(len, column)) for column in ([row.claim.key for row in rows], states)]
    head = f"{'':{widths[0]}}  {'literature':10}  {'verdict':{widths[1]}}  {'time':>8}  claim"
    typer.echo(head)
    for row, state in zip(rows, states, strict=True):
        start = f"{row.claim.key:{widths[0]}}  {row.claim.literature or '-':10}  "
        start += f"{state:{widths[1]}}  {time_of(row):>8}  "
        typer.echo(start + fit_to_terminal(row.claim.says, len(start)))
    counts = Counter(row.state for row in rows)
    typer.echo(f"\n{len(rows)} claims: {count_verdicts(counts)}")
    if older := sum(row.older_rule for row in rows):
        typer.echo(f"{older} of the verdicts were given by older rules")
    runnable = next((row for row in rows if row.state == "not run"), None)
    typer.echo(f"next: translucid lab {f'run {runnable.claim.key}' if runnable else 'show C46'}")


@app.command()
def run(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="Claim ids (C46), experiment names (softmax-scale) or your own files (mine.py)."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all of the lab's experiments.")] = False,
    real: Annotated[
        bool,
        typer.Option("--real", help="Test on real data, in the folder TRANSLUCID_SHARED."),
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Number of seeds; a verdict requires the number set by the rule."),
    ] = None,
    first_seed: Annotated[
        int,
        typer.Option(
            min=0, help="First seed; seeds from 1000 on were not used to write the rules."
        ),
    ] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure less; never refutes a claim.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes, one core each.")] = 1,
    out: Annotated[Path, typer.Option(help="Output folder for the numbers of every seed.")] = RUNS,
    as_json: AsJson = False,
) -> None:
    """Run experiments and print the verdicts on their claims.

    The numbers of every seed are stored. Run the same command again to resume a stopped run; seeds
    are measured again only if the code of the experiment has changed.

    Results with a different --first-seed do not replace a verdict; `lab show` prints them beside
    it.

    Example: translucid lab run C46 C34 --quick

    Example: translucid lab run C46 --first-seed 100

    Example: TRANSLUCID_SHARED=files translucid lab run C48 --real
    """
    from translucid_lab.engine.results import keep
    from translucid_lab.engine.runner import Failure, jobs_of
    from translucid_lab.engine.runner import run as measure

    chosen = _chosen(what or [], every, real)
    options: dict[str, Any] = {"seeds": seeds, "first": first_seed, "quick": quick}
    todo = [job for experiment in chosen for job in jobs_of(experiment, out, **options)]
    results: list[Kept] = []
    failed: list[Failure] = []
    stopped = False
    with seed_meter(todo, jobs) as watch:
        answers = measure(chosen, out, **options, processes=jobs, progress=watch.move)
        try:
            for answer in answers:
                if isinstance(answer, Failure):
                    failed.append(answer)
                    typer.echo(str(answer), err=True)
                    continue
                results.append(keep(out, answer))
                if not as_json:
                    print_findings(results[-1])
        except KeyboardInterrupt:
            stopped = True
    if as_json:
        report = {"complete": not stopped and not failed, "out": str(out)}
        report["results"] = [kept_as_dict(kept) for kept in results]
        typer.echo(json.dumps(report, ensure_ascii=False))
    if stopped:
        done = sum(job.kept for job in todo)
        typer.echo(
            f"stopped: {done} of {len(todo)} seeds are in {out}; run the same command again to "
            "resume", err=True,
        )  # fmt: skip
        raise typer.Exit(130)
    if not as_json:
        print_summary(results, out, watch.seconds)
    _raise_first(failed)


@app.command()
def show(
    claim: Annotated[str, typer.Argument(help="Claim id (C46) or name of your own experiment.")],
    results: Results = RUNS,
    as_json: AsJson = False,
) -> None:
    """Show a claim: its experiment, its rule and the result.

    Example: translucid lab show C46
    """
    row = _row(claim, results)
    if as_json:
        typer.echo(json.dumps(row_as_dict(row), indent=2, ensure_ascii=False))
        return
    typer.echo(f"{row.claim.key}  {row.state}\n")
    for name, text in [*facts(row), *_look(row, results)]:
        print_wrapped(f"{name:11} {text}", indent=12)
    typer.echo("")
    if row.finding is not None:
        typer.echo("next: translucid lab report --out report")
    elif row.experiment is not None:
        typer.echo(f"next: translucid lab run {row.claim.key}")
    else:
        typer.echo("next: translucid lab list")


def _look(row: "Evidence", folder: Path) -> list[tuple[str, str]]:
    """A labelled line on the result of a quick run, or of a run with a different number of seeds,
    to print beside the verdict. The list is empty if there is no such result."""
    from translucid_lab.engine.results import QUICK, read

    look = read(folder, QUICK).get(row.kept.experiment) if row.kept is not None else None
    finding = look.findings.get(row.claim.key) if look is not None else None
    if look is None or finding is None or look == row.kept:
        return []
    return [("quick look", f"{look.when}: {finding.verdict}: {finding.why}")]


@app.command()
def verify(results: Results = RUNS, as_json: AsJson = False) -> None:
    """Judge the stored numbers again, without measuring them.

    Takes seconds, on any machine. Exits with status 1 if a verdict differs.

    Example: translucid lab verify --results runs/lab
    """
    from translucid_lab.claims import experiments, real_experiments
    from translucid_lab.engine.evidence import expected_errors
    from translucid_lab.engine.results import AGAIN, ELSEWHERE, FILE, REAL, latest, verified

    known = {**experiments(), **real_experiments()}
    checked = {
        file: list(verified(known, latest(results, file)))
        for file in (FILE, AGAIN, ELSEWHERE, REAL)
    }
    if as_json:
        report = [
            {"file": file, "claim": one.key, "state": one.state, "stored": one.stored.verdict,
             "now": one.now.verdict if one.now else None}
            for file, several in checked.items() for one in several
        ]  # fmt: skip
        typer.echo(json.dumps(report, indent=2))
    else:
        for file, several in checked.items():
            states = Counter(one.state for one in several)
            summary = ", ".join(f"{count} {state}" for state, count in states.items())
            typer.echo(f"{file}: {len(several)} verdicts judged again: {summary or 'none'}")
            for one in several:
                if one.state == "differs" and one.now is not None:
                    text = f"{one.key}  {one.stored.verdict}, now {one.now.verdict}: {one.now.why}"
                    print_wrapped(text, indent=5)
        current = [one.stored for one in checked[FILE] if one.state != "older rule"]
        if sentence := expected_errors(current):
            print_wrapped(sentence, indent=0)
    if any(one.state == "differs" for several in checked.values() for one in several):
        raise typer.Exit(1)


@app.command()
def report(
    out: Annotated[Path, typer.Option(help="Output folder for the page, index.html.")],
    figures: Annotated[
        bool,
        typer.Option("--figures", help="Also write each figure to OUT/figures, as SVG and CSV."),
    ] = False,
    results: Results = RUNS,
) -> None:
    """Write one HTML page with all claims, verdicts and figures.

    For each claim, it shows the verdict, figure, numbers, rule and code. The page is a single file
    that loads no other files, so you can mail, print or project it.

    Example: translucid lab report --out report
    """
    from translucid_lab.engine.report import write, write_figures

    rows = _rows(results)
    if not any(row.kept for row in rows):
        raise InputError(f"there are no results in {results}; start with `translucid lab run C46`")
    path = write(out, rows)
    size = path.stat().st_size / 1e6
    typer.echo(f"{path}: {len(rows)} claims, {size:.1f} MB, for any browser")
    if figures:
        drawn = write_figures(out / "figures", rows)
        typer.echo(f"{out / 'figures'}: {len(drawn)} figures, and their numbers as CSV")
    typer.echo("next: translucid lab run --all")


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the experiment: letters, digits, _ and -.")],
) -> None:
    """Write a template for your own experiment to NAME.py.

    The file runs as it is; change its measurement and its rule.

    Example: translucid lab new longer-words
    """
    from translucid_lab.claims import experiments
    from translucid_lab.engine.experiment import write_template

    path = write_template(name, experiments())
    typer.echo(f"{path}: a working experiment; change its measurement and its rule")
    typer.echo(f"next: translucid lab run {shlex.quote(str(path))} --quick")


# ---- the requested experiments and claims ----


def _chosen(words: Sequence[str], every: bool, real: bool) -> "list[Experiment]":
    from translucid_lab.claims import experiments, real_experiments
    from translucid_lab.engine.experiment import for_claim, of_file

    if not words and not every:
        raise InputError("name what to run: claims such as C46, your own file, or --all")
    known = real_experiments() if real else experiments()
    chosen: dict[str, Experiment] = dict(known) if every else {}
    mistakes: list[str] = []
    for word in words:
        try:
            several = of_file(Path(word), known) if _is_file(word) else [for_claim(word, known)]
        except ConfigError as error:
            mistakes += error.mistakes
            continue
        for experiment in several:
            if experiment.name in chosen and chosen[experiment.name] is not experiment:
                mistakes.append(f"{word}: two experiments are called {experiment.name}")
            chosen[experiment.name] = experiment
    if mistakes:
        raise ConfigError(*mistakes)
    return list(chosen.values())


def _is_file(word: str) -> bool:
    return word.endswith(".py") or "/" in word or "\\" in word


def _rows(results: Path) -> "list[Evidence]":
    from translucid_lab.claims import experiments
    from translucid_lab.engine.evidence import rows
    from translucid_lab.engine.results import AGAIN, ELSEWHERE, REAL, latest

    others = (latest(results, file) for file in (AGAIN, REAL, ELSEWHERE))
    return rows(experiments(), latest(results), *others)


def _row(claim: str, results: Path) -> "Evidence":
    """Find a claim by its id, or by the name of an experiment (its first claim)."""
    from translucid.core import nearest

    rows = _rows(results)
    for row in rows:
        if row.claim.key.lower() == claim.lower():
            return row
    names = {row.kept.experiment: row for row in reversed(rows) if row.kept}
    names |= {row.experiment.name: row for row in reversed(rows) if row.experiment}
    if claim.lower() in names:
        return names[claim.lower()]
    close = nearest(claim.upper(), [row.claim.key for row in rows]) or nearest(claim, names)
    hint = f"; did you mean {', '.join(close)}?" if close else "; see `translucid lab list`"
    raise ConfigError(f"{claim}: no such claim or experiment{hint}")


def _raise_first(failed: "Sequence[Failure]") -> None:
    """Raise the first error, for main() to report; all of them have been printed."""
    if not failed:
        return
    if len(failed) > 1:
        typer.echo(f"{len(failed)} seeds or rules failed; the first of them:", err=True)
    raise failed[0].error
