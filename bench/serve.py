"""Measure the server: requests and tokens per second, and latency, with 1, 8 and 64 clients.

    python bench/serve.py demo:translate
    python bench/serve.py demo:generate --clients 1 8 64 --rates 10 20 --seconds 20 --out serve.json

In a closed loop, each client sends its next request when the last is answered. In an open loop,
requests arrive at random times, at a given mean rate (a Poisson process), whether or not earlier
ones have been answered; their times count from when they were due. Texts of language models are
streamed, and `first` is the time to their first token. The same requests are answered by the
library before, one at a time, in this process: `ratio` compares with that.

    python bench/serve.py demo:translate --trace '*.cross_attention.pattern'

With --trace, a second server runs with --allow-trace, and the clients of both send their requests
in turns: to the first server, to the second, to the second with a trace, and with an edit that
changes nothing (the first point is multiplied by 1).
"""

import argparse
import http.client
import json
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import translucid as tl
from translucid.data import shipped_models

SENTENCES = (
    "The dog does not sleep.", "The old dog does not like the cat.", "She has seen the small bird.",
    "This curious man reads a book.", "The cat that sees the dog sleeps.", "A woman sings.",
)  # fmt: skip
PROMPTS = ("The", "The old dog", "She has", "This man", "A cat", "Peter wants")
TURNS = 4
MOST_OPEN = 1000  # requests at the same time in an open loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--rates", type=float, nargs="*", default=[], help="open loop, requests/s")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tokens", type=int, default=64, help="language models: tokens per text")
    parser.add_argument("--trace", metavar="POINT", help="measure what a trace of it costs")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    name = given.model.removeprefix("demo:")
    folder = shipped_models.find(given.model) if given.model.startswith("demo:") else given.model
    model = tl.load(folder).optimized()
    translates = model.task.name == "translate"
    library = alone(model, translates, given.tokens, given.seconds / 2)
    rows = [{"clients": "library, one at a time"} | library]
    with server(folder) as port:
        for count in given.clients:
            if given.trace:
                rows += inspected(port, folder, count, translates, given)
                continue
            rows.append({"clients": count} | load(port, count, translates, given))
            rows[-1]["ratio"] = round(rows[-1]["requests_per_s"] / library["requests_per_s"], 2)
        for rate in given.rates:
            rows.append({"rate": rate} | open_loop(port, rate, translates, given))
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    if given.out:
        about = {"model": name, "seconds": given.seconds, "rows": rows}
        given.out.write_text(json.dumps(about, indent=1) + "\n", "utf-8")


