"""The page of the lab: every claim with verdict, figure, numbers, rule and code, in one file."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from translucid.atomic_files import saving, write_text
from translucid.errors import TranslucidError
from translucid.lab.engine.experiment import Experiment, of_file
from translucid.lab.engine.report_figure import figure, number, numbers
from translucid.lab.engine.report_page import VERDICTS, frame, mark
from translucid.lab.engine.results import Row
from translucid.lab.engine.runner import FOLDER, line_of, outside, source_of
from translucid.render.frame import escape, folded, table

PAGE = "index.html"
FEW = 12  # rows of a table that need no folding
WORKED = {
    "softmax": "softmax, its loss and its gradient",
    "attention": "attention by one head",
    "multihead": "attention by several heads",
    "positions": "sinusoidal and rotary positions",
    "mlp": "a network with one hidden layer, forward and backward",
    "rnn": "a recurrent network, back through time",
    "lstm": "an LSTM, back through time",
    "gru": "a GRU, back through time",
    "beam": "greedy and beam search, round by round",
    "params": "the parameters of a Transformer",
}
_REPOSITORY = Path(__file__).parents[4]


def write(folder: Path, rows: Sequence[Row]) -> Path:
    """One file, which needs no other and asks nobody for anything."""
    path = folder / PAGE
    with saving(path):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(path, page(rows, manual=_manual(folder)))
    return path


def write_figures(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """A file for each experiment that has run: NAME.svg."""
    measured = {row.experiment.name: row for row in map(_with_code, rows) if row.experiment}
    with saving(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, row in measured.items():
        if row.experiment is not None and row.kept is not None:
            path = folder / f"{name}.svg"
            with saving(path):
                written.append(row.experiment.draw(row.kept.data).save(path))
    return written


def page(rows: Sequence[Row], manual: str = "") -> str:
    """The whole page. manual: where the worked examples stand, as an address on the page."""
    rows = [_with_code(row) for row in rows]
    body = [_front(rows, manual), *(_section(row) for row in rows if row.kept), _code(rows)]
    return frame("The lab", "\n".join(body), {name: _count(rows, name) for name in VERDICTS})


def _with_code(row: Row) -> Row:
    """A user's own experiment is read from its file again, if it is still there."""
    if row.experiment is not None or row.kept is None or row.kept.file is None:
        return row
    try:
        experiments = {experiment.name: experiment for experiment in of_file(Path(row.kept.file))}
    except TranslucidError:
        return row  # _drawing says that there is no figure, and why
    return replace(row, experiment=experiments.get(row.kept.experiment))


def _manual(folder: Path) -> str:
    """Within the repository, the page of the worked examples can be linked to."""
    page, root = _REPOSITORY / "docs" / "work.md", _REPOSITORY.resolve()
    if not page.is_file() or not folder.resolve().is_relative_to(root):
        return ""
    return Path(os.path.relpath(page.resolve(), folder.resolve())).as_posix()


# ---- the front ----


def _front(rows: Sequence[Row], manual: str) -> str:
    parts = [_where(rows)]
    for name, words in VERDICTS.items():
        of_verdict = [row for row in rows if row.state == name]
        if of_verdict:
            lines = "".join(_entry(row) for row in of_verdict)
            parts.append(
                f'<section class="group" id="{_slug(name)}" data-verdict="{_slug(name)}">'
                f"<h2>{mark(name)}{escape(name.capitalize())} <small>{len(of_verdict)}</small></h2>"
                f"<p>{escape(words)}</p><ul>{lines}</ul></section>"
            )
    return "\n".join([*parts, _wavering(rows), _differences(rows), _worked(manual)])


def _count(rows: Sequence[Row], name: str) -> int:
    return sum(row.state == name for row in rows)


def _entry(row: Row) -> str:
    key = f"<b>{escape(row.claim.key)}</b>"
    if row.kept:
        key = f'<a href="#{_id(row)}">{key}</a>'
    known = f"literature: {row.claim.literature}" if row.claim.literature else "your own"
    quick = ", quick run" if row.kept and row.kept.quick else ""
    says = f"<span>{escape(row.claim.says)}</span>"
    return f"<li>{key}{says}<small>{escape(known)}{quick}</small></li>"


def _where(rows: Sequence[Row]) -> str:
    """When and on what it ran; seldom more than one line."""
    circumstances = dict.fromkeys(
        f"{row.kept.date[:10]}, {row.kept.machine}, translucid {row.kept.version}"
        for row in rows
        if row.kept
    )
    ran = "; ".join(list(circumstances)[:4]) + ("; and others" if len(circumstances) > 4 else "")
    read = "0.2 [0.1, 0.3] is a mean over the seeds and, in brackets, between which bounds it lies "
    read += "with 95 % confidence."
    return f'<p class="ran">{escape(read)}<br>Measured {escape(ran)}.</p>' if circumstances else ""


def _wavering(rows: Sequence[Row]) -> str:
    """How many verdicts other seeds repeated, and which not."""
    again, wavering = (
        sum(row.again is not None for row in rows),
        [row for row in rows if row.wavers],
    )
    summary = (
        f"Of {again} measured again with other seeds {again - len(wavering)} got the same verdict. "
        "Those below lie close to a bar of their rule: read them with care."
    )
    remarks = [
        (row, f"{row.state}, then {row.repeated.verdict}") for row in wavering if row.repeated
    ]
    return _listed("wavering", "Verdicts that other seeds did not repeat", summary, remarks)


