"""Compare `translucid train table` with scikit-learn on six tables and ten random splits.

    python bench/tables.py make --data FOLDER             # needs scikit-learn; also scores it
    python bench/tables.py train --data FOLDER --parallel 8 --out scores.json
    python bench/tables.py show scores.json FOLDER/peers.json

A quarter of the rows is test data. The two mixed sets are generated: categories, dates and missing
values, with labels from an almost additive rule (A) and from a decision tree (B).
"""

import argparse
import csv
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

NAMES = ("iris", "wine", "breast-cancer", "digits", "mixed-a", "mixed-b")
SEEDS = range(10)
CITIES = ("Bonn", "Ulm", "Kiel", "Jena", "Celle")
Rows = list[dict[str, Any]]


def mixed(kind: str, count: int = 1500) -> Rows:
    """Rows of numbers, categories, dates and missing values with a noisy label."""
    draw, rows = random.Random(kind), Rows()
    for _ in range(count):
        age, income = draw.uniform(18, 80), draw.lognormvariate(8, 0.5)
        city, since = draw.choice(CITIES), date(2015, 1, 1) + timedelta(days=draw.randrange(3000))
        member, visits = draw.random() < 0.4, draw.randrange(30)
        if kind == "mixed-a":
            value = (age - 50) / 12 - math.log(income / 3000) + 1.2 * (city in CITIES[:2])
            value += 0.8 * member * (visits - 12) / 8 + draw.gauss(0, 1)
            label = "leaves" if value > 0.5 else "stays"
        else:
            young, weekend = age < 35, since.weekday() >= 5
            if young:
                label = "b" if income > 3500 or city == "Ulm" else "a"
            elif weekend:
                label = "c" if visits > 10 else "a"
            else:
                label = "b" if member and visits < 20 else "c"
            if draw.random() < 0.25:
                label = draw.choice("abc")
        row = {"age": round(age), "income": round(income), "city": city, "visits": visits}
        row |= {"since": since.isoformat(), "member": "yes" if member else "no"}
        gaps = {name: "" for name in row if draw.random() < 0.05}
        rows.append(row | gaps | {"label": label})
    return rows


def published(name: str) -> Rows:
    from sklearn import datasets  # type: ignore[import-not-found,import-untyped,unused-ignore]

    held = getattr(datasets, f"load_{name.replace('-', '_')}")()
    columns = [str(column).replace(",", " ") for column in held.feature_names]
    labels = [f"class {target}" for target in held.target]
    pairs = zip(held.data.tolist(), labels, strict=True)
    return [dict(zip(columns, row, strict=True)) | {"label": label} for row, label in pairs]


def make(folder: Path) -> None:
    scores = {}
    for name in NAMES:
        rows = mixed(name) if name.startswith("mixed") else published(name)
        for seed in SEEDS:
            order = random.Random(f"{name} {seed}").sample(rows, len(rows))
            cut = len(rows) // 4
            parts = {"test": order[:cut], "train": order[cut:]}
            place = folder / name / str(seed)
            place.mkdir(parents=True, exist_ok=True)
            for part, chosen in parts.items():
                with (place / f"{part}.csv").open("w", encoding="utf-8", newline="") as file:
                    writer = csv.DictWriter(file, list(rows[0]))
                    writer.writeheader()
                    writer.writerows(chosen)
            scores[f"{name}/{seed}"] = peers(parts["train"], parts["test"])
            print(name, seed, scores[f"{name}/{seed}"], flush=True)
    (folder / "peers.json").write_text(json.dumps(scores, indent=1) + "\n", "utf-8")


