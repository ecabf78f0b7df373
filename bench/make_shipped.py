"""Train the models that are part of the package, and write them into it.

    python bench/make_shipped.py [--runs FOLDER] [NAME ...]

Each is trained from a shipped recipe and its seed, on one core in minutes; a run that exists in
--runs is not trained again. Weights are rounded to float16, and the scores in manifest.json are
those of the rounded weights. The files that the studio shows are included: the recipe, the curves,
the best model, what the studio records while a text model trains, with rounded numbers, and, for
the two models trained on points in the plane, the points.
"""

import argparse
import json
import shutil
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

import translucid as tl
from translucid.core.atomic_files import write_manifest
from translucid.data.shipped_models import BEGIN, FOLDER, is_shipped_name
from translucid.models import build
from translucid.models.mlp import Perceptron, PerceptronConfig
from translucid.runs.recipe.named import named
from translucid.runs.recorder import STEPS
from translucid.runs.run import train_recipe
from translucid.runs.session import Recording
from translucid.studio.plane import points
from translucid.tasks import model_folder
from translucid.tasks.model_folder import WEIGHTS, Bundle

LIMIT = 8_000_000  # bytes of all models together
KEPT = ("recipe.toml", "metrics.jsonl", "data", "studio")
DIGITS = 5  # of the recorded losses and gradient norms
NOTE = "weights stored in float16; computed in float32"
POINTS = 100  # in each of train, valid and test
PASSES = 20  # maximum passes of the perceptron over its points


@dataclass(frozen=True)
class Shipped:
    """A model to train for the package. texts: example inputs."""

    title: str
    recipe: str | None  # None: trained by the perceptron rule
    texts: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    problem: str = ""  # and or xor, for models trained on points in the plane
    limits: str = ""  # what this model cannot do, in addition to the limits of all models

    @property
    def trained_on(self) -> str:
        """The kind of data that the model was trained on, and can therefore read."""
        if self.problem:
            return (
                f"{POINTS} points around the four corners of a square, labelled by "
                f"{self.problem.upper()}"
            )
        toyland = (
            "texts of Toyland, a small world with its own grammar and vocabulary (translucid data "
            "toyland); other words and turns of phrase may come out wrong"
        )
        return f"{toyland}; {self.limits}" if self.limits else toyland


MODELS = {
    "translate": Shipped(
        "English to German, a Transformer", "toyland-translate-transformer",
        ("The dog does not sleep.", "The teacher does not see the old doctor.",
         "My mother sleeps because she is tired.",
         "The book that the children read is not boring."),
    ),
    "translate-lstm": Shipped(
        "English to German, an LSTM with additive attention", "toyland-translate-lstm",
        ("The dog does not sleep.", "The teacher does not see the old doctor.",
         "My mother sleeps because she is tired."),
    ),
    "tag": Shipped(
        "Names of people, places and companies, a bidirectional LSTM", "toyland-tag-lstm",
        ("Jordan hires Anna Keller in New York.", "Jordan lies in Asia.",
         "Jordan sleeps because he is tired."),
        limits="a name that is a person's, a place's and a company's, such as Jordan, is told by "
        "its verb (Jordan hires, Jordan lies in) or by 'in'; elsewhere, as in 'works for Jordan', "
        "it is taken for a person",
    ),
    "classify": Shipped(
        "Praise or blame, an LSTM", "toyland-classify-lstm",
        ("The food was not bad.", "The concert was wonderful, but my friends hated it.",
         "Although the hotel is ugly, we never criticize it."),
    ),
    "generate": Shipped(
        "The next word, a Transformer", "toyland-language-transformer",
        ("The dogs that the old man sees are tired.", "The children who sleep are happy."),
    ),
    "generate-rnn": Shipped(
        "The next word, a plain RNN", "toyland-language-rnn",
        ("The dogs that the old man sees are tired.", "The children who sleep are happy."),
    ),
    "regress": Shipped(
        "XOR of two numbers, an MLP", "toyland-regress-mlp", ("0 1", "1 1", "0.9 0.2", "0 0"),
        {"hidden": [4], "activation": "tanh", "learning_rate": 0.03, "steps": 600},
        "xor",
    ),
    "perceptron": Shipped(
        "AND of two numbers, a perceptron", None, ("1 1", "0 1", "0.9 0.8", "0 0"),
        {}, "and",
    ),
}  # fmt: skip


def train(name: str, run: Path) -> None:
    """Train a model, unless its run exists and is complete."""
    made = MODELS[name]
    if made.recipe is None:
        return train_perceptron(made, run)
    if (run / "test.json").is_file():
        return
    if not made.problem:
        recipe = named(made.recipe, ["training.device=cpu"]).recipe
        train_recipe(recipe, run, quiet=True, recording=Recording(made.texts[0]))
        return
    data = {split: points(made.problem, split, POINTS) for split in ("train", "valid", "test")}
    tl.train(made.recipe, run, device="cpu", **made.changes, **data, quiet=True)


