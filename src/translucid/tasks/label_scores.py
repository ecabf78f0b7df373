"""Interpret the outputs of a classifier: mutually exclusive labels (softmax), independent labels
(one sigmoid each), or scores.

Translucid trains classifiers of the first kind; imported models may be of any kind. As in
transformers' text-classification pipeline, `problem_type` determines the kind; without it, a single
output is a score between 0 and 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.tasks.choices import OneLabel, label_answer
from translucid.tasks.example import Example
from translucid.tasks.outputs import (
    Answer,
    Cell,
    Ending,
    OutputRow,
    Outputs,
    Values,
    floats,
)

Function = Literal["softmax", "sigmoid", "none"]
# Keys of a model's statistics, for classifiers whose labels do not exclude each other.
FUNCTION, PROBLEM = "function_to_apply", "problem_type"
REGRESSION, SEVERAL, ONE = (
    "regression", "multi_label_classification", "single_label_classification",
)  # fmt: skip
THRESHOLD = 0.5


@dataclass(frozen=True, kw_only=True)
class InputFlags:
    """What is unusual about the input text of a prediction."""

    empty: bool = False  # the text was empty
    unknown_tokens: int = 0  # tokens of the text that were read as <unk>


@dataclass(frozen=True)
class Label(InputFlags):
    """The prediction of a single label: the most probable one."""

    label: str
    probability: float

    def line(self) -> str:
        """The prediction as one line of text."""
        return f"{self.label}\t{self.probability:.3f}"

    def as_dict(self) -> dict[str, Any]:
        """The prediction as a dictionary for JSON."""
        return {"label": self.label, "probability": self.probability}

    def columns(self) -> dict[str, Any]:
        """The prediction as new table columns."""
        return {"predicted_label": self.label, "probability": self.probability}


@dataclass(frozen=True)
class Labels(InputFlags):
    """The prediction of a multi-label model: the labels whose probability is above the threshold,
    and the probability of every label."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]
    threshold: float

    def line(self) -> str:
        named = [f"{label}\t{self.probabilities[label]:.3f}" for label in self.labels]
        return "\t".join(named) or f"(no label above {self.threshold:g})"

    def as_dict(self) -> dict[str, Any]:
        return {"labels": list(self.labels), "probabilities": self.probabilities}

    def columns(self) -> dict[str, Any]:
        every = {f"probability_{label}": p for label, p in self.probabilities.items()}
        return {"predicted_labels": "|".join(self.labels)} | every


@dataclass(frozen=True)
class LabelScore(InputFlags):
    """The scores of a model that does not choose a label, by output name."""

    scores: dict[str, float]

    @property
    def score(self) -> float:
        """The score of a model with a single output."""
        (score,) = self.scores.values()
        return score

    def line(self) -> str:
        if len(self.scores) == 1:
            return f"{self.score:.6g}"
        return "\t".join(f"{name}\t{score:.6g}" for name, score in self.scores.items())

    def as_dict(self) -> dict[str, Any]:
        return {"score": self.score} if len(self.scores) == 1 else {"scores": self.scores}

    def columns(self) -> dict[str, Any]:
        if len(self.scores) == 1:
            return {"score": self.score}
        return {f"score_{name}": score for name, score in self.scores.items()}


def function_of(problem: str | None, outputs: int) -> Function:
    """The function that transformers' text-classification pipeline applies to the logits."""
    if problem == REGRESSION:
        return "none"
    return "sigmoid" if problem == SEVERAL or outputs == 1 else "softmax"


@dataclass(frozen=True)
class LabelReading:
    """How logits are converted to a prediction. function: what is applied to the logits. several:
    True if labels are independent, so that all labels above the threshold are returned."""

    function: Function = "softmax"
    several: bool = False
    threshold: float = THRESHOLD

    def values(self, logits: Tensor) -> Tensor:
        """Convert logits (..., labels) to probabilities or scores."""
        if self.function == "softmax":
            return logits.softmax(dim=-1)
        return logits.sigmoid() if self.function == "sigmoid" else logits

    def answer(self, labels: Sequence[str], row: Sequence[float]) -> Label | Labels | LabelScore:
        """The prediction for one text. row: the values of all labels."""
        if self.function == "softmax":
            place = max(range(len(row)), key=row.__getitem__)  # the first of equal ones
            return Label(labels[place], row[place])
        every = dict(zip(labels, row, strict=True))
        if not self.several:
            return LabelScore(every)
        order = sorted(every, key=lambda label: -every[label])
        chosen = tuple(label for label in order if every[label] > self.threshold)
        return Labels(chosen, every, self.threshold)

    def outputs(self, labels: Sequence[str]) -> Outputs:
        return OneLabel(labels) if self.function == "softmax" else LabelValues(labels, self)

    def check_trainable(self, what: str) -> None:
        """Raise an error if a text may have several correct labels. what: the command, for the
        message."""
        if self.function != "softmax":
            several = f"several labels at once ({PROBLEM} = {SEVERAL})"
            raise _one_label_only(what, several if self.several else "scores, no labels")

    def with_threshold(self, threshold: float) -> "LabelReading":
        if not self.several:
            raise ConfigError(
                f"threshold = {threshold} is only for multi-label models ({PROBLEM} = {SEVERAL}); "
                "omit threshold"
            )
        if not 0 <= threshold <= 1:
            raise ConfigError(f"threshold = {threshold}: must be a probability from 0 to 1")
        return replace(self, threshold=threshold)


def _one_label_only(what: str, gives: str) -> InputError:
    return InputError(
        f"{what} needs one correct label per text, but this model returns {gives}; use classify "
        "or predict, or train a classifier from it: translucid train classify --from MODEL"
    )


def reading_of(statistics: Mapping[str, Any]) -> LabelReading:
    """The label reading stored in a model's statistics; by default, labels are mutually
    exclusive."""
    function = statistics.get(FUNCTION, "softmax")
    if function not in ("softmax", "sigmoid", "none"):
        raise InputError(
            f"{FUNCTION} = {str(function)[:60]!r}: must be softmax, sigmoid or none; copy the "
            "whole model again"
        )
    return LabelReading(function, function == "sigmoid" and statistics.get(PROBLEM) == SEVERAL)


class LabelValues(Values):
    """Named outputs that are independent of each other."""

    def __init__(self, labels: Sequence[str], reading: LabelReading) -> None:
        super().__init__()
        self.labels, self.reading = tuple(labels), reading

    def name(self, number: int, before: int | None = None) -> str:
        return self.labels[number]

    def plain(self, outputs: Tensor) -> Any:
        return dict(zip(self.labels, self.reading.values(outputs.float()).tolist(), strict=True))

    @property
    def lacking(self) -> str:
        return "this model's outputs have no loss; omit the target"

    def counts(self, targets: Tensor) -> Tensor:
        return targets.new_zeros(targets.shape)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        raise _one_label_only("a loss", "several labels at once, or scores")

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        return label_answer(self.labels, outputs, of)

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        scores = self.reading.values(outputs.float())
        rows = tuple(
            OutputRow(label, (Cell("", value, chosen=True),))
            for label, value in zip(self.labels, floats(scores), strict=True)
        )
        sentence = "The weighted sum of the last layer is the score of each output."
        if self.reading.function == "sigmoid":
            sentence += " The sigmoid maps each score independently to a value between 0 and 1."
        words = self.reading.answer(self.labels, scores.tolist()).line().replace("\t", " ")
        return [Ending("values", "the outputs", sentence, rows)], words
