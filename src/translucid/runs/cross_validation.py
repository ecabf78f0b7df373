"""Cross-validation: one run per fold, each validated on a different part of the training data."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translucid.core.atomic_files import write_text
from translucid.core.errors import ConfigError, InputError, Interrupted, check_same_settings
from translucid.core.untrusted_files import read_object
from translucid.runs.folder import RECIPE, TEST
from translucid.runs.recipe.examples import load_examples
from translucid.runs.recipe.recipe import Recipe, of_run
from translucid.runs.run import train_or_resume
from translucid.tasks.model_folder import Bundle
from translucid.tasks.significance import mean_interval

SUMMARY = "folds.json"
CONFIDENCE = 0.95
Part = dict[str, dict[str, Any]]  # by metric: mean, low, high and the value for each fold


@dataclass(frozen=True)
class CrossValidation:
    """The scores of all folds."""

    task: str
    examples: int
    held_out: list[int]  # validation examples of each fold
    valid: Part
    test: Part  # empty without test data
    baselines: list[Part]  # on the validation data: the one to beat first, the trivial one last
    folders: list[str]

    def lines(self) -> list[str]:
        """The summary as text."""
        folds, counts = len(self.held_out), sorted(set(self.held_out))
        sizes = " to ".join(f"{count:,}" for count in {counts[0]: 0, counts[-1]: 0})
        lines = [
            f"{folds} folds, {self.examples:,} examples, of which {sizes} are held out in each "
            f"fold: mean and {CONFIDENCE:.0%} interval (Student's t)"
        ]
        never = self.examples - sum(self.held_out)
        if never:
            lines.append(
                f"{never:,} examples are in no validation set, because training would have lost "
                "their label"
            )
        parts = [("valid", self.valid), ("test", self.test)]
        parts += [("baseline", part) for part in self.baselines[:1]]
        parts += [("trivial", part) for part in self.baselines[1:]]
        for name, part in parts:
            for metric, n in part.items():
                values = " ".join(f"{value:.4g}" for value in n["values"])
                lines.append(
                    f"  {name:<9}{metric:<20}{n['mean']:.4f}  ({n['low']:.4f} to {n['high']:.4f}; "
                    f"folds {values})"
                )
        return lines

    def as_json(self) -> str:
        values = {
            "task": self.task, "folds": len(self.held_out), "examples": self.examples,
            "held_out": self.held_out, "confidence": CONFIDENCE, "valid": self.valid,
            "test": self.test, "baseline": next(iter(self.baselines), {}),
            "other_baselines": self.baselines[1:], "runs": self.folders,
        }  # fmt: skip
        return json.dumps(values, indent=2) + "\n"


def cross_validate(
    recipe: Recipe,
    out: Path,
    folds: int,
    *,
    pick: bool = False,
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = lambda line: None,
) -> CrossValidation:
    """Train one model per fold into out/fold-1 and so on, or resume an earlier call, and write the
    summary. All folds use the settings chosen for the first one."""
    recipes = [_with_fold(recipe, f"{number}/{folds}") for number in range(1, folds + 1)]
    _check(recipe, out, folds)
    held_out, examples = _sizes(recipes)
    places = [out / f"fold-{number}" for number in range(1, folds + 1)]
    bundles: list[Bundle] = []
    for number, (chosen, place) in enumerate(zip(recipes, places, strict=True), start=1):
        say(f"fold {number} of {folds}: {place}")
        if (place / RECIPE).exists():
            _check_same(chosen, place)
        elif pick and number > 1:
            chosen = of_run(places[0], changes={"data": {"fold": chosen.data.fold}})
        try:
            done = train_or_resume(
                chosen, place, pick=pick and number == 1, quiet=quiet, interrupted=interrupted
            )
        except Interrupted as end:
            if not place.exists():
                raise
            raise Interrupted(
                f"{end}; to continue with all folds, run the same command again with --out {out}"
            ) from None
        bundles.append(done)
    tests = [read_object(place / TEST)["test"] for place in places if (place / TEST).is_file()]
    noted = [_baselines(held, recipe) for held in bundles]
    baselines = [_part([*scores]) for scores in zip(*noted, strict=True)]
    result = CrossValidation(
        recipe.task.kind, examples, held_out, _part([held.facts["valid"] for held in bundles]),
        _part(tests) if len(tests) == folds else {}, baselines, [str(p) for p in places],
    )  # fmt: skip
    write_text(out / SUMMARY, result.as_json())
    return result


def _baselines(held: Bundle, recipe: Recipe) -> list[dict[str, float]]:
    """The validation scores of the baselines. If the fitted baseline became the model, because the
    network was not better, the model's own score is the first."""
    noted = [held.facts.get("baseline"), *held.facts.get("other_baselines", ())]
    itself = [held.facts["valid"]] if held.network.fits and not recipe.fitted else []
    return itself + [baseline["valid"] for baseline in noted if baseline is not None]


def _check(recipe: Recipe, out: Path, folds: int) -> None:
    data = recipe.data
    for value, name in ((data.valid, "valid"), (data.toyland, "toyland"), (data.store, "store")):
        if value:
            raise ConfigError(
                f"--folds {folds} takes validation data from data.train, so data.{name} cannot be "
                "set; omit one of the two"
            )
    if out.is_dir():
        others = [path.name for path in out.iterdir() if not path.name.startswith("fold-")]
        beyond = out / f"fold-{folds + 1}"
        if [name for name in others if name != SUMMARY] or beyond.exists():
            other = beyond.name if beyond.exists() else sorted(others)[0]
            raise InputError(
                f"{out} contains {other}, which does not belong to {folds} folds; choose another "
                "folder with --out, or remove it"
            )


def _with_fold(recipe: Recipe, fold: str) -> Recipe:
    data = recipe.data
    changed = type(data)(**(data.model_dump(exclude_unset=True) | {"fold": fold}))
    return recipe.model_copy(update={"data": changed})


def _sizes(recipes: list[Recipe]) -> tuple[list[int], int]:
    """The number of validation examples of each fold, and of all examples; raise errors in the
    data before anything is trained."""
    parts = [load_examples(recipe, lambda line: None) for recipe in recipes]
    return [len(part.valid) for part in parts], len(parts[0].train) + len(parts[0].valid)


def _check_same(chosen: Recipe, folder: Path) -> None:
    """Raise an error if a fold was started with different settings."""
    before = of_run(folder)
    now = {f"model.{key}": value for key, value in chosen.model.items()}
    was = {f"model.{key}": before.model.get(key) for key in chosen.model}
    for section in ("task", "data", "tokenizer", "training", "decoding"):
        for key in getattr(chosen, section).model_fields_set - {"folder"}:
            now[f"{section}.{key}"] = getattr(getattr(chosen, section), key)
            was[f"{section}.{key}"] = getattr(getattr(before, section), key)
    check_same_settings(folder, was, now, "use the same settings to resume, or another --out")


def _part(scores: list[dict[str, float]]) -> Part:
    """Summarize each metric that every fold has."""
    summary: Part = {}
    for metric in scores[0] if scores else ():
        if all(metric in score for score in scores):
            values = [float(score[metric]) for score in scores]
            mean, low, high = mean_interval(values, CONFIDENCE)
            summary[metric] = {"mean": mean, "low": low, "high": high, "values": values}
    return summary
