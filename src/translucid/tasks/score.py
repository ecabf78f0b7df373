"""Scores, baselines, and the criterion that chooses the best model."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from translucid.tasks.significance import RARE, Sums, p_value, paired

if TYPE_CHECKING:
    from translucid.tasks.class_report import ClassReport

IDENTICAL = 0.1  # fraction of identical outputs above which to warn
REPEATED = 4  # a good text rarely repeats a word this often in a row
LOWER_IS_BETTER = (
    "loss",
    "perplexity",
    "bits_per_character",
    "rmse",
    "calibration_error",
)  # besides a task's metric


@dataclass(frozen=True)
class Coverage:
    """The number of scored examples, and what happened to the others."""

    examples: int
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason: examples not scored
    truncated: int = 0  # examples that were truncated
    in_windows: int = 0  # long examples that were read in overlapping windows
    noun: str = "example"

    def with_unread(self, unread: Mapping[str, int]) -> "Coverage":
        """Add the number of rows that could not be read as examples, by reason."""
        return replace(self, left_out={**unread, **self.left_out})

    def line(self) -> str:
        """Describe the coverage: "76 examples, 4 left out (4 over 256 tokens), 3 truncated"."""
        parts = [f"{self.examples:,} {self.noun}{'' if self.examples == 1 else 's'}"]
        if self.left_out:
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in self.left_out.items())
            parts.append(f"{sum(self.left_out.values()):,} LEFT OUT ({reasons})")
        if self.truncated:
            parts.append(f"{self.truncated:,} truncated")
        if self.in_windows:
            parts.append(f"{self.in_windows:,} read in windows")
        return ", ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """The coverage as a dictionary for JSON."""
        counts: dict[str, Any] = {
            "examples": self.examples,
            "left_out": sum(self.left_out.values()),
            "truncated": self.truncated,
        }
        if self.left_out:
            counts["left_out_reasons"] = dict(self.left_out)
        return counts | ({"in_windows": self.in_windows} if self.in_windows else {})


@dataclass(frozen=True)
class Score:
    """The score of a model: named numbers, and notes such as a metric's signature."""

    numbers: dict[str, float]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # such as the same prediction for every example
    coverage: Coverage | None = None  # None: all given examples were scored
    # The scored predictions, one line of text per example, if the task provides them.
    predictions: Sequence[str] = field(default=(), compare=False, repr=False)
    # For metrics that are functions of sums over examples: these sums, computed when called, with
    # the same network.
    sums: Callable[[], Mapping[str, Sums]] = field(default=dict, compare=False, repr=False)
    # Of classifiers: precision and recall of each label, the confusion matrix, and calibration.
    report: "ClassReport | None" = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """State for pickle, without `sums`, which refers to the network."""
        return vars(self) | {"sums": dict}

    @property
    def examples(self) -> int | None:
        """The number of scored examples."""
        return None if self.coverage is None else self.coverage.examples

    @property
    def left_out(self) -> int:
        """The number of examples not scored; `coverage.left_out` has the reasons."""
        return 0 if self.coverage is None else sum(self.coverage.left_out.values())

    @property
    def truncated(self) -> int:
        """The number of truncated examples."""
        return 0 if self.coverage is None else self.coverage.truncated

    def line(self) -> str:
        """The scores and the number of examples as one line of text."""
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())
        return numbers if self.coverage is None else f"{numbers}  ({self.coverage.line()})"

    def counts(self) -> dict[str, Any]:
        """`examples`, `left_out` and `truncated` for JSON, if known."""
        return {} if self.coverage is None else self.coverage.as_dict()

    def predictions_text(self) -> str:
        """The predictions as a file with exactly one line per example."""
        return "".join(" ".join(line.splitlines()) + "\n" for line in self.predictions)


@dataclass(frozen=True)
class Criterion:
    """Compares scores by a metric, and by the loss if the metric is equal."""

    metric: str
    higher_is_better: bool = True

    def rank(self, numbers: Mapping[str, float]) -> tuple[float, float]:
        """A tuple that is greater for better scores; NaN is the worst."""
        sign = 1.0 if self.higher_is_better else -1.0
        pair = sign * numbers[self.metric], -numbers.get("loss", 0.0)
        value, loss = (-math.inf if math.isnan(number) else number for number in pair)
        return value, loss


