"""Compare the settings that `train --minutes` chooses with a random search under the same limit.

    python bench/budget.py --data FOLDER --minutes 0.5 --points 20 --parallel 8 --out scores.json
    python bench/budget.py --data FOLDER --minutes 2.6 --best-of short.json --keep 6 --out long.json

FOLDER has one folder per data set, named as in SETS. For each set, point 0 is the automatic choice
and the other points are drawn at random from SPACE, or are the best points of a search with less
time (`--best-of`, successive halving). Each run gets two processor cores (`taskset`), and all runs
take the same number of minutes. The validation score decides. Scores are written after every run.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from threading import Lock
from typing import Any

FILES = {  # of each part, by task
    "classify": ["{}.tsv"], "tag": ["{}.conll"], "language": ["{}.txt"],
    "translate": ["{}.en", "{}.de"],
}  # fmt: skip
SETS = {  # and their tasks
    "trec": "classify", "sst2": "classify", "wnut17": "tag", "ewt-pos": "tag",
    "inaugural": "language", "tinyshakespeare": "language", "multi30k": "translate",
    # Not used to fit the rules:
    "subjectivity": "classify", "pros-cons": "classify", "uner-ewt": "tag",
    "tatoeba-de-en": "translate",
}  # fmt: skip
SPACE: dict[str, list[Any]] = {
    "model.d_model": [64, 128, 256],
    "model.layers": [1, 2, 3],
    "model.dropout": [0.0, 0.1, 0.3],
    "training.learning_rate": [1e-3, 2e-3, 4e-3, 8e-3],
    "training.batch_tokens": [512, 1024, 2048, 4096],
}
LOWER = ("loss", "perplexity")  # metrics for which lower is better


def best_of(file: Path, keep: int) -> dict[str, list[str]]:
    """The settings of the best points of another search, by set."""
    runs = json.loads(file.read_text())["runs"]
    best: dict[str, list[str]] = {}
    for name in SETS:
        found = [run for run in runs if run["set"] == name and run["settings"].startswith("model.")]
        sign = 1 if found and found[0]["metric"] in LOWER else -1
        found.sort(key=lambda run: sign * run["best_valid"])
        best[name] = list(dict.fromkeys(run["settings"] for run in found))[:keep]
    return best


def drawn(name: str, point: int, best: dict[str, list[str]]) -> list[str]:
    """The settings of a point: those given, or drawn at random; none for point 0, the automatic
    choice."""
    if point and best:
        return best[name][point - 1].split()
    chance = random.Random(f"{name} {point}")
    return [f"{key}={chance.choice(values)}" for key, values in SPACE.items()] if point else []


def trained(name: str, settings: list[str], args: argparse.Namespace, cores: str) -> dict[str, Any]:
    """Train one point, and return its scores."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "translucid", "train", SETS[name], "--out", str(out)]
        for part in ("train", "valid", "test") if args.test else ("train", "valid"):
            files = [file.format(part) for file in FILES[SETS[name]]]
            command += [f"--{part}", *(str(args.data / name / file) for file in files)]
        command += ["--minutes", str(args.minutes), *args.also, *settings]
        command = ["taskset", "-c", cores, *command] if cores else command
        began = time.monotonic()
        environment = os.environ | {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        result: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1)}
        if done.returncode:
            return result | {"error": (done.stderr + done.stdout)[-1500:]}
        return result | scores_of(out)


def scores_of(out: Path) -> dict[str, Any]:
    """The scores of a run: the best on the validation data, and those on the test data."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    valid = [line["valid"] for line in lines if "valid" in line]
    metric = next(iter(valid[0]))
    best = min if metric in LOWER else max
    test = out / "test.json"
    return {
        "metric": metric,
        "best_valid": best(scores[metric] for scores in valid),
        "steps": lines[-1]["step"],
        "test": json.loads(test.read_text()) if test.is_file() else None,
        "recipe": (out / "recipe.toml").read_text(),
        "log": (out / "log.txt").read_text()[-6000:],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first point")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--parallel", type=int, default=1, help="runs at once, two cores each")
    parser.add_argument("--also", nargs="*", default=[], help="settings of every run")
    parser.add_argument("--best-of", type=Path, help="results of a search with less time")
    parser.add_argument("--keep", type=int, default=6, help="points of --best-of, for each set")
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0, 1, ... of each point")
    parser.add_argument("--test", action="store_true", help="score the test data too")
    parser.add_argument("--until", type=float, default=1e9, help="start no run after N seconds")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    best = best_of(args.best_of, args.keep) if args.best_of else {}
    points = args.keep + 1 if best else args.points
    free: Queue[str] = Queue()
    for place in range(args.parallel):
        free.put(f"{2 * place},{2 * place + 1}" if args.parallel > 1 else "")
    scores: list[dict[str, Any]] = []
    lock, began = Lock(), time.monotonic()

    def one(job: tuple[int, int, str]) -> None:
        point, seed, name = job
        if time.monotonic() - began > args.until:
            return
        cores, settings = free.get(), drawn(name, point, best)
        settings.append(f"training.seed={seed}")
        try:
            result = trained(name, settings, args, cores)
        finally:
            free.put(cores)
        with lock:
            scores.append({"set": name, "point": point, "settings": settings} | result)
            args.out.write_text(json.dumps(scores))

    jobs = [
        (point, seed, name)
        for point in range(args.first, points)
        for seed in range(args.seeds)
        for name in args.sets
    ]
    with ThreadPoolExecutor(args.parallel) as pool:
        list(pool.map(one, jobs))


if __name__ == "__main__":
    main()
