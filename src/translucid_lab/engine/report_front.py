"""The front of the lab's page, the frame around it, and its script.

The front lists the surprising claims first, then all claims by verdict. The page works without the
script, which only filters it.
"""

from collections.abc import Mapping, Sequence

from translucid.see import escape, page, table
from translucid_lab.engine.evidence import Evidence, expected_errors
from translucid_lab.engine.report_figures import picture_of, thumbnail

# The verdicts in the order of the front page, and what they mean.
VERDICTS = {
    "refuted": "The measurements clearly contradict the claim, in every setting that it leaves "
    "open.",
    "depends": "The claim holds in some of the settings that it leaves open, and fails in others; "
    "its section lists them.",
    "supported": "The measurements clearly support the claim.",
    "illustrates": "The numbers of the example fix the outcome: the experiment shows what the "
    "claim means, and cannot test it.",
    "undecided": "The confidence interval over the seeds contains the threshold of the rule.",
    "not tested": "The networks have not learned what the claim is about.",
    "not applicable": "The premise of the claim is not met in what was measured.",
    "not run": "There is an experiment, but it has not been run.",
    "no experiment yet": "There is no experiment for these claims.",
}
WAVERS = "not reproduced"  # the group of verdicts that other seeds did not reproduce
_MARKS = {"supported": "full", "refuted": "cross", "depends": "half", "undecided": "ring",
          "not tested": "dash", "illustrates": "ring", "not applicable": "dash"}  # fmt: skip
_SHAPES = {
    "full": '<circle cx="8" cy="8" r="6.5" fill="currentColor"/>',
    "cross": '<path d="M3 3 13 13M13 3 3 13" stroke="currentColor" stroke-width="2.6" '
    'stroke-linecap="round" fill="none"/>',
    "half": '<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6"/>'
    '<path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor"/>',
    "dash": '<path d="M3 8H13" stroke="currentColor" stroke-width="2.6" stroke-linecap="round"/>',
    "ring": '<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6" '
    'stroke-dasharray="2.4 2.4"/>',
}


def mark(verdict: str) -> str:
    """An icon for a verdict, so that verdicts can be told apart without colour."""
    shape = _SHAPES.get(_MARKS.get(verdict, ""), "")
    if not shape:
        return ""
    name = verdict.replace(" ", "-")
    return f'<svg class="mark {name}" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>'


def frame(title: str, body: str, counts: Mapping[str, int]) -> str:
    """Wrap the sections in a whole HTML page. counts: number of claims by verdict."""
    measured = sum(count for name, count in counts.items() if name in _MARKS or name == WAVERS)
    lead = (
        "Claims of five sets of course notes, measured. Each claim has an experiment, and a rule "
        "that turns its numbers into a verdict."
    )
    if measured < sum(counts.values()):
        lead += f" {measured} of {sum(counts.values())} claims have been measured so far."
    return page(
        f"Translucid: {title.lower()}", body, heading=title, lead=lead, menu=_counts(counts),
        script=_SCRIPT, footer="All verdicts are computed from the numbers.",
    )  # fmt: skip


def _counts(counts: Mapping[str, int]) -> str:
    """Links to the groups of claims, one for each verdict. With the script, a link shows only the
    claims with one verdict."""
    shown = "".join(
        f'<a href="#{name.replace(" ", "-")}" data-show="{name.replace(" ", "-")}">{mark(name)}'
        f"<b>{count}</b> {escape(name)}</a>"
        for name, count in counts.items()
        if count
    )
    every = f'<a href="#top" data-show="" hidden><b>{sum(counts.values())}</b> all</a>'
    theme = '<button type="button" data-theme-switch hidden>light / dark</button>'
    return f'<nav aria-label="verdicts">{every}{shown}{theme}</nav>'


