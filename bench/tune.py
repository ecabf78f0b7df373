"""Measure fine-tuning on the data sets of docs/explanation/results.md.

    python bench/tune.py --data FOLDER --minilm FOLDER --out scores.json
    python bench/tune.py --data FOLDER --only adapt --out scores.json
    python bench/tune.py --data FOLDER --smollm2 FILE.gguf --only lora --out scores.json
    python bench/tune.py --data FOLDER --minilm FOLDER --only sentences --out scores.json

The FOLDER of --data contains the data sets by name (sst2, trec, ewt-pos, uner-ewt, multi30k,
tatoeba-de-en, tinyshakespeare). For labels and tags, each of --rates is tried with the first seed;
the rate with the best validation score is used for the other seeds, and all models with this rate
are scored on the test data. So every choice is made on validation data. Scores are written after
every run. Use a small --steps to check that the script works.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import translucid as tl

LABELS: dict[str, tuple[str, str, float, dict[str, Any]]] = {
    # name: task, metric, target score, options
    "sst2": ("classify", "accuracy", 0.88, {"batch_tokens": 1024, "epochs": 5}),
    "trec": ("classify", "accuracy", 0.95, {"batch_tokens": 512, "epochs": 8}),
    "ewt-pos": ("tag", "accuracy", 0.0, {"batch_tokens": 1024, "epochs": 5}),
    "uner-ewt": (
        "tag", "span_f1", 0.75,
        {"batch_tokens": 1024, "epochs": 5, "model": {"characters": 64}},
    ),
}  # fmt: skip
SUFFIX = {"classify": "tsv", "tag": "conll"}
TOKENS = {"sst2": 175_000, "trec": 75_000, "ewt-pos": 270_000, "uner-ewt": 270_000}  # in train
MINUTES = 3.0


class Scores:
    """All scores so far, written to disk after every run."""

    def __init__(self, path: Path) -> None:
        self.path, self.runs = path, list[dict[str, Any]]()
        self.summaries: dict[str, Any] = {}

    def add(self, **run: Any) -> None:
        self.runs.append(run)
        print(json.dumps(run), flush=True)
        self.write()

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"summary": self.summaries, "runs": self.runs}, indent=1))


def schedule(steps: int) -> dict[str, Any]:
    return {
        "steps": steps, "warmup": steps // 10, "evaluate_every": max(steps // 6, 1),
        "minutes": MINUTES, "schedule": "linear", "log_every": max(steps // 10, 1), "quiet": True,
    }  # fmt: skip


def half(options: argparse.Namespace) -> dict[str, Any]:
    return {"precision": "bfloat16"} if options.device.startswith("cuda") else {}


def label(name: str, options: argparse.Namespace, scores: Scores) -> None:
    task, metric, wanted, chosen = LABELS[name]
    data, suffix = Path(options.data, name), SUFFIX[task]
    files = {part: str(data / f"{part}.{suffix}") for part in ("train", "valid", "test")}
    batch = chosen["batch_tokens"]
    steps = options.steps or int(chosen["epochs"] * 1.2 * TOKENS[name] / batch)

    def train(rate: float, seed: int) -> tuple[float, tl.Model]:
        out = Path(options.runs, name, f"{rate:g}-{seed}")
        began = time.monotonic()
        model = tl.train(
            task, out, train=files["train"], valid=files["valid"], start_from=options.minilm,
            learning_rate=rate, learning_rates={"head": 5.0}, layer_decay=0.9, seed=seed,
            batch_tokens=batch, device=options.device, model=chosen.get("model", {}),
            **schedule(steps), **half(options),
        )  # fmt: skip
        score = model.facts["valid"][metric]
        seconds = time.monotonic() - began
        scores.add(job=name, rate=rate, seed=seed, steps=steps, valid=score, seconds=seconds)
        return score, model

    first, *others = options.seeds
    tried = {rate: train(rate, first) for rate in options.rates}
    best = max(tried, key=lambda rate: tried[rate][0])
    models = {first: tried[best][1]} | {seed: train(best, seed)[1] for seed in others}
    tests = {s: model.evaluate(files["test"]).numbers[metric] for s, model in models.items()}
    summary = {"metric": metric, "rate": best, "test": tests, "wanted": wanted}
    summary["mean"] = statistics.fmean(tests.values())
    scores.summaries[name] = summary
    scores.add(job=name, **summary)


TRANSLATOR: dict[str, Any] = {
    "model": {
        "d_model": 256, "heads": 4, "layers": 3, "d_ff": 1024, "dropout": 0.3,
        "positions": "rotary",
    },
    "tokenizer": {"vocab_size": 8000},
}  # fmt: skip
SIDES = ("de", "en")


def adapt(options: argparse.Namespace, scores: Scores) -> None:
    """Train on Multi30k, then on Tatoeba, then on Multi30k again: the scores after each step, and
    how much is forgotten."""
    sets = {name: Path(options.data, name) for name in ("multi30k", "tatoeba-de-en")}
    stages = (("multi30k", 4000, 2e-3), ("tatoeba-de-en", 2000, 5e-4), ("multi30k", 1000, 5e-4))
    for seed in options.seeds:
        source: Path | None = None
        for place, (name, steps, rate) in enumerate(stages):
            out, began = Path(options.runs, f"adapt-{seed}-{place}"), time.monotonic()
            files = {
                part: [str(sets[name] / f"{part}.{side}") for side in SIDES]
                for part in ("train", "valid")
            }
            model = tl.train(
                "translate", out, **files, start_from=source, learning_rate=rate, seed=seed,
                batch_tokens=12000, ema=0.999, label_smoothing=0.1, device=options.device,
                **({} if source else TRANSLATOR), **schedule(options.steps or steps),
                **half(options),
            )  # fmt: skip
            seconds = time.monotonic() - began
            bleu = {}
            for other, folder in sets.items():
                test = [str(folder / f"test.{side}") for side in SIDES]
                bleu[other] = model.evaluate(*test).numbers["bleu"]
            scores.add(job="adapt", seed=seed, place=place, on=name, bleu=bleu, seconds=seconds)
            source = out


def lora(options: argparse.Namespace, scores: Scores) -> None:
    """Fine-tune a language model of another tool on Shakespeare with adapters: its loss before and
    after."""
    folder = Path(options.data, "tinyshakespeare")
    files = {part: str(folder / f"{part}.txt") for part in ("train", "valid", "test")}
    reading: dict[str, Any] = {"unit": "file", "max_length": 256}
    before = tl.load(options.smollm2, device=options.device)
    held_out = ("valid", "test")
    losses = {part: before.evaluate(files[part], **reading).numbers["loss"] for part in held_out}
    scores.add(job="lora", trained=False, loss=losses)
    steps = options.steps or 240
    for seed in options.seeds:
        began = time.monotonic()
        model = tl.train(
            "language", Path(options.runs, f"lora-{seed}"), train=files["train"],
            valid=files["valid"], start_from=options.smollm2, data=reading, seed=seed,
            model={"lora_rank": 16, "lora_alpha": 32.0, "lora_where": ["*"], "lora_dropout": 0.1,
                   "dropout": 0.0},
            learning_rate=5e-4, batch_tokens=options.batch_tokens, device=options.device,
            **schedule(steps), **half(options),
        )  # fmt: skip
        seconds = time.monotonic() - began
        after = {part: model.evaluate(files[part]).numbers["loss"] for part in held_out}
        scores.add(job="lora", trained=True, seed=seed, steps=steps, loss=after, seconds=seconds)


def sentences(options: argparse.Namespace, scores: Scores) -> None:
    """Find the German translation of an English sentence with sentence embeddings: an English
    sentence encoder before and after tuning on pairs of Multi30k, and one that starts with random
    weights; also on Tatoeba, on which neither was trained."""
    sets = ("multi30k", "tatoeba-de-en")

    def files(name: str, part: str) -> list[str]:
        return [str(Path(options.data, name, f"{part}.{side}")) for side in ("en", "de")]

    def tested(model: tl.Model) -> dict[str, dict[str, float]]:
        return {name: model.evaluate(*files(name, "test")).numbers for name in sets}

    scores.add(job="sentences", trained=False, test=tested(tl.load(options.minilm)))
    steps = options.steps or 1500
    ways: dict[str, dict[str, Any]] = {
        "tuned": {"start_from": options.minilm, "learning_rate": 2e-4},
        "scratch": {
            "learning_rate": 1e-3, "tokenizer": {"vocab_size": 8000},
            "model": {"d_model": 384, "heads": 6, "layers": 3, "dropout": 0.2,
                      "positions": "rotary"},
        },
    }  # fmt: skip
    for way, chosen in ways.items():
        for seed in options.seeds:
            began = time.monotonic()
            model = tl.train(
                "embed", Path(options.runs, f"sentences-{way}-{seed}"), seed=seed,
                train=files("multi30k", "train"), valid=files("multi30k", "valid"),
                batch_tokens=options.batch_tokens, device=options.device, **chosen,
                **schedule(steps), **half(options),
            )  # fmt: skip
            seconds = time.monotonic() - began
            scores.add(
                job="sentences", trained=True, way=way, seed=seed, steps=steps,
                valid=model.facts["valid"], test=tested(model), seconds=seconds,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--minilm")
    parser.add_argument("--smollm2")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="of jobs lora and sentences")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", default="runs/tune", help="where the runs are left")
    parser.add_argument("--only", nargs="*", default=list(LABELS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--rates", nargs="*", type=float, default=[1e-4, 3e-4])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    scores = Scores(options.out)
    for name in options.only:
        began = time.monotonic()
        if name == "adapt":
            adapt(options, scores)
        elif name == "lora":
            lora(options, scores)
        elif name == "sentences":
            sentences(options, scores)
        else:
            label(name, options, scores)
        print(f"{name}: {time.monotonic() - began:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
