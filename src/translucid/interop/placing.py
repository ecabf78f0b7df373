"""From the tensors of a file into the weights of a network, one after the other.

What is missing, what is too much and what has another shape is known from the headers, and said at
once, before anything is read.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.weights import FLOATS, own_tensors
from translucid.interop.formats.stored import MappedFile, StoredTensor, rows_in_place
from translucid.interop.rules import Place, WeightRule, constant_value

LARGEST_WEIGHT = 1e12
SHOWN = 12  # patterns of names in a message


@dataclass
class Misfits:
    """Tensors of a file that do not fit the network, by name."""

    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    misshapen: list[str] = field(default_factory=list)  # with their shapes
    without_rule: list[str] = field(default_factory=list)  # weights of ours

    def message(self) -> str:
        parts = {"missing": self.missing, "not known": self.extra, "of another shape":
                 self.misshapen, "without a rule for it": self.without_rule}  # fmt: skip
        return "; ".join(
            f"{len(names):,} {kind}: {grouped(names)}" for kind, names in parts.items() if names
        )


def grouped(names: Iterable[str]) -> str:
    """Names with layer numbers left out, and how often each occurs."""
    patterns = Counter(re.sub(r"(?<=[._/])\d+(?=[._/]|$)", "{}", name) for name in names)
    lines = [f"{name} ({n:,} times)" if n > 1 else name for name, n in patterns.items()]
    more = f", and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return ", ".join(lines[:SHOWN]) + more


def is_ignored(name: str, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


@torch.no_grad()
def place_weights(
    network: nn.Module,
    rules: Sequence[WeightRule],
    tensors: Mapping[str, StoredTensor],
    ignored: Sequence[str],
    where: str,
) -> list[str]:
    """Fill every weight of the network; the names of tensors that were ignored.

    ignored: patterns of names that hold no weights. where: what was opened, for messages."""
    places = own_tensors(network)
    misfits = _misfits(rules, tensors, places, ignored)
    if wrong := misfits.message():
        merged = "lora" in wrong.lower() or "adapter" in wrong.lower()
        remedy = (
            "merge the adapter into the model and save that"
            if merged
            else "see whether the configuration belongs to these weights, and whether all parts of "
            "the model were copied"
        )
        raise InputError(f"{where}: its tensors do not fit its configuration: {wrong}; {remedy}")
    alone, parameters = _alone(rules, tensors), dict(network.named_parameters())
    for rule in rules:
        if not _leave(rule, tensors, parameters, alone, where):
            _fill(rule, tensors, places, where)
    used = {place.name for rule in rules for place in rule.theirs}
    return [name for name in tensors if name not in used]


def _misfits(
    rules: Sequence[WeightRule],
    tensors: Mapping[str, StoredTensor],
    places: Mapping[str, Tensor],
    ignored: Sequence[str],
) -> Misfits:
    misfits = Misfits()
    known = {place.name for rule in rules for place in rule.theirs}
    ruled = {place.name for rule in rules for place in rule.ours}
    misfits.missing = sorted(known - tensors.keys())
    misfits.extra = [n for n in tensors if n not in known and not is_ignored(n, ignored)]
    misfits.without_rule = [name for name in places if name not in ruled]
    for rule in rules:
        if all(place.name in tensors for place in rule.theirs):
            misfits.misshapen += _misshapen(rule, tensors, places)
    return misfits


def _misshapen(
    rule: WeightRule, tensors: Mapping[str, StoredTensor], places: Mapping[str, Tensor]
) -> list[str]:
    """The tensors of a rule whose shapes do not fit, as text."""
    known = [place for place in rule.ours if place.name in places]
    ours = [place.to_ours(places[place.name]).shape for place in known]
    if len(ours) != len(rule.ours):
        return [f"{place.name} (no such weight)" for place in rule.ours]
    if rule.constant is not None:
        return []
    rows = 0
    for place in rule.theirs:
        shape = tensors[place.name].shape
        try:
            moved = place.to_ours(torch.empty(shape, device="meta")).shape
        except (RuntimeError, ValueError, IndexError):
            return [f"{place.name} {list(shape)}"]
        if moved[1:] != ours[0][1:] or place.rows not in (None, moved[0]):
            return [f"{place.name} {list(shape)}, where {_wanted(place, ours)} is wanted"]
        rows += moved[0]
    if rows != sum(shape[0] for shape in ours):
        (place, *_) = rule.theirs
        shape = tensors[place.name].shape
        return [f"{place.name} {list(shape)}, where {_wanted(place, ours)} is wanted"]
    return []


def _wanted(place: Place, ours: Sequence[torch.Size]) -> list[int]:
    """The shape that a tensor of theirs should have, as far as it is known."""
    rows = place.rows or sum(shape[0] for shape in ours)
    shape = torch.empty(rows, *ours[0][1:], device="meta")
    return list(place.to_theirs(shape).shape)


def _alone(rules: Sequence[WeightRule], tensors: Mapping[str, StoredTensor]) -> set[str]:
    """Tensors that make up one weight and share no bytes with others: training one weight must not
    change another."""
    uses = Counter(place.name for rule in rules for place in rule.theirs)
    placed = [(t.start, t.start + t.nbytes, t.file, name) for name, t in tensors.items() if t.file]
    alone = {name for name, count in uses.items() if count == 1}
    ends: dict[MappedFile, tuple[int, str]] = {}
    for start, end, file, name in sorted(placed, key=lambda entry: entry[:2]):
        last, other = ends.get(file, (0, name))
        if start < last:
            alone -= {name, other}
        ends[file] = max((last, other), (end, name))
    return alone


def _leave(
    rule: WeightRule,
    tensors: Mapping[str, StoredTensor],
    parameters: Mapping[str, nn.Parameter],
    alone: set[str],
    where: str,
) -> bool:
    """Use the mapped values of the file as the parameter, without a copy, if they need no
    conversion; otherwise return False."""
    names = [place.name for place in rule.theirs]
    steps = any(place.steps for place in (*rule.theirs, *rule.ours))
    if steps or len(rule.ours) > 1 or not names or not alone.issuperset(names):
        return False
    parameter = parameters.get(rule.ours[0].name)
    values = rows_in_place([tensors[name] for name in names])
    if parameter is None or values is None or parameter.dtype != values.dtype:
        return False
    check_finite(values, names, rule.ours[0].name, where)
    parameter.data = values
    return True


def _fill(
    rule: WeightRule, tensors: Mapping[str, StoredTensor], places: Mapping[str, Tensor], where: str
) -> None:
    ours = [place.to_ours(places[place.name]) for place in rule.ours]  # views
    if rule.constant is not None:
        ours[0].copy_(constant_value(rule.constant, ours[0].shape))
        return
    shapes = [_moved_rows(place, tensors[place.name].shape) for place in rule.theirs]
    cuts = list(rule.cuts(shapes, [len(tensor) for tensor in ours]))
    for i, place in enumerate(rule.theirs):
        stored = tensors[place.name]
        values = stored.read()
        if values.dtype not in FLOATS:
            raise InputError(
                f"{where}: {place.name} holds {values.dtype}, but weights are floating point "
                "numbers; use a file that is not quantised in this way"
            )
        for cut in cuts:
            if cut.theirs == i:
                target = ours[cut.ours].narrow(0, cut.place, cut.rows)
                place.copy(values, target, cut.first)
        del values
        stored.release()
    for place, tensor in zip(rule.ours, ours, strict=True):
        check_finite(tensor, [theirs.name for theirs in rule.theirs], place.name, where)


def check_finite(values: Tensor, names: Sequence[str], weight: str, where: str) -> None:
    """Refuse values that are not finite or far too large. Damaged bytes often are such numbers."""
    if not values.numel():
        return
    low, high = values.aminmax()
    if low >= -LARGEST_WEIGHT and high <= LARGEST_WEIGHT:  # False for NaN
        return
    kind = (
        f"values beyond {LARGEST_WEIGHT:.0e}, which no weight has"
        if low.isfinite() and high.isfinite()
        else "values that are not finite (NaN or infinity)"
    )
    raise InputError(
        f"{where}: {', '.join(names)} holds {kind}, so that {weight} could not be used; download "
        "the model again"
    )


def _moved_rows(place: Place, shape: tuple[int, ...]) -> int:
    return len(place.to_ours(torch.empty(shape, device="meta")))
