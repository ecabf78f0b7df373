"""A solution as HTML, for notebooks and pages: its formulas need no script."""

from translucid.see.render.frame import escape, piece, table
from translucid.see.render.latex import with_formulas
from translucid.see.render.mathml import mathml
from translucid.worked.solution.content import Content, Given, Step, Table, dollars
from translucid.worked.solution.document import aligned, grown


def html(text: str) -> str:
    """Plain text with its formulas."""
    return with_formulas(text, escape, mathml)


def page(solution: Content) -> str:
    """One element with its own style: headings, numbered steps, formulas, tables."""
    out = [f"<h2>{html(solution.title)}</h2>"]
    if solution.opening:
        out.append(f"<p><em>{html(solution.opening)}</em></p>")
    if solution.given:
        out += ["<h3>Given</h3>", *_given(solution.given)]
    for number, heading, step in solution.numbered():
        out += [f"<h3>{html(heading)}</h3>"] if heading else []
        out += _step(number, step)
    out += [f"<p>Note: {html(note)}</p>" for note in solution.notes]
    out += [f"<p><b>{html(solution.closing)}</b></p>"] if solution.closing else []
    out += [f"<p>Next: <code>{escape(solution.next)}</code></p>"] if solution.next else []
    return dollars(piece(*out), "$")


def _given(given: tuple[Given, ...]) -> list[str]:
    formulas = [mathml(f"{item.symbol} = {grown(item.text)}") for item in given if not item.table]
    out = [f'<div class="formula wide given">{"".join(formulas)}</div>'] if formulas else []
    for item in given:
        if item.table is not None:
            out += [f"<p>{html(item.symbol)}</p>", _table(item.table)]
    return out


def _step(number: int, step: Step) -> list[str]:
    out = [f"<p><b>{number}. {html(step.title)}</b></p>"]
    if step.sides():
        out.append(f'<div class="formula wide">{mathml(aligned(step), display=True)}</div>')
    if step.table is not None:
        out.append(_table(step.table))
    if step.note:
        out.append(f'<p class="pale">{html(step.note)}</p>')
    return out


def _table(content: Table) -> str:
    rows = [[html(cell) for cell in row] for row in content.rows]
    return table([html(cell) for cell in content.header], rows)
