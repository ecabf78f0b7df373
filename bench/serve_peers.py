"""Compare `translucid serve` with CTranslate2 behind an HTTP server with batching of its own.

    python bench/serve_peers.py --clients 1 8 64 --seconds 20 --out serve_peers.json

Both serve the same files: an encoder-decoder Transformer of the base size with random weights, as
CTranslate2 stores it. CTranslate2 runs behind the same web server (Starlette and uvicorn): its
server collects the texts that wait, at most 64 rows, and translates them in one call. Every text
has 24 words, and every translation 32 tokens. In a closed loop, each client sends its next request
when the last is answered; in an open loop, requests arrive at random times at a given rate.
`library` is the library's own call, one text at a time. Needs the packages of the extra `bench`.
"""

import argparse
import asyncio
import http.client
import json
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from peers import THREADS, marian

ROWS = 64  # texts or beams in one batch, in both servers
GIVEN, TOKENS = 24, 32
VOCAB, D_MODEL, LAYERS, HEADS, D_FF = 8_000, 512, 6, 8, 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--rates", type=float, nargs="*", default=[], help="open loop, requests/s")
    parser.add_argument("--precisions", nargs="+", default=["float32", "int8"])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)  # the peer's server
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        serve_peer(given.peer, given.precision)
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        for precision in given.precisions:
            folder = Path(made) / precision
            convert(folder, precision)
            for beams in given.beams:
                for row in compare(folder, precision, beams, given):
                    rows.append({"precision": precision, "beams": beams} | row)
                    print(
                        "  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True
                    )
    if given.out:
        versions = {name: version(name) for name in ("torch", "ctranslate2", "uvicorn")}
        about = {
            "machine": f"{platform.machine()}, {THREADS} cores", "versions": versions,
            "seconds": given.seconds, "rows": rows,
        }  # fmt: skip
        given.out.write_text(json.dumps(about, indent=1) + "\n", "utf-8")


class Words:
    """The part of a tokenizer's interface that the conversion uses."""

    eos_token, unk_token = "</s>", "<unk>"

    def get_vocab(self) -> dict[str, int]:
        special = {"<s>": 0, self.eos_token: 1, self.unk_token: 2, "<pad>": VOCAB - 1}
        return special | {str(word): word for word in range(3, VOCAB - 1)}


def convert(folder: Path, precision: str) -> None:
    """Write the model as CTranslate2 stores it. Weights are float32; int8 is chosen at loading."""
    from ctranslate2.converters.transformers import MarianMTLoader

    model = marian(VOCAB, D_MODEL, LAYERS, HEADS, D_FF, torch.float32, "cpu")
    with torch.no_grad():
        spec = MarianMTLoader()(model, Words())
        spec.decoder.start_from_zero_embedding = False  # the embedding of the start token instead
        spec.validate()
        spec.optimize(quantization="float32")
        folder.mkdir()
        spec.save(str(folder))


def compare(folder: Path, precision: str, beams: int, given: Any) -> Iterator[dict[str, Any]]:
    ours = [sys.executable, "-m", "translucid", "serve", str(folder), "--port", "0", "--no-log",
            "--rows", str(ROWS), "--device", "cpu", "--precision", precision]  # fmt: skip
    peer = [sys.executable, __file__, "--peer", str(folder), "--precision", precision]
    yield {"server": "library, one at a time"} | library(folder, precision, beams, given.seconds)
    with started(ours) as our_port, started(peer) as peer_port:
        ports = {"translucid": our_port, "ctranslate2": peer_port}
        texts = list(islice(sources(), 8))
        answers = {name: [post(port, body(text, beams)) for text in texts]
                   for name, port in ports.items()}  # fmt: skip
        same = sum(a == b for a, b in zip(*answers.values(), strict=True))
        yield {"server": "both", "equal_answers": f"{same} of {len(texts)}"}
        for clients in given.clients:
            for name, port in ports.items():
                yield {"server": name, "clients": clients} | closed_loop(
                    port, clients, beams, given.seconds
                )
        for rate in given.rates:
            for name, port in ports.items():
                yield {"server": name, "rate": rate} | open_loop(port, rate, beams, given.seconds)


def sources(seed: int = 0) -> Iterator[str]:
    """Yield texts forever."""
    dice = random.Random(seed)
    while True:
        yield " ".join(str(dice.randrange(3, VOCAB - 1)) for _ in range(GIVEN))


def body(text: str, beams: int) -> bytes:
    values = {"text": text, "beam_size": beams, "min_length": TOKENS - 1, "max_length": TOKENS}
    return json.dumps(values).encode()


