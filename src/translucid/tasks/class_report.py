"""A report on predicted classes: precision and recall of each label, the confusion matrix, and
calibration: how often predictions of a probability are correct."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from translucid.tasks.metrics import f1

BINS = 10  # of the probability of the predicted label
SHOWN = 12  # labels in the printed confusion matrix


@dataclass(frozen=True)
class Bin:
    """The predictions whose probability is between `low` and `high`: their number, their mean
    probability, and the fraction of them that is correct."""

    low: float
    high: float
    count: int
    probability: float  # the mean
    correct: float  # the fraction


@dataclass(frozen=True)
class ClassReport:
    """What a classifier predicted for rows with known labels."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # the confusion matrix: (correct labels, predicted labels)
    bins: tuple[Bin, ...]

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        gold: Sequence[int],
        predicted: Sequence[int],
        probabilities: Sequence[float],
    ) -> "ClassReport":
        """Make a report. gold, predicted: for each example, the index of the correct label and of
        the predicted one. probabilities: the probability of each predicted label."""
        counts = np.zeros((len(labels), len(labels)), dtype=int)
        np.add.at(counts, (np.array(gold, dtype=int), np.array(predicted, dtype=int)), 1)
        chances = np.array(probabilities, dtype=float)
        right = np.array(gold) == np.array(predicted)
        place = np.minimum((chances * BINS).astype(int), BINS - 1)
        bins = [
            Bin(
                n / BINS, (n + 1) / BINS, int(inside.sum()), float(chances[inside].mean()),
                float(right[inside].mean()),
            )
            for n in range(BINS)
            if (inside := place == n).any()
        ]  # fmt: skip
        return cls(tuple(labels), tuple(map(tuple, counts.tolist())), tuple(bins))

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: the mean difference between probability and fraction correct
        (Naeini et al. 2015, https://ojs.aaai.org/index.php/AAAI/article/view/9602)."""
        total = sum(part.count for part in self.bins)
        gaps = (part.count * abs(part.probability - part.correct) for part in self.bins)
        return sum(gaps) / max(total, 1)

    def of_label(self, place: int) -> dict[str, Any]:
        """Precision, recall, F1 and the number of rows of a label."""
        row, column = sum(self.counts[place]), sum(line[place] for line in self.counts)
        hits = self.counts[place][place]
        return {
            "precision": hits / column if column else 0.0,
            "recall": hits / row if row else 0.0,
            "f1": f1(hits, column, row),
            "examples": row,
        }

    def lines(self) -> list[str]:
        """The report as text."""
        width = max(5, *map(len, self.labels))
        lines = [f"{'label':{width}}  precision  recall     F1  examples"]
        for place, label in enumerate(self.labels):
            one = self.of_label(place)
            lines.append(
                f"{label:{width}}  {one['precision']:9.3f}  {one['recall']:6.3f}  {one['f1']:5.3f}"
                f"  {one['examples']:8,}"
            )
        lines += ["", *self._matrix(width), "", *self._calibration()]
        return lines

    def _matrix(self, width: int) -> list[str]:
        if len(self.labels) > SHOWN:
            return [
                f"confusion matrix: {len(self.labels)} labels are too many to print; use --figure "
                "or --json"
            ]
        cells = [max(len(label), 5) for label in self.labels]
        heads = "  ".join(f"{label:>{n}}" for label, n in zip(self.labels, cells, strict=True))
        lines = ["confusion matrix: correct label by row, prediction by column"]
        lines.append(f"{'':{width}}  {heads}")
        for label, row in zip(self.labels, self.counts, strict=True):
            counts = "  ".join(f"{count:{n}}" for count, n in zip(row, cells, strict=True))
            lines.append(f"{label:{width}}  {counts}")
        return lines

    def _calibration(self) -> list[str]:
        lines = [
            f"calibration: expected calibration error {self.calibration_error:.3f}",
            "probability    examples  mean probability  correct",
        ]
        for part in self.bins:
            lines.append(
                f"{part.low:.1f} to {part.high:.1f}  {part.count:12,}  {part.probability:16.3f}"
                f"  {part.correct:7.3f}"
            )
        return lines

    def as_dict(self) -> dict[str, Any]:
        """The report as a dictionary for JSON."""
        return {
            "labels": {label: self.of_label(place) for place, label in enumerate(self.labels)},
            "confusion": {"labels": self.labels, "counts": self.counts},
            "calibration": {
                "error": self.calibration_error,
                "bins": [vars(part) for part in self.bins],
            },
        }
