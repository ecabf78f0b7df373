"""Exercise: a perceptron's answer, and the perceptron rule, which learns from one point at a time.

Shapes: points (points, inputs); targets (points,), 0 or 1.
"""

import itertools
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.models.mlp import Perceptron, PerceptronConfig
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import Given, SolutionTable, Value, first_and_last, plain
from translucid.worked.solution.numbers import (
    Completed,
    Number,
    Numbers,
    complete,
    many,
    matrix,
    scalar,
    shape,
    vector,
    whole,
)
from translucid.worked.solution.solution import Solution

_TIE = 1e-12  # 0.1 + 0.2 - 0.3 is 0 on paper, but 6e-17 in float64, on the positive side
CORNERS = "0 0; 0 1; 1 0; 1 1"
DATA = {"and": "0 0 0 1", "or": "0 1 1 1", "xor": "0 1 1 0"}  # targets at the corners
_EPOCHS = 20
_SHOWN = 12  # epochs to write out, besides the last; weights are shown after every epoch
_ROWS = 40  # maximum rows of a table
_BORDER = {1: "threshold", 2: "line", 3: "plane"}  # by number of inputs


def perceptron(
    x: Numbers | None = None,
    w: Numbers | None = None,
    b: Number | None = None,
    target: Numbers | None = None,
    *,
    data: Literal["and", "or", "xor"] | None = None,
    rate: Number | None = None,
    epochs: int | str | None = None,
    digits: int = 4,
) -> Solution:
    """A perceptron and its learning rule.

    The answer is y = 1 if w · x + b > 0, otherwise 0. With targets, the perceptron learns from one
    point at a time: it adds η (t - y) x to w and η (t - y) to b, until an epoch has no mistakes.

    x: The input; for several points, one row each, such as "0 0; 0 1; 1 0; 1 1".
    w: The weights, one for each input; with targets, the initial ones [default: 0].
    b: The bias [default: 0].
    target: The targets to learn, 0 or 1, one for each row of x.
    data: A built-in set of points and targets to learn: and, or, xor.
    rate: Learning rate [default: 1].
    epochs: Maximum number of epochs [default: 20].

    Example: translucid work perceptron --data and

    Example: translucid work perceptron --x "1 0" --w "1 1" --b -0.5
    """
    asked = rate is not None or epochs is not None
    numbers = _points(x, target, data)
    points, target = matrix(numbers["x"], "x"), numbers["target"]
    example = numbers.example
    with numbers.fitting():
        targets = None if target is None else _targets(target, points)
        unit = _unit(points, w, b, learns=targets is not None)
    board, program = Board(digits), None
    if targets is None:
        if asked:
            name = "epochs" if rate is None else "rate"
            raise Missing(
                f"{name} needs target or data, because there is nothing to learn without targets",
                (name, "target", "data"),
            )
        closing, more = _answer(board, unit, points)
        next = "translucid work perceptron --data and"
    else:
        speed = torch.tensor(1.0, dtype=torch.float64) if rate is None else scalar(rate, "rate")
        if speed <= 0:
            raise InputError(f"rate = {speed.item():g}: must be greater than 0, such as 0.1")
        limit = _EPOCHS if epochs is None else whole(epochs, "epochs")
        start = {"w": unit.weight.clone(), "b": unit.bias.clone(), "rate": speed, "epochs": limit}
        program = Program(in_numpy.perceptron, {"x": points, "target": targets, **start})
        rule = PerceptronRule(unit, points, targets, speed.item())
        rule.run(limit)
        closing = _write(board, rule)
        if data == "xor":
            closing += f" {_best_for_xor(board)}"
        more = "" if rule.ended else f"--epochs {2 * limit}"
        if rule.all_right and (example or data):
            more = "--data xor"
        next = f"translucid work perceptron {more}" if more else "translucid work mlp"
    return board.solution(
        title=f"A perceptron with {many(points.shape[1], 'input')}",
        closing=closing,
        next=next,
        more=more,
        program=program,
        example=example,
        asked=asked or numbers.asked or w is not None or b is not None,
    )


def _trace(unit: Perceptron, x: Tensor, scale: float = 0.0) -> Trace:
    """A trace for the perceptron that sets tiny weighted sums, which are rounding errors, to 0.

    scale: magnitude of earlier weight updates, which may have cancelled out.
    """
    largest = max(unit.weight.abs().max().item(), abs(unit.bias.item()), scale)
    tolerance = _TIE * largest * (1 + x.abs().sum().item())
    return Trace(edit={"perceptron.sum": lambda z: torch.where(z.abs() <= tolerance, 0.0, z)})


def look(unit: Perceptron, x: Tensor, scale: float = 0.0) -> tuple[Tensor, Tensor]:
    """Compute the weighted sum and the answer for each point."""
    trace = _trace(unit, x, scale)
    unit(x[None], trace)
    return trace["perceptron.sum"][0], trace["perceptron.output"][0]


