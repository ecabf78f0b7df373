"""Switches that turn off parts of a network: list, choose, scale and combine them.

Each part defines its own switches (`parts/switch.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from translucid.core.errors import InputError, nearest
from translucid.core.trace import Edit
from translucid.models.base import Network
from translucid.parts.switch import KINDS, Switch, switches_of


def switches(network: Network) -> list[Switch]:
    """All switches of a network, in order from input to output."""
    return list(switches_of(network, ""))


def choose(switches: Sequence[Switch], kinds: Iterable[str]) -> list[Switch]:
    """The switches of the given kinds, in model order."""
    wanted = list(kinds)
    there = [kind for kind in KINDS if any(switch.kind == kind for switch in switches)]
    for kind in wanted:
        if kind not in KINDS:
            close = nearest(kind, KINDS, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise InputError(f"{kind!r} is not a kind of part; {hint}this model has {_list(there)}")
        if kind not in there:
            raise InputError(f"this model has no {kind} to switch off; it has {_list(there)}")
    return [switch for switch in switches if switch.kind in wanted]


def at_strength(switch: Switch, strength: float) -> Switch:
    """A switch that scales a head: 0 turns it off, 1 leaves it as trained, 2 doubles it."""
    if switch.kind != "heads":
        raise InputError(
            f"{switch.key}: only heads have a strength; this part can only be on or off"
        )
    if not 0 <= strength <= 2:
        raise InputError(f"{switch.key}: strength must be between 0 and 2, not {strength}")
    edit = {point: partial(_between, change, strength) for point, change in switch.edit.items()}
    return replace(switch, edit=edit)


def _between(change: Edit, strength: float, value: Tensor) -> Tensor:
    off = change(value)  # type: ignore[operator]  # the edits of heads are functions
    return off + strength * (value - off)


def together(chosen: Iterable[Switch]) -> dict[str, Edit]:
    """Combine several switches into one edit. Several of the switches may change the same point."""
    edits: dict[str, Edit] = {}
    for switch in chosen:
        for point, change in switch.edit.items():
            before = edits.get(point)
            edits[point] = change if before is None else partial(_both, before, change)
    return edits


def _both(first: Edit, second: Edit, value: Tensor) -> Tensor:
    for change in (first, second):
        if isinstance(change, int | float):
            value = torch.full_like(value, change)
        else:
            value = change if isinstance(change, Tensor) else change(value)
    return value


def _list(kinds: Sequence[str]) -> str:
    return ", ".join(kinds) or "nothing that can be switched off"
