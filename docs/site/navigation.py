"""The sidebar, taken from the pages: docs/README.md links to all others, in sections.

The README.md of a folder links to the pages in it. A page that is not in the sidebar is a warning,
and warnings fail the build.
"""

import re
from pathlib import PurePosixPath

from sphinx.application import Sphinx

TITLE = re.compile(r"<h1.*?</h1>", re.DOTALL)  # of the repository's README.md
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^):#]+\.md)\)")


def add_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == "README":
        source[0] = TITLE.sub("# Translucid", source[0])
    elif docname == app.config.root_doc:
        _, *sections = SECTION.split(source[0])
        listed: set[str] = set()
        for caption, text in zip(sections[::2], sections[1::2], strict=True):
            pages = [page for page in dict.fromkeys(LINK.findall(text)) if page not in listed]
            listed.update(pages)
            source[0] += toctree(pages, caption)
    elif PurePosixPath(docname).name == "README" and docname.startswith("docs/"):
        source[0] += toctree(
            [page for page in dict.fromkeys(LINK.findall(source[0])) if "/" not in page]
        )


def toctree(pages: list[str], caption: str = "") -> str:
    entries = "\n".join(page.removesuffix(".md") for page in pages)
    above = f":caption: {caption}\n" if caption else ""
    return f"\n\n```{{toctree}}\n:hidden:\n{above}\n{entries}\n```\n"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add_navigation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
