"""Activation patching: replace values in one run with those from another.

    model.trace(a, edit=from_trace(b, "encoder.layers.1.*"))

`read_edited` runs one text with many edits in one batch, one edit per row. The results equal those
of separate runs up to rounding; values that an edit does not affect are bit for bit the same as in
the run without edits.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import TraceError, UnknownPointError
from translucid.core.trace import Edit, Trace
from translucid.see.reading import Reading
from translucid.see.trace_pictures import token_axis

Places = Mapping[int, int]


def from_trace(
    other: Trace, pattern: str | Sequence[str], *, tokens: Places | None = None
) -> dict[str, Edit]:
    """Make an edit that replaces the matching points with their values in `other`.

    tokens: replace only these positions, {position in this text: position in the other}, counted
    from 0 in the text that a point belongs to (source for the encoder, target for the decoder). In
    tables of queries by keys, whole rows (queries) are replaced.
    """
    if tokens is not None and (not tokens or min(*tokens, *tokens.values()) < 0):
        raise TraceError(
            f"tokens = {dict(tokens)}: expected {{position in this text: position in the other}}, "
            "counted from 0, such as {3: 3}; omit tokens to replace all positions"
        )
    edits: dict[str, Edit] = {}
    lengths: dict[str, Edit] = {}
    for glob in [pattern] if isinstance(pattern, str) else pattern:
        base, _, position = glob.partition("@")
        names = other.names(base)
        if not names:
            other[base]  # raises an error with the nearest names
        for name in names:
            if _in_steps(other, name):
                edits |= _steps(other, name, position, tokens)
                lengths |= _same_length(other, name, tokens) if not position else {}
            elif position:
                other[f"{name}@{position}"]  # raises an error: it has no positions
            elif tokens is None:
                edits[name] = partial(_whole, name, other[name])
            else:
                edits[name] = partial(_some, name, other[name], dict(tokens))
    return lengths | edits


def _in_steps(trace: Trace, name: str) -> bool:
    """Whether a recurrent loop recorded this point separately at each position."""
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
    """An edit of the stack's output that changes nothing, but raises an error if the two texts
    differ in length. Without this edit, positions that exist in only one text would be skipped
    silently."""
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
    """Replace the vectors of some tokens with those from the other trace."""
    axes, along = describe(name).axes, token_axis(name)
    if along is None or value.dim() != len(axes):
        raise TraceError(
            f"{name} has no token axis (its axes are {', '.join(axes) or 'none'}); exclude it "
            "from the pattern, or omit tokens to replace the whole point"
        )
    sizes = [
        (ours, other)
        for place, (ours, other) in enumerate(zip(value.shape, theirs.shape, strict=True))
        if place != along
    ]
    if any(ours != other for ours, other in sizes):
        raise TraceError(
            f"{name} has shape {tuple(value.shape)} here and {tuple(theirs.shape)} in the other "
            f"trace; all axes except {axes[along]} must agree; exclude this point from the "
            "pattern, or choose texts of the same length"
        )
    _check_places(name, tokens, value.shape[along], theirs.shape[along])
    here, there = (torch.tensor(list(places)) for places in (tokens.keys(), tokens.values()))
    moved = theirs.index_select(along, there.to(theirs.device)).to(value)
    return value.index_copy(along, here.to(value.device), moved)


def _check_places(name: str, tokens: Places, ours: int, theirs: int | None) -> None:
    for places, size, where in (
        (tokens.keys(), ours, "this text"),
        (tokens.values(), theirs, "the other text"),
    ):
        if size is not None and max(places) >= size:
            raise TraceError(
                f"tokens = {dict(tokens)}: must be positions that exist; {name} has positions 0 "
                f"to {size - 1} in {where}"
            )


def _apart(name: str, ours: Sequence[int], theirs: Sequence[int]) -> str:
    return (
        f"{name} has shape {tuple(ours)} here, but {tuple(theirs)} in the other trace; choose "
        "texts with the same number of tokens, or the positions to replace with "
        "tokens={position in this text: position in the other}"
    )


def can_be_rows(plain: Reading, edit: Mapping[str, Edit]) -> bool:
    """Whether every point that an edit changes has a row for each text in a batch. The attention
    scale, for example, is a single number for the whole batch."""
    return all(describe(name).axes[:1] == ("batch",) for glob in edit for name in plain.names(glob))


def read_edited(plain: Reading, edits: Sequence[Mapping[str, Edit]]) -> list[Reading]:
    """Run the text of a complete trace again, once with each of these edits."""
    network, example = plain.network, plain.example
    readings = [
        Reading(network, plain.task, example, edit=edit, budget_bytes=None, by_hand=True)
        for edit in edits
    ]
    inputs = {
        name: value.expand(1 + len(edits), *value.shape[1:])
        for name, value in example.inputs_for(network).items()
    }
    with torch.no_grad():
        network(**inputs, trace=_Rows(plain, readings))
    for reading in readings:
        reading.complete(plain)
    return readings


class _Rows(Trace):
    """A trace that applies a different edit to each row of a batch, and records the rows in
    separate readings.

    Row 0 has no edit. The other rows are recorded only at the points where they differ from row 0,
    and at the points that their edits name.
    """

    def __init__(self, plain: Reading, readings: Sequence[Reading]) -> None:
        super().__init__([], by_hand=True)
        self.plain, self.readings = plain, readings
        self.edited = [
            {name for glob in reading.edit for name in plain.names(glob.partition("@")[0])}
            for reading in readings
        ]

    def passes(self, name: str, position: int | None, value: Tensor) -> Tensor:
        reached = [False] * len(self.readings)
        if value.dim() and len(value) > 1:  # otherwise the value is shared by all rows
            reached = (value != value[0]).flatten(1).any(1).tolist()[1:]
        edited = {}
        for row, (reading, other) in enumerate(zip(self.readings, reached, strict=True), 1):
            if not other and name not in self.edited[row - 1]:
                continue
            place = name if position is None else f"{name}@{position}"
            part = value[row : row + 1] if other else self.plain[place]
            whole = reading if position is None else reading.step(position)
            if (after := whole(name, part)) is not part:
                edited[row] = after
        if not edited:
            return value
        value = value.expand(1 + len(self.readings), *value.shape[1:]).clone()
        value[list(edited)] = torch.cat(list(edited.values()))
        return value
