"""Keep the best and the newest model of a run, and optionally several of the best."""

import operator
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from translucid.core.atomic_files import remove, write_text, write_whole
from translucid.core.errors import InputError
from translucid.core.untrusted_files import inside
from translucid.runs.fold_choice import FoldChoice
from translucid.runs.folder import VALID_PREDICTIONS
from translucid.runs.recipe.baseline import FittedBaseline
from translucid.tasks import model_folder
from translucid.tasks.base import Score, Task
from translucid.tasks.model_folder import Bundle, task_of
from translucid.tasks.score import Baseline, Coverage, Criterion


class BestModels:
    """Writes the best model to best/ and the newest to last/. If `count` is above 1, also writes
    the best few models to checkpoints/step-N/."""

    def __init__(
        self, folder: Path, task: Task[Any, Any], count: int, criterion: Criterion
    ) -> None:
        self._folder, self._task, self._count = folder, task, count
        self._criterion = criterion
        self._kept: dict[Path, tuple[float, float]] = {}  # rank by folder

    def keep_last(self, now: Bundle) -> None:
        """Save the newest model before it is scored."""
        model_folder.save(now, self._folder / "last", card(now, None))

    def numbers(self) -> dict[str, float]:
        """The score of each kept model by its folder's name (higher is better), saved for
        resuming."""
        return {place.name: score for place, (score, _) in self._kept.items()}

    def losses(self) -> dict[str, float]:
        """The loss of each kept model by its folder's name; it breaks ties between equal scores."""
        return {place.name: -negative for place, (_, negative) in self._kept.items()}

    def restore(self, numbers: dict[str, float], losses: dict[str, float]) -> None:
        place, where = self._folder / "checkpoints", "the checkpoint's list of kept models"
        self._kept = {
            inside(place, name, where): (score, -losses.get(name, 0.0))
            for name, score in numbers.items()
        }
        if strange := [p.name for p in self._kept if not re.fullmatch(r"step-\d{6,}", p.name)]:
            raise InputError(f"{where} names {strange[0]!r}, which is not a name like step-000100")

    def keep(self, now: Bundle, score: Score, best: bool) -> None:
        for name in ("best", "last") if best else ("last",):
            model_folder.save(now, self._folder / name, card(now, score))
        if best:
            self._keep_predictions(score)
        if self._count == 1:
            return
        place = self._folder / "checkpoints" / f"step-{now.facts['step']:06}"
        self._kept[place] = self._criterion.rank(score.numbers)
        worst = min(self._kept, key=self._kept.__getitem__)
        if len(self._kept) > self._count:
            del self._kept[worst]
            remove(worst)
        if place in self._kept:
            model_folder.save(now, place, card(now, score))

    def try_average(
        self,
        valid: Sequence[Any],
        coverage: Coverage,
        device: torch.device,
        say: Callable[[str], None],
    ) -> None:
        """Average the weights of the kept models; the average becomes best/ if it scores better."""
        if len(self._kept) < 2:
            say("nothing to average: only one model was kept (training.keep_best)")
            return
        merged = average([model_folder.load(place, str(device)) for place in self._kept])
        score = replace(self._task.evaluate(merged.network, valid), coverage=coverage)
        better = self._criterion.rank(score.numbers) > max(self._kept.values())
        say(
            f"average of the {len(self._kept)} best, valid: {score.line()}  "
            f"({'better: saved as best/' if better else 'not better: discarded'})"
        )
        if better:
            facts = {key: value for key, value in merged.facts.items() if key != "warnings"}
            facts |= {"valid": score.numbers, "averaged": len(self._kept)}
            facts |= {"warnings": list(score.warnings)} if score.warnings else {}
            model_folder.save(
                replace(merged, facts=facts), self._folder / "best", card(merged, score)
            )
            self._keep_predictions(score)

    def try_baseline(
        self,
        baseline: FittedBaseline,
        say: Callable[[str], None],
        folds: Callable[[int], FoldChoice | None] = lambda step: None,
    ) -> None:
        """If the baseline is better, save it as best/, and move the network to network/.

        folds: called with the step at which the network was best; compares both models by
        cross-validation, or returns None if the validation scores decide."""
        best, network = self._folder / "best", self._folder / model_folder.NETWORK
        now = model_folder.load(best)
        if now.network.fits:  # in an earlier session
            self._keep_predictions(baseline.score("valid"))
            return
        metric = self._criterion.metric
        values = [held.facts["valid"][metric] for held in (baseline.bundle, now)]
        better = operator.gt(*(self._criterion.rank({metric: value}) for value in values))
        reason = (
            f"its validation {metric} of {values[0]:.4g} is better than the network's "
            f"{values[1]:.4g}"
        )
        if (chosen := folds(int(now.facts["step"]))) is not None:
            better, reason = not chosen.network_is_better, chosen.reason
        if not better:
            if chosen is not None:
                say(f"{best} is the network: {reason}")
            return
        score = baseline.score("valid")
        others = now.facts.get("other_baselines", [])  # without this one
        facts = baseline.bundle.facts | ({"baseline": others[0]} if others else {})
        bundle = replace(baseline.bundle, facts=facts)
        _copy(best, network, self._folder / VALID_PREDICTIONS)
        model_folder.save(bundle, best, card(bundle, score))
        self._keep_predictions(score)
        kind = now.network.config.model_dump()["kind"]
        say(
            f"! {best} is the {baseline.kind} baseline, because {reason}. The network is in "
            f"{network}; to train only a network, set model.kind={kind}"
        )

    def restore_network(self) -> None:
        """Move the network back to best/, so that training can continue."""
        network = self._folder / model_folder.NETWORK
        if network.exists():
            if (predictions := network / VALID_PREDICTIONS).is_file():
                write_text(self._folder / VALID_PREDICTIONS, predictions.read_text("utf-8"))
            _copy(network, self._folder / "best")
            remove(network)

    def _keep_predictions(self, score: Score) -> None:
        """Write the best model's validation predictions, if the task has any."""
        if score.predictions:
            write_text(self._folder / VALID_PREDICTIONS, score.predictions_text())