def library(folder: Path, precision: str, beams: int, seconds: float) -> dict[str, Any]:
    """The library's own requests per second, one text at a time."""
    import translucid as tl

    model = tl.load(folder).optimized(precision)
    settings = {"beam_size": beams, "min_length": TOKENS - 1, "max_length": TOKENS}
    model.decode([next(sources())], **settings)  # warms up
    times: list[float] = []
    began = time.perf_counter()
    for text in sources():
        at = time.perf_counter()
        if at - began > seconds:
            break
        model.decode([text], **settings)
        times.append(time.perf_counter() - at)
    return summary(times, time.perf_counter() - began)


@contextmanager
def started(command: list[str]) -> Iterator[int]:
    """A server; yields its port."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(int(m[1]) for line in process.stdout
                       if (m := re.match(r"serving on .*:(\d+)", line)))  # fmt: skip
        finally:
            process.terminate()


def post(port: int, content: bytes, connection: http.client.HTTPConnection | None = None) -> str:
    own = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    own.request("POST", "/translate", content, {"Content-Type": "application/json"})
    answer = own.getresponse()
    values = json.loads(answer.read())
    assert answer.status == 200, values
    text: str = values["results"][0]["texts"][0]["text"]
    return text


def closed_loop(port: int, clients: int, beams: int, seconds: float) -> dict[str, Any]:
    times: list[float] = []
    lock = threading.Lock()
    began = time.perf_counter()

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        for text in sources(number):
            at = time.perf_counter()
            if at - began > seconds:
                break
            post(port, body(text, beams), connection)
            with lock:
                times.append(time.perf_counter() - at)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return summary(times, time.perf_counter() - began)


def open_loop(port: int, rate: float, beams: int, seconds: float) -> dict[str, Any]:
    """Requests at random times; the time of each counts from when it should have been sent."""
    dice, times = random.Random(0), []
    threads: list[threading.Thread] = []
    began = at = time.perf_counter()

    def send(text: str, due: float) -> None:
        post(port, body(text, beams))
        times.append(time.perf_counter() - due)

    for text in sources():
        at += dice.expovariate(rate)
        if at - began > seconds:
            break
        time.sleep(max(0.0, at - time.perf_counter()))
        threads.append(threading.Thread(target=send, args=(text, at)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return summary(times, time.perf_counter() - began)


def summary(times: list[float], seconds: float) -> dict[str, Any]:
    cuts = statistics.quantiles(times, n=100)
    shown = {f"p{p}_ms": round(1000 * cuts[p - 1], 1) for p in (50, 95, 99)}
    rate = len(times) / seconds
    return {"requests_per_s": round(rate, 2), "tokens_per_s": round(rate * TOKENS)} | shown


# The peer's server


def serve_peer(folder: Path, precision: str) -> None:
    import uvicorn
    from ctranslate2 import Translator
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    translator = Translator(
        str(folder), device="cpu", compute_type=precision, inter_threads=1, intra_threads=THREADS
    )
    waiting: list[tuple[dict[str, Any], asyncio.Future[list[str]]]] = []
    wake = asyncio.Event()

    def translated(bodies: list[dict[str, Any]]) -> list[list[str]]:
        found = translator.translate_batch(
            [one["text"].split() for one in bodies],
            beam_size=bodies[0]["beam_size"], max_batch_size=0, return_scores=True,
            min_decoding_length=TOKENS, max_decoding_length=TOKENS,
        )  # fmt: skip
        return [one.hypotheses[0] for one in found]

    async def work() -> None:
        while True:
            await wake.wait()
            most = ROWS // waiting[0][0]["beam_size"]
            batch, waiting[:] = waiting[:most], waiting[most:]
            if not waiting:
                wake.clear()
            texts = await asyncio.to_thread(translated, [one for one, _ in batch])
            for (_, answer), text in zip(batch, texts, strict=True):
                answer.set_result(text)

    async def translate(request: Request) -> JSONResponse:
        answer: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        waiting.append((await request.json(), answer))
        wake.set()
        return JSONResponse({"results": [{"texts": [{"text": " ".join(await answer)}]}]})

    async def run() -> None:
        app = Starlette(routes=[Route("/translate", translate, methods=["POST"])])
        config = uvicorn.Config(app, port=0, log_level="warning", access_log=False)
        server = uvicorn.Server(config)
        worker = asyncio.create_task(work())
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        print(f"serving on 127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
        await serving
        worker.cancel()

    asyncio.run(run())


if __name__ == "__main__":
    main()
