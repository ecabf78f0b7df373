"""What faults do to the server: each subcommand starts `translucid serve` and counts the answers.

    python bench/serve_faults.py swaps --count 100000 --out faults.json
    python bench/serve_faults.py disconnects --count 4000 --out faults.json
    python bench/serve_faults.py overload --seconds 600 --out faults.json
    python bench/serve_faults.py soak --seconds 1800 --out faults.json
    python bench/serve_faults.py sigterm --count 10 --out faults.json
    python bench/serve_faults.py slow --count 200 --out faults.json

Every answer with status 200 is compared with the library's. Memory is the resident set of the
server's process. `--out` adds the result to a file with the results of the other subcommands.
"""

import argparse
import asyncio
import gc
import json
import os
import platform
import random
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import translucid as tl

MODELS = ("demo:translate", "demo:generate")
MOST_OPEN = 8000  # connections at the same time, twice as many as the server takes
HEARD = (OSError, asyncio.IncompleteReadError)  # the server closed the connection
MB = 2**20
Result = dict[str, Any]


# ---- the server ----


@dataclass
class Server:
    """The running command, and the file of its access log."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    def memory(self) -> float:
        """The resident set in MB."""
        return psutil.Process(self.process.pid).memory_info().rss / MB

    def files(self) -> int:
        """The number of open files and connections."""
        return psutil.Process(self.process.pid).num_fds()

    def statuses(self) -> dict[str, int]:
        """The status of each request that the access log names, by its tag."""
        lines = [line for line in self.log.read_text("utf-8").splitlines() if line[:1] == "{"]
        records = [json.loads(line) for line in lines]
        return {record["request_id"]: record["status"] for record in records}


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """`translucid serve` with two shipped models, on any free port."""
    command = [sys.executable, "-m", "translucid", "serve", *MODELS]
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", "0", "--device", "cpu", *options], stdout=subprocess.PIPE,
            stderr=log,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            lines = (line.decode() for line in process.stdout)
            found = (re.match(r"serving on .*:(\d+) ", line) for line in lines)
            port = next(int(one[1]) for one in found if one)
            yield Server(process, port, Path(folder) / "log")
        finally:
            process.kill()
            process.communicate(timeout=60)


# ---- requests whose answers are known ----


@dataclass(frozen=True)
class Question:
    """A request, and the texts with which the library answers it."""

    path: str
    body: dict[str, Any]
    texts: tuple[str, ...]

    def given(self, raw: bytes) -> tuple[str, ...]:
        """The texts of an answer."""
        if self.body.get("stream"):
            texts = [""] * len(self.texts)
            events = [event.removeprefix(b"data: ") for event in raw.split(b"\n\n") if event]
            if events.pop() != b"[DONE]":
                return ("the stream has no end",)
            for choice in (choice for event in events for choice in json.loads(event)["choices"]):
                texts[choice["index"]] += choice["text"]
            return tuple(texts)
        content = json.loads(raw)
        if self.path == "/translate":
            return tuple(content["translatedText"])
        return tuple(choice["text"] for choice in content["choices"])


def questions(count: int, tokens: int = 8) -> list[Question]:
    """Different requests: translations of lists, and completions, streamed and not. tokens: of each
    completion."""
    draw = random.Random(7)
    translator, writer = map(tl.load, MODELS)
    texts: dict[str, str] = {}

    def sentence() -> str:
        noun, other, verb = (draw.choice(words.split()) for words in (
            "dog cat man woman bird child book house", "dog cat man woman bird child book house",
            "sees likes has finds",
        ))  # fmt: skip
        adjective = draw.choice(["old", "small", "curious", "young"])
        return f"The {adjective} {noun} {verb} the {other}."

    def translated(text: str) -> str:
        if text not in texts:
            texts[text] = translator.translate([text])[0]
        return texts[text]

    made = []
    for number in range(count):
        if number % 3 == 0:
            several = [sentence() for _ in range(1 + number % 2 * 2)]
            body: dict[str, Any] = {"q": several, "source": "en", "target": "de"}
            made.append(Question("/translate", body, tuple(map(translated, several))))
            continue
        prompts = [" ".join(sentence().split()[: 2 + number % 4]) for _ in range(1 + number % 2)]
        body = {
            "model": MODELS[1], "prompt": prompts, "seed": number, "max_tokens": tokens,
            "temperature": 1.0, "stream": number % 3 == 1,
        }  # fmt: skip
        whole = [
            writer.generate(prompt, max_length=tokens, seed=number, temperature=1.0)
            for prompt in prompts
        ]
        ends = [text[len(prompt) :] for text, prompt in zip(whole, prompts, strict=True)]
        made.append(Question("/v1/completions", body, tuple(ends)))
    return made


# ---- a client ----


class Client:
    """A connection to the server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: Any = None
        self.writer: Any = None

    async def send(self, path: str, body: Any = None, tag: str = "") -> None:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.port, limit=MB
            )
        raw = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: 127.0.0.1",
            "Content-Type: application/json", f"Content-Length: {len(raw)}",
            *([f"X-Request-Id: {tag}"] if tag else []), "", "",
        ]  # fmt: skip
        self.writer.write("\r\n".join(head).encode() + raw)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the answer."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        return int(first.split()[1]), headers

    async def pieces(self, headers: dict[str, str]) -> AsyncIterator[bytes]:
        if "content-length" in headers:
            yield await self.reader.readexactly(int(headers["content-length"]))
            return
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    async def ask(self, path: str, body: Any = None, tag: str = "") -> tuple[int, Any, bytes]:
        """Status, headers and content of an answer."""
        await self.send(path, body, tag)
        status, headers = await self.head()
        content = b"".join([piece async for piece in self.pieces(headers)])
        if headers.get("connection") == "close":
            self.close()
        return status, headers, content

    def close(self, *, abort: bool = False) -> None:
        """Close the connection. abort: reset it, as if the client's process had died."""
        if self.writer is not None:
            held = self.writer.get_extra_info("socket")
            if abort and held is not None:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort() if abort else self.writer.close()
        self.reader = self.writer = None


