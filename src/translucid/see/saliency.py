"""How much each word that was read counted for one answer.

"gradient" is gradient × input (Shrikumar et al. 2016, https://arxiv.org/abs/1605.01713): exact
where the model is a straight line. "integrated" goes straight from embeddings of 0 to those of the
words and sums up the gradients on the way (Sundararajan et al. 2017,
https://arxiv.org/abs/1703.01365): what the words are given adds up to what they changed.

A word enters a model at its embedding; beside it, where a classifier has n-gram features, at these.
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

# Where the input enters: of each group, the first point that a model has.
ENTRANCES = (("characters.sum", "embedding.scaled", "embedding.lookup"), ("ngrams.words",),
             ("ngrams.pairs",), ("standardise.output",))  # fmt: skip
AT_ONCE = 2048  # tokens that are computed together
METHODS = {"gradient": "gradient × input", "integrated": "integrated gradient"}


@dataclass(frozen=True)
class Saliency:
    """What each token (or feature) did for an answer; below 0 it spoke against it."""

    answer: Answer
    tokens: tuple[str, ...]
    values: Numbers  # (tokens,)
    value: float  # the answer
    method: Method
    unit: str
    nothing: float | None = None  # integrated: the answer where the way begins
    start: str = ""  # what that is

    @property
    def missing(self) -> float:
        """What the values fall short of the answer's rise from nothing; 0 with enough steps."""
        return 0.0 if self.nothing is None else self.value - self.nothing - float(self.values.sum())

    def picture(self) -> Bars:
        note = f"{self.unit} {self.value:.4g}"
        if self.nothing is not None:
            rise = self.value - self.nothing
            note += f"; {self.nothing:.4g} for {self.start}; the bars add up to the difference"
            if abs(self.missing) > 1e-3 * abs(rise):
                note += f", but for {self.missing:.1g}{_advice(self.missing, rise)}"
        strongest = int(np.abs(self.values).argmax())
        return Bars(
            f"What spoke for {self.answer.name}", f"{METHODS[self.method]}, of the {self.unit}",
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
    """How much each token read counted for one answer.

    of: a class by name or number, by default the likeliest; for a tagger, a translator or a
    language model a word by name or place, by default the last: explained is its likeliest tag, or
    the word that stands there in the text. unit: the logit by default, since the probability of
    what is certain hardly changes, whatever is read.
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
    """The same for several answers, which are computed together."""
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
    """The same for every answer: words to be written, tags, or classes, over all tokens read."""
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
            f"each row adds up to its answer's rise from {asked.start}, "
            f"but for {missing.max():.1g} at most{_advice(missing[worst], rises[worst])}"
        )
    return Heat(
        f"What counted for each answer ({METHODS[method]}, of the {asked.unit})", values,
        Axis("answer", tuple(answer.name for answer in answers)), Axis("read", asked.tokens),
        note=note,
    )  # fmt: skip


class _Asked:
    """A network, a text, and where its words enter."""

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
            raise InputError(f"method = {method!r}: give gradient or integrated")
        if steps < 2:
            raise InputError(f"steps = {steps}: give 2 or more")
        if unit not in get_args(Unit):
            raise InputError(f"unit = {unit!r}: give logit or log_probability")
        if not task.outputs.probabilities and unit != "logit":
            raise InputError(f"unit = {unit!r}: numbers have no probability; leave it out")
        self.network, self.words = network, example.words
        self.method, self.steps, self.log = method, steps, unit == "log_probability"
        self.unit = unit.replace("_", " ") if task.outputs.probabilities else "output"
        self.inputs = example.inputs_for(network)
        first = Trace([f"*{name}" for names in ENTRANCES for name in names])
        with torch.no_grad():
            self.outputs = network(**self.inputs, trace=first)[0]  # (classes,) or (length, classes)
        self.entrances = {name: first[name] for name in _entrances(first.names())}
        if not self.entrances:  # numbers that nothing has changed yet
            self.entrances = {"x": self.inputs["x"]}
        self.start = {"x": "features of 0", "standardise.output": "features at their means"}.get(
            next(iter(self.entrances)), "embeddings of 0"
        )
        source, target = self.words.source, self.words.target
        written = tuple(f"{word} (written)" for word in target) if source else target
        self.tokens = self.words.features or (*source, *written)

    def unread(self, column: int, answer: Answer) -> bool:
        """Does this token come only after the answer?"""
        if answer.place is None or not any("decoder" in name for name in self.entrances):
            return False
        before = len(self.words.source) if self.words.target else 0
        return column - before > answer.place

    # ---- how it is answered ----

    def attribute(
        self, answers: Sequence[Answer]
    ) -> tuple[Numbers, list[tuple[float, float | None]]]:
        """What each token did for each answer, (answers, tokens); and the answers themselves."""
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
        """The gradient of each answer where the words enter, with this part of them."""
        entered = {
            name: (value * _column(part, value)).requires_grad_()
            for name, value in self.entrances.items()
        }
        total = self.answer_values(entered, answers).sum()
        return dict(zip(entered, torch.autograd.grad(total, list(entered.values())), strict=True))

    def answer_values(self, entered: Mapping[str, Tensor], answers: Sequence[Answer]) -> Tensor:
        """Each answer, in a row of its own. (rows,)"""
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
        """Gradient × input, summed over the features of a token and all ways it enters by."""
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
        """Each answer with all read and, for integrated gradients, where the way begins."""

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
    """Parts of the way from 0 to 1, and what each counts.

    Gauss and Legendre's rule over the cube root of the way. The cube puts more steps near 0, where
    a norm makes large vectors of small embeddings: even steps miss most of what happens there, if
    no positions are added to the embeddings (rotary, alibi).
    """
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    root = (nodes + 1) / 2
    return root**3, 3 * root**2 * weights / 2


def _entrances(names: Sequence[str]) -> list[str]:
    """The last point of each way in: an embedding that is scaled, or joined by characters, is taken
    after that."""
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
