"""`--ray`: processes of a Ray cluster write what one process writes, even if some are killed."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Event

import pytest
from tests.in_process import run
from tests.interop.own_models import own

from translucid.model import Model, load
from translucid.serving.server import bind

pytest.importorskip("ray", reason="needs ray: pip install '.[ray]'")

PYTHON = [sys.executable, "-m", "translucid"]
WORDS = ["dog", "cat", "old", "small", "house", "sleeps", "sings", "the", "a", "sees"]
LINES = [" ".join(WORDS[(i * k + k) % 10] for k in range(1, 3 + i % 6)) + "." for i in range(2500)]


class Ray:
    """Commands that start Ray on this machine alone, with its files in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "RAY_TMPDIR": folder, "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }  # fmt: skip
        self.environment.pop("RAY_ADDRESS", None)

    def start(self, *words: str, cwd: Path) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*PYTHON, *words], env=self.environment, cwd=cwd, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        process = self.start(*words, cwd=cwd)
        out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def processes(self, title: str = "") -> list[int]:
        """Ids of the processes of this Ray; with a title, those that run this."""
        found = []
        for place in Path("/proc").iterdir():
            with suppress(OSError):
                command = (place / "cmdline").read_bytes().decode("utf-8", "replace")
                raylet = (place / "environ").read_bytes().decode("utf-8", "replace")
                ours = self.folder in command or f"RAY_TMPDIR={self.folder}\0" in raylet
                if ours and place.name.isdecimal() and title in command:
                    found.append(int(place.name))
        return found


@pytest.fixture
def ray() -> Iterator[Ray]:
    folder = tempfile.mkdtemp(prefix="r")  # short, because Ray's sockets are in it
    one = Ray(folder)
    try:
        yield one
    finally:
        while left := one.processes():
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.1)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    folder = tmp_path_factory.mktemp("expected")

    def of(*words: str, name: str) -> bytes:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        command = [*PYTHON, *words, "--out", name]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        return (folder / name).read_bytes()

    return of


