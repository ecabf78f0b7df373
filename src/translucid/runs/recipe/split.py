"""Which training examples are held out for validation, where no file is given for it.

`stratified` is the rule of every new run, `every_nth` that of runs begun before there was another;
`fold` is one part of a cross-validation. All keep the order of the file within each part.
"""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

Record = Any  # of whatever class the task reads
Parts = tuple[list[Record], list[Record]]  # train, valid

ONE_IN = 20  # one in so many is held out
FEWEST = 20  # held out, or of fewer than 100 examples one in five
MOST = 2000
BLOCKS = 10  # of running text, spread over the file
QUANTILES = 10  # of the target of a regression
MOSTLY = 0.5  # of the records must differ, for copies to be an oversight
BY_HEART = 50  # different questions; with fewer, copies are meant to be learnt


def stratified(records: Sequence[Record], seed: int) -> Parts:
    """Split off a validation set: shuffled, stratified by label, duplicates kept on one side.

    Every label keeps at least one example in training. Running text is held out in blocks of
    neighbouring lines: single lines of it would be known from those around them.
    """
    labels = {label for record in records for label in record.labels}
    enough = min(len(records) // 5, max(FEWEST, len(labels)))
    size = min(max(len(records) // ONE_IN, enough, 1), MOST)
    if records and records[0].running:
        return _parted(records, _blocks_held_out(len(records), size, random.Random(seed)))
    groups = _groups(records)
    strata, alone = _strata(records, groups)
    draw = random.Random(seed)
    left = _groups_by_label(records, groups)
    held: set[int] = set()
    for stratum, quota in zip(strata, _quotas(strata, size, alone=alone), strict=True):
        draw.shuffle(stratum)
        held.update(_drawn(records, stratum, quota, left))
    return _parted(records, held)


def fold(records: Sequence[Record], number: int, count: int, seed: int) -> Parts:
    """Part `number` (from 1) of `count` for validation, the others for training; stratified, and
    with duplicates on one side, as `stratified` does it.

    An example is in the validation set of one fold; only examples whose label would then be
    missing from training are in that of none.
    """
    draw = random.Random(seed)
    if records and records[0].running:
        size = max(len(records) // (BLOCKS * count), 1)
        blocks = [[*range(at, min(at + size, len(records)))] for at in range(0, len(records), size)]
        groups = blocks
        strata = [blocks]
    else:
        groups = _groups(records)
        strata, _ = _strata(records, groups)
    sizes = [0] * count
    mine: list[list[int]] = []
    for stratum in strata:
        draw.shuffle(stratum)
        within = [0] * count
        for group in stratum:
            chosen = min(range(count), key=lambda part: (within[part], sizes[part]))
            within[chosen] += len(group)
            sizes[chosen] += len(group)
            if chosen == number - 1:
                mine.append(group)
    left = _groups_by_label(records, groups)
    return _parted(records, {place for group in mine for place in _taken(records, group, left)})


def explained(records: Sequence[Record], seed: int) -> str:
    """How `stratified` and `fold` divide these records, behind what was done."""
    first = records[0]
    if first.running:
        return f" (in blocks of neighbouring lines, seed {seed})"
    by = "label" if len(first.labels) == 1 else "tags" if first.labels else "length"
    by = "target" if isinstance(first.stratum, float) else by
    return f" (shuffled, stratified by {by}, copies kept together, seed {seed})"


def every_nth(records: Sequence[Record]) -> Parts:
    """The rule of older runs: every n-th different question; its copies are in neither part."""
    keys = [_asked(place, record) for place, record in enumerate(records)]
    if len(set(keys)) < MOSTLY * len(records):
        keys = list(range(len(records)))
    firsts: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        firsts.setdefault(key, place)
    every = max(len(firsts) // min(max(len(firsts) // ONE_IN, 1), MOST), 2)
    held_out = dict(list(firsts.items())[::every])
    train = [record for key, record in zip(keys, records, strict=True) if key not in held_out]
    return train, [records[place] for place in held_out.values()]


def _parted(records: Sequence[Record], held: set[int]) -> Parts:
    train = [record for place, record in enumerate(records) if place not in held]
    return train, [records[place] for place in sorted(held)]


def _blocks_held_out(lines: int, size: int, draw: random.Random) -> set[int]:
    """One block of neighbours at a random place in each of several equal stretches of the file."""
    count = min(BLOCKS, size)
    held: set[int] = set()
    for block in range(count):
        first, end = (lines * edge // count for edge in (block, block + 1))
        length = size * (block + 1) // count - size * block // count
        start = draw.randint(first, max(end - length, first))
        held.update(range(start, min(start + length, end)))
    return held


def _groups(records: Sequence[Record]) -> list[list[int]]:
    """The places of records that ask the same. Where a few questions make up most of the data,
    it is meant to be learnt by heart: then each record is by itself."""
    groups: dict[Hashable, list[int]] = {}
    for place, record in enumerate(records):
        groups.setdefault(_asked(place, record), []).append(place)
    if len(groups) < BY_HEART and len(groups) < MOSTLY * len(records):
        return [[place] for place in range(len(records))]
    return list(groups.values())


def _asked(place: int, record: Record) -> Hashable:
    """Equal for two records that ask the same; lines of running text and rows of numbers are
    equal by nature."""
    if record.running or not record.texts:
        return place
    return record.inputs_key if record.question is None else record.question


def _strata(
    records: Sequence[Record], groups: Sequence[list[int]]
) -> tuple[list[list[list[int]]], bool]:
    """Groups that are alike (label, set of tags, length, quantile of the target), in an order that
    depends on the data alone; and whether the last are those that are alone of their kind."""
    kinds = [records[group[0]].stratum for group in groups]
    numbers = sorted(kind for kind in kinds if isinstance(kind, float))
    strata: dict[Hashable, list[list[int]]] = {}
    for kind, group in zip(kinds, groups, strict=True):
        if isinstance(kind, float):
            kind = bisect_left(numbers, kind) * QUANTILES // len(numbers)
        strata.setdefault(kind, []).append(group)
    several = [stratum for stratum in strata.values() if len(stratum) > 1]
    alone = [stratum[0] for stratum in strata.values() if len(stratum) == 1]
    return [*several, alone] if alone else several, bool(alone)


def _quotas(strata: Sequence[Sequence[Sequence[int]]], size: int, *, alone: bool) -> list[int]:
    """How many records to hold out of each stratum: in proportion, and at least one of each kind
    of which there are several, where `size` allows it."""
    counts = [sum(map(len, stratum)) for stratum in strata]
    exact = [size * count / sum(counts) for count in counts]
    quotas = [max(int(wanted), 1 if size >= len(strata) else 0) for wanted in exact]
    if alone:
        quotas[-1] = int(exact[-1])
    most_lacking = sorted(range(len(strata)), key=lambda i: quotas[i] - exact[i])
    for place in most_lacking[: max(size - sum(quotas), 0)]:
        quotas[place] += 1
    return quotas


def _groups_by_label(records: Sequence[Record], groups: Sequence[list[int]]) -> Counter[str]:
    """In how many groups each label occurs."""
    return Counter(label for group in groups for label in _labels(records, group))


def _labels(records: Sequence[Record], group: Sequence[int]) -> set[str]:
    return {label for place in group for label in records[place].labels}


def _drawn(
    records: Sequence[Record], stratum: Sequence[list[int]], quota: int, left: Counter[str]
) -> list[int]:
    """About `quota` records of a stratum; more only where all its groups are larger."""
    drawn: list[int] = []
    for group in stratum:
        if len(drawn) + len(group) <= quota:
            drawn += _taken(records, group, left)
    if quota and not drawn and len(stratum) > 1:
        for group in sorted(stratum, key=len):
            if drawn := _taken(records, group, left):
                break
    return drawn


def _taken(records: Sequence[Record], group: list[int], left: Counter[str]) -> list[int]:
    """The group, unless training would lose a label with it; left: how many groups have each."""
    labels = _labels(records, group)
    if any(left[label] == 1 for label in labels):
        return []
    left.subtract(labels)
    return group
