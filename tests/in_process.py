"""Run a command within this process: a new process would import torch again, which takes a second
or two.

Tests of signals, pipes, terminals and the installed script start real processes.
"""

import io
import signal
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from translucid.cli import main


class Answer(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*words: str, cwd: Path | None = None, stdin: str = "") -> Answer:
    """Run a command line as from a shell in this folder, with its output in a pipe."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with (
            chdir(cwd or "."),
            redirect_stdout(out),
            redirect_stderr(err),
            patch("sys.stdin", given),
            pytest.raises(SystemExit) as ended,
        ):
            main(words)
    finally:
        for number, handler in handlers.items():  # training has replaced them
            signal.signal(number, handler)
    return Answer(int(ended.value.code or 0), out.getvalue(), err.getvalue())
