"""Mistakes that stand in the data: twice the same, seen before the test, out of balance.

Each check takes records and returns a Finding. Records are compared by hashes of 8 bytes each, so
that millions of them can be; what seems equal is then compared itself.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from translucid.data.records import Labelled, Numbers, Pair, Tagged, Text
from translucid.training.examples import Record, texts_of
from translucid.training.findings import Finding

MANY_TWICE = 0.1  # the share of repeated training examples that is worth a word
MOSTLY = 0.5  # held-out examples that stand in the training data: it is the same file
FEW_SOURCES = 0.05  # other translations of a known source are normal up to here
SHORT_TEXT = 5  # words; shorter lines of running text repeat by nature
ONE_LABEL = 0.8  # a label with this share makes accuracy say little
FEW_EXAMPLES = 5  # of a label: too few to learn it
MANY_COPIES = 0.05  # of sentences that were not translated
ODD_RATIO, MANY_ODD = 3.0, 0.01  # times longer or shorter than usual, and the share that may be
WORDS = {"train": "training", "valid": "validation", "test": "test"}


def duplicated(train: Sequence[Record]) -> Finding:
    """The same example more than once; empty lines do not count, which were kept on purpose."""
    train = [r for r in train if not isinstance(r, Text) or r.text.strip()]
    _, firsts, which = np.unique(_hashes(train, _whole), return_index=True, return_inverse=True)
    before = firsts[which]  # of each example, where it stands for the first time
    again = [
        (train[place], train[before[place]])
        for place in np.flatnonzero(before != np.arange(len(train))).tolist()
    ]
    again = [(one, other) for one, other in again if _whole(one) == _whole(other)]
    share = len(again) / max(len(train), 1)
    words = (
        f"{len(again):,} of {len(train):,} training examples repeat an earlier one ({share:.1%})"
    )
    if again:
        words += f"; first: line {again[0][0].line:,} = line {again[0][1].line:,}"
    if share > MANY_TWICE:
        words += "; a model learns them by heart: remove repetitions unless they are meant"
    return Finding("duplicates", share <= MANY_TWICE, words)


def crossed(train: Sequence[Record], held_out: Sequence[Record], part: str) -> Finding:
    """Held-out examples that training has seen: their score praises memory."""
    compared = [r for r in held_out if not isinstance(r, Text) or _long_enough(r)]
    both = _also_in(train, compared, _read)
    share = len(both) / max(len(compared), 1)
    kind = f" of at least {SHORT_TEXT} words" if held_out and isinstance(held_out[0], Text) else ""
    words = (
        f"{len(both):,} of {len(compared):,} {WORDS[part]} examples{kind} also stand in the "
        "training data"
    )
    if both:
        words += f" (first: {part} line {both[0][0]:,} = train line {both[0][1]:,})"
    ok = not both
    if compared and isinstance(compared[0], Pair):
        known = _also_in(train, compared, lambda pair: pair.source)
        words += f", {len(known):,} by their source"
        ok = ok and len(known) <= FEW_SOURCES * len(compared)
    if not ok:
        words += "; the score will be too good: remove them from one of the two"
    return Finding(f"{part} apart from train", ok, words, serious=share >= MOSTLY)


def empty(parts: dict[str, Sequence[Record]]) -> Finding:
    """Examples with nothing to read or nothing to say."""
    found = [
        f"{part} line {record.line:,}"
        for part, records in parts.items()
        for record in records
        if not isinstance(record, Numbers) and not all(t.strip() for t in texts_of(record))
    ]
    words = f"{len(found):,} examples with an empty side"
    if found:
        words += f" (first: {found[0]}); remove them"
    return Finding("empty", not found, words)


def label_balance(train: Sequence[Labelled], valid: Sequence[Labelled]) -> Finding:
    """How often each label occurs."""
    counts = Counter(record.label for record in train)
    shown = ", ".join(f"{label} {n:,}" for label, n in counts.most_common(10))
    words = f"{len(counts):,} labels: {shown}" + (", ..." if len(counts) > 10 else "")
    label, most = counts.most_common(1)[0]
    share = most / len(train)
    rare = sorted(name for name, n in counts.items() if n < FEW_EXAMPLES)
    absent = sorted(set(counts) - {record.label for record in valid}) if valid else []
    if len(counts) == 1:
        words += "; there is nothing to tell apart: is this the right column (data.label_column)?"
    elif share > ONE_LABEL:
        words += (
            f"; always saying {label} is right in {share:.0%}: look at macro_f1, not at accuracy"
        )
    if rare:
        words += f"; fewer than {FEW_EXAMPLES} examples: {_some(rare)}: join or remove them"
    if absent:
        words += f"; not in the validation data: {_some(absent)}"
    return Finding("labels", share <= ONE_LABEL and not rare and not absent, words)


def broken_spans(parts: dict[str, Sequence[Tagged]]) -> Finding:
    """I- tags that continue nothing: such an entity counts for nobody."""
    begun = wrong = 0
    first = ""
    for part, records in parts.items():
        for record in records:
            begun += sum(tag[:2] in ("B-", "S-") for tag in record.tags)
            for place, (before, tag) in enumerate(pairwise(("O", *record.tags)), start=1):
                if tag[:2] in ("I-", "E-") and before not in (f"B-{tag[2:]}", f"I-{tag[2:]}"):
                    wrong += 1
                    first = first or (
                        f"{part} line {record.line:,}, word {place}, "
                        f"{record.words[place - 1]!r} {tag} after {before}"
                    )
    words = f"{begun:,} begin with B- (or S-), {wrong:,} I- (or E-) continue nothing of their label"
    if wrong:
        remedy = "write B- at the first word of each" if begun else "these are IOB1 tags: write B-"
        words += f" (first: {first}); {remedy}, or span F1 passes over them"
    return Finding("spans", not wrong, words)


def untranslated(train: Sequence[Pair]) -> Finding:
    """Targets that are their sources."""
    same = [pair.line for pair in train if pair.source.strip() == pair.target.strip()]
    share = len(same) / max(len(train), 1)
    words = f"{len(same):,} of {len(train):,} targets are a copy of their source ({share:.1%})"
    if same:
        words += f"; first: line {same[0]:,}"
    if share > MANY_COPIES:
        words += "; a model learns to copy from them: remove them unless they are meant"
    return Finding("copies", share <= MANY_COPIES, words)


def length_ratios(train: Sequence[Pair]) -> Finding:
    """Pairs in which one side is far too long to be a translation of the other."""
    ratios = [len(pair.target.strip()) / max(len(pair.source.strip()), 1) for pair in train]
    usual = statistics.median(ratios) if ratios else 1.0
    odd = [
        pair.line
        for pair, ratio in zip(train, ratios, strict=True)
        if not usual / ODD_RATIO <= ratio <= usual * ODD_RATIO
        and max(len(pair.source), len(pair.target)) > 20  # of short ones many are right
    ]
    share = len(odd) / max(len(train), 1)
    words = (
        f"a target has {usual:.2f} characters for one of its source; {len(odd):,} of "
        f"{len(train):,} pairs are off by a factor above {ODD_RATIO:.0f} ({share:.1%})"
    )
    if odd:
        words += f"; first: line{'s'[: len(odd) - 1]} {', '.join(f'{n:,}' for n in odd[:5])}"
    if share > MANY_ODD:
        words += "; are these translations? Look at those lines"
    return Finding("length ratios", share <= MANY_ODD, words)


def of_task(parts: dict[str, Sequence[Record]]) -> list[Finding]:
    """All checks of data that suit its kind; `parts` has train, and perhaps valid and test."""
    train = parts["train"]
    found = [duplicated(train)]
    found += [crossed(train, parts[p], p) for p in ("valid", "test") if parts.get(p)]
    if isinstance(train[0], Numbers | Text):  # of texts, only those on purpose are empty
        return found
    found.append(empty(parts))
    match train[0]:
        case Labelled():
            found.append(label_balance(train, parts.get("valid", ())))
        case Tagged():
            tags = {tag[:2] for records in parts.values() for r in records for tag in r.tags}
            if tags & {"B-", "I-"}:  # parts of speech have no spans
                found.append(broken_spans(parts))
        case Pair():
            found += [untranslated(train), length_ratios(train)]
    return found


def _read(record: Record) -> str:
    """What a model reads, and for a translation also writes, as one text."""
    return repr(record.inputs) if isinstance(record, Numbers) else "\n".join(texts_of(record))


def _whole(record: Record) -> str:
    """All of an example but its place."""
    match record:
        case Labelled():
            return f"{record.label}\n{record.text}"
        case Tagged():
            return "\n".join((*record.words, *record.tags))
        case Numbers():
            return repr((record.inputs, record.targets))
        case _:
            return _read(record)


def _hashes(records: Iterable[Record], key: Callable[[Record], str]) -> NDArray[np.int64]:
    return np.fromiter((hash(key(record)) for record in records), dtype=np.int64)


def _also_in(
    train: Sequence[Record], held_out: Sequence[Record], key: Callable[[Record], str]
) -> list[tuple[int, int]]:
    """(held-out line, training line) of the records with equal keys."""
    if not train or not held_out:
        return []
    marks, wanted = _hashes(train, key), _hashes(held_out, key)
    order = np.argsort(marks, kind="stable")  # of equal ones the first stays first
    places = order[np.searchsorted(marks, wanted, sorter=order).clip(max=len(marks) - 1)]
    hits = np.flatnonzero(marks[places] == wanted).tolist()
    found = ((held_out[i], train[places[i]]) for i in hits)
    return [(one.line, other.line) for one, other in found if key(one) == key(other)]


def _long_enough(record: Text) -> bool:
    return len(record.text.split(maxsplit=SHORT_TEXT)) >= SHORT_TEXT


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