def _differences(rows: Sequence[Row]) -> str:
    differing = [row for row in rows if row.difference and row.claim.literature != "vague"]
    summary = (
        "A rule asks whether the claim holds as it is worded, in the settings that were measured; "
        "the literature has seen more settings."
    )
    remarks = [(row, row.difference) for row in differing]
    return _listed("differences", "Where measurement and literature differ", summary, remarks)


def _listed(name: str, title: str, summary: str, remarks: Sequence[tuple[Row, str]]) -> str:
    """Claims, each with a remark."""
    if not remarks:
        return ""
    lines = "".join(
        f'<li><a href="#{_id(row)}"><b>{escape(row.claim.key)}</b></a>'
        f"<span>{escape(row.claim.says)} <em>{escape(remark)}</em></span></li>"
        for row, remark in remarks
    )
    return (
        f'<section class="group" id="{name}"><h2>{escape(title)} <small>{len(remarks)}</small></h2>'
        f"<p>{escape(summary)}</p><ul>{lines}</ul></section>"
    )


def _worked(manual: str) -> str:
    rows = [
        (f"<code>translucid work {name}</code>", escape(meaning))
        for name, meaning in WORKED.items()
    ]
    link = f' <a href="{escape(manual)}">The worked examples</a>' if manual else ""
    return (
        '<section class="group" id="worked"><h2>The same parts, worked by hand</h2>'
        "<p>What these experiments measure can be written out with a pencil; each command shows "
        f"every step with its numbers.{link}</p>{table((), rows)}</section>"
    )


# ---- one claim ----


def _section(row: Row) -> str:
    assert row.kept is not None
    assert row.finding is not None
    verdict, key = row.finding.verdict, row.claim.key
    quick = "<small>quick run: it measures less</small>" if row.kept.quick else ""
    differs = f'<p class="differs">{escape(row.difference)}</p>' if row.difference else ""
    drawn, read = _drawing(row)
    return (
        f'<section class="card claim" id="{_id(row)}" data-verdict="{verdict}">'
        f'<p class="state"><b>{escape(key)}</b>{mark(verdict)}<strong>{verdict}</strong>{quick}'
        '<a class="up" href="#top">all claims</a></p>'
        f"<h2>{escape(row.claim.says)}</h2>"
        f'<p class="why">{escape(_sentence(row.finding.why))}</p>{differs}{drawn}'
        f'<div class="below"><div>{_numbers(row.finding.numbers)}{read}</div>{_facts(row)}</div>'
        "</section>"
    )


def _drawing(row: Row) -> tuple[str, str]:
    """The figure, and its numbers; where it cannot be drawn, why."""
    made, kept = row.experiment, row.kept
    assert kept is not None
    if made is None:
        name = escape(Path(kept.file or kept.experiment).name)
        return f'<p class="differs">No figure: {name} cannot be loaded any more.</p>', ""
    try:
        picture = made.draw(kept.data)
        shown = figure(picture)
    except Exception:
        if not kept.stale(made):
            raise  # a mistake in the experiment
        return '<p class="differs">No figure: the experiment has changed since it ran.</p>', ""
    read = numbers(picture)
    opened = read.count("<tr>") <= FEW + 1
    return shown, folded("Numbers of the figure", read, opened=opened)


def _numbers(values: Mapping[str, Any]) -> str:
    """What the rule looked at."""
    if not values:
        return ""
    rows = [(escape(str(name)), escape(_as_words(value))) for name, value in values.items()]
    return f"<h3>What the rule looked at</h3>{table((), rows, numbers=(1,))}"


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


def _facts(row: Row) -> str:
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
        ("again", escape(row.repetition)),
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
    """From a capital letter to a full stop, unless a formula begins it."""
    first = text.split(" ", 1)[0]
    begun = text[:1].upper() + text[1:] if first.isalpha() and len(first) > 1 else text
    return begun if begun.endswith((".", "!", "?")) else f"{begun}."


# ---- the code ----


def _link(made: Experiment) -> str:
    line = line_of(made)
    return f'<a href="#{_place(made)}-line-{line}">{escape(_named(made))}, line {line}</a>'


def _place(made: Experiment) -> str:
    """The name of its file's listing on the page."""
    return f"{'own-' * outside(made)}code-{_slug(_named(made).removesuffix('.py'))}"


def _named(made: Experiment) -> str:
    """translucid/lab/claims/attention/softmax.py; of a user's own the name alone: a path is
    nobody's business."""
    path = source_of(made)
    if outside(made):
        return path.name
    return f"translucid/lab/{path.relative_to(FOLDER).as_posix()}"


def _code(rows: Sequence[Row]) -> str:
    """Every file that measured something, once, so that the page holds all of its evidence."""
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


def _id(row: Row) -> str:
    """The name of a claim's section; a user's own claim may have any key, also that of another."""
    own = row.kept is not None and row.kept.file is not None
    return _slug(
        f"own-{row.kept.experiment}-{row.claim.key}" if own and row.kept else row.claim.key
    )


def _slug(text: str) -> str:
    """A name that an address can have."""
    return "".join(character if character.isalnum() else "-" for character in text)
