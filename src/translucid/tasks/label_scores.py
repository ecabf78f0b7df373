"""What the outputs of a classifier mean: labels that exclude each other (softmax), labels that may
hold together (a sigmoid each), or scores (one number or several).

Translucid trains classifiers of the first kind; opened models may be of any. The rule is that of
transformers' text-classification pipeline: `problem_type` decides, and without it one output is a
score between 0 and 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from translucid.core.errors import ConfigError, InputError
from translucid.tasks.choices import OneLabel
from translucid.tasks.example import Example
from translucid.tasks.outputs import (
    Answer,
    Cell,
    Ending,
    OutputRow,
    Outputs,
    Values,
    floats,
    place_of,
)

Function = Literal["softmax", "sigmoid", "none"]
# In the statistics of a model, where its labels do not simply exclude each other.
FUNCTION, PROBLEM = "function_to_apply", "problem_type"
REGRESSION, SEVERAL, ONE = (
    "regression", "multi_label_classification", "single_label_classification",
)  # fmt: skip
THRESHOLD = 0.5


@dataclass(frozen=True, kw_only=True)
class InputFlags:
    """What was noticed about the text that an answer is for."""

    empty: bool = False  # there was nothing to read
    unknown_tokens: int = 0  # of the text, read as <unk>


@dataclass(frozen=True)
class Label(InputFlags):
    """A class and how sure the model is of it."""

    label: str
    probability: float


@dataclass(frozen=True)
class Labels(InputFlags):
    """All labels with their probabilities, each by itself, and those that reach the threshold."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]
    threshold: float


@dataclass(frozen=True)
class LabelScore(InputFlags):
    """The scores of a model that does not choose among labels, by the names of its outputs."""

    scores: dict[str, float]

    @property
    def score(self) -> float:
        """The only one."""
        (score,) = self.scores.values()
        return score


def function_of(problem: str | None, outputs: int) -> Function:
    """What transformers' text-classification pipeline applies to the logits."""
    if problem == REGRESSION:
        return "none"
    return "sigmoid" if problem == SEVERAL or outputs == 1 else "softmax"


class LabelReading(ABC):
    """From the logits of a text to an answer."""

    @abstractmethod
    def values(self, logits: Tensor) -> Tensor:
        """Logits (..., labels) as probabilities or scores."""

    @abstractmethod
    def answer(self, labels: Sequence[str], row: Sequence[float]) -> Any: ...

    @abstractmethod
    def text(self, answer: Any) -> str:
        """One line."""

    @abstractmethod
    def json(self, answer: Any) -> dict[str, Any]: ...

    @abstractmethod
    def columns(self, answer: Any) -> dict[str, Any]:
        """New columns of a table."""

    @abstractmethod
    def outputs(self, labels: Sequence[str]) -> Outputs: ...

    def check_trainable(self, what: str) -> None:  # noqa: B027 (most refuse nothing)
        """Refuse what needs one right label for each text. what: the command, for the message."""

    def with_threshold(self, threshold: float) -> "LabelReading":
        raise ConfigError(
            f"threshold = {threshold}: is for models that give several labels at once "
            f"({PROBLEM} = {SEVERAL}); leave it out"
        )


class OneOf(LabelReading):
    """Labels that exclude each other."""

    def values(self, logits: Tensor) -> Tensor:
        return logits.softmax(dim=-1)

    def answer(self, labels: Sequence[str], row: Sequence[float]) -> Label:
        place = max(range(len(row)), key=row.__getitem__)  # of equal ones the first
        return Label(labels[place], row[place])

    def text(self, answer: Label) -> str:
        return f"{answer.label}\t{answer.probability:.3f}"

    def json(self, answer: Label) -> dict[str, Any]:
        return {"label": answer.label, "probability": answer.probability}

    def columns(self, answer: Label) -> dict[str, Any]:
        return {"predicted_label": answer.label, "probability": answer.probability}

    def outputs(self, labels: Sequence[str]) -> OneLabel:
        return OneLabel(labels)