def train_perceptron(made: Shipped, run: Path) -> None:
    """Train by the perceptron rule until no point is wrong, which takes a moment."""
    shutil.rmtree(run, ignore_errors=True)
    (run / "data").mkdir(parents=True)
    for split in ("train", "test"):
        rows = [json.dumps(row) + "\n" for row in points(made.problem, split, POINTS)]
        (run / "data" / f"{split}.jsonl").write_text("".join(rows), "utf-8")
    (run / "recipe.toml").write_text(
        "# By the perceptron's own rule, pass by pass: bench/make_shipped.py\n\n"
        '[task]\nkind = "regress"\n\n[data]\nfolder = "data"\ntrain = ["train.jsonl"]\n'
        'test = ["test.jsonl"]\nstandardise = false\n',
        "utf-8",
    )
    rows_ = points(made.problem, "train", POINTS)
    x = torch.tensor([[row["x1"], row["x2"]] for row in rows_])
    y = torch.tensor([row["y"] for row in rows_])
    network = build(PerceptronConfig(inputs=2))
    assert isinstance(network, Perceptron)
    passes = next((n for n in range(1, PASSES + 1) if network.learn(x, y) == 0), None)
    if passes is None:
        raise SystemExit(f"the perceptron still makes mistakes after {PASSES} passes")
    model_folder.save(Bundle(network, "regress", facts={"step": passes}), run / "best")


def ship(name: str, run: Path) -> dict[str, Any]:
    """Copy the run's best model into the package; return its entry in the manifest."""
    made, folder = MODELS[name], FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for part in KEPT:
        if (run / part).is_dir():
            shutil.copytree(run / part, folder / part)
        elif (run / part).is_file():
            text = (run / part).read_text("utf-8").replace(str(run / "data"), "data")
            (folder / part).write_text(text, "utf-8")
    if (recorded := folder / "studio" / STEPS).is_file():
        recorded.write_text(rounded(recorded.read_text("utf-8")), "utf-8")
    held = model_folder.load(run / "best")
    facts = {key: value for key, value in held.facts.items() if key != "example"}
    facts |= {"examples": list(made.texts), "notes": [NOTE]}
    facts |= {"plane": made.problem} if made.problem else {}
    card = f"# {BEGIN}{name}\n\n{made.title}. Made by bench/make_shipped.py.\n"
    model_folder.save(replace(held, facts=facts), folder / "best", card)
    halve(folder / "best")
    model = tl.load(folder)
    recipe = {} if made.recipe is None else {"changes": made.changes}
    return {
        "title": made.title, "trained_on": made.trained_on, "task": model.task.name,
        "command": model.task.traits.command,
        "recipe": made.recipe or "the perceptron's own rule", **recipe,
        "seed": seed(folder),
        "parameters": model.network.parameters_count,
        "texts": list(made.texts),
        "score": {key: round(value, 4) for key, value in model.evaluate().numbers.items()},
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "date": date.today().isoformat(),
    }  # fmt: skip


def rounded(lines: str) -> str:
    """JSON lines whose numbers have few digits."""

    def short(number: str) -> float:
        return float(f"{float(number):.{DIGITS}g}")

    return "".join(
        json.dumps(json.loads(line, parse_float=short)) + "\n" for line in lines.splitlines()
    )


def halve(folder: Path) -> None:
    """Convert the weights to float16; raise an error if a value becomes infinite."""
    tensors = load_file(str(folder / WEIGHTS))
    halves = {name: t.half() if t.is_floating_point() else t for name, t in tensors.items()}
    for name, tensor in halves.items():
        if not tensor.isfinite().all():
            raise SystemExit(f"{folder}: {name} has values beyond float16")
    save_file(halves, str(folder / WEIGHTS))
    (folder / WEIGHTS).chmod(0o644)
    write_manifest(folder)


def seed(folder: Path) -> int | None:
    from translucid.runs.recipe.recipe import of_run

    return of_run(folder).training.seed if (folder / "metrics.jsonl").is_file() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--runs", type=Path, default=Path("runs/shipped"))
    asked = parser.parse_args()
    chosen = [str(name).removeprefix(BEGIN) if is_shipped_name(name) else name
              for name in asked.names] or list(MODELS)  # fmt: skip
    if unknown := [name for name in chosen if name not in MODELS]:
        parser.error(f"{', '.join(unknown)}: there are {', '.join(MODELS)}")
    file = FOLDER / "manifest.json"
    entries = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    for name in chosen:
        train(name, asked.runs / name)
        entries[name] = ship(name, asked.runs / name)
        print(name, entries[name]["score"], f"{entries[name]['bytes']:,} bytes", flush=True)
        ordered = {key: entries[key] for key in MODELS if key in entries}
        file.write_text(json.dumps(ordered, indent=2, ensure_ascii=False) + "\n", "utf-8")
    total = sum(entry["bytes"] for entry in entries.values())
    if total > LIMIT:
        raise SystemExit(f"{total:,} bytes together; {LIMIT:,} are allowed")
    print(f"{total:,} bytes together")


if __name__ == "__main__":
    main()
