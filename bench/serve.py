"""Measure the server: requests and tokens per second, and latency, with 1, 8 and 64 clients.

    python bench/serve.py demo:translate
    python bench/serve.py demo:generate --clients 1 8 64 --seconds 20 --out serve.json

Each client sends its next request when the last is answered (closed loop). The same requests are
answered by the library before, one at a time, in this process: `ratio` compares with that.
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
from pathlib import Path
from typing import Any

import translucid as tl
from translucid.data import shipped_models

SENTENCES = (
    "The dog does not sleep.", "The old dog does not like the cat.", "She has seen the small bird.",
    "This curious man reads a book.", "The cat that sees the dog sleeps.", "A woman sings.",
)  # fmt: skip
PROMPTS = ("The", "The old dog", "She has", "This man", "A cat", "Peter wants")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tokens", type=int, default=64, help="language models: tokens per text")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    name = given.model.removeprefix("demo:")
    folder = shipped_models.find(given.model) if given.model.startswith("demo:") else given.model
    model = tl.load(folder).optimized()
    translates = model.task.name == "translate"
    library = alone(model, translates, given.tokens, given.seconds / 2)
    rows = [{"clients": "library, one at a time"} | library]
    serve = [sys.executable, "-m", "translucid", "serve", str(folder)]
    options = ["--port", "0", "--no-log", "--device", "cpu"]
    with subprocess.Popen([*serve, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = next(
                int(m[1])
                for line in process.stdout
                if (m := re.match(r"serving on .*:(\d+) ", line))
            )
            for count in given.clients:
                rows.append({"clients": count} | load(port, count, translates, given))
                rows[-1]["ratio"] = round(rows[-1]["requests_per_s"] / library["requests_per_s"], 2)
        finally:
            process.terminate()
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    if given.out:
        about = {"model": name, "seconds": given.seconds, "rows": rows}
        given.out.write_text(json.dumps(about, indent=1) + "\n", "utf-8")


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


def load(port: int, clients: int, translates: bool, given: Any) -> dict[str, Any]:
    times: list[float] = []
    made = [0]
    lock = threading.Lock()
    until = time.perf_counter() + given.seconds

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