class Asking:
    """Asks questions, and counts the answers."""

    def __init__(self, server: Server, known: Sequence[Question]) -> None:
        self.server, self.known = server, known
        self.counts: Counter[str] = Counter()
        self.seconds: list[float] = []  # of the answers with status 200
        self.complete: set[str] = set()  # tags of requests whose answer was right
        self.refused: set[str] = set()  # tags of requests refused with Retry-After
        self.draw = random.Random(1)
        self._number = 0

    async def one(self, client: Client) -> None:
        """Ask one question, and check that the answer is its own."""
        tag, question = f"tag-{self._number}", self.draw.choice(self.known)
        self._number += 1
        began = time.monotonic()
        self.counts["asked"] += 1
        status, headers, content = await client.ask(question.path, question.body, tag)
        if status != 503 and headers.get("x-request-id") != tag:
            self.counts["other_tag"] += 1
        if status == 200:
            given = question.given(content)
            right = given == question.texts
            if not right and not self.counts["wrong"]:
                print(f"wrong: {question}\n{given}\n{content[-500:]!r}", file=sys.stderr)
            self.counts["right" if right else "wrong"] += 1
            self.seconds.append(time.monotonic() - began)
            if right:
                self.complete.add(tag)
        elif status in (429, 503) and int(headers.get("retry-after", 0)) > 0:
            self.counts[f"refused_{status}"] += 1
            self.refused.add(tag)
        else:
            self.counts[f"status_{status}"] += 1

    async def until(self, over: Callable[[], bool]) -> None:
        """Ask one question after the other on one connection."""
        client = Client(self.server.port)
        while not over():
            try:
                await self.one(client)
            except HEARD as error:
                self.counts[type(error).__name__] += 1
                client.close()
        client.close()

    def summary(self) -> Result:
        cuts = statistics.quantiles(self.seconds, n=100) if len(self.seconds) > 1 else [0.0] * 99
        return dict(self.counts) | {
            "p50_s": round(cuts[49], 3), "p95_s": round(cuts[94], 3),
            "longest_s": round(max(self.seconds, default=0), 3),
        }  # fmt: skip


async def metrics(server: Server) -> dict[str, float]:
    """The sum of each metric over the models."""
    client = Client(server.port)
    _, _, content = await client.ask("/metrics")
    client.close()
    sums: Counter[str] = Counter()
    for line in content.decode().splitlines():
        if found := re.match(r"translucid_(\w+)\{model=\"[^\"]*\"\} (\S+)", line):
            sums[found[1]] += float(found[2])
    return sums


async def idle(server: Server, seconds: float = 60) -> Result:
    """What the engines hold when all clients have left; waits until it is nothing."""
    began = time.monotonic()
    while True:
        now = await metrics(server)
        held = {name: int(now[name]) for name in ("rows", "running", "waiting", "cache_tokens")}
        if not any(held.values()) or time.monotonic() > began + seconds:
            return held | {"idle_after_s": round(time.monotonic() - began, 2)}
        await asyncio.sleep(0.05)


