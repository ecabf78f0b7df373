"""Try an imported tokenizer in a separate process before building it in this one.

The tokenizers library is compiled. If a file made it overflow its stack or loop forever, the user's
process would end or block, and no `except` could catch that. One small process, which imports
nothing but the library, tries all tokenizers of a session. It is replaced if it dies, and it ends
with the main process.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import tokenizers

from translucid.core.errors import InputError

SECONDS = 4  # limit of CPU time; one second per MB of the tokenizer is added
WAITING = 15  # limit of wall time, as a multiple of CPU time, since the machine may be busy
RAM_BYTES = 512 << 20  # limit of memory; 64 times the size of the tokenizer is added
TEXT = "The cat's 12 naïve dogs sleep.\n"
_CODE = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from tokenizers import Tokenizer
try:
    import resource
except ImportError:  # Windows
    resource = None

def limit(kind, wanted):
    soft, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY or wanted <= hard:
        resource.setrlimit(kind, (wanted, hard))

while len(head := sys.stdin.buffer.read(8)) == 8:
    raw = sys.stdin.buffer.read(int.from_bytes(head, "little"))
    if resource:
        seconds, memory = int(sys.argv[2]) + len(raw) // 10**6, int(sys.argv[3]) + 64 * len(raw)
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + seconds)
        limit(resource.RLIMIT_AS, memory)
    try:
        texts, spec = json.loads(raw)
        tokenizer = Tokenizer.from_str(spec)
        for text in texts:
            tokenizer.encode(text)
        del tokenizer
        answer = b"+"
    except BaseException:
        answer = b"-"
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
"""
_lock = threading.Lock()
_tried: set[bytes] = set()
_helper: "tuple[int, subprocess.Popen[bytes]] | None" = (
    None  # helper, with the id of the process that started it
)


def try_out(spec: str, file: str, texts: Sequence[str] = ()) -> None:
    """Raise an error for a tokenizer that crashes or blocks the process in which it is built and
    used. Errors that can be caught are left to the caller.

    spec: the tokenizer in the library's format. file: the original text of the tokenizer file; each
    file is tried only once. texts: additional texts to encode.
    """
    mark = sha256(file.encode("utf-8", "surrogatepass")).digest()
    with _lock:
        if mark in _tried:
            return
        helper = _started()
        if helper is None:
            warnings.warn(
                "no other process can be started here, so the model's tokenizer was not tried in a "
                "separate process; if it is damaged, it may end this process",
                stacklevel=2,
            )
        else:
            _ask(helper, spec, texts)
        _tried.add(mark)


def _ask(helper: "subprocess.Popen[bytes]", spec: str, texts: Sequence[str]) -> None:
    raw = json.dumps([[TEXT, *texts], spec]).encode()
    seconds = SECONDS + len(raw) // 10**6
    clock = threading.Timer(WAITING * seconds, helper.kill)
    clock.start()
    assert helper.stdin is not None
    assert helper.stdout is not None
    answer = b""
    try:
        helper.stdin.write(len(raw).to_bytes(8, "little") + raw)
        helper.stdin.flush()
        answer = helper.stdout.read(1)
    except OSError:  # it died while it read
        pass
    finally:
        clock.cancel()
    if not answer:
        code = _closed(helper)
        raise InputError(
            f"the tokenizer {_ending(code, seconds)}; do not use this model unless you know who "
            "made it"
        )


def _ending(code: int, seconds: int) -> str:
    if code in (-signal.SIGKILL, -getattr(signal, "SIGXCPU", 24)):
        return f"takes more than {seconds} seconds to build and to split short texts"
    name = signal.Signals(-code).name if code < 0 else f"status {code}"
    return f"ends the process that builds it ({name})"


def _started() -> "subprocess.Popen[bytes] | None":
    """The process in which tokenizers are tried; None if it cannot be started."""
    global _helper
    if _helper is not None and _helper[0] == os.getpid() and _helper[1].poll() is None:
        return _helper[1]
    if not sys.executable or getattr(sys, "frozen", False):  # not Python, but the user's program
        return None
    place = str(Path(tokenizers.__file__).parents[1])
    words = [sys.executable, "-I", "-S", "-c", _CODE, place, str(SECONDS), str(RAM_BYTES)]
    try:
        helper = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    if _helper is None or _helper[0] != os.getpid():
        atexit.register(_end)
    _helper = os.getpid(), helper
    return helper


def _closed(helper: "subprocess.Popen[bytes]") -> int:
    for pipe in (helper.stdin, helper.stdout):
        with suppress(OSError):  # unread input
            assert pipe is not None
            pipe.close()
    return helper.wait()


def _end() -> None:
    if _helper is not None and _helper[0] == os.getpid():
        _helper[1].kill()
        _closed(_helper[1])
