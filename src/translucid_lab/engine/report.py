"""The lab's HTML report: every claim with verdict, figure, numbers, rule and code, in one file."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from translucid import TranslucidError
from translucid.core import saving, write_text
from translucid.see import escape, folded, table
from translucid_lab.engine.evidence import Evidence
from translucid_lab.engine.experiment import Experiment, of_file
from translucid_lab.engine.fingerprints import FOLDER, line_of, outside, source_of
from translucid_lab.engine.report_figures import as_csv, dots, figure, number, numbers, picture_of
from translucid_lab.engine.report_front import VERDICTS, WAVERS, frame, front, mark, row_id, slug

PAGE = "index.html"
FEW = 12  # tables with up to this many rows are shown unfolded
_REPOSITORY = Path(__file__).parents[3]


def write(folder: Path, rows: Sequence[Evidence]) -> Path:
    """Write the report as one HTML file that loads no other files."""
    path = folder / PAGE
    with saving(path):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(path, page(rows, manual=_manual(folder)))
    return path


def write_figures(folder: Path, rows: Sequence[Evidence]) -> list[Path]:
    """Write NAME.svg and its numbers, NAME.csv, for each experiment that has run."""
    measured = {row.experiment.name: row for row in map(_with_code, rows) if row.experiment}
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, row in measured.items():
        if row.experiment is None or row.kept is None:
            continue
        picture = picture_of(row.experiment, row.kept)
        if picture is not None:
            path = folder / f"{name}.svg"
            with saving(path):
                written.append(picture.save(path))
                path.with_suffix(".csv").write_text(as_csv(picture), "utf-8")
    return written


def page(rows: Sequence[Evidence], manual: str = "") -> str:
    """The whole page. manual: the link to the worked examples."""
    rows = [_with_code(row) for row in rows]
    body = [front(rows, manual), *(_section(row) for row in rows if row.kept), _code(rows)]
    return frame(
        "The lab",
        "\n".join(body),
        {name: sum(row.state == name and not row.wavers for row in rows) for name in VERDICTS}
        | {WAVERS: sum(row.wavers for row in rows)},
    )


def _with_code(row: Evidence) -> Evidence:
    """Load a user's own experiment again, if its file still exists."""
    if row.experiment is not None or row.kept is None or row.kept.file is None:
        return row
    try:
        experiments = {experiment.name: experiment for experiment in of_file(Path(row.kept.file))}
    except TranslucidError:
        return row  # _drawing explains why there is no figure
    return replace(row, experiment=experiments.get(row.kept.experiment))


def _manual(folder: Path) -> str:
    """The relative link to the page of the worked examples, within the repository."""
    page, root = _REPOSITORY / "docs/guides/worked-solutions.md", _REPOSITORY.resolve()
    if not page.is_file() or not folder.resolve().is_relative_to(root):
        return ""
    return Path(os.path.relpath(page.resolve(), folder.resolve())).as_posix()


# ---- one claim ----


def _section(row: Evidence) -> str:
    assert row.kept is not None
    assert row.finding is not None
    verdict, key = row.finding.verdict, row.claim.key
    group = WAVERS if row.wavers else verdict
    quick = "<small>quick run: it measures less</small>" if row.kept.quick else ""
    differs = f'<p class="differs">{escape(row.difference)}</p>' if row.difference else ""
    plain = f'<p class="why">{escape(row.in_words)}</p>' if row.in_words != row.finding.why else ""
    drawn, read = _drawing(row)
    return (
        f'<section class="card claim" id="{row_id(row)}" data-verdict="{slug(group)}">'
        f'<p class="state"><b>{escape(key)}</b>{mark(verdict)}<strong>{verdict}</strong>{quick}'
        '<a class="up" href="#top">all claims</a></p>'
        f"<h2>{escape(row.claim.says)}</h2>"
        f'{plain}<p class="why">{escape(_sentence(row.finding.why))}</p>{differs}{drawn}'
        f'<div class="below"><div>{_numbers(row.finding.numbers)}{_dots(row)}{read}</div>'
        f"{_facts(row)}</div>"
        "</section>"
    )


def _drawing(row: Evidence) -> tuple[str, str]:
    """The figure and its numbers, or why it cannot be drawn."""
    made, kept = row.experiment, row.kept
    assert kept is not None
    if made is None:
        name = escape(Path(kept.file or kept.experiment).name)
        return f'<p class="differs">No figure: {name} cannot be loaded.</p>', ""
    picture = picture_of(made, kept)
    if picture is None:
        return '<p class="differs">No figure: the experiment has changed since it ran.</p>', ""
    shown = figure(picture)
    read = numbers(picture)
    opened = read.count("<tr>") <= FEW + 1
    address = f"data:text/csv;charset=utf-8,{quote(as_csv(picture))}"
    link = f'<p><a download="{escape(made.name)}.csv" href="{address}">as CSV</a></p>'
    return shown, folded("Numbers of the figure", read + link, opened=opened)