async def progress(show: Callable[[], str]) -> None:
    while True:
        await asyncio.sleep(15)
        print(f"{time.strftime('%H:%M:%S')} {show()}", file=sys.stderr, flush=True)


async def together(work: Sequence[Awaitable[Any]], show: Callable[[], str]) -> None:
    """Do all of this at the same time, and print how far it is."""
    printing = asyncio.create_task(progress(show))
    try:
        await asyncio.gather(*work)
    finally:
        printing.cancel()


# ---- the faults ----


async def swaps(server: Server, count: int, clients: int, known: Sequence[Question]) -> Result:
    """Requests of many clients at the same time, each with its own tag and answer."""
    asking = Asking(server, known)
    before, began = server.memory(), time.monotonic()
    await together(
        [asking.until(lambda: asking.counts["asked"] >= count) for _ in range(clients)],
        lambda: str(dict(asking.counts)),
    )
    seconds = time.monotonic() - began
    return asking.summary() | {
        "clients": clients, "different_requests": len(known),
        "different_answers": len({one.texts for one in known}), "seconds": round(seconds),
        "requests_per_s": round(asking.counts["asked"] / seconds),
        "memory_before_mb": round(before), "memory_after_mb": round(server.memory()),
    }  # fmt: skip


async def leave(server: Server, draw: random.Random, counts: Counter[str]) -> None:
    """Begin a long stream, read some pieces of it, and disconnect."""
    client = Client(server.port)
    body = {
        "model": MODELS[1], "prompt": "The old dog", "max_tokens": 1000, "ignore_eos": True,
        "stream": True, "n": draw.randint(1, 2),
    }  # fmt: skip
    wanted = draw.randint(0, 5)
    try:
        await client.send("/v1/completions", body)
        if wanted:
            status, headers = await client.head()
            if status != 200:
                counts[f"status_{status}"] += 1
                await asyncio.sleep(0.1)
                return
            pieces = client.pieces(headers)
            for _ in range(wanted):
                await anext(pieces)
            counts["left_mid_stream"] += 1
        else:
            counts["left_before_the_answer"] += 1
    except HEARD as error:
        counts[type(error).__name__] += 1
    finally:
        client.close(abort=draw.random() < 0.5)


async def disconnects(
    server: Server, count: int, clients: int, known: Sequence[Question]
) -> Result:
    """Clients that leave while their answer is streamed, beside one that stays."""
    counts: Counter[str] = Counter()
    draw, over = random.Random(2), False
    await idle(server)
    files, before, began = server.files(), server.memory(), time.monotonic()
    stays = Asking(server, known)
    staying = asyncio.create_task(stays.until(lambda: over))

    async def leaving() -> None:
        while counts["left_mid_stream"] < count:
            await leave(server, draw, counts)

    await together([leaving() for _ in range(clients)], lambda: str(dict(counts)))
    over = True
    await staying
    seconds = time.monotonic() - began
    held, cancelled = await idle(server), (await metrics(server))["cancelled_total"]
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            while server.files() > files:
                await asyncio.sleep(0.05)
    return dict(counts) | {
        "clients": clients, "seconds": round(seconds), "cancelled": int(cancelled),
        "afterwards": held, "files_before": files, "files_after": server.files(),
        "memory_before_mb": round(before), "memory_after_mb": round(server.memory()),
        "client_that_stays": stays.summary(),
    }  # fmt: skip


