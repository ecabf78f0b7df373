"""Weights that a mapping file describes: names of ours and theirs as patterns.

{i} is the number of a layer, * the last part of a name (weight or bias), the same on both sides;
norms here have gain and shift where torch's have weight and bias. Names with | between them are
tensors that are joined, row under row, or with `columns` side by side.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from translucid.core.errors import ConfigError, InputError, nearest
from translucid.interop.families.plan import Plan
from translucid.interop.formats.stored import ModelFile
from translucid.interop.mapping_file import MappingFile, TokenizerTable
from translucid.interop.rules import (
    Blocks,
    ByHead,
    Constant,
    OneRow,
    Pairs,
    Place,
    Rule,
    Step,
    Transpose,
    constant,
)
from translucid.models.build import config_from
from translucid.models.sequence_config import SequenceConfig

SHAPES = {  # and the head, of a task
    "translate": ("encoder-decoder", "language"), "language": ("decoder", "language"),
    "classify": ("encoder", "classify"), "tag": ("encoder", "tag"),
}  # fmt: skip
CONSTANTS: tuple[Constant, ...] = ("zeros", "identity")
NORM = re.compile(r"(^|[._])norm\.\*$")
OF_NORM = {"weight": "gain", "bias": "shift"}
STEPS = "transpose, one_row, blocks 0 2 1 3, by_head HEADS, halves HEADS"


def from_mapping(
    held: MappingFile, tables: Mapping[str, TokenizerTable], file: ModelFile, where: str
) -> Plan:
    """where: the mapping file, for messages."""
    rules = [
        one
        for ours, theirs in held.names.items()
        for one in _rules(ours, theirs, file, f"{where}: names: {ours!r}")
    ]
    shape, head = SHAPES[held.task]
    values: dict[str, Any] = {"dropout": 0.0, **held.model, "shape": shape, "head": head}
    sizes = [len(table.tokens or ()) for table in tables.values()]
    reader = "decoder" if shape == "decoder" else "encoder"
    values["vocab"] = _rows(rules, file, f"{reader}.embedding.table.weight") or sizes[0]
    if shape == "encoder-decoder":
        values["target_vocab"] = _rows(rules, file, "decoder.embedding.table.weight")
    if head in ("classify", "tag"):
        values["outputs"] = len(held.labels)
    try:
        config = config_from(values)
    except ConfigError as error:
        raise InputError(f"{where}: model: {error}") from None
    if not isinstance(config, SequenceConfig):
        raise InputError(f"{where}: model.kind = {values['kind']!r}; write recurrent or "
                         "transformer")  # fmt: skip
    ignored = tuple(map(_wildcards, held.ignored))
    return Plan(values["kind"], held.task, config, rules, ignored, tuple(held.labels))


def _wildcards(pattern: str) -> str:
    """As a regular expression, in which no star takes back what it has matched: that could take
    forever."""
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    return first + "".join(f"(?>.*?{part})" for part in others[:-1]) + f".*{others[-1]}"


def _rows(rules: Sequence[Rule], file: ModelFile, ours: str) -> int | None:
    """Of an embedding table, if it has a tensor of its own."""
    for one in rules:
        if [place.name for place in one.ours] == [ours] and len(one.theirs) == 1:
            place = one.theirs[0]
            shape = file.tensors[place.name].shape
            return shape[int(Transpose() in place.steps)] if len(shape) == 2 else None
    return None


def _rules(ours: str, theirs: object, file: ModelFile, where: str) -> list[Rule]:
    """The rules of one line, once for each layer and last part that there is."""
    names = ours.split("|")
    steps: tuple[Step, ...] = ()
    side_by_side: tuple[Step, ...] = ()
    match theirs:
        case {"constant": "zeros" | "identity" as kind, **rest} if not rest and len(names) == 1:
            return [constant(names[0].strip(), kind)]
        case {"from": str(source), **rest} if not set(rest) - {"steps", "columns"}:
            side_by_side = (Transpose(),) if rest.get("columns") is True else ()
            steps = (*_steps(rest.get("steps", []), where), *side_by_side)
        case str(source):
            pass
        case _:
            raise InputError(
                f"{where} = {str(theirs)[:100]}; a name is wanted, or {{ from = name, steps = "
                f"[...], columns = true }}, or {{ constant = {' or '.join(map(repr, CONSTANTS))} }}"
            )
    patterns = [part.strip() for part in source.split("|")]
    rules = []
    for number, last in _matches(patterns[0], file, where):
        places = [_place(pattern, number, last, steps, file) for pattern in patterns]
        own = [
            Place(_filled(name.strip(), number, _last(name.strip(), last)), steps=side_by_side)
            for name in names
        ]
        rules.append(Rule(tuple(places), tuple(own)))
    return rules


def _matches(pattern: str, file: ModelFile, where: str) -> list[tuple[str, str]]:
    """Layers and last parts of the tensors with such a name."""
    escaped = re.escape(pattern)
    form = escaped.replace(r"\{i\}", r"(?P<i>\d+)", 1).replace(r"\{i\}", "(?P=i)")
    form = form.replace(r"\*", r"(?P<last>\w+)", 1)
    parts_of_names = []
    for name in file.tensors:
        if match := re.fullmatch(form, name):
            parts = match.groupdict()
            parts_of_names.append((parts.get("i") or "", parts.get("last") or ""))
    if not parts_of_names:
        close = nearest(pattern.replace("{i}", "0").replace("*", "weight"), file.tensors, 1)
        hint = f"; the nearest is {close[0][:100]}" if close else ""
        raise InputError(f"{where} = {pattern!r}, but no tensor is called so{hint}")
    return parts_of_names


def _filled(pattern: str, number: str, last: str) -> str:
    return pattern.replace("{i}", number).replace("*", last)


def _last(ours: str, last: str) -> str:
    return OF_NORM.get(last, last) if NORM.search(ours) else last


def _place(pattern: str, number: str, last: str, steps: tuple[Step, ...], file: ModelFile) -> Place:
    """Its rows are known from the file, so that the rule works both ways."""
    place = Place(_filled(pattern, number, last), steps=steps)
    stored = file.tensors.get(place.name)
    if stored is None or not stored.shape:
        return place
    if OneRow() in steps:
        return place
    turned = steps.count(Transpose()) % 2 == 1 and len(stored.shape) == 2
    return replace(place, rows=stored.shape[int(turned)])


def _steps(steps: object, where: str) -> tuple[Step, ...]:
    made: list[Step] = []
    for step in steps if isinstance(steps, list) else [steps]:
        name, *numbers = str(step).split()
        values = [int(n) if n.isdigit() else -1 for n in numbers]
        match name, values:
            case "transpose", []:
                made.append(Transpose())
            case "one_row", []:
                made.append(OneRow())
            case "by_head", [heads] if heads > 0:
                made.append(ByHead(heads))
            case "halves", [heads] if heads > 0:
                made.append(Pairs(heads))
            case "blocks", [_, *_] if sorted(values) == list(range(len(values))):
                made.append(Blocks(tuple(values)))
            case _:
                raise InputError(f"{where}: steps: {str(step)[:60]!r}; those known are {STEPS}")
    return tuple(made)
