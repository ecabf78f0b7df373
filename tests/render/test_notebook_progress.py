"""In a notebook: one display that is updated, and the lines that are said beside it."""

import re
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from translucid.core.progress import NotebookBar, Progress, in_notebook

COUNTS = """
from translucid.core.progress import Progress
with Progress("steps", 2000) as bar:
    assert bar.live
    for done in range(1, 2001):
        bar.move(done, "loss <1>")
        if done == 1000:
            bar.say("half")
"""
TRAINS = """
import translucid as tl
model = tl.train("regress", out="run", toyland=60, hidden=[4], steps=30, log_every=1,
                 evaluate_every=15, device="cpu")
quiet = tl.train("regress", out="quiet", toyland=60, hidden=[4], steps=3, device="cpu", quiet=True)
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """Of the two cells, in one kernel."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
            (folder / name.lower()).mkdir()
            patch.setenv(name, str(folder / name.lower()))
        book = nbformat.v4.new_notebook()
        book.cells = [nbformat.v4.new_code_cell(code) for code in (COUNTS, TRAINS)]
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(book, timeout=300, kernel_name="python3", resources=resources).execute()
    return [cell.outputs for cell in book.cells]


def shown(outputs: list[Any]) -> list[Any]:
    return [output for output in outputs if output.output_type == "display_data"]


def printed(outputs: list[Any]) -> str:
    return "".join(output.text for output in outputs if output.output_type == "stream")


@pytest.mark.slow
def test_one_display_is_updated_to_the_end(outputs: list[list[Any]]) -> None:
    (bar,) = shown(outputs[0])
    assert bar.data["text/plain"] == "steps 2,000/2,000  100%  loss <1>"
    html = bar.data["text/html"]
    assert "steps 2,000/2,000 <progress value='1.0000' max='1'></progress> loss &lt;1&gt;" in html
    assert printed(outputs[0]) == "half\n"


@pytest.mark.slow
def test_a_training_is_one_display_and_its_lines(outputs: list[list[Any]]) -> None:
    (bar,) = shown(outputs[1])
    assert re.match(r"step 30/30  100%  loss ", bar.data["text/plain"])
    lines = printed(outputs[1])
    assert "step 15  valid: r_squared" in lines
    assert "step 7 " not in lines, "that is the bar's"


def test_outside_a_notebook_there_is_no_display(capsys: pytest.CaptureFixture[str]) -> None:
    assert not in_notebook()
    assert not Progress("steps", 3).live
    assert repr(NotebookBar()) == ""


def test_rows_that_are_hidden_and_without_an_end() -> None:
    bar = NotebookBar()
    first, second = bar.add_task("a", total=None, note=""), bar.add_task("b", total=4, note="x")
    bar.update(first, completed=7)
    bar.update(second, completed=1, visible=True)
    assert repr(bar) == "a 7  0%  \nb 1/4  25%  x"
    bar.update(second, completed=2, visible=False)
    assert repr(bar) == "a 7  0%  "
