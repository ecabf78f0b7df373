"""Installed wheels compute and show what the checkout does; the sdist contains its tests."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.in_process import Answer, run
from tests.test_docs import TRIED, blocks, check_commands, requests_of_the_readme

import translucid as tl
from translucid.fast import cpu_kernels

ROOT = Path(__file__).parent.parent
NOT_IN_WHEELS = {"__pycache__", "cpu_kernels-*.so", "*.pyc"}
# Run in an empty folder by a Python that does not find the checkout.
SEEN = """
import json, sys
import translucid as tl
import translucid_lab
from translucid.fast import cpu_kernels
from translucid.practice import chapters
from translucid.runs.recipe import named
from translucid.studio import page_bundle
from translucid_lab.engine import results

trace = tl.load("demo:translate").trace("The dog sleeps.")
json.dump({
    "from": [tl.__file__, translucid_lab.__file__],
    "kernels": cpu_kernels.reason(),
    "trace": {name: float(trace[name].double().abs().sum()) for name in trace},
    "recipes": {entry.name: entry.title for entry in named.entries()},
    "chapters": [chapter.title for chapter in chapters.chapters()],
    "studio": {name: len(text) for name, text in page_bundle.modules().items()},
    "lab": [(folder / results.FILE).is_file() for folder in results.SHIPPED].index(True),
}, sys.stdout)
"""


def build(target: str, folder: Path, **environment: str) -> Path:
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module", params=["compiled", "pure"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "pure":
        return build("wheel", folder, HATCH_BUILD_NO_HOOKS="true")
    if not cpu_kernels.library_path().exists():
        pytest.skip("building would leave compiled kernels in the checkout, which has none")
    return build("wheel", folder)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and without the checkout; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    binaries = folder / "bin"
    python = binaries / "python"
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps",
         "--no-index", "--no-compile", str(wheel)],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    at = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    # The packages beside which the tests run. The .pth file of the checkout there has no effect.
    Path(at.strip(), "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    return binaries


def without_checkout() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}


def answer(words: list[str | Path], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, env=without_checkout(), capture_output=True, timeout=1200
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return done.stdout.decode("utf-8")


@pytest.mark.slow
def test_a_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    places = {
        "src/translucid": "translucid", "src/translucid_lab": "translucid_lab",
        "recipes": "translucid/recipes", "docs/course": "translucid/course",
        "docs/images/course": "translucid/images/course",
    }  # fmt: skip
    for source, target in places.items():
        for path in (ROOT / source).rglob("*"):
            if path.is_dir() or any(
                part.match(no) for part in (path, *path.parents) for no in NOT_IN_WHEELS
            ):
                continue
            name = f"{target}/{path.relative_to(ROOT / source).as_posix()}"
            assert inside.get(name) == path.read_bytes(), name


@pytest.mark.slow
def test_an_installed_wheel_computes_and_finds_what_the_checkout_does(
    wheel: Path, environment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = json.loads(answer([environment / "python", "-c", SEEN], tmp_path))
    exec(SEEN, {})
    here: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert here.pop("from")[0] == tl.__file__
    assert all(Path(file).is_relative_to(environment.parent) for file in installed.pop("from"))
    compiled, pure = here.pop("kernels"), wheel.name.endswith("-none-any.whl")
    reason = installed.pop("kernels")
    assert ("not compiled" in reason) == pure
    assert pure or reason == compiled
    assert (installed.pop("lab"), here.pop("lab")) == (0, 1)
    assert installed.pop("trace") == pytest.approx(here.pop("trace"), rel=1e-5, abs=1e-5)
    assert installed == here


@pytest.mark.slow
def test_an_installed_wheel_explains_and_lists_what_the_checkout_does(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PYTHONUTF8", "1")
    for words in (["explain", "demo:translate", "The dog sleeps."], ["learn"], ["lab", "list"]):
        shown = answer([environment / "translucid", *words], tmp_path)
        assert shown == run(*words, cwd=tmp_path).stdout


@pytest.mark.thorough
def test_the_readme_works_with_an_installed_wheel(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From top to bottom, in an empty folder; its demo and its training take a few steps only."""
    pytest.importorskip("openai", reason="the openai client is not installed")
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1"}.items():
        monkeypatch.setenv(name, value)
    python, translucid = environment / "python", environment / "translucid"

    def installed(*words: str, cwd: Path) -> Answer:
        return Answer(0, answer([translucid, *words], cwd), "")

    few = ("--set=training.steps=3", "--set=data.toyland=300", "--set=model.d_model=16")
    assert "explanation in" in installed("demo", *few, cwd=tmp_path).stdout
    page = tmp_path / "page.txt"
    page.write_text("\n".join(blocks(ROOT / "README.md", "python")), "utf-8")
    answer([python, "-m", "doctest", "-o", "ELLIPSIS", page.name], tmp_path)
    for command in TRIED:
        if "hf:" not in command:  # those download a model
            assert installed(*shlex.split(command), cwd=tmp_path).stdout.strip()
    check_commands(ROOT / "README.md", tmp_path, installed)
    path, sent, program = requests_of_the_readme()
    (expected,) = tl.load(tmp_path / "runs/demo").translate([json.loads(sent)["text"]])
    with started(r"serving on (\S+)", [translucid, "serve", "runs/demo"], tmp_path) as address:
        asked = Request(address + path, sent.encode(), {"Content-Type": "application/json"})
        assert json.load(urlopen(asked))["results"][0]["texts"][0]["text"] == expected
        program = program.replace("http://127.0.0.1:8000", address)
        assert answer([python, "-c", program], tmp_path) == f"{expected}\n"
    explore = [translucid, "explore", "runs/mine", "--no-browser"]
    with started(r"studio: (\S+)", explore, tmp_path) as address:
        assert b"<html" in urlopen(address).read()


@contextmanager
def started(pattern: str, words: list[str | Path], folder: Path) -> Iterator[str]:
    """Start a server, and return the address that it prints."""
    with subprocess.Popen(
        [*words, "--port", "0"], cwd=folder, env=without_checkout(), text=True,
        stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            yield next(found[1] for line in process.stdout if (found := re.match(pattern, line)))
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.slow
def test_the_source_distribution_contains_what_make_test_needs(tmp_path: Path) -> None:
    source = build("sdist", tmp_path / "dist")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for path in ("Makefile", "requirements.lock", "package.json", "biome.jsonc", "jsconfig.json",
                 "hatch_build.py", ".ci/run", "docs/site/requirements.lock"):  # fmt: skip
        assert path in names
    for folder in ("bench", "deploy", "docs", "examples", "recipes", "src", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not any(
                part.match(no) for part in (path, *path.parents) for no in NOT_IN_WHEELS
            ):
                assert path.relative_to(ROOT).as_posix() in names
