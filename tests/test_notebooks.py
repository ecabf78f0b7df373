"""The example notebooks run from top to bottom, each in its own kernel, and show something."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parent.parent / "examples"
TASKS = ("classify", "language", "regress", "tag", "translate")
PICTURES = ("image/svg+xml", "image/png", "text/html")


def notebook(task: str) -> Any:
    return nbformat.read(EXAMPLES / f"{task}.ipynb", as_version=4)


def test_there_is_one_for_each_task() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == sorted(TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_notebook_is_kept_as_it_is_before_it_runs(task: str) -> None:
    book = notebook(task)
    nbformat.validate(book)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert book.cells[0].cell_type == "markdown"
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    text = (EXAMPLES / f"{task}.ipynb").read_text("utf-8")
    assert not re.search(r"/(?:home|tmp|work|Users)/", text)
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(
            task,
            marks=pytest.mark.slow if task == "regress" else pytest.mark.thorough,
        )
        for task in TASKS
    ],
)
def test_every_cell_runs(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        folder = tmp_path / name.lower()  # what a kernel writes stays here
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    book = notebook(task)
    client = NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", ())]
    assert [out for out in outputs if out.output_type == "error"] == []
    shown = [out for out in outputs if any(kind in out.get("data", {}) for kind in PICTURES)]
    assert len(shown) >= 4