def average(bundles: Sequence[Bundle]) -> Bundle:
    """A bundle whose weights are the means of the bundles' weights, computed in float64; everything
    else is that of the newest bundle."""
    newest = max(bundles, key=lambda saved: int(saved.facts["step"]))
    states = [saved.network.state_dict() for saved in bundles]
    means = {
        name: torch.stack([state[name].double() for state in states]).mean(dim=0)
        for name, weight in newest.network.state_dict().items()
        if weight.is_floating_point()
    }
    newest.network.load_state_dict(newest.network.state_dict() | means)
    return newest


def _copy(folder: Path, to: Path, predictions: Path | None = None) -> None:
    """Copy a model folder, and replace an existing one. predictions: a file to copy into it."""

    def fill(aside: Path) -> None:
        unwanted = shutil.ignore_patterns(VALID_PREDICTIONS)
        shutil.copytree(folder, aside, ignore=unwanted, dirs_exist_ok=True)
        if predictions is not None and predictions.is_file():
            shutil.copy2(predictions, aside)

    write_whole(to, fill)


def card(now: Bundle, score: Score | None) -> str:
    """The text of the model card."""
    scores = "Not scored yet.\n"
    if score is not None:
        counted = "" if score.coverage is None else f" ({score.coverage.line()})"
        scores = f"On the validation data{counted}:\n\n{_listed(score.numbers)}\n"
        scores += "".join(f"\n**Warning: {words}**\n" for words in score.warnings)
        noted = [now.facts.get("baseline"), *now.facts.get("other_baselines", ())]
        criterion = task_of(now).criterion
        for baseline in [Baseline(n["name"], Score(n["valid"])) for n in noted if n is not None]:
            scores += _compared(baseline, score, criterion)
    steps = f"Trained with Translucid for {now.facts['step']:,} steps"
    if fitted := now.facts.get("fitted"):
        steps = f"Fitted with Translucid to {fitted['examples']:,} of {fitted['of']:,} examples"
    return (
        f"# {now.task} model\n\n{steps}; "
        f"{now.network.parameters_count:,} parameters.\n\n{scores}\n"
        f"```\n{now.network.summary()}\n```\n"
    )


def _listed(numbers: Mapping[str, float]) -> str:
    return "\n".join(f"- {name}: {value:.4g}" for name, value in numbers.items())


def _compared(baseline: Baseline, score: Score, criterion: Callable[..., Criterion]) -> str:
    """Text for the model card: the baseline's scores, and whether the model is better."""
    own = baseline.score.numbers
    words = f"\nBaseline on the same data ({baseline.name}):\n\n{_listed(own)}\n"
    better, worse = baseline.differences(score.numbers, criterion)
    if criterion().metric not in better:
        return f"{words}\n**This model is not better than the baseline.**\n"
    if worse:
        words += (
            f"\n**This model is better by {', '.join(better)}, but worse by {', '.join(worse)}.**\n"
        )
    return words