_SCRIPT = """
const links = [...document.querySelectorAll("[data-show]")];
const parts = [...document.querySelectorAll("section[data-verdict]")];
function show(verdict) {
  for (const part of parts) part.hidden = Boolean(verdict) && part.dataset.verdict !== verdict;
  for (const link of links) link.toggleAttribute("data-on", link.dataset.show === verdict);
}
for (const link of links) {
  link.hidden = false;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    show(link.dataset.show);
  });
}
show("");
window.addEventListener("hashchange", () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.closest("[hidden]")) { show(""); target.scrollIntoView(); }
});
// What scrolls sideways can be scrolled with the keyboard.
const sized = new ResizeObserver((boxes) => {
  for (const { target: box } of boxes) box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
});
for (const box of document.querySelectorAll(".wide")) sized.observe(box);
const button = document.querySelector("[data-theme-switch]");
button.hidden = false;
const root = document.documentElement;
const system = () => matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const KEPT = "translucid-theme"; // as in the studio
let store = null; // a browser may deny access
try { store = localStorage; } catch (error) { if (error.name !== "SecurityError") throw error; }
const kept = store?.getItem(KEPT);
if (kept) root.dataset.theme = kept;
button.addEventListener("click", () => {
  const theme = (root.dataset.theme ?? system()) === "dark" ? "light" : "dark";
  root.dataset.theme = theme;
  if (theme === system()) store?.removeItem(KEPT);
  else store?.setItem(KEPT, theme);
});
"""


WORKED = {
    "perceptron": "one threshold unit, and the rule by which it learns",
    "softmax": "softmax, its loss and its gradient",
    "embedding": "from a sentence to ids and vectors",
    "attention": "attention by one head, forward and backward",
    "multihead": "attention by several heads",
    "positions": "sinusoidal and rotary positions",
    "feedforward": "the feed-forward network of a Transformer",
    "encoder-layer": "an encoder layer with Add & Norm",
    "decoder-layer": "a decoder layer with cross-attention",
    "variance": "why attention divides by √d_k",
    "activations": "activations and their slopes",
    "mlp": "a network with one hidden layer, forward and backward",
    "gradcheck": "gradients against central differences",
    "steps": "a staircase of sigmoids",
    "clip": "gradients clipped by norm and by value",
    "norm": "layer, RMS and batch norm",
    "rnn": "a recurrent network, back through time",
    "lstm": "an LSTM, back through time",
    "gru": "a GRU, back through time",
    "beam": "greedy and beam search, round by round",
    "params": "the parameters of a Transformer",
}


def front(rows: Sequence[Evidence], manual: str) -> str:
    parts = [_where(rows), _confidence(rows), _surprises(rows)]
    for name, words in VERDICTS.items():
        of_verdict = [row for row in rows if row.state == name and not row.wavers]
        if of_verdict:
            lines = "".join(_entry(row) for row in of_verdict)
            parts.append(
                f'<section class="group" id="{slug(name)}" data-verdict="{slug(name)}">'
                f"<h2>{mark(name)}{escape(name.capitalize())} <small>{len(of_verdict)}</small></h2>"
                f"<p>{escape(words)}</p><ul>{lines}</ul></section>"
            )
    return "\n".join([*parts, _wavering(rows), _worked(manual)])


def _entry(row: Evidence) -> str:
    key = f"<b>{escape(row.claim.key)}</b>"
    if row.kept:
        key = f'<a href="#{row_id(row)}">{key}</a>'
    known = f"literature: {row.claim.literature}" if row.claim.literature else "your own"
    quick = ", quick run" if row.kept and row.kept.quick else ""
    quick += ", judged by an older rule" if row.older_rule else ""
    says = f"<span>{escape(row.claim.says)}</span>"
    return f"<li>{key}{says}<small>{escape(known)}{quick}</small></li>"


def _where(rows: Sequence[Evidence]) -> str:
    """A text on how to read the intervals, and on when and on which machine the lab ran."""
    circumstances = dict.fromkeys(
        f"{row.kept.date[:10]}, {row.kept.machine}, translucid {row.kept.version}"
        for row in rows
        if row.kept
    )
    ran = "; ".join(list(circumstances)[:4]) + ("; and others" if len(circumstances) > 4 else "")
    read = (
        "0.2 [0.1, 0.3] is a mean over the seeds (for accuracies, the median) with its 95 % "
        "confidence interval. The comparisons of each claim also give the interval after Holm's "
        "correction for multiple comparisons, which decides."
    )
    return f'<p class="ran">{escape(read)}<br>Measured {escape(ran)}.</p>' if circumstances else ""


