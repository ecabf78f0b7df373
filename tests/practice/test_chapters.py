"""The chapters of the course as a list, as web pages and as notebooks."""

import doctest
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import nbformat
import pytest
from nbclient import NotebookClient
from tests.in_process import run

from translucid.practice import chapters as course
from translucid.practice.chapters import Chapter, Progress

CHAPTERS = course.chapters()
BY_NAME = {chapter.name: chapter for chapter in CHAPTERS}
one_by_one = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def learn(*words: str) -> str:
    answer = run("learn", *words)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_list_has_every_chapter_in_order() -> None:
    rows = json.loads(learn("--json"))
    assert [row["number"] for row in rows] == list(range(len(rows)))
    assert [Path(row["file"]).name for row in rows] == sorted(
        file.name for file in CHAPTERS[0].file.parent.glob("[0-9]*.md")
    )
    assert all(row["title"] and row["state"] == "new" for row in rows)


def test_progress_is_remembered_and_opening_does_not_undo_it() -> None:
    assert learn().endswith("next: translucid learn 0\n")
    assert "next: translucid learn 1\n" in learn("0", "--done")
    learn("0")
    learn("1")
    states = [row["state"] for row in json.loads(learn("--json"))]
    assert states[:3] == ["done", "opened", "new"]
    assert learn().endswith("next: translucid learn 1\n")


def test_a_damaged_progress_file_counts_as_none() -> None:
    progress = Progress()
    progress.set(CHAPTERS[0], "done")
    progress.file.write_text("{")
    assert Progress().states == {}
    progress.file.write_text('["done"]')
    assert Progress().states == {}


def test_a_chapter_is_found_by_number_and_by_name() -> None:
    for chapter in CHAPTERS:
        assert course.find(str(chapter.number)) == course.find(chapter.name) == chapter
        assert learn(chapter.name) == chapter.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["99"], "no chapter '99'.*0 to"),
        (["perceptrn"], "did you mean perceptron"),
        (["1", "--notebook", "book.txt"], r"must end in \.ipynb"),
        (["--done"], "name a chapter"),
    ],
)
def test_a_wrong_argument_is_explained(words: list[str], message: str) -> None:
    answer = run("learn", *words)
    assert answer.returncode == 2
    assert re.search(message, answer.stderr, re.DOTALL)


class _Tags(HTMLParser):
    """Collects what a page shows and links to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.images: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "a":
            self.links.append(named["href"] or "")
        elif tag == "img":
            self.images.append(named["src"] or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_pages_link_to_each_other_and_their_images_exist(tmp_path: Path) -> None:
    course.write_pages(tmp_path)
    for chapter in CHAPTERS:
        tags = _Tags()
        tags.feed((tmp_path / f"{chapter.file.stem}.html").read_text("utf-8"))
        for link in tags.links:
            file = link.partition("#")[0]
            assert link.startswith("http") or not file or (tmp_path / file).is_file(), link
        for image in tags.images:
            assert Path(url2pathname(urlsplit(image).path)).is_file(), image
        for code in re.findall(r"(?m)^>>> (.*)$", chapter.text):
            assert code in tags.text


@one_by_one
def test_a_notebook_has_all_examples_and_text_of_its_chapter(chapter: Chapter) -> None:
    book = nbformat.reads(chapter.notebook(), as_version=4)
    nbformat.validate(book)
    written = "\n".join(cell.source for cell in book.cells if cell.cell_type == "code")
    for block in re.findall(r"(?ms)^```python\n(.*?)^```$", chapter.text):
        for example in doctest.DocTestParser().get_examples(block):
            assert example.source.rstrip("\n") in written
    markdown = "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    outside = re.sub(r"(?ms)^```(python|console)\n.*?^```$", "", chapter.text)
    assert markdown.split() == outside.split()


def shown(cell: Any) -> str:
    """The text output of a cell."""
    return "".join(o.get("text") or o.data["text/plain"] for o in cell.outputs).strip()


@pytest.mark.parametrize(
    "chapter",
    [
        pytest.param(c, marks=pytest.mark.slow if c.name == "attention" else pytest.mark.thorough)
        for c in CHAPTERS
    ],
    ids=lambda chapter: chapter.name,
)
def test_a_notebook_prints_what_the_chapter_shows(
    chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    kept = nbformat.reads(chapter.notebook(), as_version=4)
    kept.cells = [c for c in kept.cells if not c.source.startswith("!")]  # commands: test_docs
    book = nbformat.from_dict(kept)
    expected = [shown(c) for c in book.cells if c.cell_type == "code"]
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    checker = doctest.OutputChecker()
    code = [c for c in book.cells if c.cell_type == "code"]
    for cell, wanted in zip(code, expected, strict=True):
        assert checker.check_output(wanted, shown(cell), flags), cell.source
