"""The frame of a report: one HTML file that loads nothing, with its style and its tables."""

import html
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from translucid.atomic_files import write_text
from translucid.see.pictures import Picture

REPORT = "report.html"


def write_page(folder: Path, title: str, introduction: str, parts: Iterable[str]) -> Path:
    """Write report.html into a run folder; the parts are HTML."""
    path = folder / REPORT
    body = "\n".join(parts)
    write_text(
        path, _PAGE.format(title=escape(title), introduction=escape(introduction), body=body)
    )
    return path


def escape(text: str) -> str:
    return html.escape(text)


def section(title: str, words: str = "") -> str:
    """A heading and what to look for below it; plain text."""
    return f"<h2>{escape(title)}</h2>" + (f"<p>{escape(words)}</p>" if words else "")


def table(rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Cells are plain text; all but the first column are numbers, to the right."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{f'<tr>{top}</tr>' if top else ''}{lines}</table>"


def score_table(score: Mapping[str, float], notes: Iterable[str] = ()) -> str:
    """The scores of the held-out test data."""
    rows = [(name.replace("_", " "), f"{value:.4g}") for name, value in score.items()]
    remarks = "".join(f"<p class=note>{escape(note)}</p>" for note in notes)
    return section("On unseen examples") + table(rows) + remarks


def figure(drawn: Any, caption: str = "") -> str:
    """A figure, ours or matplotlib's, as SVG inside the page, so that the file stands alone."""
    text = drawn.svg() if isinstance(drawn, Picture) else _svg(drawn)
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{text[text.index('<svg') :]}{below}</figure>"


def _svg(drawn: Any) -> str:
    out = io.StringIO()
    drawn.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
  color: #1d2430; background: #fff; }}
h1, h2 {{ font-weight: 600; }} h2 {{ margin-top: 2.2rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
td, th {{ padding: .2rem 1.4rem .2rem 0; text-align: left; border-bottom: 1px solid #e3e7ee; }}
td:not(:first-child), th:not(:first-child) {{ text-align: right; }}
figure {{ margin: 1rem 0 1.6rem; overflow-x: auto; }} svg {{ max-width: 100%; height: auto; }}
figcaption, .note {{ color: #5a6473; font-size: .85rem; overflow-wrap: anywhere; }}
</style></head><body>
<h1>{title}</h1>
<p>{introduction} Nothing on this page was fetched from elsewhere, and every number was read off
the models.</p>
{body}
</body></html>
"""
