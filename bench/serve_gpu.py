"""Measure `translucid serve` on a GPU, beside the library's own batch and transformers.

    python bench/serve_gpu.py --out serve-gpu.json

The model is a GPT-2 of the smallest size with random weights, in bfloat16, and every text is
continued by the same number of tokens. In a closed loop, each client sends its next request when
the last is answered. `batch` is the library's own call with as many texts at once, and
`transformers` its continuous batching, which gets all texts at once, two for each client.
"""

import argparse
import http.client
import json
import multiprocessing
import random
import statistics
import tempfile
import threading
import time
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from serve import server

VOCAB, D_MODEL, LAYERS, HEADS, D_FF = 50_257, 768, 12, 12, 3072
SMALL = (600, 64, 2, 2, 256)  # for a trial without a GPU


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--given", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=256, help="tokens to generate")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0, 1])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--skip", nargs="*", default=[], choices=("batch", "stream", "peer"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def keep(**row: Any) -> None:
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        if given.out:
            import torch

            about = {"machine": machine(given.device), "torch": torch.__version__,
                     "transformers": version("transformers"), "given": given.given,
                     "tokens": given.tokens, "seconds": given.seconds, "rows": rows}  # fmt: skip
            given.out.write_text(json.dumps(about, indent=1) + "\n", "utf-8")

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "gpt2"
        write(folder, given.device)
        if "batch" not in given.skip:
            for clients in given.clients:
                rate = in_a_process(batch, folder, given, clients)
                keep(what="batch", clients=clients, tokens_per_s=rate)
        precision = "bfloat16" if given.device == "cuda" else "float32"
        options = ("--device", given.device, "--precision", precision, "--rows", "64")
        with server(folder, *options) as port:
            for temperature, clients in product(given.temperatures, given.clients):
                load(port, clients, temperature, given, 3, stream=False)  # captures graphs
                made = load(port, clients, temperature, given, given.seconds, stream=False)
                keep(what="server", clients=clients, temperature=temperature, **made)
            for clients in given.clients * ("stream" not in given.skip):
                keep(what="server, streamed", clients=clients, temperature=0,
                     **load(port, clients, 0, given, given.seconds, stream=True))  # fmt: skip
        if "peer" not in given.skip:
            most = max(given.clients)
            rate = in_a_process(peer, folder, given, most)
            keep(what="transformers", clients=most, tokens_per_s=rate)


def machine(device: str) -> str:
    import torch  # not above: the clients' processes start faster without it

    return torch.cuda.get_device_name() if device == "cuda" else "CPU"


def write(folder: Path, device: str) -> None:
    """The model, with a tokenizer of bytes and pairs of bytes."""
    import torch
    from peers import gpt2
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    sizes = (VOCAB, D_MODEL, LAYERS, HEADS, D_FF) if device == "cuda" else SMALL
    model = gpt2(*sizes, torch.float32, "cpu")
    with torch.no_grad():
        for parameter in model.parameters():  # so that the generated tokens differ
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.08)
    model.save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words, merges = letters[:], []
    for one, two in product(letters, letters):
        if len(words) == sizes[0] - 1:
            break
        merges.append((one, two))
        words.append(one + two)
    words.append("<|endoftext|>")
    tokenizer = Tokenizer(models.BPE({word: at for at, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["bos_token_id"] = config["eos_token_id"] = len(words) - 1
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "generation_config.json").unlink(missing_ok=True)
    special = {"tokenizer_class": "GPT2TokenizerFast", "eos_token": "<|endoftext|>",
               "bos_token": "<|endoftext|>"}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(special), "utf-8")


def in_a_process(act: Any, folder: Path, given: Any, clients: int) -> float:
    """Call a function in a process of its own, so that it leaves nothing on the GPU."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return round(pool.apply(act, (folder, given, clients)), 1)


def prompts(given: Any, seed: int = 0) -> Any:
    """Yield prompts forever."""
    dice = random.Random(seed)
    while True:
        yield [dice.randrange(3, 500) for _ in range(given.given)]


def batch(folder: Path, given: Any, clients: int) -> float:
    """Tokens per second of the library, with all texts in one call."""
    import translucid as tl
    from translucid.generate.decode import find

    device = given.device
    model = tl.load(folder, device).optimized("bfloat16" if device == "cuda" else "float32")
    generator, dice = model.text_generator, prompts(given)
    config = generator.generation_config(
        beam_size=1, min_length=given.tokens - 1, max_length=given.tokens, early_stopping=None
    )

    def once() -> float:
        texts = [next(dice) for _ in range(clients)]
        began = time.perf_counter()
        find(generator.model, texts, None, config, eos=generator.tokenizer.eos_id,
             pad=generator.tokenizer.pad_id, graphs=generator.graphs)  # fmt: skip
        return clients * given.tokens / (time.perf_counter() - began)

    once()
    return max(once() for _ in range(5))


def peer(folder: Path, given: Any, clients: int) -> float:
    """Tokens per second of transformers' continuous batching, two texts per client."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    dtype = torch.bfloat16 if given.device == "cuda" else torch.float32
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(given.device).eval()
    try:
        model.set_attn_implementation("paged|sdpa")
    except (ImportError, ValueError):
        model.set_attn_implementation("sdpa_paged")
    config = GenerationConfig(
        max_new_tokens=given.tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    dice, best = prompts(given), 0.0
    for _ in range(2):
        texts = [next(dice) for _ in range(2 * clients)]
        began = time.perf_counter()
        found = model.generate_batch(inputs=texts, generation_config=config)
        seconds = time.perf_counter() - began
        best = max(best, sum(len(one.generated_tokens) for one in found.values()) / seconds)
    return best


def load(
    port: int, clients: int, temperature: float, given: Any, seconds: float, *, stream: bool
) -> dict[str, Any]:
    """Send requests for some time, from processes of their own."""
    workers = min(clients, 8)
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        shares = [clients // workers + (n < clients % workers) for n in range(workers)]
        pool.map(abs, range(workers))  # started
        began = time.time() + 0.5
        jobs = [(port, share, n, temperature, given, began, seconds, stream)
                for n, share in enumerate(shares)]  # fmt: skip
        several = pool.starmap(sent, jobs)
    answers = [one for part in several for one in part]
    times = [took for took, _, _ in answers]
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
    # Requests that ended after the time count only in part.
    made = sum(count * min(1.0, inside) for _, count, inside in answers)
    return {"requests": len(times), "tokens_per_s": round(made / seconds)} | {
        f"p{p}_ms": round(1000 * cuts[p - 1], 1) for p in (50, 95, 99)
    }


def sent(
    port: int, clients: int, number: int, temperature: float, given: Any, began: float,
    seconds: float, stream: bool,
) -> list[tuple[float, int, float]]:  # fmt: skip
    """The requests of some clients: seconds, generated tokens, and the share of the request that
    was within the time."""
    answers: list[tuple[float, int, float]] = []
    until = began + seconds

    def client(at: int) -> None:
        dice = prompts(given, 1000 * number + at)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        time.sleep(max(0.0, began - time.time()))
        while (start := time.time()) < until:
            body = {"prompt": next(dice), "max_tokens": given.tokens, "temperature": temperature,
                    "ignore_eos": True, "stream": stream}  # fmt: skip
            if stream:
                body["stream_options"] = {"include_usage": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})  # fmt: skip
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            if stream:
                content = content.split(b"\n\n")[-3].removeprefix(b"data: ")
            count = json.loads(content)["usage"]["completion_tokens"]
            end = time.time()
            answers.append((end - start, count, (until - start) / (end - start)))
        connection.close()

    threads = [threading.Thread(target=client, args=(at,)) for at in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


if __name__ == "__main__":
    main()
