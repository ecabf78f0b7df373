"""How far, how fast, how long still: on a terminal, in a pipe, and in silence."""

import os
import re
import subprocess
import sys

import pytest

from translucid.core.progress import Progress, duration


@pytest.mark.parametrize("seconds", [0.0, 0.04, 9.96, 59.4, 60, 75, 3599, 3600, 3660, 90061])
def test_a_duration_is_the_seconds_that_it_names(seconds: float) -> None:
    units = {"h": 3600, "min": 60, "s": 1}
    pairs = re.findall(r"([\d.]+) (h|min|s)", duration(seconds))
    named = sum(float(number) * units[unit] for number, unit in pairs)
    assert named == pytest.approx(seconds, abs=60 if seconds >= 3600 else 0.5)


def test_the_time_left_is_what_the_rate_needs_for_the_rest() -> None:
    now = 5.0
    progress = Progress("lines", 400, start=100, live=False, clock=lambda: now)
    assert progress.left(100) == ""  # nothing is done, so nothing is known
    now += 4
    assert progress.rate(200) == 100 / 4
    assert progress.left(200) == "  8.0 s left"  # 100 are done, 200 are left: twice the time
    progress.restart()
    now += 1
    assert progress.rate(200) == 100
    assert Progress("lines", live=False).left(5) == ""


def test_a_pipe_gets_occasional_lines() -> None:
    now, lines, times = 0.0, list[str](), list[float]()

    def say(line: str) -> None:
        lines.append(line)
        times.append(now)

    with Progress("parts", 1000, every=0.125, say=say, clock=lambda: now) as progress:
        assert not progress.live
        for done in range(1000):
            progress.move(done, "so far")
            now += 2**-10
    assert times == [n / 8 for n in range(1, 8)]
    assert lines[0] == "128 of 1,000 parts  so far"
    lines.clear()
    every_count = Progress("parts", 3, every=0.0, say=lines.append)
    for done in range(4):
        every_count.move(done, "")
    assert lines == ["1 of 3 parts", "2 of 3 parts"]
    lines.clear()
    progress = Progress("parts", 5, every=100, at_once=True, say=lines.append)
    for done in range(6):
        progress.move(done, "")
    assert lines == ["1 of 5 parts"]


def test_quiet_prints_only_what_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("lines") as progress:
        progress.move(7)
        progress.move_part("one", 1, 2, visible=True)
        progress.remark("not now")
        assert capsys.readouterr() == ("", "")
        progress.say("line 3 is empty")
    assert capsys.readouterr() == ("", "line 3 is empty\n")


SCRIPT = """
from translucid.core.progress import Progress
with Progress("lines", 600, start=200, live={live}, stays=True) as progress:
    progress.move(400)
    progress.move_part("inner", 3, 4, visible=True)
    progress.say("[b]above[/b]")
    progress.move(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_gets_a_bar_unless_disabled() -> None:
    shown = on_terminal(SCRIPT.format(live=True))
    for text in ("lines", "600/600", "lines/s", " left", "inner", "3/4", "[b]above[/b]"):
        assert text in shown
    assert on_terminal(SCRIPT.format(live=False)) == "[b]above[/b]\r\n"


def on_terminal(script: str) -> str:
    """What a script shows on standard error, which is a terminal."""
    import pty

    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stderr=theirs, env=environment) as process:
        process.wait()
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    return shown