@dataclass(frozen=True)
class Baseline:
    """The score of a trivial predictor, which a useful model must beat."""

    name: str  # such as "always 'pos'"
    score: Score

    def differences(
        self, numbers: Mapping[str, float], criterion: Callable[..., Criterion]
    ) -> tuple[list[str], list[str]]:
        """The metrics in which a model with these scores is better than the baseline, and those in
        which it is worse.

        criterion: the task's method, which tells whether higher is better."""
        better, worse = list[str](), list[str]()
        for metric in [name for name in self.score.numbers if name in numbers]:
            rank = criterion(metric).rank
            model, own = (rank({metric: side[metric]})[0] for side in (numbers, self.score.numbers))
            if model != own:
                (better if model > own else worse).append(metric)
        return better, worse

    def better(self, numbers: Mapping[str, float], criterion: Callable[..., Criterion]) -> bool:
        """Whether a model is better by the task's metric and not worse by any other."""
        better, worse = self.differences(numbers, criterion)
        return criterion().metric in better and not worse

    def line(
        self, part: str, numbers: Mapping[str, float], criterion: Callable[..., Criterion]
    ) -> str:
        """Compare a model with the baseline on one part of the data, as one line of text."""
        metric = criterion().metric
        better, worse = self.differences(numbers, criterion)

        def compared(name: str) -> str:
            return f"{name} {numbers[name]:.4g} (baseline {self.score.numbers[name]:.4g})"

        model, own = (f"{values[metric]:.4g}" for values in (numbers, self.score.numbers))
        if metric not in better:
            also = f" (better: {', '.join(map(compared, better))})" if better else ""
            return (
                f"! {part}: {metric} {model} is NOT BETTER THAN THE BASELINE ({self.name}), {own}"
                f"{also}: the model is not useful yet; look at the loss curve, train longer or "
                "with a different training.learning_rate, and check for mistakes with --self-test"
            )
        if worse:
            return (
                f"! {part}: better than the baseline ({self.name}) by "
                f"{', '.join(map(compared, better))}, but WORSE by "
                f"{', '.join(map(compared, worse))}"
            )
        return f"{part}: {metric} {model}; baseline ({self.name}) {own}"


def compared(
    part: str,
    numbers: Mapping[str, float],
    baselines: Sequence[Baseline],
    criterion: Callable[..., Criterion],
) -> list[str]:
    """Compare a model with its baselines, the trivial one last, as lines of text."""
    if len(baselines) < 2:
        return [baseline.line(part, numbers, criterion) for baseline in baselines]
    metric = criterion().metric
    listed = ", ".join(f"{b.name} {b.score.numbers[metric]:.4g}" for b in baselines)
    lines = [f"{part}: {metric} {numbers[metric]:.4g}; baselines: {listed}"]
    trivial = baselines[-1].line(part, numbers, criterion)
    return [*lines, trivial] if trivial.startswith("!") else lines


def significance(one: Score, other: Score, metric: str) -> float | None:
    """The p-value of the difference between two models; None if the metric cannot be resampled, or
    the models were scored on different examples."""
    sums = [one.sums(), other.sums()]
    return p_value(sums[0][metric], sums[1][metric]) if paired(sums, metric) else None


def not_better(
    part: str, criterion: Criterion, one: Score, name: str, other: Score, p: float | None
) -> str:
    """A warning if a model (score `one`) is not significantly better than a baseline (score
    `other`); otherwise an empty string."""
    metric = criterion.metric
    model, own = one.numbers[metric], other.numbers[metric]
    better = criterion.rank({metric: model}) > criterion.rank({metric: own})
    if better and (p is None or p < RARE):
        return ""
    verdict = "not better" if p is None else "worse" if p < RARE else "not shown to be better"
    shown = "" if p is None else f" (p = {p:.2g})"
    return f"! {part}: {metric} {model:.4g} is {verdict} than the {name}'s {own:.4g}{shown}"


def degenerate_outputs(
    outputs: Sequence[str], inputs: Sequence[Hashable], references: Sequence[str]
) -> tuple[str, ...]:
    """Warnings if, compared with the references, many more different inputs have the same output,
    or many more outputs repeat a word several times in a row."""
    least, warnings = max(3, IDENTICAL * len(outputs)), list[str]()
    output, count = _commonest(outputs, inputs)
    if count >= least and count > 2 * _commonest(references, inputs)[1]:
        total = outputs.count(output)
        warnings.append(f"{total:,} of {len(outputs):,} outputs are identical: {_quoted(output)}")
    repeating = [output for output in outputs if _repeats(output)]
    if len(repeating) >= least and len(repeating) > 2 * sum(map(_repeats, references)):
        warnings.append(
            f"{len(repeating):,} of {len(outputs):,} outputs repeat a word {REPEATED} times in a "
            f"row: {_quoted(repeating[0])}"
        )
    return tuple(warnings)


def _repeats(text: str) -> bool:
    return any(len([*group]) >= REPEATED for _, group in groupby(text.split()))


def _commonest(texts: Sequence[str], inputs: Sequence[Hashable]) -> tuple[str, int]:
    """The text that belongs to the largest number of different inputs, and that number."""
    counts = Counter(text for text, _ in dict.fromkeys(zip(texts, inputs, strict=True)))
    return counts.most_common(1)[0] if counts else ("", 0)


def one_answer(answers: Sequence[Hashable], gold: Sequence[Hashable], noun: str) -> tuple[str, ...]:
    """A warning if all predictions are equal although the correct ones differ."""
    if len(answers) < 2 or len({*answers}) > 1 or len({*gold}) < 2:
        return ()
    return (f"the model predicts {answers[0]} for every {noun} ({len(answers):,} {noun}s)",)


def _quoted(text: str) -> str:
    return f'"{text[:57]}..."' if len(text) > 60 else f'"{text}"'
