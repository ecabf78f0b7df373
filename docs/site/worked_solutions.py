"""The page docs/work.md, on which readers solve exercises with their own numbers."""

import shlex
import shutil
from html import escape
from pathlib import Path
from posixpath import dirname, relpath
from typing import Any
from urllib.parse import urlencode

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from worked_script import LEFT_OUT, details, exercises, script

from translucid.cli.work import exercise_files

PAGE = "docs/work"


class WorkLinks(SphinxTransform):
    """A link below each example of `translucid work`: the page opens with its numbers."""

    default_priority = 500

    def apply(self, **_: object) -> None:
        for block in list(self.document.findall(nodes.literal_block)):
            first = block.astext().partition("\n")[0].removeprefix("$ ")
            if address := address_of(first):
                uri = f"{relpath(PAGE, dirname(self.env.docname))}.html{address}"
                link = nodes.reference("", "Solve with your numbers", refuri=uri, internal=True)
                place = block.parent.index(block) + 1
                block.parent.insert(place, nodes.paragraph("", "", link, classes=["work-link"]))


def address_of(command: str) -> str:
    """The fragment with the numbers of a command; empty if the page does not have its exercise."""
    if not command.startswith("translucid work "):
        return ""
    name, *words = shlex.split(command)[2:]
    if name.replace("-", "_") not in exercises():
        return ""
    known = {a["option"]: a for a in details(name.replace("-", "_"))["arguments"]}
    alone = next(iter(known))  # the argument without an option
    values: dict[str, str] = {}
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if not word.startswith("--"):
            values[known[alone]["name"]] = word
        elif option not in known:
            return ""
        elif known[option]["kind"] == "flag":
            values[known[option]["name"]] = ""
        else:
            values[known[option]["name"]] = value if equals else next(left, "")
    return f"#{name}?{urlencode(values)}" if values else f"#{name}"


def add_list(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        rows = []
        for name in exercise_files():
            title = escape(details(name.replace("-", "_"))["title"])
            here = name.replace("-", "_") not in LEFT_OUT
            shown = f'<a href="#{name}">{title}</a>' if here else f"{title} (command line only)"
            rows.append(f"<tr><td>{shown}</td><td><code>translucid work {name}</code></td></tr>")
        head = "<tr><th>Exercise</th><th>Command</th></tr>"
        table = f"<thead>{head}</thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>"
        source[0] += f'\n<div class="table-wrapper"><table>\n{table}\n</table></div>\n'


def add_script(app: Sphinx, pagename: str, *_: Any) -> None:
    if pagename == PAGE:
        app.add_js_file("work.js", loading_method="defer")
        app.add_css_file("work.css")


def write_script(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        out = Path(app.outdir, "_static")
        shutil.rmtree(out / "work", ignore_errors=True)  # is in the script
        (out / "work.js").write_text(script("page.js"), "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(WorkLinks)
    app.connect("source-read", add_list)
    app.connect("html-page-context", add_script)
    app.connect("build-finished", write_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
