"""Copy the tensors of a file into the weights of a network, one by one.

Missing tensors, unknown tensors and wrong shapes are reported before any values are read.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from translucid.core.errors import InputError
from translucid.core.weights import FLOATS, own_tensors
from translucid.interop.formats.stored import MappedFile, StoredTensor, rows_in_place
from translucid.interop.rules import Place, WeightRule, constant_value

LARGEST_WEIGHT = 1e12
SHOWN = 12  # name patterns shown in a message


def grouped(names: Iterable[str]) -> str:
    """Tensor names as text: names that differ only in the layer number are listed once, with a
    count."""
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
    """Fill every weight of the network, and return the names of ignored tensors.

    ignored: name patterns of tensors that are not weights. where: the model's path, in messages."""
    places = own_tensors(network)
    if wrong := _misfits(rules, tensors, places, ignored):
        merged = "lora" in wrong.lower() or "adapter" in wrong.lower()
        remedy = (
            "merge the adapter into the model and save the result"
            if merged
            else "check that the configuration belongs to these weights, and that all files were "
            "copied"
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
) -> str:
    """A text that lists the tensors that do not fit the network; empty if all fit."""
    known = {place.name for rule in rules for place in rule.theirs}
    ruled = {place.name for rule in rules for place in rule.ours}
    stored = [rule for rule in rules if all(place.name in tensors for place in rule.theirs)]
    misfits = {
        "missing": sorted(known - tensors.keys()),
        "unknown": [n for n in tensors if n not in known and not is_ignored(n, ignored)],
        "with a wrong shape": [n for rule in stored for n in _misshapen(rule, tensors, places)],
        "without a rule": [name for name in places if name not in ruled],
    }
    return "; ".join(
        f"{len(names):,} {kind}: {grouped(names)}" for kind, names in misfits.items() if names
    )


def _misshapen(
    rule: WeightRule, tensors: Mapping[str, StoredTensor], places: Mapping[str, Tensor]
) -> list[str]:
    """Descriptions of a rule's tensors whose shapes do not fit."""
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
            return [f"{place.name} {list(shape)}, expected {_wanted(place, ours)}"]
        rows += moved[0]
    if rows != sum(shape[0] for shape in ours):
        (place, *_) = rule.theirs
        shape = tensors[place.name].shape
        return [f"{place.name} {list(shape)}, expected {_wanted(place, ours)}"]
    return []


def _wanted(place: Place, ours: Sequence[torch.Size]) -> list[int]:
    """The expected shape of a tensor in the file, as far as it is known."""
    rows = place.rows or sum(shape[0] for shape in ours)
    shape = torch.empty(rows, *ours[0][1:], device="meta")
    return list(place.to_theirs(shape).shape)


def _alone(rules: Sequence[WeightRule], tensors: Mapping[str, StoredTensor]) -> set[str]:
    """Tensors that are used once and share no bytes with others. Only these can be used in place,
    since training one weight must not change another."""
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
    begin = 0  # the first row of this tensor in the concatenation
    for place in rule.theirs:
        stored = tensors[place.name]
        values = stored.read()
        if values.dtype not in FLOATS:
            raise InputError(
                f"{where}: {place.name} contains {values.dtype}, but weights must be "
                "floating-point numbers; use a file that is not quantized in this way"
            )
        end = begin + len(place.to_ours(torch.empty(stored.shape, device="meta")))
        start = 0
        for tensor in ours:
            first, last = max(begin, start), min(end, start + len(tensor))
            if first < last:
                place.copy(values, tensor[first - start : last - start], first - begin)
            start += len(tensor)
        begin = end
        del values
        stored.release()
    for place, tensor in zip(rule.ours, ours, strict=True):
        check_finite(tensor, [theirs.name for theirs in rule.theirs], place.name, where)


def check_finite(values: Tensor, names: Sequence[str], weight: str, where: str) -> None:
    """Raise an error if values are not finite or far too large, as in damaged files."""
    if not values.numel():
        return
    low, high = values.aminmax()
    if low >= -LARGEST_WEIGHT and high <= LARGEST_WEIGHT:  # False for NaN
        return
    kind = (
        f"values beyond {LARGEST_WEIGHT:.0e}, too large for weights"
        if low.isfinite() and high.isfinite()
        else "values that are not finite (NaN or infinity)"
    )
    raise InputError(
        f"{where}: {', '.join(names)} contains {kind}, so {weight} cannot be used; download the "
        "model again"
    )
