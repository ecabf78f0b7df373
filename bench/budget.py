"""Compare the settings that `train --minutes` chooses with a random search under the same limit.

    python bench/budget.py --data FOLDER --minutes 0.5 --points 20 --parallel 8 --out scores.json
    python bench/budget.py --data FOLDER --minutes 3 --points 20 --sets trec --out scores.json

FOLDER has one folder per data set, named as in SETS. For each set, point 0 is the automatic choice
and the other points are drawn at random from SPACE. Each run gets two processor cores (`taskset`),
and all runs take the same number of minutes. The validation score decides. Scores are written after
every run.
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

SETS: dict[str, tuple[str, dict[str, list[str]]]] = {  # task, and the files of each part
    "trec": ("classify", {"train": ["train.tsv"], "valid": ["valid.tsv"]}),
    "sst2": ("classify", {"train": ["train.tsv"], "valid": ["valid.tsv"]}),
    "wnut17": ("tag", {"train": ["train.conll"], "valid": ["valid.conll"]}),
    "ewt-pos": ("tag", {"train": ["train.conll"], "valid": ["valid.conll"]}),
    "inaugural": ("language", {"train": ["train.txt"], "valid": ["valid.txt"]}),
    "tinyshakespeare": ("language", {"train": ["train.txt"], "valid": ["valid.txt"]}),
    "multi30k": (
        "translate", {"train": ["train.en", "train.de"], "valid": ["valid.en", "valid.de"]},
    ),
}  # fmt: skip
COLUMNS = {"classify": ["data.label_column=0", "data.text_column=1"]}
SPACE: dict[str, list[Any]] = {
    "model.d_model": [64, 128, 256],
    "model.layers": [1, 2, 3],
    "model.dropout": [0.0, 0.1, 0.3],
    "training.learning_rate": [1e-3, 2e-3, 4e-3, 8e-3],
    "training.batch_tokens": [512, 1024, 2048, 4096],
}


def drawn(name: str, point: int, given: list[str]) -> list[str]:
    """The settings of a point: those given, or drawn at random; none for point 0, the automatic
    choice."""
    if point and given:
        return given[point - 1].split()
    chance = random.Random(f"{name} {point}")
    return [f"{key}={chance.choice(values)}" for key, values in SPACE.items()] if point else []


def trained(name: str, settings: list[str], args: argparse.Namespace, cores: str) -> dict[str, Any]:
    """Train one point, and return its scores by evaluation."""
    task, files = SETS[name]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "translucid", "train", task, "--out", str(out)]
        for part, names in files.items():
            command += [f"--{part}", *(str(args.data / name / file) for file in names)]
        command += ["--minutes", str(args.minutes), *args.also, *settings]
        command = ["taskset", "-c", cores, *command] if cores else command
        began = time.monotonic()
        environment = os.environ | {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        result: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1)}
        if done.returncode:
            return result | {"error": (done.stderr + done.stdout)[-1500:]}
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        result["valid"] = [line for line in lines if "valid" in json.dumps(line)]
        result["recipe"] = (out / "recipe.toml").read_text()
        result["log"] = (out / "log.txt").read_text()[-4000:]
        return result


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
    parser.add_argument("--given", nargs="*", default=[], help="the settings of points 1, 2, ...")
    parser.add_argument("--until", type=float, default=1e9, help="start no run after N seconds")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    free: Queue[str] = Queue()
    for place in range(args.parallel):
        free.put(f"{2 * place},{2 * place + 1}" if args.parallel > 1 else "")
    scores: list[dict[str, Any]] = []
    lock, began = Lock(), time.monotonic()

    def one(job: tuple[int, str]) -> None:
        point, name = job
        if time.monotonic() - began > args.until:
            return
        cores, settings = free.get(), drawn(name, point, args.given)
        try:
            result = trained(name, settings, args, cores)
        finally:
            free.put(cores)
        with lock:
            scores.append({"set": name, "point": point, "settings": settings} | result)
            args.out.write_text(json.dumps(scores))

    jobs = [(p, name) for p in range(args.first, args.first + args.points) for name in args.sets]
    with ThreadPoolExecutor(args.parallel) as pool:
        list(pool.map(one, jobs))


if __name__ == "__main__":
    main()
