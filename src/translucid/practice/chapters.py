"""The chapters of the course, as text, as a web page, and as a Jupyter or marimo notebook.

A notebook contains the text's examples as code cells, with the output that the text shows. The
tests run every example, so these outputs are real.
"""

import ast
import doctest
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.core.errors import InputError, nearest

_PACKAGE = Path(__file__).parents[1]
# In an installed package, or beside `src` in a checkout.
FOLDERS = (_PACKAGE / "course", _PACKAGE.parents[1] / "docs" / "course")
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
_STYLE = """
body { max-width: 44rem; margin: 2rem auto; padding: 0 1rem; font: 17px/1.6 Georgia, serif;
  color: #222; background: #fdfdfb }
pre, code { font: 14px/1.5 monospace; background: #f1f1ec }
pre { padding: .7rem 1rem; overflow-x: auto }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { border-bottom: 1px solid #ccc; padding: .2rem .8rem .2rem 0; text-align: left }
img { max-width: 100%; background: #fff }
h1, h2, h3, nav { font-family: sans-serif; line-height: 1.25 }
details { border-left: 3px solid #9ab; padding-left: 1rem }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #16181c } pre, code { background: #23262c } a { color: #8cb8ff } }
"""


@dataclass(frozen=True)
class Chapter:
    """One chapter of the course: a Markdown file."""

    number: int
    file: Path

    @property
    def name(self) -> str:
        """The name in the file name, such as `attention`."""
        return self.file.stem.partition("-")[2]

    @property
    def text(self) -> str:
        """The chapter in Markdown."""
        return self.file.read_text("utf-8")

    @property
    def title(self) -> str:
        """The heading of the chapter without its number."""
        return re.sub(r"^# (\d+\. )?", "", self.text.partition("\n")[0])

    def page(self) -> str:
        """The chapter as an HTML page. Links lead to the pages of the other chapters."""
        from markdown_it import MarkdownIt

        body = MarkdownIt("commonmark").enable("table").render(self.text)
        body = re.sub(r'(?<=href=")(\d\d-[\w-]+)\.md', r"\1.html", body)
        body = re.sub(r'<a href="[^":]*\.md[^"]*">(.*?)</a>', r"\1", body, flags=re.DOTALL)
        folder = self.file.parent.resolve().as_uri()
        body = re.sub(r'(?<=src=")(?=\.\./)', f"{folder}/", body)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{self.title}'
            '</title><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{_STYLE}</style></head><body>\n{body}</body></html>\n"
        )

    def notebook(self) -> str:
        """The chapter as a Jupyter notebook, with the outputs that the text shows."""
        cells = [
            {"cell_type": kind, "id": f"{self.name}-{i}", "metadata": {}, **content}
            for i, (kind, content) in enumerate(_cells(self.text))
        ]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4}
        return json.dumps(book | {"nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"

    def marimo(self) -> str:
        """The chapter as a marimo notebook, which computes its outputs itself."""
        from translucid.practice.marimo import marimo

        return marimo((kind, "".join(cell["source"])) for kind, cell in _cells(self.text))


def chapters() -> list[Chapter]:
    """All chapters in order."""
    folder = next((f for f in FOLDERS if f.is_dir()), FOLDERS[0])
    files = sorted(folder.glob("[0-9][0-9]-*.md"))
    return [Chapter(int(file.name[:2]), file) for file in files]


def find(wanted: str) -> Chapter:
    """A chapter by its number or name."""
    there = chapters()
    for chapter in there:
        if wanted in (str(chapter.number), f"{chapter.number:02}", chapter.name, chapter.file.stem):
            return chapter
    close = nearest(wanted, [chapter.name for chapter in there])
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(
        f"no chapter {wanted!r}: {hint}give a number from 0 to {len(there) - 1}, or a name; "
        "`translucid learn` lists the chapters"
    )


def write_pages(folder: Path) -> None:
    """Write all chapters as HTML pages to a folder."""
    for chapter in chapters():
        (folder / f"{chapter.file.stem}.html").write_text(chapter.page(), "utf-8")


class Progress:
    """Which chapters the reader has opened or finished, in a JSON file in their home folder."""

    def __init__(self) -> None:
        root = os.environ.get("XDG_STATE_HOME")
        home = Path(root) if root else Path.home() / ".local" / "state"
        self.file = home / "translucid" / "course.json"
        try:
            read = json.loads(self.file.read_text("utf-8"))
        except (OSError, ValueError):
            read = {}
        known = read.items() if isinstance(read, dict) else ()
        self.states = {k: v for k, v in known if v in ("opened", "done")}

    def set(self, chapter: Chapter, state: str) -> None:
        """Remember that a chapter is `opened` or `done`; a finished chapter stays finished."""
        from translucid.core.atomic_files import write_text

        if state == "opened" and self.states.get(chapter.name) == "done":
            return
        self.states[chapter.name] = state
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.file, json.dumps(self.states, indent=1) + "\n")

    def next(self) -> Chapter | None:
        """The first chapter that is not finished."""
        return next((c for c in chapters() if self.states.get(c.name) != "done"), None)


def _cells(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The cells of a notebook: type, and source with outputs."""
    end = 0
    for match in _BLOCK.finditer(text):
        if before := text[end : match.start()].strip():
            yield "markdown", {"source": _lines(before)}
        yield from _examples(match[2]) if match[1] == "python" else _commands(match[2])
        end = match.end()
    if rest := text[end:].strip():
        yield "markdown", {"source": _lines(rest)}


def _examples(block: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Split a block with prompts into one cell per output; other blocks become one cell."""
    source = ""
    examples = doctest.DocTestParser().get_examples(block)
    if not examples:
        yield _code(block.rstrip("\n"))
        return
    for example in examples:
        source += example.source
        if example.want:
            statement = ast.parse(example.source).body[-1]
            shown = isinstance(statement, ast.Expr) and not example.source.startswith("print(")
            yield _code(source.rstrip("\n"), example.want, shown=shown)
            source = ""
    if source:
        yield _code(source.rstrip("\n"))


def _commands(block: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """One cell for each command of a console block, with its output."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield _code(f"!{command}", output)


def _code(source: str, output: str = "", *, shown: bool = False) -> tuple[str, dict[str, Any]]:
    """A code cell. shown: whether the output is the last expression's value, not printed text."""
    outputs: list[dict[str, Any]] = []
    if output and shown:
        value = {"data": {"text/plain": _lines(output.rstrip("\n"))}, "metadata": {}}
        outputs.append({"output_type": "execute_result", "execution_count": None, **value})
    elif output:
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(output)})
    return "code", {"execution_count": None, "source": _lines(source), "outputs": outputs}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
