"""Exercise: layer, RMS and batch norm and standardization of the same numbers, side by side."""

import torch
from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.parts.norms import BatchNorm, LayerNorm, Norm, RMSNorm, Standardise
from translucid.worked import plain as in_numpy
from translucid.worked.board import Board
from translucid.worked.plain import Program
from translucid.worked.solution.content import SolutionTable, first_and_last, plain
from translucid.worked.solution.numbers import Number, Numbers, many, matrix, scalar, vector
from translucid.worked.solution.solution import Solution

EXAMPLE = "1 10; 3 20; 5 60; 7 30"
_SHOWN = 20  # rows of a table
_MEANINGS = {
    "layer": ("Layer norm", "each row (token) has its own mean and variance"),
    "rms": ("RMS norm", "each row (token) is divided by its root mean square; no mean"),
    "batch": ("Batch norm", "each column (feature) has its own mean and variance"),
    "standardise": (
        "Input standardization",
        "each column (feature), over all training data",
    ),
}
_SHORT = {"layer": "layer", "rms": "RMS", "batch": "batch", "standardise": "input"}


def norm(
    x: Numbers | None = None,
    *,
    eps: Number | None = None,
    gamma: Numbers | None = None,
    beta: Numbers | None = None,
    digits: int = 4,
) -> Solution:
    """Layer, RMS and batch norm, side by side.

    Layer and RMS norm use the numbers in a row; batch norm and standardization, those in a column.

    x: The numbers, with one row for each token and one column for each feature.
    eps: Added to the variance (RMS norm: to the mean square) [default: 0].
    gamma: γ, one number for each column [default: 1].
    beta: β, one number for each column [default: 0]; RMS norm has none.

    Example: translucid work norm --x "1 2 4 9"
    """
    table = matrix(EXAMPLE if x is None else x, "x")
    small = torch.zeros((), dtype=torch.float64) if eps is None else scalar(eps, "eps")
    if small < 0:
        raise InputError(f"eps = {small.item():g}: must be at least 0, such as 1e-5")
    gammas, betas = (_per_column(given, name, table)
                     for given, name in ((gamma, "gamma"), (beta, "beta")))  # fmt: skip
    board = Board(digits)
    board.state("X", table)
    for symbol, given, numbers in ((r"\epsilon", eps, small), (r"\gamma", gamma, gammas),
                                   (r"\beta", beta, betas)):  # fmt: skip
        if given is not None and numbers is not None:
            board.state(symbol, numbers if symbol == r"\epsilon" else numbers[None])
    outputs: dict[str, Tensor] = {}
    for name in ("layer", "rms", "batch", "standardise"):
        lines = table if name in ("layer", "rms") else table.T
        if lines.shape[1] > 1 or name == "rms":
            _refuse_constant(name, lines, small.item())
            title, meaning = _MEANINGS[name]
            board.section = f"{title}: {meaning}"
            outputs[name] = _normalised(board, name, table, small, gammas, betas)
    board.section = "Side by side"
    _compare(board, outputs)
    left_out = [_MEANINGS[name][0].lower() for name in _MEANINGS if name not in outputs]
    notes = ["batch norm uses running averages of its statistics when the model is applied, so "
             "that a prediction does not depend on the rest of the batch."]  # fmt: skip
    if left_out:
        what = "several rows" if len(table) == 1 else "several columns"
        notes = [f"{' and '.join(left_out)} need {what}."]
    plain = gamma is None and beta is None and not left_out
    return board.solution(
        title=f"Norms of {many(len(table), 'row')} and {many(table.shape[1], 'column')}",
        notes=tuple(notes),
        closing="Layer norm and RMS norm make the rows comparable, batch norm and "
        "standardization the columns. Equal variance is not an equal range.",
        next='translucid work norm --x "1 2 4 9"' if x is None else "translucid work attention",
        program=Program(in_numpy.norm, {"X": table, "eps": small}) if plain else None,
        example=x is None,
        asked=any(given is not None for given in (eps, gamma, beta)),
    )


def _per_column(given: Numbers | None, name: str, table: Tensor) -> Tensor | None:
    if given is None:
        return None
    numbers = vector(given, name)
    if len(numbers) != table.shape[1]:
        raise InputError(
            f"{name} has {many(len(numbers))}, but x has {many(table.shape[1], 'column')}; pass "
            "one for each column"
        )
    return numbers


