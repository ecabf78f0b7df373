"""Activation patching: values of one run put into another.

model.trace(a, edit=from_trace(b, "encoder.layers.1.*"))
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import TraceError, UnknownPointError
from translucid.core.trace import Edit, Trace
from translucid.tasks.words import ALONG_TEXT

Places = Mapping[int, int]


def from_trace(
    other: Trace, pattern: str | Sequence[str], *, tokens: Places | None = None
) -> dict[str, Edit]:
    """An edit that replaces the points that match by what `other` has there.

    tokens: only some positions, {place in this text: place in the other}, counted from 0 in the
    text that a point belongs to (an encoder's in the source, a decoder's in the target). Of a table
    of queries and keys whole rows are replaced: those of the queries.
    """
    if tokens is not None and (not tokens or min(*tokens, *tokens.values()) < 0):
        raise TraceError(
            f"tokens = {dict(tokens)}: give places from 0 on, {{place in this text: place in the "
            "other}, such as {3: 3}; leave it out to replace all"
        )
    edits: dict[str, Edit] = {}
    lengths: dict[str, Edit] = {}
    for glob in [pattern] if isinstance(pattern, str) else pattern:
        base, _, position = glob.partition("@")
        names = other.names(base)
        if not names:
            other[base]  # says what is wrong, and what comes near
        for name in names:
            if _in_steps(other, name):
                edits |= _steps(other, name, position, tokens)
                lengths |= _same_length(other, name, tokens) if not position else {}
            elif position:
                other[f"{name}@{position}"]  # says that it has no positions
            elif tokens is None:
                edits[name] = partial(_whole, name, other[name])
            else:
                edits[name] = partial(_some, name, other[name], dict(tokens))
    return lengths | edits


def _in_steps(trace: Trace, name: str) -> bool:
    """Was it written position by position, by a recurrent loop?"""
    try:
        trace[f"{name}@0"]
    except UnknownPointError:
        return False
    return True


def _steps(
    other: Trace, name: str, position: str, tokens: Places | None
) -> Iterator[tuple[str, Edit]]:
    length = other[name].shape[1]
    places: Places = {place: place for place in range(length)} if tokens is None else tokens
    if position:
        places = {int(position): places.get(int(position), int(position))}
    for here, there in places.items():
        yield f"{name}@{here}", partial(_whole, f"{name}@{here}", other[f"{name}@{there}"])


def _same_length(other: Trace, name: str, tokens: Places | None) -> dict[str, Edit]:
    """A loop tells nobody how long it is; the output of its stack does. Without this, positions
    that only one of the texts has would be passed over without a word."""
    scope, inside, _ = name.rpartition(".recurrent.layers.")
    if not inside:
        return {}
    return {f"{scope}.recurrent.output": partial(_checked, name, other[name], tokens)}


def _checked(name: str, theirs: Tensor, tokens: Places | None, output: Tensor) -> Tensor:
    if tokens is not None:
        _check_places(name, tokens, output.shape[1], None)
    elif output.shape[1] != theirs.shape[1]:
        ours = (*theirs.shape[:1], output.shape[1], *theirs.shape[2:])
        raise TraceError(_apart(name, ours, theirs.shape))
    return output


def _whole(name: str, theirs: Tensor, value: Tensor) -> Tensor:
    if theirs.shape != value.shape:
        raise TraceError(_apart(name, value.shape, theirs.shape))
    return theirs.to(value)


def _some(name: str, theirs: Tensor, tokens: Places, value: Tensor) -> Tensor:
    """The value with the vectors of some tokens from elsewhere."""
    axes = describe(name).axes
    along = next((place for place, axis in enumerate(axes) if axis in ALONG_TEXT), None)
    if along is None or value.dim() != len(axes):
        raise TraceError(
            f"{name} {tuple(value.shape)} has no axis of tokens ({', '.join(axes) or 'a number'}); "
            "leave it out of the pattern, or leave out tokens to replace it whole"
        )
    sizes = [
        (ours, other)
        for place, (ours, other) in enumerate(zip(value.shape, theirs.shape, strict=True))
        if place != along
    ]
    if any(ours != other for ours, other in sizes):
        raise TraceError(
            f"{name} has shape {tuple(value.shape)} here and {tuple(theirs.shape)} in the other "
            f"trace; apart from the {axes[along]} they must agree: leave this point out of the "
            "pattern, or take texts of one length"
        )
    _check_places(name, tokens, value.shape[along], theirs.shape[along])
    here, there = (torch.tensor(list(places)) for places in (tokens.keys(), tokens.values()))
    moved = theirs.index_select(along, there.to(theirs.device)).to(value)
    return value.index_copy(along, here.to(value.device), moved)


def _check_places(name: str, tokens: Places, ours: int, theirs: int | None) -> None:
    for places, size, where in (
        (tokens.keys(), ours, "this text"),
        (tokens.values(), theirs, "the other"),
    ):
        if size is not None and max(places) >= size:
            raise TraceError(
                f"tokens = {dict(tokens)}: {name} has places 0 to {size - 1} in {where}"
            )


def _apart(name: str, ours: Sequence[int], theirs: Sequence[int]) -> str:
    return (
        f"{name} has shape {tuple(ours)} here, but {tuple(theirs)} in the other trace; take texts "
        "of one length in tokens, or say which positions to replace with "
        "tokens={place in this text: place in the other}"
    )
