"""A solution as HTML, for notebooks and pages: its formulas need no script."""

from translucid.render.frame import escape, piece, table
from translucid.render.mathml import mathml
from translucid.see.html import with_formulas
from translucid.worked.solution.content import Content, Given, Step, Table, dollars
from translucid.worked.solution.document import aligned, grown


def page(solution: Content) -> str:
    """One element with its own style: headings, numbered steps, formulas, tables."""
    out = [f"<h2>{with_formulas(solution.title)}</h2>"]
    if solution.opening:
        out.append(f"<p><em>{with_formulas(solution.opening)}</em></p>")
    if solution.given:
        out += ["<h3>Given</h3>", *_given(solution.given)]
    section = ""
    for number, step in enumerate(solution.steps, 1):
        if step.section != section:
            section = step.section
            out += [f"<h3>{with_formulas(section)}</h3>"] if section else []
        out += _step(number, step)
    out += [f"<p>Note: {with_formulas(note)}</p>" for note in solution.notes]
    out += [f"<p><b>{with_formulas(solution.closing)}</b></p>"] if solution.closing else []
    out += [f"<p>Next: <code>{escape(solution.next)}</code></p>"] if solution.next else []
    return dollars(piece(*out), "$")


def _given(given: tuple[Given, ...]) -> list[str]:
    formulas = [mathml(f"{item.symbol} = {grown(item.text)}") for item in given if not item.table]
    out = [f'<div class="formula wide given">{"".join(formulas)}</div>'] if formulas else []
    for item in given:
        if item.table is not None:
            out += [f"<p>{with_formulas(item.symbol)}</p>", _table(item.table)]
    return out


def _step(number: int, step: Step) -> list[str]:
    out = [f"<p><b>{number}. {with_formulas(step.title)}</b></p>"]
    if step.sides():
        out.append(f'<div class="formula wide">{mathml(aligned(step), display=True)}</div>')
    if step.table is not None:
        out.append(_table(step.table))
    if step.note:
        out.append(f'<p class="pale">{with_formulas(step.note)}</p>')
    return out


def _table(content: Table) -> str:
    rows = [[with_formulas(cell) for cell in row] for row in content.rows]
    return table([with_formulas(cell) for cell in content.header], rows)