def _refuse_constant(name: str, lines: Tensor, eps: float) -> None:
    """Raise an error if a norm would divide by 0."""
    if eps or name == "standardise":  # which leaves constant columns at 0
        return
    which = "row" if name in ("layer", "rms") else "column"
    for i, line in enumerate(lines, 1):
        if name == "rms" and not line.any():
            raise InputError(f"x: row {i} contains only 0, so it cannot be divided by its root "
                             "mean square; pass eps, such as 1e-5")  # fmt: skip
        if name != "rms" and bool((line == line[0]).all()):
            raise InputError(
                f"x: {which} {i} is constant, so its variance is 0; pass eps, such as 1e-5"
            )


def _normalised(
    board: Board, name: str, table: Tensor, eps: Tensor, gamma: Tensor | None, beta: Tensor | None
) -> Tensor:
    """Write one norm, computed by the real part: the first line in full, then a table."""
    by_row, trace = name in ("layer", "rms"), Trace()
    if name == "standardise":
        standard = Standardise(table.shape[1])
        standard.fit(table)
        output = standard(table)
        statistics = {"mean": standard.mean, "deviation": standard.deviation}
        first = output[:, 0]
    else:
        part = _part(name, table.shape[1], eps.item(), gamma, beta)
        rows = table[None] if by_row else table[:, None]  # batch norm: the rows are the batch
        with torch.no_grad():
            output = part(rows, trace=trace).reshape(table.shape)
        read = {point: trace[point].reshape(len(table), -1) for point in
                (("rms",) if name == "rms" else ("mean", "variance"))}  # fmt: skip
        statistics = {point: value[:, 0] if by_row else value[0] for point, value in read.items()}
        whole = trace["normalised"].reshape(table.shape)
        first = whole[0] if by_row else whole[:, 0]
    _first_line(board, name, table[0] if by_row else table[:, 0], statistics, first, eps)
    if name != "standardise" and (gamma is not None or (beta is not None and name != "rms")):
        _gained(board, name, first, output[0] if by_row else output[:, 0], gamma, beta)
    _table(board, name, table, statistics, output)
    return output


def _part(name: str, columns: int, eps: float, gamma: Tensor | None, beta: Tensor | None) -> Norm:
    kinds = {"layer": LayerNorm, "rms": RMSNorm, "batch": BatchNorm}
    part: Norm = kinds[name](columns, eps).double().train()
    with torch.no_grad():
        if gamma is not None:
            part.gain.copy_(gamma)
        if beta is not None and name != "rms":
            part.get_parameter("shift").copy_(beta)
    return part


def _first_line(
    board: Board, name: str, line: Tensor, statistics: dict[str, Tensor], first: Tensor, eps: Tensor
) -> None:
    """Write the statistics and the result of the first row or column in full."""
    which = "row 1" if name in ("layer", "rms") else "column 1"
    entries = {f"x{i}": value for i, value in enumerate(line)}
    entries |= {"n": torch.tensor(float(len(line))), "eps": eps}
    entries |= {statistic: values[0] for statistic, values in statistics.items()}
    plus = " + <eps>" if eps else ""
    shown = r" + \epsilon" if eps else ""
    mean = f"({' + '.join(f'<x{i}>' for i in range(len(line)))}) / <n>"
    squares = "({}) / <n>".format(" + ".join(f"(<x{i}> - <mean>)^2" for i in range(len(line))))
    written = {
        "mean": ("Mean", r"\mu", mean, r"\textstyle\sum_i x_i / n"),
        "variance": ("Variance", r"\sigma^2", squares, r"\textstyle\sum_i (x_i - \mu)^2 / n"),
        "deviation": ("Standard deviation", "s", rf"\sqrt{{{squares}}}",
                      r"\sqrt{\textstyle\sum_i (x_i - \mu)^2 / n}"),
        "rms": ("Root mean square", r"\mathrm{rms}",
                r"\sqrt{{({}) / <n>{}}}".format(
                    " + ".join(f"<x{i}>^2" for i in range(len(line))), plus),
                rf"\sqrt{{\textstyle\sum_i x_i^2 / n{shown}}}"),
    }  # fmt: skip
    if bool((line == line[0]).all()):  # the part divides by 1 instead
        written["deviation"] = ("1 in place of the deviation 0", "s", "1", "1")
    for statistic, values in statistics.items():
        title, symbol, template, formula = written[statistic]
        board.step(f"{title} of {which}", symbol, template, values[0], entries, formula=formula,
                   name=f"{name} {statistic}")  # fmt: skip
    template, formula = {
        "rms": ("<x> / <rms>", r"x / \mathrm{rms}"),
        "standardise": ("(<x> - <mean>) / <deviation>", r"(x - \mu) / s"),
    }.get(name, (rf"(<x> - <mean>) / \sqrt{{<variance>{plus}}}",
                 rf"(x - \mu) / \sqrt{{\sigma^2{shown}}}"))  # fmt: skip
    as_line = line[None] if name in ("layer", "rms") else line
    board.step(
        f"Normalized {which}", r"\hat{x}", template,
        first[None] if name in ("layer", "rms") else first, entries | {"x": as_line},
        formula=formula, name=f"{name} normalized",
    )  # fmt: skip


