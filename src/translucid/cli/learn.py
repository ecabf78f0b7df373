"""`translucid learn`: list and open the chapters of the course."""

import json
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from translucid.cli.shared.options import Json, in_output

if TYPE_CHECKING:
    from translucid.practice.chapters import Progress


def learn(
    chapter: Annotated[
        str | None,
        typer.Argument(help="Number or name of a chapter [default: list the chapters]."),
    ] = None,
    browser: Annotated[bool, in_output("--browser", help="Open the chapter in a browser.")] = False,
    notebook: Annotated[
        Path | None,
        in_output(metavar="FILE", help="Write a notebook: .ipynb (Jupyter) or .py (marimo)."),
    ] = None,
    done: Annotated[bool, typer.Option("--done", help="Mark the chapter as finished.")] = False,
    as_json: Json = False,
) -> None:
    """Read the course, from one neuron to a translator.

    Example: translucid learn

    Example: translucid learn attention --browser
    """
    from translucid.practice.chapters import Progress, find

    progress = Progress()
    if chapter is None:
        if browser or notebook or done:
            raise typer.BadParameter("name a chapter, such as `translucid learn 1`")
        _list(progress, as_json)
        return
    opened = find(chapter)
    if done:
        progress.set(opened, "done")
        typer.echo(f"chapter {opened.number} is marked as finished in {progress.file}")
        after = progress.next()
        typer.echo(f"next: translucid learn {after.number}" if after else "That was the last one.")
        return
    if notebook is not None:
        _check_notebook(notebook)
        _write(notebook, opened.marimo() if notebook.suffix == ".py" else opened.notebook())
    elif browser:
        _browse(opened.file.stem)
    elif as_json:
        typer.echo(json.dumps({"number": opened.number, "name": opened.name, "text": opened.text}))
        return
    else:
        _show(opened.text)
    progress.set(opened, "opened")
    if sys.stdout.isatty() or notebook is not None or browser:
        typer.echo(f"next: translucid learn {opened.number} --done")


def _list(progress: "Progress", as_json: bool) -> None:
    from translucid.practice.chapters import chapters

    there = chapters()
    if as_json:
        rows = [
            {"number": c.number, "name": c.name, "title": c.title, "file": str(c.file)}
            | {"state": progress.states.get(c.name, "new")}
            for c in there
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    names = max(len(c.name) for c in there)
    for c in there:
        state = progress.states.get(c.name, "")
        typer.echo(f"{c.number:>2}  {c.name:<{names}}  {state:<6}  {c.title}")
    after = progress.next()
    typer.echo(f"\nnext: translucid learn {after.number}" if after else "\nAll chapters are done.")


def _show(text: str) -> None:
    """Print a chapter: formatted in a pager on a terminal, otherwise as Markdown."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(Console().width, 100))
    with console.pager(styles=True):
        console.print(Markdown(text))


def _browse(name: str) -> None:
    from translucid.practice.chapters import write_pages

    folder = Path(tempfile.mkdtemp(prefix="translucid-course-"))
    write_pages(folder)
    page = folder / f"{name}.html"
    typer.echo(f"wrote {page}")
    webbrowser.open(page.as_uri())


def _check_notebook(file: Path) -> None:
    from translucid.core.errors import InputError

    if file.suffix not in (".ipynb", ".py"):
        raise InputError(
            f"{file}: the name of a notebook must end in .ipynb (Jupyter) or .py (marimo)"
        )
    if file.exists():
        raise InputError(f"{file} already exists; choose another name or delete it")


def _write(file: Path, text: str) -> None:
    from translucid.core.atomic_files import write_text

    write_text(file, text)
    typer.echo(f"wrote {file}")