@dataclass(frozen=True)
class Turn:
    """One learning step: a point, its answer, and the weights before and after."""

    x: Tensor
    target: Tensor
    total: Tensor
    output: Tensor
    before: tuple[Tensor, Tensor]
    after: tuple[Tensor, Tensor]

    @property
    def wrong(self) -> bool:
        return bool(self.output != self.target)


@dataclass(frozen=True)
class Epoch:
    turns: list[Turn]
    weight: Tensor
    bias: Tensor
    right: int  # number of correct points with the weights at the end of the epoch

    @property
    def mistakes(self) -> int:
        return sum(turn.wrong for turn in self.turns)


@dataclass
class PerceptronRule:
    """Runs the perceptron rule until an epoch has no mistakes or the weights repeat."""

    unit: Perceptron
    points: Tensor  # (points, inputs)
    targets: Tensor  # (points,)
    rate: float
    epochs: list[Epoch] = field(default_factory=list)
    returns: int | None = None  # the epoch (0: the start) whose weights recur after the last one

    def __post_init__(self) -> None:
        start = torch.cat([self.unit.weight, self.unit.bias[None]])
        self.scale = max(start.abs().max().item(), self.rate)

    @property
    def all_right(self) -> int:
        """The epoch after which all points are classified correctly; 0 if there is none."""
        right = [i for i, epoch in enumerate(self.epochs, 1) if epoch.right == len(self.points)]
        return right[0] if right else 0

    @property
    def ended(self) -> bool:
        """Whether further epochs would change nothing."""
        return bool(self.all_right) or self.returns is not None

    def run(self, limit: int) -> None:
        met = {self._weights(): 0}
        for number in range(1, limit + 1):
            turns = [self._turn(i) for i in range(len(self.points))]
            answers = torch.stack([look(self.unit, x, self.scale)[1] for x in self.points])
            right = int((answers == self.targets).sum())
            epoch = Epoch(turns, self.unit.weight.clone(), self.unit.bias.clone(), right)
            self.epochs.append(epoch)
            if not epoch.mistakes:
                return
            same = met.setdefault(self._weights(), number)
            if same != number:
                self.returns = same
                return

    def _weights(self) -> tuple[float, ...]:
        """The weights as multiples of a step, rounded so that cycles can be detected."""
        largest = self.points.abs().amax(dim=0)
        moved = torch.where(largest > 0, self.rate * largest, 1.0)
        weights = [*(self.unit.weight / moved).tolist(), self.unit.bias.item() / self.rate]
        return tuple(round(value, 6) for value in weights)

    def _turn(self, i: int) -> Turn:
        x, target = self.points[i], self.targets[i]
        trace = _trace(self.unit, x, self.scale)
        before = self.unit.weight.clone(), self.unit.bias.clone()
        self.unit.learn(x[None], target[None], self.rate, trace=trace)
        after = self.unit.weight.clone(), self.unit.bias.clone()
        total, output = (trace[f"perceptron.{name}"][0] for name in ("sum", "output"))
        return Turn(x, target, total, output, before, after)


def _points(x: Numbers | None, target: Numbers | None, data: str | None) -> Completed:
    """The points and their targets, by default those of the built-in example."""
    given = {"x": x, "target": target}
    if data is None:
        return complete(given, {"x": CORNERS, "target": DATA["and"]}, ("x",))
    if x is not None or target is not None:
        raise InputError("pass data, or x with target, not both")
    if data.lower() not in DATA:
        raise Missing(
            f"data = {data}: expected one of {', '.join(DATA)}; for your own points, pass x, "
            "with one row per point, and target",
            ("x", "target"),
        )
    return Completed({"x": CORNERS, "target": DATA[data.lower()]}, asked=False, kept=())


def _targets(target: Numbers, points: Tensor) -> Tensor:
    targets = vector(target, "target")
    for value in targets.tolist():
        if value not in (0, 1):
            raise InputError(
                f"target: got {value:g}; a perceptron's targets are 0 or 1"
                + ("; write 0 instead of -1" if value == -1 else "")
            )
    if len(targets) != len(points):
        raise InputError(
            f"x has {many(len(points), 'row')} and target has {many(len(targets))}: each row of x "
            f'is one point and needs its target, such as x "0 0; 1 1" and target "0 1"'
        )
    return targets


