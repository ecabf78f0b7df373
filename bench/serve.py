"""Measure the server: requests and tokens per second, and latency, with 1, 8 and 64 clients.

    python bench/serve.py demo:translate
    python bench/serve.py demo:generate --clients 1 8 64 --seconds 20 --out serve.json

Each client sends its next request when the last is answered (closed loop). The same requests are
answered by the library before, one at a time, in this process: `ratio` compares with that.

    python bench/serve.py demo:translate --trace '*.cross_attention.pattern'

With --trace, a second server runs with --allow-trace, and the clients of both send their requests
in turns: to the first server, to the second, to the second with a trace, and with an edit that
changes nothing (the first point is multiplied by 1).
"""

import argparse
import http.client
import json
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
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


def load(
    port: int, clients: int, translates: bool, given: Any, more: Any = None, seconds: float = 0
) -> dict[str, Any]:
    """Send requests for some time. more: further fields of each."""
    times: list[float] = []
    made = [0]
    lock = threading.Lock()
    until = time.perf_counter() + (seconds or given.seconds)

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        while (at := time.perf_counter()) < until:
            body: dict[str, Any] = {"text": SENTENCES[number % len(SENTENCES)]}
            if not translates:
                body = {
                    "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": given.tokens,
                    "seed": number,
                }  # fmt: skip
            path = "/translate" if translates else "/v1/completions"
            body |= more or {}
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = json.loads(answer.read())
            assert answer.status == 200, content
            count = (
                sum(len(one["texts"][0]["pieces"]) for one in content["results"])
                if translates
                else content["usage"]["completion_tokens"]
            )
            with lock:
                times.append(time.perf_counter() - at)
                made[0] += count
            number += clients
        connection.close()

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return summary(times, made[0], time.perf_counter() - began)


def summary(times: list[float], tokens: int, seconds: float) -> dict[str, Any]:
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else [times[0]] * 99
    shown = {f"p{p}_ms": round(1000 * cuts[p - 1], 1) for p in (50, 95, 99)}
    speed = {"tokens_per_s": round(tokens / seconds)} if tokens else {}
    return {"requests_per_s": round(len(times) / seconds, 2)} | speed | shown


if __name__ == "__main__":
    main()
