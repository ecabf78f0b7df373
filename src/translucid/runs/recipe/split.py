"""Split off validation data from the training data, if no validation file is given.

`stratified` is the default, `every_nth` the rule of older runs, `fold` one part of a
cross-validation. All keep the order of the file within each part.
"""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

Record = Any  # of the task's class
Parts = tuple[list[Record], list[Record]]  # train, valid

ONE_IN = 20  # one in 20 examples is held out,
FEWEST = 20  # but at least 20, or one in five of fewer than 100,
MOST = 2000  # and at most 2,000
BLOCKS = 10  # number of blocks of running text, spread over the file
QUANTILES = 10  # number of quantiles of regression targets
MOSTLY = 0.5  # fraction of different records above which copies are accidental
BY_HEART = 50  # with fewer different inputs, copies are intended


def stratified(records: Sequence[Record], seed: int) -> Parts:
    """Split off a validation set: shuffled, stratified by label, duplicates kept on one side.

    Every label keeps at least one example in training. Running text is held out in blocks of
    adjacent lines, since single lines would be too similar to their neighbours in training.
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
    """Part `number` (from 1) of `count` for validation, the others for training; stratified, with
    duplicates on one side.

    Each example is in the validation set of one fold, or of none if training would lose its label.
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
    """Describe how `stratified` and `fold` divide these records."""
    first = records[0]
    if first.running:
        return f" (in blocks of adjacent lines, seed {seed})"
    by = "label" if len(first.labels) == 1 else "tags" if first.labels else "length"
    by = "target" if isinstance(first.stratum, float) else by
    return f" (shuffled, stratified by {by}, copies kept together, seed {seed})"


def every_nth(records: Sequence[Record]) -> Parts:
    """Split as older runs did: every n-th distinct input is held out; its duplicates are
    dropped."""
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
    """One block of adjacent lines at a random position in each of several equal sections."""
    count = min(BLOCKS, size)
    held: set[int] = set()
    for block in range(count):
        first, end = (lines * edge // count for edge in (block, block + 1))
        length = size * (block + 1) // count - size * block // count
        start = draw.randint(first, max(end - length, first))
        held.update(range(start, min(start + length, end)))
    return held


def _groups(records: Sequence[Record]) -> list[list[int]]:
    """Groups of records with the same input. If a few inputs make up most of the data, the copies
    are assumed to be intended, and each record is its own group."""
    groups: dict[Hashable, list[int]] = {}
    for place, record in enumerate(records):
        groups.setdefault(_asked(place, record), []).append(place)
    if len(groups) < BY_HEART and len(groups) < MOSTLY * len(records):
        return [[place] for place in range(len(records))]
    return list(groups.values())


def _asked(place: int, record: Record) -> Hashable:
    """A key that is equal for records with the same input; for running text and numbers, each
    record has its own."""
    if record.running or not record.texts:
        return place
    return record.inputs_key if record.question is None else record.question


def _strata(
    records: Sequence[Record], groups: Sequence[list[int]]
) -> tuple[list[list[list[int]]], bool]:
    """Divide groups into strata by label, set of tags, length or quantile of the target. Groups
    that would each be alone in their stratum are put into one last stratum. Return the strata, in
    an order that depends only on the data, and whether there is such a last stratum."""
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
    """The number of records of each stratum to hold out, `size` in total. It is in proportion to
    the size of the stratum, but at least one if `size` is large enough. alone: whether the last
    stratum contains the groups that would each be alone in theirs; it may get none."""
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
    """The number of groups with each label."""
    return Counter(label for group in groups for label in _labels(records, group))


def _labels(records: Sequence[Record], group: Sequence[int]) -> set[str]:
    return {label for place in group for label in records[place].labels}


def _drawn(
    records: Sequence[Record], stratum: Sequence[list[int]], quota: int, left: Counter[str]
) -> list[int]:
    """Draw whole groups of a stratum, up to `quota` records in all. If every group has more records
    than that, draw the smallest group. left: number of groups by label."""
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
    """Take the group, or nothing if training would lose a label. left: number of groups by
    label."""
    labels = _labels(records, group)
    if any(left[label] == 1 for label in labels):
        return []
    left.subtract(labels)
    return group
