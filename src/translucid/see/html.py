"""Pieces of HTML for notebooks and pages: everything escaped, every style under one class."""

import html
from collections.abc import Iterable, Sequence

from translucid.render.mathml import mathml

# Notebooks look for TeX between dollar signs in what they show; our formulas are MathML already,
# and a reader's words may have dollar signs.
_CLASSES = "translucid mathjax_ignore tex2jax_ignore"

# Colours come from the page around it, light or dark; lines and bars are half transparent.
_STYLE = """
.translucid { color: inherit; line-height: 1.45; max-width: 60rem; }
.translucid h2, .translucid h3 { margin: 1.1em 0 .4em; font-weight: 600; font-size: 1.15em; }
.translucid h2 { font-size: 1.35em; margin-top: .3em; }
.translucid p { margin: .5em 0; }
.translucid .pale { opacity: .7; }
.translucid .wide { overflow-x: auto; padding: .15em 0; }
.translucid .formula { margin: .5em 0 .7em 1.6em; }
.translucid .formula math { display: inline math; }
.translucid .given { display: flex; flex-wrap: wrap; gap: .6em 2.2em; align-items: center; }
.translucid table { border-collapse: collapse; border: 0; margin: .4em 0; font-size: inherit;
  font-variant-numeric: tabular-nums; }
.translucid td, .translucid th { padding: .15em 1.1em .15em 0; text-align: left; border: 0;
  border-bottom: 1px solid rgba(128, 128, 128, .3); background: none; vertical-align: top;
  white-space: normal; }
.translucid td.number, .translucid th.number { text-align: right; white-space: nowrap; }
.translucid td code { white-space: nowrap; }
.translucid details { margin: .1em 0 .1em 1.1em; }
.translucid summary { cursor: pointer; margin-left: -1.1em; }
.translucid .word { display: inline-block; padding: 0 .35em; margin: .1em .15em .1em 0;
  border: 1px solid rgba(128, 128, 128, .45); border-radius: .3em; white-space: pre; }
.translucid .bar { display: inline-block; height: .7em; min-width: 1px; background: #2f9e8a; }
.translucid svg { max-width: 100%; max-height: 34em; height: auto; }
"""


def frame(*parts: str) -> str:
    """HTML that stands alone in a notebook's cell, and changes nothing outside of it."""
    return f'<div class="{_CLASSES}"><style>{_STYLE}</style>\n' + "\n".join(parts) + "\n</div>"


def escape(text: str) -> str:
    return html.escape(text)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table whose cells are HTML; the columns of `numbers` stand to the right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        sides = [' class="number"' if place in numbers else "" for place in range(len(cells))]
        filled = zip(sides, cells, strict=True)
        return "<tr>" + "".join(f"<{tag}{side}>{cell}</{tag}>" for side, cell in filled) + "</tr>"

    head = f"<thead>{line('th', header)}</thead>" if header else ""
    body = "".join(line("td", row) for row in rows)
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def with_formulas(text: str) -> str:
    """Plain text in which `$...$` holds LaTeX."""
    parts = text.split("$")
    return "".join(mathml(part) if i % 2 else escape(part) for i, part in enumerate(parts))
