"""HTML templates: a self-contained page, and a fragment for a notebook cell.

Both use the studio's light and dark styles. Callers pass HTML; use `escape` for plain text.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

from translucid.see.render import palette

# Keep notebooks from reading dollar signs in the user's text as TeX; formulas are MathML.
_CLASSES = "translucid mathjax_ignore tex2jax_ignore"
# The notebook sets the background, light or dark, so text must use the notebook's text colour.
_INHERITED = "--ink: currentColor; --ink2: currentColor; --ink3: currentColor; --line: #8886;"
# The logo: strands through a pane of glass.
_PANES = (
    '<svg viewBox="0 0 28 28" aria-hidden="true"><path d="M1 9H27M1 14H27M1 19H27" '
    'stroke="currentColor" stroke-width="1.6" opacity=".45"/><rect x="9.5" y="3" width="9" '
    'height="22" rx="2.5" fill="currentColor" fill-opacity=".16" stroke="currentColor" '
    'stroke-width="1.6"/></svg>'
)


def escape(text: str) -> str:
    return html.escape(text)


def page(title: str, body: str, *, lead: str = "", menu: str = "", heading: str = "",
         script: str = "", footer: str = "") -> str:  # fmt: skip
    """A complete HTML file.

    title, heading (by default the title), lead, footer: plain text. body, menu (below the lead):
    HTML. script: the only script that the page's security policy allows.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    allowed += f"; script-src 'sha256-{digest}'" if script else ""
    style = _css("piece.css") + _css("page.css")
    content = (
        f'<header><p class="house">{_PANES}translucid</p><h1>{escape(heading or title)}</h1>'
        + (f'<p class="lead">{escape(lead)}</p>' if lead else "")
        + f'{menu}</header>\n<main class="translucid">\n{body}\n</main>\n'
        f"<footer>Nothing on this page was fetched from elsewhere. {escape(footer)}</footer>\n"
    )
    return (
        '<!doctype html>\n<html lang="en" id="top"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n"
        f"<style>:root {{ {_colours(style + content)} }}\n{style}</style></head><body>\n{content}"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body></html>\n"
    )


def piece(*parts: str) -> str:
    """HTML for a notebook cell, with styles that do not affect the rest of the notebook."""
    content, style = "\n".join(parts), _css("piece.css")
    style = f".translucid {{ {_colours(style + content)} {_INHERITED} }}\n{style}"
    return f'<div class="{_CLASSES}"><style>{style}</style>\n{content}\n</div>'


@cache
def _css(name: str) -> str:
    text = resources.files(__package__).joinpath(name).read_text("utf-8")
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).strip() + "\n"


def _colours(text: str) -> str:
    """CSS declarations of the colours that a text uses by name."""
    return palette.css(set(re.findall(r"var\(--([\w-]+)\)", text)))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """An HTML table. Cells are HTML; the columns listed in `numbers` are right-aligned."""

    def line(tag: str, cells: Sequence[str]) -> str:
        sides = [' class="number"' if place in numbers else "" for place in range(len(cells))]
        tags = [tag if cell else "td" for cell in cells]  # an empty cell is not a header
        filled = zip(tags, sides, cells, strict=True)
        return "<tr>" + "".join(f"<{t}{side}>{cell}</{t}>" for t, side, cell in filled) + "</tr>"

    head = f"<thead>{line('th', header)}</thead>" if header else ""
    body = "".join(line("td", row) for row in rows)
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def folded(title: str, inside: str, *, opened: bool = False) -> str:
    """A collapsible section; an empty string if `inside` is empty. title: HTML."""
    if not inside:
        return ""
    state = ' open="open"' if opened else ""
    return f"<details{state}><summary>{title}</summary>{inside}</details>"
