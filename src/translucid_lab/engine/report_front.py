"""The front of the lab's page: what surprises first, then all claims by verdict."""

from collections.abc import Sequence

from translucid.see.render.frame import escape, table
from translucid_lab.engine.evidence import Row
from translucid_lab.engine.report_figure import picture_of, thumbnail
from translucid_lab.engine.report_page import VERDICTS, mark
from translucid_lab.engine.surety import surety

WORKED = {
    "perceptron": "one threshold unit, and the rule by which it learns",
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


def front(rows: Sequence[Row], manual: str) -> str:
    parts = [_where(rows), _confidence(rows), _surprises(rows)]
    for name, words in VERDICTS.items():
        of_verdict = [row for row in rows if row.state == name]
        if of_verdict:
            lines = "".join(_entry(row) for row in of_verdict)
            parts.append(
                f'<section class="group" id="{slug(name)}" data-verdict="{slug(name)}">'
                f"<h2>{mark(name)}{escape(name.capitalize())} <small>{len(of_verdict)}</small></h2>"
                f"<p>{escape(words)}</p><ul>{lines}</ul></section>"
            )
    return "\n".join([*parts, _wavering(rows), _worked(manual)])


def _entry(row: Row) -> str:
    key = f"<b>{escape(row.claim.key)}</b>"
    if row.kept:
        key = f'<a href="#{row_id(row)}">{key}</a>'
    known = f"literature: {row.claim.literature}" if row.claim.literature else "your own"
    quick = ", quick run" if row.kept and row.kept.quick else ""
    quick += ", judged by an older rule" if row.older_rule else ""
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
    read = (
        "0.2 [0.1, 0.3] is a mean over the seeds (of accuracies, and of whatever runs learn or do "
        "not, the median) and, in brackets, the bounds between which the true one lies with 95 % "
        "confidence. Each interval stands for itself; verdicts are corrected for all of them."
    )
    return f'<p class="ran">{escape(read)}<br>Measured {escape(ran)}.</p>' if circumstances else ""


def _confidence(rows: Sequence[Row]) -> str:
    """What stands behind the claims, how many verdicts may be false, which are of older rules."""
    kinds: dict[str, int] = {}
    for row in rows:
        if row.kept and row.label:
            kinds[row.label] = kinds.get(row.label, 0) + 1
    counted = ", ".join(f"{count} {label}" for label, count in kinds.items())
    current = [row.finding for row in rows if row.finding and not row.older_rule]
    older = sum(row.older_rule for row in rows)
    sentences = [f"What stands behind the claims: {counted}." if counted else ""]
    sentences.append(str(surety(current)))
    if older:
        sentences.append(
            f"{older} of these verdicts were given by older rules than those of now (bootstrap "
            "intervals over few seeds, each comparison for itself); they stand here until the lab "
            "is measured anew, and say nothing about the rules of now."
        )
    text = " ".join(escape(sentence) for sentence in sentences if sentence)
    return f'<p class="ran" id="how-sure">{text}</p>' if text else ""


def _wavering(rows: Sequence[Row]) -> str:
    """How many verdicts other seeds repeated, on this machine or another, and which not."""
    again = sum(bool(row.repetitions) for row in rows)
    wavering = [row for row in rows if row.wavers]
    summary = (
        f"Of {again} measured again with other seeds {again - len(wavering)} got the same verdict. "
        "Those below lie close to a bar of their rule: read them with care."
    )
    remarks = [
        (row, f"{row.state}, then {' and '.join(one.verdict for one in row.repetitions)}")
        for row in wavering
    ]
    return _listed("wavering", "Verdicts that other seeds did not repeat", summary, remarks)


def _surprises(rows: Sequence[Row]) -> str:
    """What is refuted, then what is decided otherwise than the literature has it: a sentence and a
    small figure each."""
    first = [row for row in rows if row.surprising and row.state == "refuted"]
    first += [row for row in rows if row.surprising and row.state != "refuted"]
    if not first:
        return ""
    lines = "".join(
        f'<li><a href="#{row_id(row)}"><b>{escape(row.claim.key)}</b></a>'
        f"<span>{escape(row.claim.says)}<br><strong>{row.state.capitalize()}.</strong> "
        f"{escape(row.in_words)} <em>{escape(row.difference)}</em></span>{_small_figure(row)}</li>"
        for row in first
    )
    return (
        '<section class="group" id="surprises"><h2>Refuted, and where measurement and literature '
        f"differ <small>{len(first)}</small></h2><p>A rule asks whether the claim holds as it is "
        "worded, in the settings that were measured; the literature has seen more settings. "
        f"The small figures are those of the claims, without words.</p><ul>{lines}</ul></section>"
    )


def _small_figure(row: Row) -> str:
    assert row.kept is not None
    picture = picture_of(row.experiment, row.kept) if row.experiment else None
    return f'<div class="small">{thumbnail(picture)}</div>' if picture else ""


def _listed(name: str, title: str, summary: str, remarks: Sequence[tuple[Row, str]]) -> str:
    """Claims, each with a remark."""
    if not remarks:
        return ""
    lines = "".join(
        f'<li><a href="#{row_id(row)}"><b>{escape(row.claim.key)}</b></a>'
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


def row_id(row: Row) -> str:
    """The name of a claim's section; a user's own claim may have any key, also that of another."""
    own = row.kept is not None and row.kept.file is not None
    return slug(f"own-{row.kept.experiment}-{row.claim.key}" if own and row.kept else row.claim.key)


def slug(text: str) -> str:
    """A name that an address can have."""
    return "".join(character if character.isalnum() else "-" for character in text)
