"""Compare Translucid with transformers in opening models of other tools and decoding with them.

    python bench/interop.py --out bench/results/interop-DATE.json [--gb 1.0] [--only memory]
    python bench/interop.py --load FOLDER

memory   opens a random Llama of this many gigabytes (float32, one safetensors file; then four
         shards; then bfloat16, which becomes float32) and reports seconds until the libraries are
         imported, until the model is open, and until it has read eight tokens (parts of an open
         model may still be on disk); the wall-clock time of the whole process; and the peak of
         resident memory above that of the libraries
decode   decodes greedily with a random GPT-2 of the smallest size, saved by transformers and opened
         by Translucid, and with a network of Translucid with the same weights that was never
         imported; reports tokens per second, and whether all texts are equal
load     opens a folder of a language model in Hugging Face's layout with its tokenizer, in float32:
         `tl.load`, compared with AutoTokenizer and AutoModelForCausalLM, whose modules are imported
         before
trace    traces 2,048 tokens in a random model of SmolLM2's size: one layer; then all trace points,
         which exceeds the memory budget and is rejected; reports seconds and peak memory

Each is measured in separate processes, in turn, so that other load on the machine affects all
alike. The best round by processor time counts (one thread); for opening a model, all rounds are
stored. Needs the package transformers.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

ROUNDS = 5
PROMPT, TOKENS = 16, 64
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32_000,
         "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16,
         "num_key_value_heads": 16, "rms_norm_eps": 1e-5, "max_position_embeddings": 2048,
         "tie_word_embeddings": False, "torch_dtype": "float32"}  # fmt: skip


def peak() -> int:
    """The largest resident memory that this process has used, in bytes (Linux only)."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def write_llama(folder: Path, gigabytes: float, shards: int, dtype: str = "float32") -> None:
    """Write a Llama model with random weights, with as many layers as this size requires."""
    import torch
    from safetensors.torch import save_file

    d, d_ff, vocab = (int(LLAMA[k]) for k in ("hidden_size", "intermediate_size", "vocab_size"))  # type: ignore[call-overload]
    layers = round((gigabytes * 1e9 / 4 - 2 * vocab * d) / (4 * d * d + 3 * d * d_ff))
    shapes = {"model.embed_tokens.weight": (vocab, d), "lm_head.weight": (vocab, d),
              "model.norm.weight": (d,)}  # fmt: skip
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {f"{prefix}self_attn.{n}_proj.weight": (d, d) for n in "qkvo"}
        shapes |= {f"{prefix}mlp.{n}_proj.weight": (d_ff, d) for n in ("gate", "up")}
        shapes |= {f"{prefix}mlp.down_proj.weight": (d, d_ff)}
        shapes |= {f"{prefix}{n}_layernorm.weight": (d,) for n in ("input", "post_attention")}
    names, weight_map = list(shapes), {}
    for shard in range(shards):
        mine = names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        file = (
            "model.safetensors"
            if shards == 1
            else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        )
        weight_map |= dict.fromkeys(mine, file)
        kind = getattr(torch, dtype)
        tensors = {name: torch.empty(shapes[name]).normal_(0, 0.02).to(kind) for name in mine}
        save_file(tensors, folder / file, metadata={"format": "pt"})
    if shards > 1:
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(LLAMA | {"num_hidden_layers": layers}))


def write_gpt2(folder: Path) -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(eos_token_id=1, bos_token_id=1, pad_token_id=0)
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():  # so that the generated tokens differ
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.08)
    model.save_pretrained(folder)


# These functions each run in their own process and print one JSON object.


def started() -> float:
    """The time at which this process started, in seconds since 1970."""
    ticks = int(Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19])
    boot = next(
        line for line in Path("/proc/stat").read_text("utf-8").splitlines() if "btime" in line
    )
    return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def opened(load: Callable[[], Any], read: Callable[[Any, Any], Any]) -> dict[str, Any]:
    import torch

    before, began, wall = peak(), time.process_time(), time.perf_counter()
    model = load()
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    with torch.inference_mode():
        read(model, torch.arange(8)[None])
    return {"imports": began, "open": seconds, "wall": wall,
            "first logits": time.process_time() - began,
            "clock": time.time() - started(), "peak": peak() - before,
            "model": sum(4 * parameter.numel() for parameter in model.parameters())}  # fmt: skip


def open_ours(folder: Path) -> dict[str, Any]:
    from translucid.interop.importing import open_network

    return opened(lambda: open_network(folder).network, lambda model, ids: model(ids))


def open_transformers(folder: Path) -> dict[str, Any]:
    import torch
    from transformers import LlamaForCausalLM

    return opened(
        lambda: LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32),
        lambda model, ids: model(input_ids=ids).logits,
    )


def load_ours(folder: Path) -> dict[str, Any]:
    import translucid as tl
    import translucid.model.model  # otherwise `tl.load` would import it when called

    return opened(lambda: tl.load(folder).network, lambda model, ids: model(ids))


