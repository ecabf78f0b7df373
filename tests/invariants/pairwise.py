"""A covering array: few rows in which every value of every option occurs with every value of every
other option.

Most faults require two options, few of them three (Kuhn, Wallace and Gallo 2004, "Software fault
interactions"), so these rows find nearly everything that the full product would find.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations, product

Options = Mapping[str, Sequence[str]]
Row = dict[str, str]
Pair = frozenset[tuple[str, str]]


def anything(row: Row) -> bool:
    return True


def pairs_of(row: Row) -> list[Pair]:
    """All pairs of values in a row; an option that the row does not have is in no pair."""
    return [frozenset(pair) for pair in combinations(row.items(), 2)]


def all_pairs(
    options: Options,
    fits: Callable[[Row], bool] = anything,
    apart: Collection[frozenset[str]] = (),
) -> list[Pair]:
    """All pairs of values that may occur together, without those of two options that are listed in
    `apart`."""
    return [
        frozenset(((one, first), (other, second)))
        for one, other in combinations(options, 2)
        if frozenset((one, other)) not in apart
        for first, second in product(options[one], options[other])
        if fits({one: first, other: second})
    ]


def covering(
    options: Options,
    fits: Callable[[Row], bool] = anything,
    apart: Collection[frozenset[str]] = (),
) -> list[Row]:
    """Rows that contain all pairs, the same ones every time.

    Greedy, row by row (Cohen, Dalal, Fredman and Patton 1997, "The AETG system"): each row begins
    with a missing pair and takes, option by option, the value that adds most missing pairs; among
    equals, the value that occurs in the fewest rows. Of a few such rows, the one with most missing
    pairs is kept. `fits` says whether values may occur in one row.
    """
    missing = dict.fromkeys(all_pairs(options, fits, apart))  # an ordered set
    used: Counter[tuple[str, str]] = Counter()

    def news(row: Row) -> tuple[int, int]:
        return sum(pair in missing for pair in pairs_of(row)), -sum(used[v] for v in row.items())

    def filled(row: Row) -> Row:
        for name, values in options.items():
            longer = [{**row, name: value} for value in values if fits({**row, name: value})]
            if name not in row and longer:
                row = max(longer, key=news)
        return row

    rows: list[Row] = []
    while missing:
        waiting = list(missing)
        begun = waiting[:: max(1, len(waiting) // 10)]
        row = max((filled(dict(pair)) for pair in begun), key=news)
        rows.append({name: row[name] for name in options if name in row})
        used.update(rows[-1].items())
        for pair in pairs_of(rows[-1]):
            missing.pop(pair, None)
    return rows
