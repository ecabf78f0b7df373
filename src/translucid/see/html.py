"""Plain text with formulas in it, as HTML."""

from translucid.render.frame import escape
from translucid.render.mathml import mathml


def with_formulas(text: str) -> str:
    """Plain text in which `$...$` holds LaTeX."""
    parts = text.split("$")
    return "".join(mathml(part) if i % 2 else escape(part) for i, part in enumerate(parts))