def _confidence(rows: Sequence[Evidence]) -> str:
    """A paragraph on the kinds of evidence, the expected number of false verdicts, and verdicts
    from older rules."""
    kinds: dict[str, int] = {}
    for row in rows:
        if row.kept and row.label:
            kinds[row.label] = kinds.get(row.label, 0) + 1
    counted = ", ".join(f"{count} {label}" for label, count in kinds.items())
    current = [row.finding for row in rows if row.finding and not row.older_rule]
    older = sum(row.older_rule for row in rows)
    sentences = [f"Kinds of evidence: {counted}." if counted else "", _frozen(rows)]
    sentences.append(expected_errors(current))
    if older:
        sentences.append(
            f"{older} of these verdicts were given by older rules (bootstrap intervals over few "
            "seeds, without correction); they are listed until the lab is measured again."
        )
    text = " ".join(escape(sentence) for sentence in sentences if sentence)
    return f'<p class="ran" id="how-sure">{text}</p>' if text else ""


def _frozen(rows: Sequence[Evidence]) -> str:
    """A sentence on how many rules were frozen before the measurement, and which were not."""
    first = sum(row.frozen_first is True for row in rows)
    known = [row.claim.key for row in rows if row.frozen_first is False]
    if not first and not known:
        return ""
    after = f"; when the numbers were known: {', '.join(known)}" if known else ""
    return f"Rules frozen before new seeds were drawn: {first}{after}."


def _wavering(rows: Sequence[Evidence]) -> str:
    """A text on how many verdicts were reproduced with other seeds, and which were not."""
    again = sum(bool(row.repetitions) for row in rows)
    wavering = [row for row in rows if row.wavers]
    summary = (
        f"Of {again} claims measured again with other seeds, {again - len(wavering)} got the same "
        "verdict. The verdicts below depend on the seeds or the machine, so they count neither for "
        "nor against a claim, and no list above contains them."
    )
    remarks = [
        (row, f"{row.state}, then {' and '.join(one.verdict for one in row.repetitions)}")
        for row in wavering
    ]
    return _listed(slug(WAVERS), "Verdicts that other seeds did not reproduce", summary, remarks)


def _surprises(rows: Sequence[Evidence]) -> str:
    """Refuted claims, then those whose verdict differs from the literature, each with a sentence
    and a small figure."""
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
        f"differ <small>{len(first)}</small></h2><p>A rule tests the claim as it is worded, in the "
        "settings that were measured; the literature covers more settings."
        f"</p><ul>{lines}</ul></section>"
    )


def _small_figure(row: Evidence) -> str:
    assert row.kept is not None
    picture = picture_of(row.experiment, row.kept) if row.experiment else None
    return f'<div class="small">{thumbnail(picture)}</div>' if picture else ""


def _listed(name: str, title: str, summary: str, remarks: Sequence[tuple[Evidence, str]]) -> str:
    """A section that lists claims, each with a remark."""
    if not remarks:
        return ""
    lines = "".join(
        f'<li><a href="#{row_id(row)}"><b>{escape(row.claim.key)}</b></a>'
        f"<span>{escape(row.claim.says)} <em>{escape(remark)}</em></span></li>"
        for row, remark in remarks
    )
    return (
        f'<section class="group" id="{name}" data-verdict="{name}"><h2>{escape(title)} '
        f"<small>{len(remarks)}</small></h2>"
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
        "<p>Each command computes a small example step by step, with all numbers."
        f"{link}</p>{table((), rows)}</section>"
    )


def row_id(row: Evidence) -> str:
    """The HTML id of a claim's section. The id of a user's own claim contains the experiment,
    because its key may be that of another claim."""
    own = row.kept is not None and row.kept.file is not None
    return slug(f"own-{row.kept.experiment}-{row.claim.key}" if own and row.kept else row.claim.key)


def slug(text: str) -> str:
    """Convert a text to an HTML id."""
    return "".join(character if character.isalnum() else "-" for character in text)