@dataclass(frozen=True)
class ManyLabels(LabelReading):
    """Labels that may hold together: each has a probability of its own."""

    threshold: float = THRESHOLD

    def values(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def answer(self, labels: Sequence[str], row: Sequence[float]) -> Labels:
        every = dict(zip(labels, row, strict=True))
        order = sorted(every, key=lambda label: -every[label])
        chosen = tuple(label for label in order if every[label] > self.threshold)
        return Labels(chosen, every, self.threshold)

    def text(self, answer: Labels) -> str:
        named = [f"{label}\t{answer.probabilities[label]:.3f}" for label in answer.labels]
        return "\t".join(named) or f"(no label above {answer.threshold:g})"

    def json(self, answer: Labels) -> dict[str, Any]:
        return {"labels": list(answer.labels), "probabilities": answer.probabilities}

    def columns(self, answer: Labels) -> dict[str, Any]:
        every = {f"probability_{label}": p for label, p in answer.probabilities.items()}
        return {"predicted_labels": "|".join(answer.labels)} | every

    def outputs(self, labels: Sequence[str]) -> "LabelValues":
        return LabelValues(labels, self)

    def check_trainable(self, what: str) -> None:
        raise _one_label_only(what, f"several labels at once ({PROBLEM} = {SEVERAL})")

    def with_threshold(self, threshold: float) -> "ManyLabels":
        if not 0 <= threshold <= 1:
            raise ConfigError(f"threshold = {threshold}: a probability from 0 to 1 is needed")
        return ManyLabels(threshold)


@dataclass(frozen=True)
class Scores(LabelReading):
    """Numbers, such as the relevance of a passage. function: what is applied to the logits."""

    function: Literal["sigmoid", "none"]

    def values(self, logits: Tensor) -> Tensor:
        return logits.sigmoid() if self.function == "sigmoid" else logits

    def answer(self, labels: Sequence[str], row: Sequence[float]) -> LabelScore:
        return LabelScore(dict(zip(labels, row, strict=True)))

    def text(self, answer: LabelScore) -> str:
        if len(answer.scores) == 1:
            return f"{answer.score:.6g}"
        return "\t".join(f"{name}\t{score:.6g}" for name, score in answer.scores.items())

    def json(self, answer: LabelScore) -> dict[str, Any]:
        if len(answer.scores) == 1:
            return {"score": answer.score}
        return {"scores": answer.scores}

    def columns(self, answer: LabelScore) -> dict[str, Any]:
        if len(answer.scores) == 1:
            return {"score": answer.score}
        return {f"score_{name}": score for name, score in answer.scores.items()}

    def outputs(self, labels: Sequence[str]) -> "LabelValues":
        return LabelValues(labels, self)

    def check_trainable(self, what: str) -> None:
        raise _one_label_only(what, "scores, no labels")


def _one_label_only(what: str, gives: str) -> InputError:
    return InputError(
        f"{what} needs one right label for each text, but this model gives {gives}; use classify "
        "or predict, or train a classifier from it: translucid train classify --from MODEL"
    )


def reading_of(statistics: Mapping[str, Any]) -> LabelReading:
    """As a model's folder says; labels exclude each other unless it says otherwise."""
    function = statistics.get(FUNCTION, "softmax")
    if function == "softmax":
        return OneOf()
    if function == "sigmoid" and statistics.get(PROBLEM) == SEVERAL:
        return ManyLabels()
    if function in ("sigmoid", "none"):
        return Scores(function)
    raise InputError(
        f"{FUNCTION} = {str(function)[:60]!r}: softmax, sigmoid or none is known; copy the model "
        "again, whole"
    )


class LabelValues(Values):
    """Outputs with names that do not compete."""

    def __init__(self, labels: Sequence[str], reading: LabelReading) -> None:
        super().__init__()
        self.labels, self.reading = tuple(labels), reading

    def name(self, number: int, before: int | None = None) -> str:
        return self.labels[number]

    def plain(self, outputs: Tensor) -> Any:
        return dict(zip(self.labels, self.reading.values(outputs.float()).tolist(), strict=True))

    @property
    def lacking(self) -> str:
        return "this model's outputs have no loss here; leave the target out"

    def counts(self, targets: Tensor) -> Tensor:
        return targets.new_zeros(targets.shape)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        raise _one_label_only("a loss", "several labels at once, or scores")

    def answer(self, example: Example, outputs: Tensor, of: int | str | None) -> Answer:
        best = int(outputs.argmax())
        choice = best if of is None else place_of(of, self.labels, "the answers are")
        return Answer(None, choice, self.labels[choice])

    def endings(self, example: Example, outputs: Tensor, top: int) -> tuple[list[Ending], str]:
        scores = self.reading.values(outputs.float())
        rows = tuple(
            OutputRow(label, (Cell("", value, chosen=True),))
            for label, value in zip(self.labels, floats(scores), strict=True)
        )
        sentence = "The weighted sum of the last layer is the score of each output."
        if not isinstance(self.reading, Scores) or self.reading.function == "sigmoid":
            sentence += " The sigmoid brings each by itself between 0 and 1."
        answer = self.reading.answer(self.labels, scores.tolist())
        words = self.reading.text(answer).replace("\t", " ")
        return [Ending("values", "the outputs", sentence, rows)], words