@contextmanager
def server(folder: Any, *options: str) -> Iterator[int]:
    """A running server; its port."""
    serve = [sys.executable, "-m", "translucid", "serve", str(folder), "--port", "0", "--no-log"]
    command = [*serve, "--device", "cpu", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = (re.match(r"serving on .*:(\d+) ", line) for line in process.stdout)
            yield next(int(match[1]) for match in found if match)
        finally:
            process.terminate()


def inspected(
    plain: int, folder: Any, clients: int, translates: bool, given: Any
) -> list[dict[str, Any]]:
    """What traces and edits cost: each kind of request in four turns, the times joined."""
    edit = {"*.embedding.lookup": {"scale": 1}}
    with server(folder, "--allow-trace") as port:
        kinds: dict[str, tuple[int, dict[str, Any]]] = {
            "server without --allow-trace": (plain, {}),
            "server with --allow-trace": (port, {}),
            "trace in each request": (port, {"trace": [given.trace]}),
            "edit in each request": (port, {"edit": edit}),
        }
        made: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        for _ in range(TURNS):
            for kind, (where, more) in kinds.items():
                made[kind].append(
                    load(where, clients, translates, given, more, given.seconds / TURNS)
                )
    return [
        {"clients": clients, "requests": kind}
        | {name: round(statistics.median(one[name] for one in several), 2) for name in several[0]}
        for kind, several in made.items()
    ]


def alone(model: Any, translates: bool, tokens: int, seconds: float) -> dict[str, Any]:
    """The library's requests per second, one text at a time."""
    times: list[float] = []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        at = time.perf_counter()
        number = len(times)
        if translates:
            model.translate([SENTENCES[number % len(SENTENCES)]])
        else:
            model.generate(PROMPTS[number % len(PROMPTS)], max_length=tokens, seed=number)
        times.append(time.perf_counter() - at)
    return summary(times, 0, time.perf_counter() - began)


class Asking:
    """Sends requests, and keeps their times."""

    def __init__(self, port: int, translates: bool, tokens: int, more: Any = None) -> None:
        """tokens: of each text of a language model. more: further fields of each request."""
        self.port, self.translates = port, translates
        self.path = "/translate" if translates else "/v1/completions"
        self.fields: dict[str, Any] = {} if translates else {"max_tokens": tokens}
        if not (translates or more):
            usage = {"include_usage": True}
            self.fields |= {"stream": True, "stream_options": usage}
        self.fields |= more or {}
        self.times: list[float] = []
        self.first: list[float] = []  # times to the first token of streamed texts
        self.tokens = 0
        self._lock = threading.Lock()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def ask(self, connection: http.client.HTTPConnection, number: int, due: float) -> None:
        """Send one request. due: when its time begins."""
        body: dict[str, Any] = {"text": SENTENCES[number % len(SENTENCES)]}
        if not self.translates:
            body = {"prompt": PROMPTS[number % len(PROMPTS)], "seed": number}
        raw = json.dumps(body | self.fields)
        connection.request("POST", self.path, raw, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        head = answer.readline() if "stream" in self.fields else b""
        first = time.perf_counter() - due
        content = head + answer.read()
        assert answer.status == 200, content
        if "stream" in self.fields:
            last, end = content.decode().split("\n\n")[-3:-1]
            assert end == "data: [DONE]"
            values = json.loads(last.removeprefix("data: "))
        else:
            values = json.loads(content)
        made = (
            sum(len(one["texts"][0]["pieces"]) for one in values["results"])
            if self.translates
            else values["usage"]["completion_tokens"]
        )
        with self._lock:
            self.times.append(time.perf_counter() - due)
            self.tokens += made
            if head:
                self.first.append(first)

    def summary(self, seconds: float) -> dict[str, Any]:
        return summary(self.times, self.tokens, seconds, self.first)


def load(
    port: int, clients: int, translates: bool, given: Any, more: Any = None, seconds: float = 0
) -> dict[str, Any]:
    """A closed loop for some time. more: further fields of each request."""
    asking = Asking(port, translates, given.tokens, more)
    began = time.perf_counter()
    until = began + (seconds or given.seconds)

    def client(number: int) -> None:
        with closing(asking.connect()) as connection:
            while (at := time.perf_counter()) < until:
                asking.ask(connection, number, at)
                number += clients

    with ThreadPoolExecutor(clients) as threads:
        for working in [threads.submit(client, number) for number in range(clients)]:
            working.result()
    return asking.summary(time.perf_counter() - began)


def open_loop(port: int, rate: float, translates: bool, given: Any) -> dict[str, Any]:
    """Requests at random times. `late`: the longest time from when one was due until it was sent,
    because this program was busy."""
    asking, dice = Asking(port, translates, given.tokens), random.Random(0)
    late = [0.0]
    began = due = time.perf_counter()

    def send(number: int, due: float) -> None:
        late[0] = max(late[0], time.perf_counter() - due)
        with closing(asking.connect()) as connection:
            asking.ask(connection, number, due)

    with ThreadPoolExecutor(MOST_OPEN) as threads:
        working = []
        while (due := due + dice.expovariate(rate)) - began < given.seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            working.append(threads.submit(send, len(working), due))
        for one in working:
            one.result()
    sent = {"sent": len(working), "late_ms": round(1000 * late[0], 1)}
    return sent | asking.summary(time.perf_counter() - began)


def summary(
    times: list[float], tokens: int, seconds: float, first: Sequence[float] = ()
) -> dict[str, Any]:
    speed = {"tokens_per_s": round(tokens / seconds)} if tokens else {}
    early = {f"first_p{p}_ms": cut for p, cut in cuts(first).items() if p < 99}
    shown = {f"p{p}_ms": cut for p, cut in cuts(times).items()}
    return {"requests_per_s": round(len(times) / seconds, 2)} | speed | early | shown


def cuts(times: Sequence[float]) -> dict[int, float]:
    """Percentiles in milliseconds."""
    if not times:
        return {}
    found = statistics.quantiles(times, n=100) if len(times) > 1 else [times[0]] * 99
    return {p: round(1000 * found[p - 1], 1) for p in (50, 95, 99)}


if __name__ == "__main__":
    main()