def _unit(points: Tensor, w: Numbers | None, b: Number | None, *, learns: bool) -> Perceptron:
    """Build the perceptron with these weights, by default 0."""
    inputs = points.shape[1]
    unit = Perceptron(PerceptronConfig(inputs=inputs)).double()
    if w is not None:
        weights = vector(w, "w")
        if len(weights) != inputs:
            raise InputError(
                f"x is {shape(points)} and w has {many(len(weights))}: w needs one number for "
                f"each input (column of x), {inputs}"
            )
        unit.weight.copy_(weights)
    elif not learns:
        raise Missing(
            "w is missing; pass w, one number for each input, or target to learn it",
            ("w", "target"),
        )
    if b is not None:
        unit.bias.copy_(scalar(b, "b"))
    return unit


def _answer(board: Board, unit: Perceptron, points: Tensor) -> tuple[str, str]:
    """Write the answer for each point; return a closing sentence, and options to try next."""
    looks = [look(unit, x) for x in points]
    outputs = [int(y) for _, y in looks]
    if len(points) == 1:
        board.state("x", points)
        _given(board, unit.weight, unit.bias)
        _forward(board, points[0], (unit.weight, unit.bias), *looks[0])
        side = "lies on the positive side" if outputs[0] else "does not lie on the positive side"
        closing = f"The answer is {outputs[0]}: the input {side}."
    else:
        board.given.append(_table_of_points(board, points, None))
        _given(board, unit.weight, unit.bias)
        rows = [
            (_vector(board, x), board.number(z.item()), str(int(y)))
            for x, (z, y) in zip(points, looks, strict=True)
        ]
        board.table(
            "Answers: on which side of the boundary each point lies",
            SolutionTable(("$x$", r"$w \cdot x + b$", "$y$"), first_and_last(rows, _ROWS)),
            name="answers",
            value=[{"x": plain(x), "sum": z.item(), "y": int(y)}
                   for x, (z, y) in zip(points, looks, strict=True)],
        )  # fmt: skip
        closing = f"The answer is 1 for {sum(outputs)} of {len(points)} points."
    other = [*outputs[:-1], 1 - outputs[-1]]
    return closing, "--target " + (
        str(other[0]) if len(other) == 1 else '"' + " ".join(str(y) for y in other) + '"'
    )


def _given(board: Board, weight: Tensor, bias: Tensor) -> None:
    board.state("w", weight[None])
    board.state("b", bias)


def _table_of_points(board: Board, points: Tensor, targets: Tensor | None) -> Given:
    header = tuple(f"$x_{{{i}}}$" for i in range(1, points.shape[1] + 1))
    rows = [tuple(board.number(value) for value in x) for x in points.tolist()]
    value: dict[str, Value] = {"x": plain(points)}
    if targets is not None:
        header = (*header, "$t$")
        rows = [(*row, str(int(t))) for row, t in zip(rows, targets, strict=True)]
        value["target"] = plain(targets)
    heading = "The points" if targets is None else "The points and their targets"
    return Given(
        name="points",
        symbol=heading,
        value=value,
        table=SolutionTable(header, first_and_last(rows, _ROWS)),
    )


def _forward(
    board: Board, x: Tensor, weights: tuple[Tensor, Tensor], total: Tensor, output: Tensor
) -> None:
    values: dict[str, Tensor | str] = {"w": weights[0][None], "x": x[None], "b": weights[1]}
    values |= {"sum": total, "output": output}
    for point in ("sum", "output"):
        board.point(f"perceptron.{point}", values)


def _write(board: Board, rule: PerceptronRule) -> str:
    """Write one update in full, each epoch as a table, and the weights; return a closing
    sentence."""
    board.given.append(_table_of_points(board, rule.points, rule.targets))
    _given(board, *rule.epochs[0].turns[0].before)
    board.state(r"\eta", torch.tensor(rule.rate, dtype=torch.float64), name="rate")
    wrong = next((turn for turn in rule.epochs[0].turns if turn.wrong), None)
    if wrong is not None:
        board.section = f"The rule at the first misclassified point: {_vector(board, wrong.x)}"
        _rule(board, wrong, rule.rate)
    board.section = "Point by point"
    last = len(rule.epochs)
    for number, epoch in enumerate(rule.epochs, 1):
        if number <= _SHOWN or number == last:
            skipped = (
                f"After epoch {_SHOWN}, only the last is written out." if last > _SHOWN + 1 else ""
            )
            _epoch(board, number, epoch, skipped if number == last else "")
    board.section = "All epochs"
    _weights(board, rule)
    return _ending(board, rule)


def _rule(board: Board, turn: Turn, rate: float) -> None:
    _forward(board, turn.x, turn.before, turn.total, turn.output)
    values = {"rate": torch.tensor(rate, dtype=torch.float64), "t": turn.target, "y": turn.output}
    symbols = {"rate": r"\eta"}
    raised = bool(turn.target > turn.output)
    board.step(
        f"New $w$: {'towards' if raised else 'away from'} the point, so that the sum "
        f"{'grows' if raised else 'falls'}",
        r"w_{\mathrm{new}}",
        r"<w> + <rate> \cdot (<t> - <y>) \cdot <x>",
        turn.after[0][None],
        {"w": turn.before[0][None], "x": turn.x[None], **values},
        symbols=symbols,
        name="new w",
    )
    board.step(
        "New $b$: the same rule with an input of 1",
        r"b_{\mathrm{new}}",
        r"<b> + <rate> \cdot (<t> - <y>)",
        turn.after[1],
        {"b": turn.before[1], **values},
        symbols=symbols,
        name="new b",
    )


