"""The end of a run: score the best model on the test data, and compare it with its baselines."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translucid.core.atomic_files import remove, write_text
from translucid.runs.folder import BASELINE, TEST, TEST_PREDICTIONS, VALID_PREDICTIONS
from translucid.runs.recipe.baseline import Say
from translucid.runs.recipe.examples import Part
from translucid.runs.recipe.scoring import settings_of
from translucid.runs.setup import Setup
from translucid.tasks import model_folder
from translucid.tasks.base import Score
from translucid.tasks.in_batches import reporting
from translucid.tasks.model_folder import Bundle
from translucid.tasks.score import Baseline, compared, not_better, significance
from translucid.tasks.significance import Sums


@dataclass(frozen=True)
class Rival:
    """A model that the trained one should beat."""

    name: str
    title: str  # in a sentence: "the linear baseline"
    score: Score
    use: str  # the command that uses it
    p: float | None  # of the difference to the trained model

    def verdict(self, part: str, setup: Setup, score: Score) -> str:
        """A warning if the trained model, with this score, is not better than this rival;
        otherwise an empty string."""
        line = not_better(part, setup.task.criterion(), score, self.title, self.score, self.p)
        return line and f"{line}. {self.use}"


def finish(out: Path, setup: Setup, device: torch.device, say: Say) -> Bundle:
    """Report the best model's validation score, score it on the test data, and compare both with
    the baselines. Return the best model."""
    best = model_folder.load(out / "best", str(device))
    chosen = best.network.fits and not setup.network.fits  # best/ is the baseline
    for words in best.facts.get("warnings", ()):
        say(f"warning: valid: {words}")
    noted = [best.facts.get("baseline"), *best.facts.get("other_baselines", ())]
    baselines = [Baseline(n["name"], Score(n["valid"])) for n in noted if n is not None]
    for line in compared("valid", best.facts["valid"], baselines, setup.task.criterion):
        say(line)
    if best.facts["step"] == 0 and not best.network.fits:
        say(
            "! no step improved the validation score: the best model is the unchanged model "
            "that training started from; lower training.learning_rate, or train longer"
        )
    if setup.test and not (out / TEST).exists():
        _test(out, setup, best, say, chosen=chosen)
    elif not setup.test and setup.baseline is not None:
        verdict = False
        if not chosen:
            score = _score(setup, best, "valid", say)
            if score.predictions and not (out / VALID_PREDICTIONS).exists():
                write_text(out / VALID_PREDICTIONS, score.predictions_text())
            verdict = _say_verdicts(_rivals(out, setup, score, "valid"), "valid", setup, score, say)
        _keep_baseline(out, setup, verdict)
    return best


def _test(out: Path, setup: Setup, best: Bundle, say: Say, *, chosen: bool) -> None:
    """Score the best model on the test data, and write test.json."""
    task = setup.task
    if chosen and setup.baseline is not None:
        score, rivals = setup.baseline.score("test"), list[Rival]()
    else:
        score = _score(setup, best, "test", say)
        rivals = _rivals(out, setup, score, "test")
    say("test: " + "  ".join([score.line(), *score.notes]))
    for words in score.warnings:
        say(f"warning: test: {words}")
    result: dict[str, Any] = {"test": score.numbers, "notes": score.notes} | score.counts()
    if score.warnings:
        result["warnings"] = score.warnings
    scored_with = settings_of(best, {}).values
    if decoding := {k: scored_with[k] for k in task.traits.decoding_keys if k in scored_with}:
        result["decoding"] = decoding
    trivial = task.baseline(setup.items, setup.test)
    baselines = [Baseline(rival.name, rival.score) for rival in rivals]
    baselines += [] if trivial is None else [trivial]
    for line in compared("test", score.numbers, baselines, task.criterion):
        say(line)
    noted = [
        {
            "name": baseline.name,
            "test": baseline.score.numbers,
            "better": baseline.better(score.numbers, task.criterion),
            "worse": baseline.differences(score.numbers, task.criterion)[1],
        }
        for baseline in baselines
    ]
    for values, rival in zip(noted, rivals, strict=False):
        values |= {} if rival.p is None else {"p": rival.p}
    if noted:
        result["baseline"] = noted[0]  # the score to beat
        result |= {"other_baselines": noted[1:]} if noted[1:] else {}
    if score.predictions:
        write_text(out / TEST_PREDICTIONS, score.predictions_text())
    verdict = _say_verdicts(rivals, "test", setup, score, say)
    write_text(out / TEST, json.dumps(result, indent=2) + "\n")
    _keep_baseline(out, setup, verdict)


def _score(setup: Setup, best: Bundle, part: Part, say: Say) -> Score:
    with reporting(say):
        items = setup.test if part == "test" else setup.valid
        score = setup.task.evaluate(best.network, items)
    return replace(score, coverage=setup.coverage[part])


def _rivals(out: Path, setup: Setup, score: Score, part: Part) -> list[Rival]:
    """The models that the trained model should beat: the start model and the fitted baseline, if
    there are any."""
    metric, command = setup.task.criterion().metric, setup.task.traits.command
    rivals: list[Rival] = []
    if part == "test" and setup.start is not None and "test" in setup.start:
        path = setup.start["path"]
        start = _start_score(setup.start["test"], score, metric)
        use = f"Use the start model: translucid {command} {shlex.quote(path)}"
        p = significance(score, start, metric)
        rivals.append(Rival(f"start model {path}", "start model", start, use, p))
    if setup.baseline is not None:
        fitted = setup.baseline.score(part)
        folder = shlex.quote(str(out / BASELINE))
        use = f"Use the baseline: translucid {command} {folder}"
        p, title = significance(score, fitted, metric), f"{setup.baseline.kind} baseline"
        rivals.append(Rival(setup.baseline.name, title, fitted, use, p))
    return rivals


def _say_verdicts(rivals: list[Rival], part: Part, setup: Setup, score: Score, say: Say) -> bool:
    """Report the rivals that the trained model does not beat; return whether the last rival, the
    baseline, is one of them."""
    verdicts = [rival.verdict(part, setup, score) for rival in rivals]
    for line in filter(None, verdicts):
        say(line)
    return bool(verdicts and verdicts[-1])


def _keep_baseline(out: Path, setup: Setup, not_beaten: bool) -> None:
    """Remove the fitted baseline from the run folder, unless the trained model did not beat it or
    training.keep_baseline is set."""
    if not not_beaten and not setup.recipe.training.keep_baseline:
        remove(out / BASELINE)


def start_score(setup: Setup, say: Say) -> dict[str, Any]:
    """The test score of the model that training starts from, as JSON values."""
    with reporting(say):
        score = setup.task.evaluate(setup.network, setup.test)
    score = replace(score, coverage=setup.coverage["test"])
    say(f"start model, test: {score.line()}")
    sums = score.sums().get(setup.task.criterion().metric)
    rows = {} if sums is None else {"examples": list(sums.examples), "rows": sums.rows.tolist()}
    return {"numbers": score.numbers} | rows


def _start_score(noted: Mapping[str, Any], score: Score, metric: str) -> Score:
    """The score that `start_score` recorded. score: the score of the trained model on the same
    examples."""
    sums = score.sums()
    if "rows" not in noted or metric not in sums:
        return Score(noted["numbers"])
    own = Sums(tuple(noted["examples"]), np.array(noted["rows"]), sums[metric].metric)
    return Score(noted["numbers"], sums=lambda: {metric: own})