async def overload(
    server: Server, seconds: float, times: float, known: Sequence[Question]
) -> Result:
    """Requests at several times the rate that the server can answer, each on a new connection. If
    MOST_OPEN wait for their answers, the next ones are sent later, so that the ports suffice."""
    capacity = Asking(server, known)
    end = time.monotonic() + min(20.0, seconds / 2)
    began = time.monotonic()
    await asyncio.gather(*(capacity.until(lambda: time.monotonic() > end) for _ in range(64)))
    rate = capacity.counts["right"] / (time.monotonic() - began)
    asking, memory, open_now = Asking(server, known), [server.memory()], set()
    files = [server.files()]
    gc.freeze()
    gc.disable()  # looking through thousands of tasks would stop all clients

    async def one() -> None:
        client = Client(server.port)
        try:
            await asking.one(client)
        except HEARD as error:
            asking.counts[type(error).__name__] += 1
        finally:
            client.close()

    async def all_of_them() -> None:
        began, sent = time.monotonic(), 0
        while (now := time.monotonic() - began) < seconds:
            for _ in range(min(int(now * rate * times) - sent, MOST_OPEN - len(open_now))):
                sent += 1
                task = asyncio.create_task(one())
                open_now.add(task)
                task.add_done_callback(open_now.discard)
            if now > len(memory):
                memory.append(server.memory())
                files.append(server.files())
            await asyncio.sleep(0.005)

    began = time.monotonic()
    await together(
        [all_of_them()], lambda: f"{dict(asking.counts)} {memory[-1]:.0f} MB {files[-1]}"
    )
    lasted = time.monotonic() - began
    offered, right = asking.counts["asked"] / lasted, asking.counts["right"] / lasted
    while open_now:
        await asyncio.wait(open_now)
    return asking.summary() | {
        "seconds": round(lasted), "capacity_per_s": round(rate, 1),
        "offered_per_s": round(offered, 1), "times_the_capacity": round(offered / rate, 1),
        "right_per_s": round(right, 1), "right_of_the_capacity": round(right / rate, 2),
        "memory_before_mb": round(memory[0]), "memory_after_10_s_mb": round(memory[:11][-1]),
        "memory_most_mb": round(max(memory)), "memory_after_mb": round(server.memory()),
        "files_before": files[0], "files_most": max(files), "files_after": server.files(),
        "afterwards": await idle(server), "alive": server.process.poll() is None,
    }  # fmt: skip


