"""Exercise: check gradients of a network with central differences, and see a wrong formula fail."""

import re
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.spelling import Missing
from translucid.core.trace import Trace
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board, gradient
from translucid.worked.net import Net, loss_of, read_net, read_target, with_example
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable, first_and_last, plain
from translucid.worked.solution.numbers import Number, Numbers, many, scalar
from translucid.worked.solution.solution import Solution

_STEP = 1e-5  # between the two points of a central difference, on each side
_TOLERANCE = 1e-6  # relative to the larger of 1, the loss and the gradient
_SHOWN = 40  # rows of a table
_KINK = (
    "Where $z = 0$, ReLU has a kink and two slopes: the gradient takes the slope 0, the central "
    "difference is the mean of both."
)
_WRONG = {
    "v": "the error times the weights, not times the hidden units",
    "slope": "without the slope of the activation",
    "sign": r"with the error $y - \hat{y}$",
    "half": r"as if the loss were $(y - \hat{y})^2$, without the half",
}


def gradcheck(
    x: Numbers | None = None,
    w: Numbers | None = None,
    b: Numbers | None = None,
    v: Numbers | None = None,
    c: Numbers | None = None,
    y: Numbers | None = None,
    *,
    wrong: Literal["v", "slope", "sign", "half"] | None = None,
    along: str | None = None,
    by: Number | None = None,
    activation: Literal["relu", "tanh", "sigmoid", "identity", "gelu", "silu"] | None = None,
    digits: int = 6,
) -> Solution:
    """Gradients checked with central differences.

    Compares the gradient of a network with one hidden layer (as in `work mlp`) with
    (L(θ + ε) - L(θ - ε)) / 2ε, parameter by parameter.

    x: The input; for several inputs, one row each.
    w: W, one row for each unit.
    b: b, one number for each unit [default: 0].
    v: v, the weights from the units to the output.
    c: c, the bias of the output [default: 0].
    y: The target; for several inputs, one for each row.
    wrong: Check a wrong formula: v (∂L/∂v = δ v), slope (no act'), sign (y - ŷ) or half (no 1/2).
    along: Show second differences of output and loss along a parameter, such as b_1 or W_1,2.
    by: Step size of the second differences [default: 1].

    Example: translucid work gradcheck --wrong v

    Example: translucid work gradcheck --along b_1
    """
    numbers = with_example({"x": x, "w": w, "b": b, "v": v, "c": c, "y": y, "rate": None})
    net = read_net(numbers, activation or "relu")
    target = read_target(numbers, net)
    if target is None:
        raise Missing("y is missing; without a target there is no gradient to check", ("y",))
    if wrong not in (None, *_WRONG):
        raise InputError(f"wrong = {wrong}: expected one of {', '.join(_WRONG)}")
    if wrong == "v" and not net.one:
        raise InputError("wrong = v works with one output, because v must be as long as h")
    place = None if along is None else _place(net, along)
    if by is not None and place is None:
        raise Missing("by needs along, the parameter to change", ("by", "along"))

    board = Board(digits)
    board.state("x" if net.rows == 1 else "X", net.x[0] if net.rows == 1 else net.x)
    for symbol, value in net.weights().items():
        board.state(symbol, value)
    board.state("y" if target.dim() == 1 else "Y", target)
    slopes = _gradients(net, target)
    if wrong is not None:
        slopes = _wrong(board, net, target, wrong, slopes)
    closing = verdict(*write_check(board, net, target, slopes), wrong is not None)
    if place is not None:
        distance = 1.0 if by is None else scalar(by, "by").item()
        if not distance:
            raise InputError("by = 0: must not be 0")
        closing = _second_differences(board, net, target, *place, distance)
    more = "--wrong v" if wrong is None and place is None and net.one else ""
    if wrong is not None and place is None:
        more = "--along b_1" if net.hidden.out_features > 1 else "--along b"
    return board.solution(
        title="Gradients checked with central differences",
        closing=closing,
        next=f"translucid work gradcheck {more}" if more else "translucid work clip",
        more=more,
        program=_program(net, target) if wrong is None and place is None else None,
        example=numbers.example,
        asked=numbers.asked or any(option is not None for option in (wrong, along, activation)),
    )


def _program(net: Net, target: Tensor) -> Program | None:
    given = {"x": net.x[0], **net.weights(), "y": target.flatten()}
    return Program(in_numpy.gradcheck, given) if net.plain else None


def _gradients(net: Net, target: Tensor) -> dict[str, Tensor]:
    net.model.zero_grad()
    loss_of(net.model(net.x), target).backward()
    return net.slopes()


def _named(net: Net) -> dict[str, Tensor]:
    """The parameters that the model uses, by symbol, in the shapes of `Net.weights`."""
    last = net.output.weight.data
    named = {"W": net.hidden.weight.data, "b": net.hidden.bias.data}
    return named | {net.out: last[0] if net.one else last, "c": net.output.bias.data}


