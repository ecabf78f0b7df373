"""Packages add commands by an entry point, `translucid lab` among them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import in_process

from translucid.cli.shared import plugins

APP = '''
"""Count things."""

import typer

from translucid.core import InputError

app = typer.Typer(help="Count things.", no_args_is_help=True)


@app.command()
def words(text: str) -> None:
    """Count words."""
    if not text:
        raise InputError("no words to count")
    print(len(text.split()))


@app.command()
def letters(text: str) -> None:
    """Count letters."""
    print(len(text))
'''


def install(folder: Path, entry_points: str) -> None:
    """A package and its metadata, as an installer writes them."""
    (folder / "counting.py").write_text(APP, "utf-8")
    (folder / "counting-1.0.dist-info").mkdir()
    (folder / "counting-1.0.dist-info/entry_points.txt").write_text(entry_points, "utf-8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    _forget()
    yield tmp_path
    _forget()
    sys.modules.pop("counting", None)


def _forget() -> None:
    plugins._installed.cache_clear()
    plugins.load.cache_clear()


def test_an_installed_package_adds_a_command(installed: Path) -> None:
    install(installed, "[other]\na = b:c\n\n[translucid.commands]\ncount = counting:app\n")
    answer = in_process.run("count", "words", "the dog sleeps")
    assert (answer.returncode, answer.stdout) == (0, "3\n")
    assert "Count letters." in in_process.run("count", "--help").stdout
    listed = in_process.run("--help").stdout.splitlines()
    (line,) = [line for line in listed if line.startswith("  count ")]
    assert line.endswith(" Count things.")
    assert listed.index(line) > next(at for at, text in enumerate(listed) if "  recipe " in text)
    failed = in_process.run("count", "words", "")
    assert (failed.returncode, failed.stderr) == (2, "error: no words to count\n")
    wrong = in_process.run("count", "lettrs", "a")
    assert wrong.returncode == 2
    assert "Did you mean 'letters'?" in wrong.stderr


def test_broken_plugin_is_listed_with_its_error(installed: Path) -> None:
    install(installed, "[translucid.commands]\nbroken = no_such_module:app\nodd = counting:typer\n")
    listed = in_process.run("--help")
    assert listed.returncode == 0
    assert "cannot be loaded: ModuleNotFoundError" in listed.stdout
    assert "no_such_module" in in_process.run("broken").stderr
    odd = in_process.run("odd", "x")
    assert odd.returncode == 2
    assert "names a module; let it name a typer.Typer" in odd.stderr


def test_unreadable_entry_points_are_skipped_with_a_warning(installed: Path) -> None:
    install(installed, "[translucid.commands]\ncount = counting:app\n")
    latin = installed / "latin-1.0.dist-info"
    latin.mkdir()
    (latin / "entry_points.txt").write_bytes(b"[translucid.commands]\nfa\xe7on = latin:app\n")
    listed = in_process.run("--help")
    assert listed.returncode == 0
    assert "  count " in listed.stdout
    assert "  lab " in listed.stdout
    assert listed.stderr.startswith(f"warning: {latin / 'entry_points.txt'}: ")
    assert "utf-8" in listed.stderr


def test_a_command_of_the_program_takes_precedence_over_a_plugin(installed: Path) -> None:
    install(installed, "[translucid.commands]\ndoctor = counting:app\n")
    assert "Count" not in in_process.run("doctor", "--help").stdout


@pytest.mark.slow
def test_plugins_in_a_process_of_their_own(tmp_path: Path) -> None:
    """Without metadata of Translucid, from its sources; help imports neither plugin nor lab."""
    install(tmp_path, "[translucid.commands]\ncount = counting:app\n")
    source = Path(__file__).parents[2] / "src"
    paths = os.pathsep.join([str(source), str(tmp_path)])
    code = (
        "import sys; from translucid.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*[n for n in sys.modules if n.startswith(('translucid_lab', "
        "'torch'))], file=sys.stderr)\n"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(
            [sys.executable, "-c", code, *words], env=environment, capture_output=True,
            encoding="utf-8", check=True,
        )  # fmt: skip

    assert run("count", "words", "the dog").stdout == "2\n"
    helped = run("--help")
    assert "  lab " in helped.stdout
    assert "  count " in helped.stdout
    assert helped.stderr.strip() == ""
    assert "your own experiment" in run("lab", "new", "--help").stdout
    assert "torch" not in run("lab", "run", "--help").stderr


def test_the_lab_is_attached_by_the_entry_point_of_the_distribution() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["entry-points"][plugins.GROUP] == plugins.SHIPPED