def _numbers(values: Mapping[str, Any]) -> str:
    """The numbers that the rule used."""
    if not values:
        return ""
    rows = [(escape(str(name)), escape(_as_words(value))) for name, value in values.items()]
    return f"<h3>Numbers that the rule used</h3>{table((), rows, numbers=(1,))}"


def _dots(row: Evidence) -> str:
    """The comparisons, with a dot for every seed."""
    assert row.finding is not None
    if not row.finding.comparisons:
        return ""
    return folded("Comparisons, one dot per seed", dots(row.finding.comparisons), opened=True)


def _as_words(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int | float):
        return number(value) if isinstance(value, float) else f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_as_words, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_as_words(part)}" for name, part in value.items())
    return str(value)


def _facts(row: Evidence) -> str:
    kept, made = row.kept, row.experiment
    assert kept is not None
    known = row.claim.literature
    facts = [
        ("rule", escape(kept.rules.get(row.claim.key, ""))),
        ("varied", escape(kept.varies)),
        ("measured", escape(kept.measures)),
        ("literature", escape(f"{known.capitalize()}. " * bool(known) if known else "")
         + escape(row.claim.notes)),
        ("references", "<br>".join(map(_reference, kept.references))),
        ("code", _link(made) if made else ""),
        ("ran", escape(kept.when)),
        ("kind", escape(row.label)),
        ("confidence", "<br>".join(map(escape, row.confidence))),
        ("holds beyond the toy?", escape(row.beyond_toys)),
        ("rule beyond the toy", escape(row.rule_beyond)),
        ("limits", escape(row.limits)),
    ]  # fmt: skip
    return (
        "<dl>"
        + "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts if text)
        + ("</dl>")
    )


def _reference(reference: str) -> str:
    if not reference.startswith(("https://", "http://")):
        return escape(reference)
    return (
        f'<a href="{escape(reference)}" rel="noreferrer">{escape(reference.split("://", 1)[1])}</a>'
    )


def _sentence(text: str) -> str:
    """Capitalise a text, unless it starts with a formula, and end it with a full stop."""
    first = text.split(" ", 1)[0]
    begun = text[:1].upper() + text[1:] if first.isalpha() and len(first) > 1 else text
    return begun if begun.endswith((".", "!", "?")) else f"{begun}."


# ---- the code ----


def _link(made: Experiment) -> str:
    line = line_of(made)
    return f'<a href="#{_place(made)}-line-{line}">{escape(_named(made))}, line {line}</a>'


def _place(made: Experiment) -> str:
    """The HTML id of the code listing of an experiment's file."""
    return f"{'own-' * outside(made)}code-{slug(_named(made).removesuffix('.py'))}"


def _named(made: Experiment) -> str:
    """The name to show for the file of an experiment, such as
    translucid_lab/claims/attention_scores.py. For privacy, the name of a user's own file is shown
    without its folder."""
    path = source_of(made)
    if outside(made):
        return path.name
    return f"translucid_lab/{path.relative_to(FOLDER).as_posix()}"


def _code(rows: Sequence[Evidence]) -> str:
    """Code listings of all files whose experiments were measured."""
    made = {row.experiment.name: row.experiment for row in rows if row.kept and row.experiment}
    files: dict[Path, list[Experiment]] = {}
    for experiment in made.values():
        files.setdefault(source_of(experiment), []).append(experiment)
    parts = "".join(_listing(path, of_file_) for path, of_file_ in files.items())
    return f'<section class="group" id="code"><h2>The code that measured</h2>{parts}</section>'


def _listing(path: Path, experiments: Sequence[Experiment]) -> str:
    place = _place(experiments[0])
    marked = {line_of(experiment) for experiment in experiments}
    lines = "\n".join(_anchored(path.read_text("utf-8").splitlines(), marked, place))
    return (
        f'<details id="{place}"><summary><code>{escape(_named(experiments[0]))}</code></summary>'
        f"<pre>{lines}</pre></details>"
    )


def _anchored(lines: Sequence[str], marked: set[int], place: str) -> Iterator[str]:
    for at, line in enumerate(lines, 1):
        text = escape(line)
        yield f'<span id="{place}-line-{at}">{text}</span>' if at in marked else text