async def soak(server: Server, seconds: float, clients: int, known: Sequence[Question]) -> Result:
    """Requests of all kinds for a long time: answered, cancelled and wrong ones."""
    asking, counts = Asking(server, known), Counter[str]()
    end, draw = time.monotonic() + seconds, random.Random(3)
    began, memory = time.monotonic(), [(0.0, server.memory())]

    async def client() -> None:
        own = Client(server.port)
        while time.monotonic() < end:
            kind = draw.random()
            try:
                if kind < 0.9:
                    await asking.one(own)
                elif kind < 0.95:
                    await leave(server, draw, counts)
                else:
                    status, _, _ = await own.ask("/v1/completions", {"prompt": 1, "x": [0] * 1000})
                    counts[f"wrong_request_{status}"] += 1
            except HEARD as error:
                counts[type(error).__name__] += 1
                own.close()
        own.close()

    async def sample() -> None:
        while (now := time.monotonic()) < end:
            memory.append((now - began, server.memory()))
            await asyncio.sleep(1)

    await together(
        [sample(), *(client() for _ in range(clients))],
        lambda: f"{dict(asking.counts)} {memory[-1][1]:.1f} MB",
    )
    return asking.summary() | dict(counts) | {
        "clients": clients, "seconds": round(seconds), "afterwards": await idle(server),
        "memory_before_mb": round(memory[0][1], 1), "memory_after_mb": round(memory[-1][1], 1),
        "memory_each_minute_mb": [round(mb, 1) for _, mb in memory[::60]],
        "slope_mb_per_hour": {
            "whole": slope(memory), "second half": slope(memory[len(memory) // 2 :])
        },
    }  # fmt: skip


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """MB per hour, by least squares."""
    if len(samples) < 2:
        return 0.0
    times, sizes = zip(*samples, strict=True)
    return round(3600 * statistics.linear_regression(times, sizes).slope, 1)


async def sigterm(count: int, clients: int, known: Sequence[Question]) -> Result:
    """SIGTERM under load, several times. Accepted are requests that the access log contains with
    status 200; lost are those of them whose whole answer did not arrive."""
    totals: Counter[str] = Counter()
    longest = 0.0
    for _ in range(count):
        with serving() as server:
            asking, ended = Asking(server, known), asyncio.Event()
            work = [asyncio.create_task(asking.until(ended.is_set)) for _ in range(clients)]
            while asking.counts["right"] < 2 * clients:
                await asyncio.sleep(0.01)
            while (await metrics(server))["running"] < clients / 2:
                pass
            in_flight, asked = asking.counts["asked"] - asking.counts["right"], asking._number
            server.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            code = await asyncio.to_thread(server.process.wait, 120)
            longest = max(longest, time.monotonic() - began)
            ended.set()
            await asyncio.gather(*work)
            log = server.statuses()
        accepted = {tag for tag, status in log.items() if status == 200 and tag[:4] == "tag-"}
        early = {f"tag-{number}" for number in range(asked)}
        totals += Counter({
            "rounds": 1, "accepted": len(accepted), "in_flight_at_signal": in_flight,
            "lost": len(accepted - asking.complete),
            "early_without_answer": len(early - asking.complete - asking.refused),
            "early_refused_503": len(early & asking.refused),
            "refused_503": asking.counts["refused_503"], "wrong": asking.counts["wrong"],
            "clean_exits": code in (0, -signal.SIGTERM, 128 + signal.SIGTERM),
        })  # fmt: skip
        print(dict(totals), file=sys.stderr, flush=True)
    names = ("lost", "wrong", "early_without_answer")
    return dict.fromkeys(names, 0) | dict(totals) | {"longest_end_s": round(longest, 2)}


async def slow(server: Server, count: int, seconds: float, known: Sequence[Question]) -> Result:
    """Clients that send headers or bodies slowly, and clients that do not read their answers,
    beside one that behaves."""
    stays, over = Asking(server, known), False
    staying = asyncio.create_task(stays.until(lambda: over))
    await asyncio.sleep(min(5.0, seconds / 4))
    alone, stays.seconds = stays.summary(), []
    files, memory = server.files(), [server.memory()]
    counts: Counter[str] = Counter()
    asked = {"model": MODELS[1], "prompt": ["The"] * 8, "max_tokens": 4000, "ignore_eos": True,
             "logprobs": 50, "stream": True}  # fmt: skip
    raw = json.dumps(asked).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(raw)}\r\n"
    kinds = {
        "slow headers": head.encode(),
        "slow body": head.encode() + b"\r\n" + raw[:1],
        "does not read": head.encode() + b"\r\n" + raw,
    }

    async def client(kind: str, start: bytes) -> None:
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        held.setblocking(False)
        loop = asyncio.get_running_loop()
        began, received = time.monotonic(), b""
        try:
            await loop.sock_connect(held, ("127.0.0.1", server.port))
            await loop.sock_sendall(held, start)
            while time.monotonic() < began + seconds:
                await asyncio.sleep(1)
                memory.append(server.memory())
                if kind == "does not read":
                    if held.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        raise ConnectionResetError
                    continue
                with suppress(BlockingIOError):
                    received += held.recv(4096)
                    if received:
                        break
                await loop.sock_sendall(held, b"x")
            if kind == "does not read":
                with suppress(BlockingIOError):
                    received = held.recv(4096)
            status = received.partition(b"\r\n")[0][9:12].decode()
            counts[f"{kind}: {status or 'still connected'}"] += 1
        except OSError:
            counts[f"{kind}: closed by the server"] += 1
        finally:
            held.close()

    each = -(-count // len(kinds))
    await together(
        [client(kind, start) for kind, start in kinds.items() for _ in range(each)],
        lambda: f"{dict(counts)} {stays.summary()} {server.memory():.0f} MB",
    )
    over, beside = True, stays.summary()
    await staying
    return dict(counts) | {
        "slow_clients": each * len(kinds), "seconds": seconds, "client_alone": alone,
        "client_beside_slow_ones": beside, "afterwards": await idle(server),
        "files_before": files, "files_after": server.files(),
        "memory_before_mb": round(memory[0]), "memory_most_mb": round(max(memory)),
        "memory_after_mb": round(server.memory()),
    }  # fmt: skip


# ---- the command ----


def measured(given: argparse.Namespace) -> Result:
    """The result of a subcommand."""
    tokens = {"overload": 48, "sigterm": 64}.get(given.fault, 8)
    known = questions(given.questions, tokens)
    if given.fault == "sigterm":
        return asyncio.run(sigterm(given.count, given.clients, known))
    with serving(*(["--no-log"] if given.fault != "slow" else [])) as server:
        work: Any = {
            "swaps": lambda: swaps(server, given.count, given.clients, known),
            "disconnects": lambda: disconnects(server, given.count, given.clients, known),
            "overload": lambda: overload(server, given.seconds, given.times, known),
            "soak": lambda: soak(server, given.seconds, given.clients, known),
            "slow": lambda: slow(server, given.count, given.seconds, known),
        }[given.fault]
        return asyncio.run(work())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "fault", choices=["swaps", "disconnects", "overload", "soak", "sigterm", "slow"]
    )
    parser.add_argument("--count", type=int, default=10, help="requests, clients or rounds")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--times", type=float, default=10, help="of the capacity")
    parser.add_argument("--questions", type=int, default=300, help="number of different requests")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = measured(given)
    print(json.dumps(result, indent=1))
    if given.out:
        all_results = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
        command = " ".join(word for word in sys.argv[1:] if word not in ("--out", str(given.out)))
        all_results[given.fault] = {
            "command": f"python bench/serve_faults.py {command}",
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        } | result  # fmt: skip
        given.out.write_text(json.dumps(all_results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