def _gained(
    board: Board,
    name: str,
    first: Tensor,
    output: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
) -> None:
    """Apply γ and β to the first row or column."""
    by_row, ones = name in ("layer", "rms"), torch.ones(1)
    gammas = ones if gamma is None else gamma
    betas = 0 * ones if beta is None else beta
    values = {"x": first, "gamma": gammas, "beta": betas}
    if by_row:
        values = {key: value[None] for key, value in values.items()}
    else:
        values |= {"gamma": gammas[0], "beta": betas[0]}
    absent = "" if name == "rms" or beta is None else " + <beta>"
    board.step(
        f"Output of {'row' if by_row else 'column'} 1, with $\\gamma$ and $\\beta$", "y",
        rf"<gamma> \odot <x>{absent}", output[None] if by_row else output, values,
        symbols={"gamma": r"\gamma", "x": r"\hat{x}", "beta": r"\beta"}, name=f"{name} output",
    )  # fmt: skip


def _table(
    board: Board, name: str, table: Tensor, statistics: dict[str, Tensor], output: Tensor
) -> None:
    """Write the numbers, their statistics along the axis of the norm, and the result."""
    columns = range(1, table.shape[1] + 1)
    symbols = {"mean": r"$\mu$", "variance": r"$\sigma^2$", "deviation": "$s$",
               "rms": r"$\mathrm{rms}$"}  # fmt: skip
    cells = [[board.number(value) for value in row] for row in table.tolist()]
    results = [[board.number(value) for value in row] for row in output.tolist()]
    header = [f"$x_{{{i}}}$" for i in columns]
    after = [f"$y_{{{i}}}$" for i in columns]
    below: list[tuple[str, ...]] = []
    for statistic, values in statistics.items():
        written = [board.number(value) for value in values.tolist()]
        if name in ("layer", "rms"):
            header.append(symbols[statistic])
            cells = [[*row, cell] for row, cell in zip(cells, written, strict=True)]
        else:
            below.append((symbols[statistic], *written, *("" for _ in columns)))
    rows = [
        (f"row {i}", *row, *new) for i, (row, new) in enumerate(zip(cells, results, strict=True), 1)
    ]
    where = "at the end of each row" if name in ("layer", "rms") else "below each column"
    board.table(
        f"All rows: the statistics are {where}",
        SolutionTable(("", *header, *after), (*first_and_last(rows, _SHOWN), *below)),
        name=name,
        value={"output": plain(output), **{key: plain(v) for key, v in statistics.items()}},
    )


def _compare(board: Board, outputs: dict[str, Tensor]) -> None:
    """Write mean and deviation of the rows and columns after each norm."""
    rows = []
    for name, output in outputs.items():
        of = [
            output.mean(1),
            output.std(1, correction=0),
            output.mean(0),
            output.std(0, correction=0),
        ]
        rows.append((_SHORT[name], *(_range(board, values) for values in of)))
    board.table(
        "Means and standard deviations of rows and columns: smallest, largest",
        SolutionTable(
            ("", "row means", "row deviations", "column means", "column dev."), tuple(rows)
        ),
        name="comparison",
        value={name: plain(output) for name, output in outputs.items()},
    )


def _range(board: Board, values: Tensor) -> str:
    """One number if all values are equal, otherwise the smallest and the largest."""
    low, high = values.min().item(), values.max().item()
    if high - low < 1e-9 * max(1.0, abs(high)):
        return board.number(low, 1e-9)
    return f"{board.number(low, 1e-9)}, {board.number(high, 1e-9)}"
