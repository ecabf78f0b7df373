"""Write a solution as Markdown, LaTeX, or HTML with formulas that need no script."""

import re

from translucid.see.render.frame import escape, piece, table
from translucid.see.render.latex import with_formulas
from translucid.see.render.mathml import mathml
from translucid.see.render.plain_math import words
from translucid.worked.solution.content import Content, Given, SolutionTable, Step, dollars

_PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage[T1]{fontenc}
\usepackage[a4paper, margin=2.2cm]{geometry}
\usepackage{amsmath, amssymb, graphicx}
\setcounter{MaxMatrixCols}{100}
\setlength{\parindent}{0pt}
\setlength{\lineskip}{7pt}
\setlength{\lineskiplimit}{4pt}
% A formula wider than the page is made smaller.
\newcommand{\fit}[1]{%
  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{$\displaystyle #1$}}
"""
_LINE = 72  # characters of plain text that fit on one line of a page
_SPECIAL = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
_SPECIAL |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
_SPECIAL |= {"<": r"\textless{}", ">": r"\textgreater{}"}


# ---- Markdown ----


def markdown(solution: Content) -> str:
    """The solution as Markdown, with formulas between $$ and tables with |."""
    out = [f"# {_md(solution.title)}"]
    if solution.opening:
        out.append(f"*{_md(solution.opening)}*")
    if solution.given:
        out += ["**Given**", *_md_given(solution.given)]
    for number, heading, step in solution.numbered():
        out += [f"## {_md(heading)}"] if heading else []
        out.append(f"**{number}. {_md(step.title)}**")
        if step.sides():
            out.append(_display(aligned(step)))
        if step.table is not None:
            out.append(_md_table(step.table))
        if step.note:
            out.append(f"*{_md(step.note)}*")
    out += [f"> Note: {_md(note)}" for note in solution.notes]
    out += [f"**{_md(solution.closing)}**"] if solution.closing else []
    out += [f"Next: `{solution.next}`"] if solution.next else []
    return dollars("\n\n".join(out) + "\n", r"\$")


def _md(text: str) -> str:
    """Escape plain text for Markdown; formulas are kept."""
    return with_formulas(text, lambda part: re.sub(r"([\\`*_\[\]<>|])", r"\\\1", part))


def _display(formula: str) -> str:
    return f"$$\n{formula}\n$$"


def _md_given(given: tuple[Given, ...]) -> list[str]:
    formulas = [f"{item.symbol} = {item.text}" for item in given if item.table is None]
    out = [_display(" \\qquad ".join(formulas))] if formulas else []
    for item in given:
        if item.table is not None:
            out += [_md(item.symbol), _md_table(item.table)]
    return out


def _md_table(table: SolutionTable) -> str:
    lines = [table.header, tuple("---" for _ in table.header), *table.rows]
    return "\n".join(
        "| " + " | ".join(cell if cell == "---" else _md(cell) for cell in line) + " |"
        for line in lines
    )


def aligned(step: Step) -> str:
    """The equation on one line if it is short, otherwise with one right-hand side per line."""
    first, *others = (grown(side) for side in step.sides())
    width = sum(box.width + 1 for side in step.sides() for box in words(f"= {side}"))
    if width <= _LINE:
        return " = ".join([step.symbol, first, *others])
    lines = [f"{step.symbol} &= {first}", *(f"&= {side}" for side in others)]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


# ---- LaTeX ----


def latex(solution: Content) -> str:
    """The solution as a complete LaTeX document."""
    return latex_page(solution.title, latex_body(solution))


def latex_page(title: str, content: str) -> str:
    """A complete LaTeX document with a title around this LaTeX."""
    heading = dollars(f"\\begin{{center}}\\Large {_tex(title)}\\end{{center}}", r"\$")
    body = f"{heading}\n\n{content}"
    # pdflatex stops at characters missing from its fonts, and user text may be in any script.
    foreign = sorted({c for c in body if ord(c) > 0x24F and c not in "“”…"})
    known = [rf"\DeclareUnicodeCharacter{{{ord(c):04X}}}{{[U+{ord(c):04X}]}}" for c in foreign]
    guard = [r"\ifdefined\DeclareUnicodeCharacter", *known, r"\fi"] if known else []
    head = _PREAMBLE + "".join(f"{line}\n" for line in guard)
    return f"{head}\\begin{{document}}\n{body}\\end{{document}}\n"


def latex_body(solution: Content) -> str:
    """The solution as LaTeX, without preamble: between \\begin{document} and \\end{document}."""
    out = []
    if solution.opening:
        out.append(rf"\emph{{{_tex(solution.opening)}}}")
    if solution.given:
        out += [r"\textbf{Given}", *_tex_given(solution.given)]
    for number, heading, step in solution.numbered():
        out += [f"\\section*{{{_tex(heading)}}}"] if heading else []
        out.append(_tex_step(number, step, leads=bool(heading)))
    out += [f"\\medskip\\emph{{Note: {_tex(note)}}}" for note in solution.notes]
    out += [f"\\medskip\\textbf{{{_tex(solution.closing)}}}"] if solution.closing else []
    return dollars("\n\n".join(out) + "\n", r"\$")


def _tex_given(given: tuple[Given, ...]) -> list[str]:
    items = [_fit(f"{g.symbol} = {grown(g.text)}") for g in given if g.table is None]
    out = ["\\begin{center}\n" + " \\qquad\n".join(items) + "\n\\end{center}"] if items else []
    for item in given:
        if item.table is not None:
            out.append(f"{_tex(item.symbol)}\\nopagebreak\n{_tex_table(item.table)}")
    return out


def _tex_step(number: int, step: Step, leads: bool) -> str:
    # A step that does not fit starts a new page; a section's first step stays with its heading.
    start = "" if leads else "\\filbreak\\medskip\n"
    out = [f"{start}\\textbf{{{number}.}} {_tex(step.title)}\\nopagebreak"]
    if step.sides():
        # Boxes in a paragraph, between which TeX breaks lines.
        first, *others = (grown(side) for side in step.sides())
        lines = [_fit(f"{step.symbol} = {first}"), *(_fit(f"= {side}") for side in others)]
        out.append("\\begin{quote}\\raggedright\n" + "\n".join(lines) + "\n\\end{quote}")
    if step.table is not None:
        out.append(_tex_table(step.table))
    if step.note:
        out.append(rf"\emph{{{_tex(step.note)}}}\par\smallskip")
    return "\n".join(out)


def _fit(formula: str) -> str:
    return f"\\fit{{{formula}}}"


def _tex(text: str) -> str:
    """Escape plain text for LaTeX; formulas are kept."""
    return with_formulas(text, lambda part: "".join(_SPECIAL.get(c, c) for c in part))


def _first(row: str) -> str:
    """Put a leading [ or * of a row in braces; otherwise LaTeX would read it as an argument of the
    preceding \\\\."""
    return f"{{{row[0]}}}{row[1:]}" if row.startswith(("[", "*")) else row


def _tex_table(table: SolutionTable) -> str:
    columns = "l" * len(table.header)
    lines = [_first(" & ".join(_tex(cell) for cell in row)) + r" \\" for row in table.rows]
    head = " & ".join(_tex(cell) for cell in table.header) + r" \\ \hline"
    body = "\n".join([head, *lines])
    inner = f"\\begin{{tabular}}{{{columns}}}\n{body}\n\\end{{tabular}}"
    # Scaled down if it is wider than the page.
    return (
        "\\begin{center}\n\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
        f"{inner}}}\n\\end{{center}}"
    )


def grown(formula: str) -> str:
    """Make the parentheses of a formula as tall as the matrices inside them."""
    parts = re.split(r"([()])", formula)
    opened: list[int] = []
    for at, part in enumerate(parts):
        if part == "(":
            opened.append(at)
        elif part == ")" and opened:
            start = opened.pop()
            if any(r"\begin{bmatrix}" in inside for inside in parts[start:at]):
                parts[start], parts[at] = r"\left(", r"\right)"
    whole = "".join(parts)
    if r"\begin{bmatrix}" in whole:
        whole = whole.replace(r"\lVert", r"\left\lVert").replace(r"\rVert", r"\right\rVert")
    return whole


def html(text: str) -> str:
    """Convert plain text with formulas to HTML."""
    return with_formulas(text, escape, mathml)


def page(solution: Content) -> str:
    """The solution as a single HTML element with its own style."""
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


def _table(content: SolutionTable) -> str:
    rows = [[html(cell) for cell in row] for row in content.rows]
    return table([html(cell) for cell in content.header], rows)
