"""Links to files and folders that are not pages, such as ../../examples/own_task.py.

Their addresses on the site are as in the repository. Source files become pages, folders become
lists, and everything else is copied.
"""

import os
import re
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util.logging import getLogger

logger = getLogger(__name__)
SHOWN = {".js", ".py", ".sh", ".toml", ".yaml"}
HTML_LINK = re.compile(r'\b(src|href)="(?![a-z]+:|#)([^"#]+)')


class RepositoryLinks(SphinxTransform):
    default_priority = 1  # before files are collected as downloads

    def apply(self, **_: Any) -> None:
        for raw in self.document.findall(nodes.raw):
            changed = HTML_LINK.sub(self.rewritten, raw.astext())
            raw.children = [nodes.Text(changed)]
            raw.rawsource = changed
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                ours = node.get("reftype") == "myst" and node.get("refdomain") is None
                if ours and (uri := self.address(node["reftarget"])):
                    link = nodes.reference("", "", *node.children, refuri=uri, internal=True)
                    node.replace_self(link)

    def rewritten(self, link: re.Match[str]) -> str:
        """A link in HTML with its address on the site."""
        uri = self.address(link[2])
        if not uri:
            logger.warning(
                "link to a file that does not exist: %s", link[2], location=self.env.docname
            )
        return f'{link[1]}="{uri or link[2]}'

    def address(self, link: str) -> str | None:
        """The address on the site, relative to this page; None if the target does not exist."""
        page = PurePosixPath(self.env.docname).parent
        path = os.path.normpath(page / link)
        target = Path(self.env.srcdir, path)
        if not target.exists() or path.startswith(".."):
            return None
        if target.suffix == ".md":
            return link.removesuffix(".md") + ".html"
        wanted(self.env).setdefault(self.env.docname, set()).add(path)
        if target.is_dir():
            return f"{link.rstrip('/')}/index.html"
        return link + ".html" if target.suffix in SHOWN else link


def wanted(env: BuildEnvironment) -> dict[str, set[str]]:
    """The files and folders that each page links to."""
    if not hasattr(env, "repository_files"):
        env.repository_files = {}  # type: ignore[attr-defined]
    return env.repository_files  # type: ignore[attr-defined, no-any-return]


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    wanted(env).pop(docname, None)


def merge(app: Sphinx, env: BuildEnvironment, docnames: list[str], other: BuildEnvironment) -> None:
    wanted(env).update({name: files for name, files in wanted(other).items() if name in docnames})


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    root, out = Path(app.srcdir), Path(app.outdir)
    for path in sorted({path for files in wanted(app.env).values() for path in files}):
        target = root / path
        if target.is_dir():
            inside = sorted(each for each in target.iterdir() if each.is_file())
            for each in inside:
                yield from shown_or_copied(app, each, out / each.relative_to(root))
            items = (
                f'<li><a href="{address(each)}"><code>{each.name}</code></a></li>'
                for each in inside
            )
            body = f"<h1><code>{path}</code></h1>\n<ul>\n{''.join(items)}</ul>"
            yield f"{path}/index", {"title": path, "body": body}, "page.html"
        else:
            yield from shown_or_copied(app, target, out / path)


def address(path: Path) -> str:
    return escape(path.name + (".html" if path.suffix in SHOWN else ""))


def shown_or_copied(
    app: Sphinx, path: Path, out: Path
) -> Iterator[tuple[str, dict[str, Any], str]]:
    if path.suffix in SHOWN:
        name = path.relative_to(app.srcdir).as_posix()
        code = app.builder.highlighter.highlight_block(path.read_text("utf-8"), path.suffix[1:])  # type: ignore[attr-defined]
        body = f"<h1><code>{name}</code></h1>\n<div>{code}</div>"
        yield name, {"title": name, "body": body}, "page.html"
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".html":  # the lab's report
        text = path.read_text("utf-8")
        out.write_text(re.sub(r'(href="[^":]+)\.md(?=[#"])', r"\1.html", text), "utf-8")
    else:
        shutil.copyfile(path, out)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(RepositoryLinks)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