def load_transformers(folder: Path) -> dict[str, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(folder)
    AutoModelForCausalLM._model_mapping[type(AutoConfig.from_pretrained(folder))]

    def load() -> Any:
        AutoTokenizer.from_pretrained(folder)
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    return opened(load, lambda model, ids: model(input_ids=ids).logits)


def prompt() -> list[int]:
    return [(7919 * i) % 50_000 + 2 for i in range(PROMPT)]


def decode_ours(folder: Path, native: bool = False) -> dict[str, Any]:
    from translucid.fast.decode_graphs import DecodeGraphs
    from translucid.fast.precision import prepare
    from translucid.generate.beam_search import GenerationConfig
    from translucid.generate.decode import find
    from translucid.interop.importing import open_network
    from translucid.models import build

    network: Any = open_network(folder).network
    if native:
        weights = network.state_dict()
        network = build(network.config).eval()
        network.load_state_dict(weights)
    network = prepare(network, "float32")
    config = GenerationConfig(beam_size=1, min_length=TOKENS, max_length=TOKENS + 1)
    graphs = DecodeGraphs()

    def run(most: GenerationConfig = config) -> list[int]:
        ((best,),) = find(network, [prompt()], None, most, eos=1, pad=0, graphs=graphs)
        return list(best.tokens)[:TOKENS]

    run(GenerationConfig(beam_size=1, min_length=4, max_length=5))
    began = time.process_time()
    tokens = run()
    return {"tokens_per_s": (TOKENS + 1) / (time.process_time() - began), "tokens": tokens}


def decode_native(folder: Path) -> dict[str, Any]:
    return decode_ours(folder, native=True)


def decode_transformers(folder: Path) -> dict[str, Any]:
    import torch
    from transformers import GPT2LMHeadModel

    model: Any = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([prompt()])

    def run(count: int = TOKENS) -> list[int]:
        written = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, min_new_tokens=count,
            max_new_tokens=count,
        )  # fmt: skip
        tokens: list[int] = written[0, PROMPT:].tolist()
        return tokens

    run(4)
    began = time.process_time()
    tokens = run()
    return {"tokens_per_s": TOKENS / (time.process_time() - began), "tokens": tokens}


def trace_layer(folder: Path, keep: str = "decoder.layers.3.*") -> dict[str, Any]:
    import torch

    from translucid.core.errors import TraceBudgetError
    from translucid.core.trace import Trace
    from translucid.models import TransformerConfig, build

    network = build(
        TransformerConfig(
            shape="decoder", head="language", vocab=49_152, d_model=576, heads=9, kv_heads=3,
            layers=30, d_ff=1536, activation="swiglu", norm="rms", positions="rotary", tied=True,
            bias=False,
        )
    ).eval()  # fmt: skip
    ids = torch.arange(2048)[None]
    before, began = peak(), time.process_time()
    trace, refused = Trace(keep), ""
    try:
        with torch.inference_mode():
            network(ids, trace=trace)
    except TraceBudgetError as error:
        refused = str(error)
    return {"seconds": time.process_time() - began, "peak": peak() - before, "kept": trace.bytes,
            "refused": refused}  # fmt: skip


def trace_all(folder: Path) -> dict[str, Any]:
    return trace_layer(folder, "*")


JOBS = {f.__name__: f for f in (open_ours, open_transformers, load_ours, load_transformers,
                                decode_ours, decode_native, decode_transformers, trace_layer,
                                trace_all)}  # fmt: skip


def alone(job: str, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--job", job, str(folder)], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{job}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def in_turn(jobs: list[str], folder: Path) -> dict[str, list[dict[str, Any]]]:
    rounds: dict[str, list[dict[str, Any]]] = {job: [] for job in jobs}
    for _ in range(ROUNDS):
        for job in jobs:
            rounds[job].append(alone(job, folder))
    return rounds


def loaded(folder: Path) -> dict[str, Any]:
    """The median, best and worst of all rounds."""
    return {
        job: {
            key: [f(r[key] for r in done) for f in (median, min, max)]
            for key in ("imports", "open", "wall", "first logits", "clock", "peak")
        }
        for job, done in in_turn(["load_ours", "load_transformers"], folder).items()
    }


def measure(only: str | None, gigabytes: float) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as place:
        if only in (None, "memory"):
            for name, shards, dtype in (("one file", 1, "float32"), ("four shards", 4, "float32"),
                                        ("bfloat16", 1, "bfloat16")):  # fmt: skip
                folder = Path(place) / name
                folder.mkdir()
                write_llama(folder, gigabytes, shards, dtype)
                rounds = in_turn(["open_ours", "open_transformers"], folder)
                results[f"memory, {name}"] = {
                    job: {key: min(r[key] for r in done) for key in done[0]}
                    | {"rounds": [round(r["first logits"], 3) for r in done]}
                    for job, done in rounds.items()
                }
                for file in folder.iterdir():
                    file.unlink()
        if only in (None, "decode"):
            folder = Path(place) / "gpt2"
            write_gpt2(folder)
            rounds = in_turn(["decode_ours", "decode_native", "decode_transformers"], folder)
            written = [done[0]["tokens"] for done in rounds.values()]
            same = all(tokens == written[0] for tokens in written)
            best = {job: max(r["tokens_per_s"] for r in done) for job, done in rounds.items()}
            results["decode"] = best | {"same tokens": same}
        if only in (None, "trace"):
            for job in ("trace_layer", "trace_all"):
                results[job] = alone(job, Path(place))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--only", choices=["memory", "decode", "trace"])
    parser.add_argument("--load", type=Path, metavar="FOLDER")
    parser.add_argument("--job", nargs=2)
    options = parser.parse_args()
    if options.job:
        job, folder = options.job
        print(json.dumps(JOBS[job](Path(folder))))
        return
    report = {
        "when": date.today().isoformat(), "device": platform.machine(), "threads": 1,
        "packages": {name: version(name) for name in ("torch", "transformers")},
        "results": loaded(options.load) if options.load else measure(options.only, options.gb),
    }  # fmt: skip
    text = json.dumps(report, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
