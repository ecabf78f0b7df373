"""A folder is made once, whole, by whoever comes first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tiny.once import once

ROOT = Path(__file__).parents[2]


def test_it_is_made_once_and_found_again() -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "a.txt").write_text("a")

    name = f"made once, {os.getpid()}"
    folders = {once(name, make) for _ in range(3)}
    assert len(made) == len(folders) == 1
    assert (folders.pop() / "a.txt").read_text("utf-8") == "a"


def test_what_failed_half_way_is_made_again() -> None:
    name = f"half, {os.getpid()}"

    def fails(folder: Path) -> None:
        (folder / "a.txt").write_text("a")
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        once(name, fails)
    assert list(once(name, lambda folder: (folder / "b.txt").touch()).iterdir()) != []
    assert [path.name for path in once(name, fails).iterdir()] == ["b.txt"]


@pytest.mark.slow
def test_processes_wait_for_the_first(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from tests.tiny.once import once\n"
        "def make(folder):\n"
        "    Path(sys.argv[1]).open('a').write('made\\n'); time.sleep(0.3)\n"
        "    (folder / 'a').touch()\n"
        "print([path.name for path in once('of processes', make).iterdir()])"
    )
    log = tmp_path / "log"
    environment = {**os.environ, "TRANSLUCID_TESTS_SHARED": str(tmp_path)}
    several = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(log)],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, encoding="utf-8",
        )
        for _ in range(3)
    ]  # fmt: skip
    assert [each.communicate()[0] for each in several] == ["['a']\n"] * 3
    assert log.read_text("utf-8") == "made\n"
