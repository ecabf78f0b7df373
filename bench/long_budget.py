"""Simulate long runs of `train --minutes` on a GPU, and compare the chosen settings with others.

    python bench/long_budget.py --data FOLDER --minutes 30 --plans 8 --runs 4 --out scores.json

For each data set, `train --minutes` plans a run on two processor cores and is stopped before its
first step. A GPU then trains exactly this plan: size, batches, learning rate schedule and number of
steps, in float32. The other points change the learning rate or the dropout, or follow the plan for
the next smaller or larger size. They would all take the same time on two cores. The validation
score decides. FOLDER is that of bench/budget.py.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from threading import Lock
from typing import Any

from budget import FILES, SETS, scores_of

READY = " parameters on "  # in the log, after the plan
# `translucid`, with one candidate size; the first argument is its number.
ONE_SIZE = """
import sys
from dataclasses import replace
from translucid.cli import program
from translucid.runs import time_limit
from translucid.runs.recipe.automatic_sizes import SIZES
one = time_limit._up_to(SIZES[-1])[int(sys.argv.pop(1))]
shape = dict(d_model=one.d_model, layers=one.layers, learning_rate=one.learning_rate)
time_limit._up_to = lambda largest: [replace(largest, **shape)]
program()
"""
SHAPES = [(64, 1), (64, 2), (128, 2), (256, 3), (512, 4), (512, 6)]  # d_model and layers
CHANGES: dict[str, Callable[[dict[str, float]], list[str]]] = {
    "as chosen": lambda plan: [],
    "twice the rate": lambda plan: [f"training.learning_rate={2 * plan['learning_rate']}"],
    "half the rate": lambda plan: [f"training.learning_rate={plan['learning_rate'] / 2}"],
    "other dropout": lambda plan: [f"model.dropout={0.1 if plan['dropout'] != 0.1 else 0.0}"],
}


def plan(name: str, minutes: float, data: Path, cores: str, place: int | None) -> dict[str, Any]:
    """The plan of a run on these cores: its recipe, and what it prints. place: the only candidate
    size; None: choose."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        python = ["-m", "translucid"] if place is None else ["-c", ONE_SIZE, str(place)]
        command = [sys.executable, *python, "train", SETS[name], "--out", str(out)]
        for part in ("train", "valid"):
            files = [file.format(part) for file in FILES[SETS[name]]]
            command += [f"--{part}", *(str(data / name / file) for file in files)]
        command += ["--minutes", str(minutes), "training.baseline=false"]
        command = ["taskset", "-c", cores, *command] if cores else command
        environment = os.environ | {"OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": ""}
        began = time.monotonic()
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if READY in line:
                break
        else:
            return {"error": "".join(lines)[-1500:]}
        recipe = out / "recipe.toml"
        while not recipe.is_file() and process.poll() is None:
            time.sleep(0.1)
        process.kill()
        process.communicate()
        seconds = round(time.monotonic() - began, 1)
        return {"recipe": recipe.read_text(), "log": "".join(lines)[-2000:], "planned_in": seconds}


def numbers(recipe: str) -> dict[str, float]:
    """The numeric settings of a recipe, by key."""
    found = re.findall(r"^(\w+) = ([0-9.e-]+) ", recipe, re.M)
    return {key: float(value) for key, value in found}


def trained(recipe: str, settings: list[str], device: str) -> dict[str, Any]:
    """Train a plan without a time limit, and return its scores."""
    with tempfile.TemporaryDirectory() as folder:
        out, file = Path(folder) / "run", Path(folder) / "recipe.toml"
        file.write_text(re.sub(r"^(minutes|most_steps) = .*\n", "", recipe, flags=re.M))
        command = [sys.executable, "-m", "translucid", "train", str(file), "--out", str(out)]
        command += [f"training.device={device}", "training.cuda_graphs=auto", *settings]
        began = time.monotonic()
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        result: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1)}
        if done.returncode:
            return result | {"error": (done.stderr + done.stdout)[-1500:]}
        scores = scores_of(out)
        return result | {key: scores[key] for key in ("metric", "best_valid", "steps")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--sets", nargs="+", default=list(SETS)[:7], choices=SETS)
    parser.add_argument("--changes", nargs="*", default=list(CHANGES), choices=CHANGES)
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="sizes beside, as -1 1")
    parser.add_argument("--known", type=Path, help="results with plans to use again")
    parser.add_argument("--seeds", type=int, default=2, help="of the chosen plan")
    parser.add_argument("--plans", type=int, default=1, help="plans at once, two cores each")
    parser.add_argument("--runs", type=int, default=1, help="runs on the GPU at once")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    free: Queue[str] = Queue()
    for place in range(args.plans):
        free.put(f"{2 * place},{2 * place + 1}" if args.plans > 1 else "")
    found: dict[str, Any] = {"plans": {}, "runs": []}
    if args.known:
        found["plans"] = json.loads(args.known.read_text())["plans"]
    lock = Lock()

    def save() -> None:
        args.out.write_text(json.dumps(found, indent=1))

    def planned(name: str, beside: int = 0) -> dict[str, Any] | None:
        key = f"{name} {beside:+d}" if beside else name
        if key not in found["plans"]:
            place = None
            if beside:
                size = numbers(found["plans"][name]["recipe"])
                place = SHAPES.index((int(size["d_model"]), int(size["layers"]))) + beside
                if place < 0:
                    return None
            cores = free.get()
            try:
                result = plan(name, args.minutes, args.data, cores, place)
            finally:
                free.put(cores)
            with lock:
                found["plans"][key] = result
                save()
        result = found["plans"][key]
        return result if "recipe" in result else None

    def one(job: tuple[str, str, str, list[str]]) -> None:
        name, point, recipe, settings = job
        result = trained(recipe, settings, args.device)
        with lock:
            found["runs"].append({"set": name, "point": point, "settings": settings} | result)
            save()

    with ThreadPoolExecutor(max(args.plans, 1)) as planning:
        chosen = dict(zip(args.sets, planning.map(planned, args.sets), strict=True))
        pairs = [(name, beside) for beside in args.sizes for name in args.sets if chosen[name]]
        beside = list(zip(pairs, planning.map(lambda pair: planned(*pair), pairs), strict=True))
    jobs = []
    for change in args.changes:
        for name in args.sets:
            if made := chosen[name]:
                settings = CHANGES[change](numbers(made["recipe"]))
                jobs.append((name, change, made["recipe"], [*settings, "training.seed=0"]))
    for (name, offset), other in beside:
        if other:
            point = "larger" if offset > 0 else "smaller"
            jobs.append((name, point, other["recipe"], ["training.seed=0"]))
    if "as chosen" in args.changes:
        for seed in range(1, args.seeds):
            jobs += [
                (name, "as chosen", made["recipe"], [f"training.seed={seed}"])
                for name in args.sets
                if (made := chosen[name])
            ]
    with ThreadPoolExecutor(args.runs) as training:
        list(training.map(one, jobs))


if __name__ == "__main__":
    main()