def _epoch(board: Board, number: int, epoch: Epoch, note: str) -> None:
    rows: list[tuple[str, ...]] = []
    values: list[Value] = []
    for turn in epoch.turns:
        dw, db = (after - before for before, after in zip(turn.before, turn.after, strict=True))
        answer = [_vector(board, turn.x), board.number(turn.total.item()), str(int(turn.output))]
        change = [_vector(board, dw), board.number(db.item())] if turn.wrong else ["0", "0"]
        new = [_vector(board, turn.after[0]), board.number(turn.after[1].item())]
        rows.append((*answer, str(int(turn.target)), *change, *new))
        values.append(
            {
                "x": plain(turn.x), "sum": turn.total.item(), "y": int(turn.output),
                "target": int(turn.target), "change_w": plain(dw), "change_b": db.item(),
                "w": plain(turn.after[0]), "b": turn.after[1].item(),
            }
        )  # fmt: skip
    header = ("$x$", r"$w \cdot x + b$", "$y$", "$t$", r"$\Delta w$", r"$\Delta b$")
    board.table(
        f"Epoch {number}: {many(epoch.mistakes, 'mistake')}",
        SolutionTable((*header, "new $w$", "new $b$"), first_and_last(rows, _ROWS)),
        name=f"epoch {number}",
        value=values,
        note=note,
    )


def _weights(board: Board, rule: PerceptronRule) -> None:
    size = len(rule.points)
    rows: list[tuple[str, ...]] = []
    values: list[Value] = []
    for number, epoch in enumerate(rule.epochs, 1):
        weights = (_vector(board, epoch.weight), board.number(epoch.bias.item()))
        rows.append((str(number), str(epoch.mistakes), *weights, f"{epoch.right} of {size}"))
        values.append(
            {
                "epoch": number, "mistakes": epoch.mistakes, "right": epoch.right,
                "w": plain(epoch.weight), "b": epoch.bias.item(),
            }
        )  # fmt: skip
    board.table(
        "Weights after each epoch, and how many points they classify correctly",
        SolutionTable(("epoch", "mistakes", "$w$", "$b$", "right"), first_and_last(rows, _ROWS)),
        name="weights",
        value=values,
    )


def _ending(board: Board, rule: PerceptronRule) -> str:
    size, last = len(rule.points), len(rule.epochs)
    if number := rule.all_right:
        epoch = rule.epochs[number - 1]
        weights = (
            f"$w$ = {_vector(board, epoch.weight)} and $b$ = {board.number(epoch.bias.item())}"
        )
        after = f"; epoch {number + 1} changes nothing" if last > number else ""
        points = "The point is" if size == 1 else f"All {size} points are"
        return f"{points} classified correctly after epoch {number}, with {weights}{after}."
    best = max(epoch.right for epoch in rule.epochs)
    so_far = f"At the end of an epoch at most {best} of {size} points were right."
    if rule.returns is None:
        were = "was" if last == 1 else "were"
        return f"{many(last, 'epoch')} {were} not enough. {so_far}"
    where = f"after epoch {rule.returns}" if rule.returns else "at the start"
    border = _BORDER.get(rule.points.shape[1], "hyperplane")
    return (
        f"The weights after epoch {last} are those {where}: the rule cycles and never ends, "
        f"so no {border} separates these points. {so_far}"
    )


def _best_for_xor(board: Board) -> str:
    """A sentence on the best unit for XOR. The weights that it tries cover every way in which a
    line can separate the corners of a square."""
    points, targets = matrix(CORNERS, "x"), vector(DATA["xor"], "target")
    best, right = None, 0
    for w in itertools.product((1.0, 0.0, -1.0), repeat=2):
        for b in (-0.5, 0.5, -1.5, 1.5):
            unit = _unit(points, list(w), b, learns=False)
            outputs = torch.stack([look(unit, x)[1] for x in points])
            if int((outputs == targets).sum()) > right:
                best, right = unit, int((outputs == targets).sum())
    assert best is not None
    weights = f"$w$ = {_vector(board, best.weight)} and $b$ = {board.number(best.bias.item())}"
    return f"No unit can classify more than {right} of 4 points correctly, as {weights} does."


def _vector(board: Board, values: Tensor) -> str:
    numbers = [board.number(value) for value in values.tolist()]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"
