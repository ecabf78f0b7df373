"""Few rows in which every value of every option meets every value of every other: a covering array.

Most faults need two options to meet, seldom three (Kuhn, Wallace and Gallo 2004, "Software fault
interactions"), so these rows find what the whole product finds.
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
    """What meets in a row; an option that it does not have meets nothing."""
    return [frozenset(pair) for pair in combinations(row.items(), 2)]


def all_pairs(
    options: Options,
    fits: Callable[[Row], bool] = anything,
    apart: Collection[frozenset[str]] = (),
) -> list[Pair]:
    """Every two values that may meet; of two options that stand `apart`, none has to."""
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
    """Rows in which all pairs meet, the same ones every time.

    Row by row (Cohen, Dalal, Fredman and Patton 1997, "The AETG system"): each begins with a pair
    that has not met yet and takes, option by option, the value that brings most new pairs, of
    several the one with fewest rows; of a few such rows the one with most new pairs stays. `fits`
    says whether values may stand in one row.
    """
    missing = dict.fromkeys(all_pairs(options, fits, apart))  # a set that keeps its order
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