def until(true: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.slow
def test_a_killed_process_and_a_killed_command_are_resumed(
    ray: Ray, expected: Callable[..., bytes], tmp_path: Path
) -> None:
    file, out, shards = (tmp_path / name for name in ("in.txt", "out.txt", "out.txt.shards"))
    file.write_text("".join(f"{line}\n" for line in LINES), "utf-8")
    words = ("translate", "demo:translate", str(file), "--n-best", "2")
    process = ray.start(*words, "--out", "out.txt", "--ray", cwd=tmp_path)
    until(lambda: list(shards.glob("*.part.json")), process)
    (killed, *_) = ray.processes("ray::Map")
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(list(shards.glob("[0-9]*[0-9].json"))) >= 2, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    until_gone = time.monotonic() + 120
    while ray.processes("ray::"):  # they end with the command
        assert time.monotonic() < until_gone
        time.sleep(0.05)
    before = {note: note.stat().st_mtime_ns for note in shards.glob("[0-9]*[0-9].json")}

    other = ray.run(*words, "--alpha", "0.1", "--out", "out.txt", "--ray", cwd=tmp_path)
    assert other.returncode == 2
    assert "alpha" in other.stderr
    assert before == {note: note.stat().st_mtime_ns for note in before}

    resumed = ray.run(*words, "--out", "out.txt", "--ray", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming after" in resumed.stderr
    assert out.read_bytes() == expected(*words, name="out.txt")
    assert not shards.exists()
    assert "2,500 lines translated" in resumed.stderr


TABLE = "number,text,other\n" + "".join(f'{n},"{line}",x\n' for n, line in enumerate(LINES[:900]))
SENTENCES = "".join(
    "".join(f"{n}\t{word}" + "\t_" * 8 + "\n" for n, word in enumerate(line[:-1].split(), 1)) + "\n"
    for line in LINES[:300]
)
MANY = "the dog sleeps. " * 300 + "\n"


@pytest.mark.slow
def test_all_commands_write_what_one_process_writes(
    ray: Ray, expected: Callable[..., bytes], tmp_path: Path
) -> None:
    lines = "".join(f"{line}\n" for line in LINES[:300])
    rows = "".join(f"{n / 500:.3f} {n % 7}\n" for n in range(500))
    texts = {
        "a.csv": TABLE, "a.conllu": SENTENCES, "a.txt": "The dog sleeps.\n" * 300 + MANY,
        "a.lines": lines, "a.rows": rows,
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    commands = [
        ("classify", "demo:classify", "a.csv", "data.text_column=text", "--probabilities"),
        ("tag", "demo:tag", "a.conllu"),
        ("predict", "demo:regress", "a.rows"),
        ("embed", str(tmp_path / "embedder"), "a.lines"),
    ]
    Model(own("embed")).save(tmp_path / "embedder")
    for command, model, file, *options in commands:
        name = f"out-{file}" + ".jsonl" * (command == "embed")
        done = ray.run(command, model, file, *options, "--out", name, "--ray", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        one = expected(command, model, str(tmp_path / file), *options, name=name)
        assert (tmp_path / name).read_bytes() == one
    cut = ("translate", "demo:translate", "a.txt", "--max-input-length", "100")
    done = ray.run(*cut, "--out", "cut.txt", "--ray", cwd=tmp_path)
    assert done.returncode == 1
    assert "301: " in done.stderr
    assert "1 line was left empty" in done.stderr
    assert (tmp_path / "cut.txt").read_text("utf-8").count("\n") == 301


# ---- serve ----

TEXTS = [f"{line[:-1].capitalize()}." for line in LINES[:7]]
HOLD = (
    "import ray, sys; from translucid.cli.shared import on_ray; "
    "on_ray.start({'num_cpus': 6}); "  # again, if a busy machine takes too long
    "print(ray.get_runtime_context().gcs_address, flush=True); sys.stdin.read()"
)


class Clients:
    """Threads that translate texts until they are stopped. A request that fails is repeated."""

    def __init__(self, address: str, count: int = 4) -> None:
        self.address, self.stopping = address, threading.Event()
        self.wrong: list[object] = []
        self.answered, self.retries = 0, [0]
        self.threads = [threading.Thread(target=self._work, args=(n,)) for n in range(count)]
        self.expected = load("demo:translate").translate(TEXTS)

    def __enter__(self) -> "Clients":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(300)

    def _work(self, number: int) -> None:
        while not self.stopping.is_set():
            number += 1
            place, failures = number % len(TEXTS), 0
            while (got := self._ask(TEXTS[place])) is None and failures < 50:
                failures += 1
                self.stopping.wait(0.2)
            if got != self.expected[place]:
                self.wrong.append((TEXTS[place], got))
            self.answered += 1
            self.retries.append(failures)

    def _ask(self, text: str) -> str | None:
        body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
        request = urllib.request.Request(
            f"{self.address}/translate", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return str(json.load(answer)["translatedText"])
        except OSError:  # a lost replica: status 5xx
            return None

    def more(self, count: int) -> Callable[[], bool]:
        until = self.answered + count
        return lambda: self.answered >= until


def address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("serving on "):
            return line.split()[2]
    raise AssertionError(process.communicate())


@pytest.mark.slow
def test_a_killed_replica_loses_no_request(ray: Ray, tmp_path: Path) -> None:
    words = ("serve", "demo:translate", "--ray", "--replicas", "2", "--port", "0")
    process = ray.start(*words, cwd=tmp_path)
    address = address_of(process)
    with Clients(address) as clients:
        until(clients.more(20), process)
        before = ray.processes("ray::ServeReplica")
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(set(ray.processes("ray::ServeReplica")) - set(before)) == 1, process)
        until(clients.more(60), process)
    assert not clients.wrong
    assert max(clients.retries) <= 1, clients.retries
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{address}/metrics", timeout=60)
    assert refused.value.code == 501
    refused.value.close()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "POST" not in errors  # the replicas' logs are not copied
    assert not ray.processes("ray::")


@pytest.mark.slow
def test_an_address_that_is_none_is_named(ray: Ray, tmp_path: Path) -> None:
    ray.environment["RAY_ADDRESS"] = "nonsense"
    wrong = ray.run("serve", "demo:translate", "--ray", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "RAY_ADDRESS=nonsense" in wrong.stderr


@pytest.mark.slow
def test_ray_that_cannot_be_started_is_named(ray: Ray, tmp_path: Path) -> None:
    ray.environment["RAY_TMPDIR"] = f"{ray.folder}/{'long' * 30}"  # too long for sockets
    wrong = ray.run("serve", "demo:translate", "--ray", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "Ray could not be started" in wrong.stderr
    assert "ray start --head" in wrong.stderr


@pytest.mark.slow
def test_an_update_of_a_cluster_loses_no_request(ray: Ray, tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD], env=ray.environment, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert holder.stdout is not None
    ray.environment["RAY_ADDRESS"] = address = holder.stdout.readline().strip()
    assert address
    with closing(bind("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
    words = ("serve", "demo:translate", "--ray", "--replicas", "2", "--port", port)
    first = ray.run(*words, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    with Clients(f"http://127.0.0.1:{port}") as clients:
        until(clients.more(20), holder)
        before = ray.processes("ray::ServeReplica")
        second = ray.run(*words, "--rows", "32", cwd=tmp_path)
        assert second.returncode == 0, second.stderr
        until(lambda: not set(ray.processes("ray::ServeReplica")) & set(before), holder)
        until(clients.more(20), holder)
    assert not clients.wrong
    assert max(clients.retries) == 0
    wrong = ray.run(*words[:-1], "1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "another address" in wrong.stderr
    holder.kill()
    holder.communicate()


@contextmanager
def completion(address: str, length: int) -> Iterator["HTTPResponse"]:
    """The answer to a request for this many tokens, in pieces."""
    asked = {"prompt": "The", "max_tokens": length, "ignore_eos": True, "stream": True, "seed": 1}
    headers = {"Content-Type": "application/json"}
    with closing(HTTPConnection(address.removeprefix("http://"), timeout=300)) as connection:
        connection.request("POST", "/v1/completions", json.dumps(asked).encode(), headers)
        with connection.getresponse() as answer:
            assert answer.status == 200, answer.read()
            yield answer


def text_of(events: bytes) -> str:
    """The text of a stream, which must have ended."""
    *chunks, end, nothing = events.decode().split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    return "".join(json.loads(one.removeprefix("data: "))["choices"][0]["text"] for one in chunks)


@pytest.mark.slow
def test_streams_disconnects_more_replicas_and_sigterm(ray: Ray, tmp_path: Path) -> None:
    words = (
        "serve", "demo:generate-rnn", "--ray", "--port", "0", "--max-replicas", "2", "--rows", "1",
        "--max-tokens", "100000000", "--cache-tokens", "200000000",
    )  # fmt: skip
    process = ray.start(*words, cwd=tmp_path)
    address = address_of(process)
    assert len(ray.processes("ray::ServeReplica")) == 1
    with completion(address, 10**8) as endless:
        assert endless.readline().startswith(b"data: ")  # while the text is generated

    def read(length: int) -> str:
        with completion(address, length) as answer:
            return text_of(answer.read())

    # There is one row, which the client that has left would occupy for days.
    expected, end = read(300), Event()
    known = load("demo:generate-rnn").generate("The", max_length=300, seed=1)
    assert f"The{expected}".startswith(known)

    def work() -> set[str]:
        texts = set()
        while not end.is_set():
            texts.add(read(300))
        return texts

    with ThreadPoolExecutor(4) as clients:
        working = [clients.submit(work) for _ in range(4)]
        try:
            until(lambda: len(ray.processes("ray::ServeReplica")) == 2, process)
        finally:
            end.set()
    assert [one.result() for one in working] == [{expected}] * 4

    with completion(address, 2000) as accepted:
        first = accepted.readline()
        process.send_signal(signal.SIGTERM)
        assert text_of(first + accepted.read()).startswith(expected)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert not ray.processes("ray::")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["translate", "demo:translate", "The dog sleeps.", "--ray"], "--out"),
        (["classify", "demo:classify", "a.txt", "--ray"], "--out"),
        (["serve", "demo:translate", "--replicas", "2"], "--ray"),
        (["serve", "demo:translate", "--ray", "--studio"], "--studio"),
        (["embed", "demo:classify", "a.txt", "--out", "a.npy", "--ray"], "JSON Lines"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: list[str], named: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The dog sleeps.\n", "utf-8")
    refused = run(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert named in refused.stderr
