"""Run a command in its own process without importing torch again: it is forked from a process that
has imported it.

    subprocess.Popen([*TRANSLUCID, "classify", ...])      # as [python, "-m", "translucid", ...]
    subprocess.Popen([*TRANSLUCID, TORCHRUN, ...])        # as torch's torchrun

`TRANSLUCID` is a small process. It passes its arguments, folder, environment, pipes and terminal to
a server, which forks; the first command of a test session starts the server. The small process
passes signals on to the fork, and ends with the fork's exit status. What a fork cannot test (which
modules are imported, how an encoding is chosen) is tested with a real process.
"""

import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

TRANSLUCID = [sys.executable, "-S", str(Path(__file__).resolve())]
TORCHRUN = "torchrun"
PASSED_ON = (signal.SIGINT, signal.SIGTERM)
OF_TERMINALS = ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "LINES")
PLACE, SESSION = "TRANSLUCID_TESTS_SHARED", "TRANSLUCID_TESTS_SESSION"  # as in tests/tiny/once.py


def main(words: list[str]) -> int:
    """Run the small process: ask the server for a fork, and return its exit status."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until the fork's process id is known
    connection = connect(Path(os.environ[PLACE]))
    socket.send_fds(connection, [b"\n"], [0, 1, 2])
    order = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    answers = connection.makefile("rw")
    answers.write(json.dumps(order) + "\n")
    answers.flush()
    pid = int(answers.readline())
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = int(answers.readline())
    if code < 0:  # the fork was ended by a signal, so end by the same one
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def connect(place: Path) -> socket.socket:
    """Connect to the server, and start it if it is not running."""
    connection = socket.socket(socket.AF_UNIX)
    with (place / "forks.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "forks.socket").exists():
            plain = {k: v for k, v in os.environ.items() if k not in OF_TERMINALS}
            server = subprocess.Popen(
                [sys.executable, __file__, "--serve"],
                env=plain,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n", "the server of forks did not start"
        connection.connect(address(place))
    return connection


def address(place: Path) -> str:
    """The address of the server's socket, shorter than 108 bytes wherever the temporary folder
    is."""
    return f"/proc/self/fd/{os.open(place, os.O_PATH)}/forks.socket"


def serve() -> list[str]:
    """Run the server. It returns only in the forks, with the words of their command lines."""
    import torch._dynamo
    import torch.distributed.run

    import translucid.cli.train
    import translucid.model.model
    import translucid.runs.run
    import translucid.worked  # noqa: F401
    from translucid.cli import app, parser

    parser(app)
    place = Path(os.environ[PLACE])
    torch.set_num_threads(1)
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    server = socket.socket(socket.AF_UNIX)
    server.bind(address(place))
    server.listen()
    os.write(1, b"ready\n")
    gc.freeze()
    while place.exists() and Path(f"/proc/{os.environ[SESSION]}").exists():
        if not select.select([server], [], [], 1.0)[0]:
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # do not leave zombies of waiting forks
        connection, _ = server.accept()
        if os.fork() == 0:
            server.close()
            return words_of(connection)
        connection.close()
    os._exit(0)


def words_of(connection: socket.socket) -> list[str]:
    """Fork again: the parent waits, and reports how the child ended; the child returns its command
    line."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, pipes, _, _ = socket.recv_fds(connection, 1, 3)
    answers = connection.makefile("rw")
    order = json.loads(answers.readline())
    pid = os.fork()
    if pid:
        print(pid, file=answers, flush=True)
        if connection in select.select([connection, os.pidfd_open(pid)], [], [])[0]:
            os.kill(pid, signal.SIGKILL)  # because the small process was killed
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(code, file=answers, flush=True)
        os._exit(0)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    answers.close()
    connection.close()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1 if os.isatty(1) else -1)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    sys.argv = ["translucid", *order["words"]]
    return order["words"]


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        words = serve()
        if words[0] == TORCHRUN:
            from torch.distributed.run import main as launch

            launch(words[1:])
        else:
            from translucid.cli import main as run

            run(words)
    else:
        sys.exit(main(sys.argv[1:]))
