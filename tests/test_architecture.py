"""ARCHITECTURE.md is true: its layers are those of the layer test, its journeys are made so."""

import inspect
import re
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.in_process import run
from tests.test_layers import LAYERS, SOURCE

from translucid.model import load
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library

TEXT = (Path(__file__).parent.parent / "ARCHITECTURE.md").read_text("utf-8")
TINY = [
    "data.toyland=60", "tokenizer.kind=word", "model.d_model=16", "model.heads=2",
    "model.layers=1", "model.d_ff=16", "training.steps=2", "training.evaluate_every=2",
    "training.log_every=1",
]  # fmt: skip
TITLES = ("translucid train", "translucid translate", "model.trace", "GET /api", "translucid lab")


def journeys() -> dict[str, list[str]]:
    """By the beginning of their titles, the files in order."""
    parts = TEXT.split("\n### ")[1:]
    return {
        next(title for title in TITLES if part.lstrip("`").startswith(title)): re.findall(
            r"(?m)^\d+\. `([\w/]+\.py)`", part
        )
        for part in parts
    }


class Entered:
    """The files of the package in the order in which their functions are first called."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._met: set[str] = set()

    def __enter__(self) -> "Entered":
        threading.setprofile(self._look)
        sys.setprofile(self._look)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _look(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_filename in self._met:
            return
        if code.co_flags & inspect.CO_OPTIMIZED:  # no module or class body
            self._met.add(code.co_filename)
            file = Path(code.co_filename)
            if file.is_relative_to(SOURCE.parent):
                own = SOURCE if file.is_relative_to(SOURCE) else SOURCE.parent
                self.files.append(file.relative_to(own).as_posix())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Entered]:
    folder = tmp_path_factory.mktemp("journey") / "run"
    run("train", "translate", "--out", str(folder), *TINY)  # all is imported now
    again = folder.with_name("again")
    with Entered() as entered:
        run("train", "translate", "--out", str(again), *TINY)
    return again, entered


def check(title: str, entered: Entered) -> None:
    wanted = journeys()[title]
    assert len(wanted) > 3
    places = [entered.files.index(file) if file in entered.files else -1 for file in wanted]
    assert -1 not in places, f"never entered: {wanted[places.index(-1)]}"
    assert places == sorted(places), (
        f"entered in the order {sorted(wanted, key=lambda f: places[wanted.index(f)])}"
    )


def test_the_layers_are_those_of_the_test() -> None:
    rows = re.findall(r"(?m)^\| (`[^|]+`) \|", TEXT)
    assert [set(re.findall(r"`([\w.]+)`", row)) for row in rows] == LAYERS


def test_every_file_is_there() -> None:
    found = journeys()
    assert set(found) == set(TITLES)
    for files in found.values():
        for file in files:
            folder = SOURCE.parent if file.startswith("translucid_lab/") else SOURCE
            assert (folder / file).is_file(), file


@pytest.mark.slow
def test_training(trained: tuple[Path, Entered]) -> None:
    check("translucid train", trained[1])


@pytest.mark.slow
def test_translating(trained: tuple[Path, Entered], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the dog sleeps .\n")
    with Entered() as entered:
        run("translate", str(trained[0]), str(tmp_path / "in.txt"))
    check("translucid translate", entered)


@pytest.mark.slow
def test_tracing(trained: tuple[Path, Entered]) -> None:
    model = load(trained[0])
    with Entered() as entered:
        model.trace("the dog sleeps .", "der").figure("decoder.layers.0.cross_attention.pattern")
    check("model.trace", entered)


@pytest.mark.slow
def test_a_question(trained: tuple[Path, Entered]) -> None:
    library = Library({"again": load(trained[0])})
    key = library.run("a", "the dog sleeps .").key
    handlers = Handlers(library)
    with Entered() as entered:
        handlers.ask("GET", f"/api/runs/{key}/steps?k=3")
    check("GET /api", entered)


@pytest.mark.slow
def test_a_claim(tmp_path: Path) -> None:
    words = ("lab", "run", "C39", "--quick", "--seeds", "1", "--out")
    run(*words, str(tmp_path / "first"))  # all is imported now
    with Entered() as entered:
        run(*words, str(tmp_path / "second"))
    check("translucid lab", entered)
