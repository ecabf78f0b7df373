"""Train a shipped recipe with several seeds, and compare the mean score with the expected range."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from translucid.core.errors import InputError
from translucid.runs.folder import TEST
from translucid.runs.recipe import named, recipe
from translucid.runs.run import train_or_resume

EXPECTED = "expected.json"


@dataclass(frozen=True)
class Band:
    """The expected range of the mean test score."""

    metric: str
    low: float
    high: float


@dataclass(frozen=True)
class Reproduction:
    name: str
    metric: str
    scores: dict[int, float]  # by seed
    minutes: dict[int, float]  # of training, with evaluation
    notes: tuple[str, ...]
    band: Band | None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores.values())

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for one seed."""
        return statistics.stdev(self.scores.values()) if len(self.scores) > 1 else 0.0

    @property
    def within(self) -> bool | None:
        return None if self.band is None else self.band.low <= self.mean <= self.band.high

    def as_json(self) -> str:
        result = asdict(self) | {"mean": self.mean, "spread": self.spread, "within": self.within}
        return json.dumps(result, indent=2)


def bands() -> dict[str, Band]:
    """The expected range of the mean test score, by the name of the shipped recipe."""
    path = named.FOLDER / EXPECTED
    values = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return {name: Band(**band) for name, band in values.items()}


def reproduce(
    name: str,
    data: str | None,
    out: Path,
    seeds: Sequence[int],
    overrides: Sequence[str] = (),
    *,
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
) -> Reproduction:
    """Train a shipped recipe with each seed, or resume an earlier call."""
    path = named.find(name)
    band = bands().get(name)
    scores, minutes = {}, {}
    notes: tuple[str, ...] = ()
    for seed in seeds:
        where = {} if data is None else {"data": {"folder": data}}
        chosen = recipe.read(path, [*overrides, f"training.seed={seed}"], where)
        folder = out / f"seed-{seed}"
        if not chosen.data.test and chosen.data.toyland is None:
            raise InputError("the recipe names no test data, so there is nothing to compare with")
        if not (folder / TEST).exists():
            train_or_resume(chosen, folder, quiet=quiet, interrupted=interrupted)
        scored = json.loads((folder / TEST).read_text("utf-8"))
        metric = band.metric if band is not None else next(iter(scored["test"]))
        scores[seed], notes = scored["test"][metric], tuple(scored["notes"])
        timing = (folder / "timing.jsonl").read_text("utf-8").splitlines()
        minutes[seed] = json.loads(timing[-1])["seconds"] / 60
    return Reproduction(name, metric, scores, minutes, notes, band)