def peers(train: Rows, test: Rows) -> dict[str, list[float]]:
    """Accuracy and log-loss of scikit-learn's default logistic regression and boosted trees."""
    import numpy as np
    from sklearn.ensemble import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        HistGradientBoostingClassifier,
    )
    from sklearn.linear_model import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        LogisticRegression,
    )
    from sklearn.metrics import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        log_loss,
    )

    words = {name for name in train[0] if any(isinstance(row[name], str) and row[name]
             and "-" not in row[name] for row in train)} - {"label"}  # fmt: skip
    kinds = {name: sorted({row[name] for row in train if row[name] != ""}) for name in words}

    def number(cell: Any) -> float:
        if cell == "":
            return math.nan
        return date.fromisoformat(cell).toordinal() if isinstance(cell, str) else float(cell)

    def numbers(rows: Rows, *, one_hot: bool) -> Any:
        columns = []
        for name in rows[0]:
            if name in words and one_hot:
                columns += [[float(row[name] == kind) for row in rows] for kind in kinds[name]]
            elif name in words:
                places = {kind: float(place) for place, kind in enumerate(kinds[name])}
                columns.append([places.get(row[name], math.nan) for row in rows])
            elif name != "label":
                columns.append([number(row[name]) for row in rows])
        return np.array(columns).T

    gold = [row["label"] for row in train], [row["label"] for row in test]
    x, held = numbers(train, one_hot=True), numbers(test, one_hot=True)
    mean, scale = np.nanmean(x, axis=0), np.nanstd(x, axis=0) + 1e-12
    x, held = (np.nan_to_num((part - mean) / scale) for part in (x, held))
    made = {"logistic regression": (LogisticRegression(max_iter=5000), x, held)}
    trees = HistGradientBoostingClassifier(random_state=0)
    made["boosted trees"] = (trees, numbers(train, one_hot=False), numbers(test, one_hot=False))
    scores = {}
    for name, (model, known, new) in made.items():
        model.fit(known, gold[0])
        loss = log_loss(gold[1], model.predict_proba(new), labels=model.classes_)
        scores[name] = [float(model.score(new, gold[1])), float(loss)]
    return scores


RUN = """
import json, sys
from pathlib import Path
import translucid as tl
from translucid.cli import main
out, test, *words = sys.argv[1:]
try:
    main(words)
except SystemExit as end:
    if end.code:
        raise
made = {}
for name in ("best", "baseline", "network"):
    if (Path(out) / name).exists():
        numbers = tl.load(Path(out) / name).evaluate(test).numbers
        facts = json.loads((Path(out) / name / "config.json").read_text("utf-8"))["facts"]
        made[name] = [numbers["accuracy"], numbers["loss"], facts["valid"]["loss"]]
print(json.dumps(made))
"""


def train(folder: Path, names: list[str], parallel: int, settings: list[str]) -> dict[str, Any]:
    """Train each split through the command line; score best/, baseline/ and network/ on its test
    rows, and note their loss on the validation rows."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def one(job: str) -> tuple[str, dict[str, Any]]:
        place, seed = folder / job, job.split("/")[1]
        with tempfile.TemporaryDirectory() as aside:
            out, test = str(Path(aside) / "run"), str(place / "test.csv")
            words = ["train", "table", "--out", out, "--train", str(place / "train.csv")]
            words += ["--keep-baseline", "data.label_column=label", f"training.seed={seed}"]
            done = subprocess.run(
                [sys.executable, "-c", RUN, out, test, *words, *settings],
                env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(f"{job}: {done.stderr}")
            made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            made["folds"] = [x for x in (done.stdout + done.stderr).splitlines() if " folds " in x]
        made.setdefault("network", made["best"])
        # The rule before: the model with the smaller loss on the validation rows.
        made["by validation rows"] = min(made["network"], made["baseline"], key=lambda n: n[2])
        print(job, made, flush=True)
        return job, made

    with ThreadPoolExecutor(parallel) as pool:
        return dict(pool.map(one, [f"{name}/{seed}" for name in names for seed in SEEDS]))


def show(files: list[Path]) -> None:
    """Print the mean accuracy and log-loss of each model on each table."""
    merged: dict[str, dict[str, Any]] = {}
    for file in files:
        for job, scores in json.loads(file.read_text("utf-8")).items():
            merged.setdefault(job, {}).update(scores)
    for name in NAMES:
        jobs = [scores for job, scores in merged.items() if job.startswith(f"{name}/")]
        models = [m for m in jobs[0] if m != "folds"] if jobs else []
        for model in models:
            accuracy, loss = zip(*(job[model][:2] for job in jobs if model in job), strict=True)
            print(f"{name:<14} {model:<20} {statistics.fmean(accuracy):.3f}, "
                  f"{statistics.fmean(loss):.3f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("action", choices=("make", "train", "show"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=list(NAMES))
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], dest="settings")
    options = parser.parse_args()
    if options.action == "make":
        make(options.data)
    elif options.action == "show":
        show(options.files)
    else:
        scores = train(options.data, options.only, options.parallel, options.settings)
        options.out.write_text(json.dumps(scores, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