def central_differences(
    net: Net, target: Tensor, step: float = _STEP, active: Tensor | None = None
) -> dict[str, Tensor]:
    """The gradient by parameter, from the loss on both sides of each entry. active: as in
    `_both_sides`."""
    results: dict[str, Tensor] = {}
    for name, parameter in _named(net).items():
        both = [_both_sides(net, target, name, i, step, active) for i in range(parameter.numel())]
        results[name] = torch.stack([(up - down) / (2 * step) for up, down in both])
        results[name] = results[name].view_as(parameter)
    return results


def _both_sides(
    net: Net, target: Tensor, name: str, i: int, step: float = _STEP, active: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The loss with entry i of a parameter moved up and down by one step. active: which ReLU units
    pass their sum in each row, so that none crosses its kink; by default, those with z > 0."""
    entries = _named(net)[name].view(-1)
    value, losses = entries[i].item(), []
    for moved in (value + step, value - step):
        entries[i] = moved
        with torch.no_grad():
            held = None if active is None else net.output(net.hidden(net.x) * active)
            losses.append(loss_of(net.model(net.x) if held is None else held, target))
    entries[i] = value
    return losses[0], losses[1]


def write_check(
    board: Board, net: Net, target: Tensor, slopes: Mapping[str, Tensor]
) -> tuple[dict[str, int], int]:
    """Write a table with every gradient and its central difference. Return the number of wrong
    entries by parameter, and the number that differ only because of a kink."""
    board.section = "Check of the gradients"
    numeric = central_differences(net, target)
    active = _active_at_kink(net)
    smooth = numeric if active is None else central_differences(net, target, active=active)
    name = max(numeric, key=lambda name: numeric[name].abs().max().item())
    i = int(numeric[name].abs().argmax())
    up, down = _both_sides(net, target, name, i)
    symbol = f"{name}{_places(numeric[name])[i]}"
    board.step(
        f"Central difference of ${symbol}$: the loss on both sides, at a distance of $10^{{-5}}$",
        gradient(symbol), r"(<up> - <down>) / (2 \cdot <step>)", numeric[name].flatten()[i],
        {"up": up, "down": down, "step": torch.tensor(_STEP, dtype=torch.float64)},
        symbols={"up": rf"L({symbol} + \epsilon)", "down": rf"L({symbol} - \epsilon)",
                 "step": r"\epsilon"},
        name="central difference",
    )  # fmt: skip
    with torch.no_grad():
        loss = loss_of(net.model(net.x), target).item()
    rows: list[tuple[str, ...]] = []
    differ: dict[str, int] = {}
    kinks = 0
    for name, slope in slopes.items():
        columns = [one.flatten().tolist() for one in (slope, numeric[name], smooth[name])]
        differ[name] = 0
        for place, value, other, held in zip(_places(slope), *columns, strict=True):
            tolerance = _TOLERANCE * max(1.0, abs(value), abs(other), abs(loss))
            result = "equal"
            if abs(value - other) > tolerance:
                kink = abs(value - held) <= tolerance
                result = "kink" if kink else "differs"
                kinks += kink
                differ[name] += not kink
            rows.append((f"${name}{place}$", board.number(value), _rounded(board, other), result))
    board.table(
        "Gradient and central difference of every parameter",
        SolutionTable(
            (r"$\theta$", "gradient", "central difference", ""),
            first_and_last(rows, _SHOWN),
        ),
        name="check",
        value={
            name: {"gradient": plain(slopes[name]), "numeric": plain(numeric[name]),
                   "differ": differ[name]}
            for name in slopes
        },
        note="" if active is None else _KINK,
    )  # fmt: skip
    return differ, kinks


def _rounded(board: Board, value: float) -> str:
    """A central difference, always with all decimals, because the last ones are rounding errors."""
    digits = board.writer.digits
    if 1e-8 < abs(value) < 0.5 * 10.0**-digits or abs(value) >= 1e6:
        return board.number(value)
    board.writer.rounded = True
    return f"${round(value, digits) + 0.0:.{digits}f}$"


def _active_at_kink(net: Net) -> Tensor | None:
    """Which ReLU units are active in each row, if one is so close to its kink that a step may cross
    it; otherwise None."""
    with torch.no_grad():
        sums = net.hidden(net.x)
    far = sums.abs() > 2 * _STEP * (1 + net.x.abs().sum())
    return None if net.activation != "relu" or bool(far.all()) else sums > 0


def _places(value: Tensor) -> list[str]:
    """The index of every entry as LaTeX, counted from 1; empty for a single number."""
    if value.dim() == 1:
        return [""] if len(value) == 1 else [f"_{{{i}}}" for i in range(1, len(value) + 1)]
    rows, columns = value.shape
    return [f"_{{{i},{j}}}" for i in range(1, rows + 1) for j in range(1, columns + 1)]


def verdict(differ: Mapping[str, int], kinks: int, wrong: bool = False) -> str:
    """The result of a check as a sentence."""
    failing = [f"$\\partial L / \\partial {name}$" for name, count in differ.items() if count]
    if failing:
        total = many(sum(differ.values()), "number")
        return f"The check fails: {total} of {', '.join(failing)} differ."
    if wrong:
        return "With these numbers, the wrong formula gives the right result: try other numbers."
    if kinks:
        return (
            f"No gradient is wrong: {many(kinks, 'number')} could not be checked here, because "
            "this point is a kink of ReLU ($z = 0$). The others are equal; move b a little to "
            "check all."
        )
    return "All gradients equal their central differences."


def _wrong(
    board: Board, net: Net, target: Tensor, wrong: str, slopes: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Write a wrong formula with its result; return the gradients that it gives."""
    trace = Trace()
    loss = loss_of(net.model(net.x, trace), target)
    points = [trace[name] for name in ("output.dense.preactivation", "layers.0.dense.activation")]
    delta, d_hidden = torch.autograd.grad(loss, points)
    weights, changed = net.weights(), dict(slopes)
    board.section = f"A wrong formula: {_WRONG[wrong]}"
    title = "Wrong gradient of ${}$"
    if wrong == "v":
        changed["v"] = delta.sum() * weights["v"]
        board.step(
            title.format("v"), gradient("v"), "<delta> <v>", changed["v"],
            {"delta": delta.sum(), "v": weights["v"]},
            symbols={"delta": r"\delta" if net.rows == 1 else r"\textstyle\sum_i \delta_i"},
            name="wrong dL/dv", note=r"The right formula is $\delta h$.",
        )  # fmt: skip
    elif wrong == "slope":
        changed |= {"W": d_hidden.T @ net.x, "b": d_hidden.sum(dim=0)}
        board.step(
            title.format("b"), gradient("b"), "<dh>", changed["b"], {"dh": changed["b"]},
            symbols={"dh": gradient("h")}, name="wrong dL/db",
            note=rf"The right formula is ${gradient('h')} \odot \mathrm{{act}}'(z)$.",
        )  # fmt: skip
    else:
        factor = -1.0 if wrong == "sign" else 2.0
        changed = {name: factor * slope for name, slope in slopes.items()}
        board.step(
            title.format("c"), gradient("c"), "<factor> <right>", changed["c"],
            {"factor": torch.tensor(factor), "right": slopes["c"]},
            symbols={"factor": "-" if wrong == "sign" else r"2 \cdot", "right": r"\delta"},
            name="wrong dL/dc",
        )  # fmt: skip
    return changed


def _place(net: Net, along: str) -> tuple[str, int, str]:
    """The parameter, its entry, and the entry's symbol, from text such as b_1 or W_1,2."""
    weights = net.weights()
    names = {name: [f"{name}{p}" for p in _places(value)] for name, value in weights.items()}
    wanted = re.sub(r"[\s_{},]+", " ", along).strip()
    for name, symbols in names.items():
        for i, symbol in enumerate(symbols):
            if re.sub(r"[\s_{},]+", " ", symbol).strip().lower() == wanted.lower():
                return name, i, symbol
    shown = [re.sub(r"[{}]", "", symbols[0]) for symbols in names.values()]
    raise InputError(f"along = {along}: no such parameter; expected one such as {', '.join(shown)}")


def _second_differences(
    board: Board, net: Net, target: Tensor, name: str, i: int, symbol: str, by: float
) -> str:
    """Write output and loss at three equidistant values of a parameter, and their second
    differences; return a closing sentence."""
    board.section = f"Second differences along ${symbol}$"
    entries = _named(net)[name].view(-1)
    start = entries[i].item()
    at: list[float] = [start + k * by for k in range(3)]
    outputs, losses, active = [], [], []
    for value in at:
        entries[i] = value
        trace = Trace()
        with torch.no_grad():
            output = net.model(net.x, trace)
        outputs.append(output.flatten()[0].item())
        losses.append(loss_of(output, target).item())
        active.append(trace["layers.0.dense.preactivation"] > 0)
    entries[i] = start
    board.table(
        f"Output and loss at three values of ${symbol}$",
        SolutionTable(
            (f"${symbol}$", r"$\hat{y}$", "$L$"),
            tuple(
                tuple(board.number(n) for n in row) for row in zip(at, outputs, losses, strict=True)
            ),
        ),
        name="along",
        value={"at": list(at), "output": list(outputs), "loss": list(losses)},
    )
    second = []
    for label, letter, values in (("output", r"\hat{y}", outputs), ("loss", "L", losses)):
        first, middle, last = (torch.tensor(v, dtype=torch.float64) for v in values)
        second.append(last - 2 * middle + first)
        board.step(
            f"Second difference of the {label}: 0 on a straight line",
            rf"\Delta^2 {letter}",
            r"<last> - 2 \cdot <middle> + <first>",
            second[-1],
            {"last": last, "middle": middle, "first": first},
            symbols={"last": f"{letter}_3", "middle": f"{letter}_2", "first": f"{letter}_1"},
            name=f"second difference of the {label}",
            noise=1e-9,
        )
    if net.activation == "relu" and not all(torch.equal(active[0], a) for a in active):
        return "Between these values, a ReLU unit switches on or off, so the output has a kink."
    bent = [abs(value.item()) > 1e-9 for value in second]
    if bent == [False, True]:
        return "Here the output is a straight line, but the squared loss is a parabola."
    straight = [what for what, b in zip(("output", "loss"), bent, strict=True) if not b]
    return f"Straight lines: {', '.join(straight) or 'none'}."
