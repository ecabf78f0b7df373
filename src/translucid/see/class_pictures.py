"""Pictures of a classifier's report: the confusion matrix, and calibration."""

import numpy as np

from translucid.see.pictures import Axis, Heat, Lines, Picture
from translucid.tasks.class_report import BINS, ClassReport


def pictures(report: ClassReport) -> list[Picture]:
    """The confusion matrix as fractions of each row, and a reliability diagram: the fraction of
    correct predictions by their probability."""
    counts = np.array(report.counts, dtype=np.float64)
    rows = counts.sum(axis=1, keepdims=True)
    texts = tuple(tuple(f"{count:,}" for count in row) for row in report.counts)
    matrix = Heat(
        "Confusion matrix", counts / np.maximum(rows, 1), Axis("correct", report.labels),
        Axis("predicted", report.labels), "unit", texts=texts,
        note="numbers: examples; color: fraction of the row",
    )  # fmt: skip
    correct = np.full(BINS, np.nan)
    mean = np.full(BINS, np.nan)
    for part in report.bins:
        correct[round(part.low * BINS)], mean[round(part.low * BINS)] = (
            part.correct, part.probability,
        )  # fmt: skip
    ranges = tuple(f"{n / BINS:.1f} to {(n + 1) / BINS:.1f}" for n in range(BINS))
    calibration = Lines(
        "Calibration", Axis("probability of the predicted label", ranges), "fraction of rows",
        {"correct": correct, "mean probability": mean},
        note=f"expected calibration error {report.calibration_error:.3f}; the lines are equal if "
        "the model is calibrated",
    )  # fmt: skip
    return [matrix, calibration]
