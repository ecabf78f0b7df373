"""Write solution steps from traced values, using the catalogue of formulas."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from translucid.core import catalogue
from translucid.core.errors import InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.worked.solution.content import Given, SolutionTable, Step, Value, plain
from translucid.worked.solution.notation import NOISE, Writer
from translucid.worked.solution.numbers import Number, scalar, whole
from translucid.worked.solution.solution import Solution

STABLE = (
    r"a computer first subtracts the largest entry, $\exp(x - \max x)$: the result is the same, "
    r"and nothing can overflow."
)
SHIFTED = (
    r"the largest entry is subtracted first. Otherwise these exponentials would be outside the "
    r"range of floating-point numbers; the result is the same."
)
ROUNDED = "numbers are rounded only for printing, so printed sums may differ in the last digit."
_SAFE = 700.0  # e^709 is the largest power of e that fits in float64


@dataclass
class Board:
    """Collects the given values and steps of a solution. `section`: heading of the next steps."""

    digits: int
    section: str = ""
    given: list[Given] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.digits = whole(self.digits, "digits", least=-100)
        if not 1 <= self.digits <= 12:
            raise InputError(f"digits = {self.digits}: must be between 1 and 12")
        self.writer = Writer(self.digits)

    def number(self, value: float, noise: float = NOISE) -> str:
        """Format a number for use in a text or a table cell."""
        return f"${self.writer.number(value, noise)}$"

    def solution(self, *, notes: tuple[str, ...] = (), **fields: Any) -> Solution:
        """Build the solution from all steps written so far, with a note if numbers were rounded."""
        if self.writer.rounded:
            notes = (*notes, ROUNDED)
        return Solution(given=tuple(self.given), steps=tuple(self.steps), notes=notes, **fields)

    def state(self, symbol: str, value: Tensor | str, name: str = "") -> None:
        """Add a value to the given values of the solution."""
        if isinstance(value, str):
            self.given.append(Given(symbol=symbol, text=value, name=name or symbol))
        else:
            text = self.writer.value(value)
            self.given.append(
                Given(symbol=symbol, text=text, name=name or symbol, value=plain(value))
            )

    def point(
        self,
        name: str,
        values: Mapping[str, Tensor | str],
        symbols: Mapping[str, str] | None = None,
        absent: Collection[str] = (),
        *,
        label: str = "",
        note: str = "",
        template: str = "",
    ) -> None:
        """Write one trace point as a step.

        values: all numbers of the part that contains the point, by name, including the value of the
        point itself. symbols: replacements for the catalogue's symbols. template: a formula to use
        in place of the catalogue's, such as the one for rows.
        """
        key = catalogue.entry(name)
        part, _, point = key.partition(".")
        entry, symbols = catalogue.CATALOGUE[key], symbols or {}
        value, template = values[point], template or entry.formula
        assert isinstance(value, Tensor)
        self.steps.append(
            Step(
                title=f"{label or point.replace('_', ' ').capitalize()}: {_set(entry.meaning)}",
                section=self.section,
                name=name,
                symbol=symbols.get(point, entry.symbol),
                formula=catalogue.fill(template, part, symbols, absent),
                numbers=self.writer.numbers(template, part, values, absent),
                result=self.writer.value(value),
                value=plain(value),
                note=note,
            )
        )

    def step(
        self,
        title: str,
        symbol: str,
        template: str,
        value: Tensor,
        values: Mapping[str, Tensor | str],
        *,
        symbols: Mapping[str, str] | None = None,
        formula: str | None = None,
        name: str = "",
        note: str = "",
        noise: float = NOISE,
    ) -> None:
        """Write a step that is not a trace point: a loss, a gradient, an update.

        formula: what to show in place of the template with symbols, if that would be too long.
        """
        self.steps.append(
            Step(
                title=title,
                section=self.section,
                name=name or title,
                symbol=symbol,
                formula=catalogue.fill(template, "", symbols) if formula is None else formula,
                numbers=self.writer.numbers(template, "", values, noise=noise),
                result=self.writer.value(value, noise),
                value=plain(value),
                note=note,
            )
        )

    def formula(self, title: str, symbol: str, formula: str, *, name: str, note: str = "") -> None:
        """Write a formula without numbers as a step."""
        self.steps.append(
            Step(
                title=title, section=self.section, name=name, symbol=symbol, formula=formula,
                note=note,
            )
        )  # fmt: skip

    def table(
        self, title: str, table: SolutionTable, *, name: str, value: Value = None, note: str = ""
    ) -> None:
        """Write a table as a step. Without a title, `name` must be a trace point, whose title and
        formula are used."""
        symbol, formula = "", ""
        if not title:
            point = catalogue.describe(name)
            title = f"{name.rpartition('.')[2].capitalize()}: {point.meaning}"
            symbol, formula = point.symbol, catalogue.formula(catalogue.entry(name))
        self.steps.append(
            Step(
                title=title, section=self.section, name=name, symbol=symbol, formula=formula,
                table=table, value=value, note=note,
            )
        )  # fmt: skip


def _set(meaning: str) -> str:
    """Typeset the symbols in a meaning from the catalogue as formulas."""
    return re.sub(r"\b([a-z]_[a-z])\b", r"$\1$", meaning)


def run_softmax(run: Callable[[Trace], object]) -> tuple[Trace, bool]:
    """Trace a run that contains a softmax. Also returns whether the softmax has the textbook form
    without a shift, which is used if it can neither overflow nor underflow."""
    trace = Trace()
    run(trace)
    shifts = torch.cat([trace[name].flatten() for name in trace.names("*shift")])
    if shifts.abs().max() > _SAFE:
        return trace, False
    trace = Trace(edit={"*shift": 0.0})
    run(trace)
    return trace, True


def check_rate(rate: Number | None, target_name: str, target: Tensor | None) -> Tensor | None:
    """Convert the learning rate to a tensor; without a rate, return None. Raise an error if there
    is a rate, but no target."""
    if rate is None:
        return None
    if target is None:
        raise Missing(
            f"rate needs {target_name}, because without a target there is no gradient",
            ("rate", target_name),
        )
    speed = scalar(rate, "rate")
    if speed <= 0:
        raise InputError(f"rate = {speed.item():g}: must be greater than 0, such as 0.02")
    return speed


def squared_loss(
    board: Board, symbol: str, output: Tensor, target: Tensor, target_symbol: str
) -> Tensor:
    """Write half the squared error as a step; return the loss with its autograd graph."""
    loss = F.mse_loss(output, target, reduction="sum") / 2
    one = target.numel() == 1
    board.step(
        "Loss: half the squared distance to the target",
        "L",
        "(<target> - <output>)^2 / 2" if one else r"\lVert <target> - <output> \rVert^2 / 2",
        loss.detach(),
        {"target": target, "output": output.detach()},
        symbols={"target": target_symbol, "output": symbol},
        name="loss",
    )
    return loss


def gradient(of: str) -> str:
    """LaTeX for the gradient ∂L/∂of."""
    return rf"\frac{{\partial L}}{{\partial {of}}}"


def write_update(
    board: Board, symbol: str, before: Tensor, slope: Tensor, rate: Tensor, after: Tensor
) -> None:
    """Write the update θ - η ∂L/∂θ of one parameter, which an optimizer has already applied."""
    letter, _, index = symbol.partition("_")
    index = index.strip("{}")
    board.step(
        f"New ${symbol}$: one step against its gradient",
        rf"{letter}_{{{index + ',' if index else ''}\mathrm{{new}}}}",
        "<before> - <rate> <slope>",
        after,
        {"before": before, "rate": rate, "slope": slope},
        symbols={"before": symbol, "rate": r"\eta\,", "slope": gradient(symbol)},
        name=f"new {symbol}",
    )


def compare(board: Board, before: Tensor, after: Tensor) -> str:
    first, second = board.number(before.item(), 0.0), board.number(after.item(), 0.0)
    if after == before:
        return f"The loss stayed at {first}."
    return f"The loss {'fell' if after < before else 'rose'} from {first} to {second}."
