"""`tl.compare`: score models on the same examples, with intervals and a paired test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from translucid.core.errors import ConfigError, InputError
from translucid.model.model import Model, load
from translucid.tasks.base import Score
from translucid.tasks.score import Criterion
from translucid.tasks.significance import RARE, SAMPLES, SEED, Sums, interval, p_value, paired


@dataclass(frozen=True)
class Compared:
    """The value of one metric for one model, compared with the first model."""

    model: str
    score: float
    interval: tuple[float, float] | None  # 95 %; None: the metric cannot be resampled
    difference: float | None  # to the first model; None for the first
    p: float | None  # of the difference, two-sided; None: the examples differ


@dataclass(frozen=True)
class Comparison:
    """The scores of several models, each compared with the first."""

    metrics: Mapping[str, Sequence[Compared]]  # by name, one entry for each model
    examples: int | None  # the number of resampled examples; None: nothing was resampled
    samples: int
    seed: int
    criterion: Criterion  # the task's
    less_is_better: tuple[str, ...] = ()  # the metrics for which lower is better
    notes: tuple[str, ...] = ()  # which metrics are left out, and why
    # By model: examples scored, left out and truncated, and warnings about its answers.
    counts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def table(self) -> str:
        """A row for each metric and model, and a conclusion."""
        head = ("metric", "model", "score", "95 % interval", "difference", "p")
        rows = [
            (self._named(name) if place == 0 else "", *_cells(one))
            for name, compared in self.metrics.items()
            for place, one in enumerate(compared)
        ]
        wide = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = [
            "  ".join(
                f"{cell:<{width}}" if place < 2 else f"{cell:>{width}}"
                for place, (cell, width) in enumerate(zip(row, wide, strict=True))
            ).rstrip()
            for row in (head, *rows)
        ]
        if self.examples is not None:
            lines.append(
                f"{self.examples:,} examples; intervals by bootstrap, p by approximate "
                f"randomization (two-sided, at least 1/{self.samples + 1:,}), {self.samples:,} "
                f"samples, seed {self.seed}"
            )
        return "\n".join([*lines, *self.notes, *self.answers()])

    def answers(self) -> list[str]:
        """For each model after the first, a sentence on whether it is significantly better than the
        first by the task's metric."""
        metric = self.criterion.metric
        if metric not in self.metrics:
            return []
        first, *others = self.metrics[metric]
        lines = []
        for other in others:
            if other.p is None or other.difference is None:
                continue
            if not other.difference:
                lines.append(f"{other.model} is as good as {first.model} by {metric}")
                continue
            better = (other.difference > 0) == self.criterion.higher_is_better
            shown = "is" if other.p < RARE else "is not shown to be"
            lines.append(
                f"{other.model} {shown} {'better' if better else 'worse'} than {first.model} by "
                f"{metric}: a difference this large arises at random in {other.p:.1%} of cases"
            )
        return lines

    def _named(self, metric: str) -> str:
        return f"{metric} (less is better)" if metric in self.less_is_better else metric

    def as_dict(self) -> dict[str, Any]:
        """The comparison, ready for JSON."""
        return asdict(self)


