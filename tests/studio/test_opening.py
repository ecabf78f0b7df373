"""The page is there before the models: what it shows meanwhile, and if they cannot be opened."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forked import TRANSLUCID
from tests.studio.browser import Page
from tests.studio.serving import model

from translucid.core.errors import InputError
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library
from translucid.studio.server.serve import Ready, ready


def opening(opened: Callable[[], Handlers]) -> tuple[Ready, threading.Thread, list[BaseException]]:
    """A server that begins with what opens the models, and how it ended."""
    page, wrong = ready(0), []

    def run() -> None:
        try:
            page.run_opening(opened)
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return page, thread, wrong


def test_the_server_does_not_import_torch() -> None:
    """Importing it takes longer than all else; and numpy is not needed to show a page either."""
    said = subprocess.run(
        [sys.executable, "-c", "import sys, translucid.cli.explore\n"
         "import translucid.studio.server.serve\n"
         "print([name for name in ('torch', 'numpy', 'matplotlib') if name in sys.modules])"],
        capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert said.stdout == "[]\n"


@pytest.mark.slow
def test_the_page_waits_for_the_models(leaf: Page) -> None:
    may_open, small = threading.Event(), model("translate-transformer")

    def opened() -> Handlers:
        assert may_open.wait(300)
        return Handlers(Library({"small": small}))

    page, thread, wrong = opening(opened)
    leaf.inner.goto(page.address)
    leaf.wait("document.querySelector('#bar .mark')")
    leaf.wait("document.querySelector('#stage').textContent.trim() === 'Opening the model …'")
    leaf.wait("!document.documentElement.dataset.ready")
    may_open.set()
    assert leaf.ready().startswith("lesson ")
    assert leaf.words("#bar .model b") == ["small"]
    assert leaf.words("#stage .opening") == []
    page.server.should_exit = True
    thread.join(300)
    assert wrong == []


@pytest.mark.slow
def test_a_waiting_page_gets_the_error_of_opening(leaf: Page) -> None:
    may_fail = threading.Event()

    def opened() -> Handlers:
        assert may_fail.wait(300)
        raise InputError("runs/none is no model folder")

    page, thread, wrong = opening(opened)
    leaf.expected.append("422")
    with leaf.inner.expect_request("**/api/**"):
        leaf.inner.goto(page.address)
    leaf.wait("document.querySelector('#bar .mark')")
    may_fail.set()
    assert leaf.ready() == "error"
    assert "runs/none is no model folder" in leaf.told()
    thread.join(300)
    assert [str(each) for each in wrong] == ["runs/none is no model folder"]


@pytest.mark.slow
@pytest.mark.parametrize(("there", "said"), [
    (False, "no such folder"),
    (True, "model folder"),
])  # fmt: skip
def test_the_command_ends_with_the_error(tmp_path: Path, there: bool, said: str) -> None:
    folder = tmp_path / "nothing"
    if there:
        folder.mkdir()
    ended = subprocess.run(
        [*TRANSLUCID, "explore", str(folder), "--no-browser"],
        capture_output=True, encoding="utf-8", timeout=300,
    )  # fmt: skip
    assert ended.returncode == 2
    assert said in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
    assert ended.stdout.startswith("studio: ") is there
