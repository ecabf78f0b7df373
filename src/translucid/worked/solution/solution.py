"""A worked solution: its content, with methods for every format."""

import json
from dataclasses import asdict, dataclass, replace

from translucid.core.errors import InputError
from translucid.worked.solution import document, plain_text
from translucid.worked.solution.content import Content, dollars
from translucid.worked.solution.document import page


@dataclass(frozen=True, kw_only=True)
class Solution(Content):
    """A step-by-step solution: print it, or get it as text, Markdown, LaTeX, HTML or JSON."""

    def text(self, width: int = 80, *, color: bool = False) -> str:
        """The solution as text for a terminal of the given width."""
        return plain_text.render(self, width, color)

    def markdown(self) -> str:
        """The solution as Markdown, for notebooks and pages that typeset $$ formulas $$."""
        return document.markdown(self)

    def latex(self) -> str:
        """The solution as a complete LaTeX document for pdflatex."""
        return document.latex(self)

    def html(self) -> str:
        """The solution as one HTML element with its own style and no script."""
        return page(self)

    def plain(self) -> str:
        """A short numpy program that computes the main results from the same numbers."""
        if self.program is None:
            raise InputError("there is no plain program for this exercise with these options")
        return self.program.text()

    def json(self) -> str:
        """The solution as JSON: each step with its formula and its value in full precision."""
        content = asdict(replace(self, program=None))
        del content["more"], content["program"]  # `next` contains `more`
        content["steps"] = [{"number": i, **step} for i, step in enumerate(content["steps"], 1)]
        written = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        return dollars(written, "$")

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def _repr_latex_(self) -> str:
        return document.latex_body(self)