def compare(
    models: Sequence[Model | str | Path],
    *files: str | Sequence[str],
    samples: int = SAMPLES,
    seed: int = SEED,
    device: str = "cpu",
    say: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> Comparison:
    """Score two or more models on the same file (two for translation), or on the test data of their
    runs, with 95 % intervals. Each model is compared with the first by a paired test.

    options: as for `model.evaluate`, for all models. device: for models given as folders.
    """
    if isinstance(models, str | Path) or len(models) < 2:
        raise ConfigError("pass two or more models; the others are compared with the first")
    if samples < 1:
        raise ConfigError(f"samples = {samples}: must be at least 1; 1,000 is usual")
    names = [_name(model, place) for place, model in enumerate(models, start=1)]
    held = [model if isinstance(model, Model) else load(model, device, say=say) for model in models]
    _check_tasks(names, held)
    if not files:
        _check_test_data(names, held)
    scores = []
    for name, model in zip(names, held, strict=True):
        say(f"{name}:")
        scores.append(model.evaluate(*files, say=say, **options))
    sums = [score.sums() for score in scores]
    _check_examples(names, held[0], sums)
    apart = _not_comparable(held)
    metrics = [metric for metric in scores[0].numbers if metric not in apart]
    unpaired = [metric for metric in metrics if not paired(sums, metric)]
    notes = [f"{metric} is left out: it is {why}" for metric, why in apart.items()]
    notes += [f"{metric} has no p-value: {_why(sums, metric)}" for metric in unpaired]
    for name, score in zip(names, scores, strict=True):
        if score.coverage is not None and (score.left_out or score.truncated):
            notes.append(f"{name}: scored on {score.coverage.line()}")
        notes += [f"warning: {name}: {words}" for words in score.warnings]
    first = next(iter(sums[0].values()), None)
    return Comparison(
        {m: _compared(names, scores, sums, m, samples, seed, m not in unpaired) for m in metrics},
        None if first is None else len(first.examples),
        samples,
        seed,
        held[0].task.criterion(),
        tuple(m for m in metrics if not held[0].task.criterion(m).higher_is_better),
        tuple(notes),
        {name: score.counts() for name, score in zip(names, scores, strict=True)},
    )


def _compared(
    names: Sequence[str],
    scores: Sequence[Score],
    sums: Sequence[Mapping[str, Sums]],
    metric: str,
    samples: int,
    seed: int,
    same_examples: bool,
) -> list[Compared]:
    rows: list[Compared] = []
    for name, score, own in zip(names, scores, sums, strict=True):
        value = score.numbers[metric]
        around = interval(own[metric], samples, seed) if metric in own else None
        difference = value - rows[0].score if rows else None
        p = None
        if rows and same_examples:
            p = p_value(sums[0][metric], own[metric], samples, seed)
        rows.append(Compared(name, value, around, difference, p))
    return rows


def _name(model: Model | str | Path, place: int) -> str:
    if isinstance(model, Model):
        return str(model.folder or f"model {place}")
    return str(model)


def _check_tasks(names: Sequence[str], models: Sequence[Model]) -> None:
    tasks = [model.task.name for model in models]
    for name, task in zip(names, tasks, strict=True):
        if task != tasks[0]:
            raise InputError(
                f"{name} is for task {task}, but {names[0]} is for task {tasks[0]}; compare models "
                "for the same task"
            )


def _check_test_data(names: Sequence[str], models: Sequence[Model]) -> None:
    """Raise an error if the runs have different test data, which is used if no files are given."""
    first = models[0].examples()
    for name, model in zip(names[1:], models[1:], strict=True):
        if model.examples() != first:
            raise InputError(
                f"the test data of {name} differs from that of {names[0]}; pass files to score all "
                "models on"
            )


def _check_examples(names: Sequence[str], first: Model, sums: Sequence[Mapping[str, Sums]]) -> None:
    """Raise an error if models were scored on different examples. Running text is exempt, because
    models may cut it into different rows."""
    if first.task.traits.running_text or not all(sums):
        return
    examples = [next(iter(by_metric.values())).examples for by_metric in sums]
    for name, own in zip(names[1:], examples[1:], strict=True):
        if own != examples[0]:
            raise InputError(
                f"{names[0]} was scored on {len(examples[0]):,} examples and {name} on "
                f"{len(own):,}, not on the same ones: long examples are left out by "
                "data.max_length and data.long of each run; set the same values for both, such as "
                "data.max_length=1000"
            )


def _not_comparable(models: Sequence[Model]) -> dict[str, str]:
    """The metrics whose unit differs between these models, such as perplexity per token, each with
    the reason."""
    first, *others = [model.task.units for model in models]
    return {
        metric: f"{words}, which differs between these models"
        for metric, (words, unit) in first.items()
        if any(own[metric][1] != unit for own in others)
    }


def _why(sums: Sequence[Mapping[str, Sums]], metric: str) -> str:
    if all(metric in by_metric for by_metric in sums):
        return "the models read the text in different rows, which cannot be paired"
    return "it is not a function of sums over examples, so it cannot be resampled"


def _cells(one: Compared) -> tuple[str, ...]:
    between = "" if one.interval is None else "{:.4f} to {:.4f}".format(*one.interval)
    return (
        one.model,
        f"{one.score:.4f}",
        between,
        "" if one.difference is None else f"{one.difference:+.4f}",
        "" if one.p is None else f"{one.p:.4f}",
    )
