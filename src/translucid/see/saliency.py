"""Saliency: how much each input token contributed to one answer.

"gradient" is gradient × input (Shrikumar et al. 2016, https://arxiv.org/abs/1605.01713), exact for
a linear model. "integrated" integrates the gradient along the straight line from zero embeddings to
those of the tokens (Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365), so the values sum
to the change in the answer.

Tokens enter a model through their embeddings and, in some classifiers, through n-gram features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.models.base import Network
from translucid.parts.activations import as_log_probs
from translucid.see import INTEGRATION_STEPS
from translucid.see.gradients import eval_copy
from translucid.see.pictures import Axis, Bars, Heat, Numbers
from translucid.see.trace_pictures import numbers
from translucid.tasks.base import Task
from translucid.tasks.example import Example
from translucid.tasks.outputs import Answer

Method = Literal["gradient", "integrated"]
Unit = Literal["logit", "log_probability"]

# Points where the input enters a model; of each group, the first point that the model has.
ENTRANCES = (("characters.sum", "embedding.scaled", "embedding.lookup"), ("ngrams.words",),
             ("ngrams.pairs",), ("standardise.output",), ("linear.words",), ("linear.pairs",),
             ("linear.characters",), ("linear.next",), ("linear.previous",))  # fmt: skip
# Where the path of integrated gradients begins, if not at zero embeddings.
STARTS = {"x": "zero features", "standardise.output": "features at their means",
          "linear.words": "a text without words"}  # fmt: skip
AT_ONCE = 2048  # maximum tokens in one batch
METHODS = {"gradient": "gradient × input", "integrated": "integrated gradient"}


@dataclass(frozen=True)
class Saliency:
    """How much each token (or feature) contributed to an answer; negative values count against
    it."""

    answer: Answer
    tokens: tuple[str, ...]
    values: Numbers  # (tokens,)
    value: float  # value of the answer
    method: Method
    unit: str
    nothing: float | None = None  # for "integrated": the answer's value at the start of the path
    start: str = ""  # the start of the path in words

    @property
    def missing(self) -> float:
        """The change in the answer minus the sum of the values; near 0 with enough steps."""
        return 0.0 if self.nothing is None else self.value - self.nothing - float(self.values.sum())

    def picture(self) -> Bars:
        note = f"{self.unit} {self.value:.4g}"
        if self.nothing is not None:
            rise = self.value - self.nothing
            note += f"; {self.nothing:.4g} for {self.start}; the bars sum to the difference"
            if abs(self.missing) > 1e-3 * abs(rise):
                note += f", except for {self.missing:.1g}{_advice(self.missing, rise)}"
        strongest = int(np.abs(self.values).argmax())
        return Bars(
            f"What contributed to {self.answer.name}",
            f"{METHODS[self.method]}, of the {self.unit}",
            self.tokens, self.values, note, (strongest,),
        )  # fmt: skip

    def _repr_svg_(self) -> str:
        return self.picture().svg()


def saliency(
    network: Network,
    task: Task[Any, Any],
    example: Example,
    *,
    of: int | str | None = None,
    method: Method = "gradient",
    steps: int = INTEGRATION_STEPS,
    unit: Unit = "logit",
) -> Saliency:
    """Measure how much each input token contributed to one answer.

    of: the answer to explain. For classifiers, a class by name or number (default: the likeliest).
    For taggers, a word by name or position (default: the last), whose likeliest tag is explained.
    For translation and language models, a word by name or position (default: the last), which
    itself is explained. unit: the logit by default, because a probability near 1 hardly changes.
    """
    return saliencies(network, task, example, [of], method=method, steps=steps, unit=unit)[0]


def saliencies(
    network: Network,
    task: Task[Any, Any],
    example: Example,
    of: Sequence[int | str | None],
    *,
    method: Method = "gradient",
    steps: int = INTEGRATION_STEPS,
    unit: Unit = "logit",
) -> list[Saliency]:
    """Compute the saliency of several answers in one batch."""
    with torch.enable_grad():
        asked = _Asked(eval_copy(network), task, example, method, steps, unit)
        answers = [task.outputs.answer(example, asked.outputs, one) for one in of]
        values, ends = asked.attribute(answers)
    tokens = np.array(asked.tokens, dtype=object)
    read = [
        [not asked.unread(column, answer) for column in range(len(tokens))] for answer in answers
    ]
    return [
        Saliency(
            answer, tuple(tokens[kept]), row[kept], value, method, asked.unit, nothing, asked.start
        )
        for answer, kept, row, (value, nothing) in zip(answers, read, values, ends, strict=True)
    ]


def saliency_map(
    network: Network,
    task: Task[Any, Any],
    example: Example,
    *,
    method: Method = "gradient",
    steps: int = INTEGRATION_STEPS,
    unit: Unit = "logit",
) -> Heat:
    """Draw the saliency of each input token for every answer (target tokens, tags or classes)."""
    with torch.enable_grad():
        asked = _Asked(eval_copy(network), task, example, method, steps, unit)
        answers = task.outputs.answers(example, asked.outputs)
        values, ends = asked.attribute(answers)
    for row, answer in enumerate(answers):
        values[row, [asked.unread(column, answer) for column in range(len(asked.tokens))]] = np.nan
    note = ""
    if method == "integrated":
        rises = np.array([value - (nothing or 0.0) for value, nothing in ends])
        missing = np.abs(rises - np.nansum(values, axis=1))
        worst = int((missing - 0.01 * np.abs(rises)).argmax())
        note = (
            f"each row sums to the change in its answer from {asked.start}, "
            f"up to {missing.max():.1g}{_advice(missing[worst], rises[worst])}"
        )
    return Heat(
        f"What contributed to each answer ({METHODS[method]}, of the {asked.unit})", values,
        Axis("answer", tuple(answer.name for answer in answers)), Axis("read", asked.tokens),
        note=note,
    )  # fmt: skip


class _Asked:
    """A saliency request: a network, a text, and the points where its tokens enter."""

    def __init__(
        self,
        network: Network,
        task: Task[Any, Any],
        example: Example,
        method: Method,
        steps: int,
        unit: Unit,
    ) -> None:
        if method not in get_args(Method):
            raise InputError(f"method = {method!r}: expected gradient or integrated")
        if steps < 2:
            raise InputError(f"steps = {steps}: must be at least 2")
        if unit not in get_args(Unit):
            raise InputError(f"unit = {unit!r}: expected logit or log_probability")
        if not task.outputs.probabilities and unit != "logit":
            raise InputError(f"unit = {unit!r}: a numeric output has no probability; omit unit")
        self.network, self.words = network, example.words
        self.method, self.steps, self.log = method, steps, unit == "log_probability"
        self.unit = unit.replace("_", " ") if task.outputs.probabilities else "output"
        self.inputs = example.inputs_for(network)
        first = Trace([f"*{name}" for names in ENTRANCES for name in names])
        with torch.no_grad():
            self.outputs = network(**self.inputs, trace=first)[0]  # (classes,) or (length, classes)
        if not self.outputs.dim():
            raise InputError(
                "saliency needs an output with a gradient, but a perceptron outputs 0 or 1; look "
                'at its weights instead: print(trace.terms("perceptron.sum[0]"))'
            )
        self.entrances = {name: first[name] for name in _entrances(first.names())}
        if not self.entrances:  # plain numbers
            self.entrances = {"x": self.inputs["x"]}
        self.start = STARTS.get(next(iter(self.entrances)), "zero embeddings")
        source, target = self.words.source, self.words.target
        written = tuple(f"{word} (written)" for word in target) if source else target
        self.tokens = self.words.features or (*source, *written)

    def unread(self, column: int, answer: Answer) -> bool:
        """Whether this token comes after the answer, so that it cannot contribute."""
        if answer.place is None or not any("decoder" in name for name in self.entrances):
            return False
        before = len(self.words.source) if self.words.target else 0
        return column - before > answer.place

    def attribute(
        self, answers: Sequence[Answer]
    ) -> tuple[Numbers, list[tuple[float, float | None]]]:
        """The saliency of each token for each answer, (answers, tokens), and the values of each
        answer that `ends` returns."""
        nodes, weights = (
            _way(self.steps) if self.method == "integrated" else (np.ones(1), np.ones(1))
        )
        rows = [(row, at) for row in range(len(answers)) for at in range(len(nodes))]
        slopes = {name: value.new_zeros(len(answers), *value.shape[1:])
                  for name, value in self.entrances.items()}  # fmt: skip
        several = max(1, AT_ONCE // sum(value.shape[1] for value in self.entrances.values()))
        for start in range(0, len(rows), several):
            chunk = rows[start : start + several]
            part = self.slopes([answers[row] for row, _ in chunk], nodes[[at for _, at in chunk]])
            for name, slope in part.items():
                weight = slope.new_tensor(weights[[at for _, at in chunk]])
                where = torch.tensor([row for row, _ in chunk], device=slope.device)
                slopes[name].index_add_(0, where, slope * weight.view(-1, *[1] * (slope.dim() - 1)))
        return self.per_token(slopes), self.ends(answers)

    def slopes(self, answers: Sequence[Answer], part: Numbers) -> dict[str, Tensor]:
        """The gradient of each answer at the points where the tokens enter the network. part: for
        each answer, the factor by which the inputs are scaled."""
        entered = {
            name: (value * _column(part, value)).requires_grad_()
            for name, value in self.entrances.items()
        }
        total = self.answer_values(entered, answers).sum()
        return dict(zip(entered, torch.autograd.grad(total, list(entered.values())), strict=True))

    def answer_values(self, entered: Mapping[str, Tensor], answers: Sequence[Answer]) -> Tensor:
        """The value of each answer, one per row. (rows,)"""
        rows = len(answers)
        inputs = {name: value.expand(rows, *value.shape[1:]) for name, value in self.inputs.items()}
        return self.picked(self.outputs_of(inputs, entered), answers, range(rows))

    def outputs_of(self, inputs: Mapping[str, Tensor], entered: Mapping[str, Tensor]) -> Tensor:
        edits = {name: value for name, value in entered.items() if name not in inputs}
        changed = {name: entered.get(name, value) for name, value in inputs.items()}
        return self.network(**changed, trace=Trace([], edit=edits))

    def picked(self, outputs: Tensor, answers: Sequence[Answer], rows: Sequence[int]) -> Tensor:
        outputs = as_log_probs(outputs) if self.log else outputs
        choices = [answer.choice for answer in answers]
        if outputs.dim() == 2:
            return outputs[rows, choices]
        return outputs[rows, [answer.place for answer in answers], choices]

    def per_token(self, slopes: Mapping[str, Tensor]) -> Numbers:
        """Gradient × input, summed over the features of a token and the points where it enters."""
        values = np.zeros((len(next(iter(slopes.values()))), len(self.tokens)))
        for name, slope in slopes.items():
            attributed = slope * self.entrances[name]
            attributed = (
                attributed.flatten(2).sum(dim=2) if attributed.dim() > 2 else attributed
            )  # (answers, tokens)
            first = len(self.words.source) if "decoder" in name and self.words.target else 0
            values[:, first : first + attributed.shape[1]] += numbers(attributed)
        return values

    def ends(self, answers: Sequence[Answer]) -> list[tuple[float, float | None]]:
        """The value of each answer for the full input and, for integrated gradients, at the
        start of the path."""

        def answered(part: float) -> list[float]:
            entered = {name: value * part for name, value in self.entrances.items()}
            outputs = self.outputs_of(self.inputs, entered)
            return numbers(self.picked(outputs, answers, [0] * len(answers))).tolist()

        with torch.no_grad():
            whole = answered(1.0)
            if self.method == "gradient":
                return [(value, None) for value in whole]
            return list(zip(whole, answered(0.0), strict=True))


def _advice(missing: float, rise: float) -> str:
    return "; more steps bring it nearer to 0" if abs(missing) > 0.01 * abs(rise) else ""


def _way(steps: int) -> tuple[Numbers, Numbers]:
    """Quadrature nodes between 0 and 1, and their weights.

    Gauss-Legendre quadrature over the cube root of the path. It puts more nodes near 0, where a
    norm enlarges small embeddings: evenly spaced nodes would miss most of the change there if no
    position vectors are added to the embeddings (rotary, alibi).
    """
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    root = (nodes + 1) / 2
    return root**3, 3 * root**2 * weights / 2


def _entrances(names: Sequence[str]) -> list[str]:
    """The last point on each input path: after scaling the embedding or adding characters."""
    points: dict[str, str] = {}
    for way in ENTRANCES:
        for point in way:
            for name in names:
                if name.endswith(point):
                    scope = name.rpartition(f".{point}")[0] if name != point else ""
                    points.setdefault(f"{scope} {way[0]}", name)
    return list(points.values())


def _column(part: Numbers, value: Tensor) -> Tensor:
    return value.new_tensor(part).view(-1, *[1] * (value.dim() - 1))
