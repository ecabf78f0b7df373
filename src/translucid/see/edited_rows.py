"""One text read with many edits at once: a batch in which each row has an edit of its own.

Plain twin: reading the text once for each edit. The numbers are the same up to rounding, and what
an edit does not reach is bit for bit that of the run without edits.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.trace import Edit, Trace
from translucid.see.reading import Reading


def can_be_rows(plain: Reading, edit: Mapping[str, Edit]) -> bool:
    """Whether all that an edit changes has a row for each text of a batch; the scale of attention
    is one number for all of them."""
    return all(describe(name).axes[:1] == ("batch",) for glob in edit for name in plain.names(glob))


def read_edited(plain: Reading, edits: Sequence[Mapping[str, Edit]]) -> list[Reading]:
    """The text of a whole reading without edits, read with each of these."""
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
    """Hands each row of a batch that an edit has reached, or that is edited here, to a reading of
    its own. Row 0 is edited by nobody: rows that are like it are those that no edit has reached."""

    def __init__(self, plain: Reading, readings: Sequence[Reading]) -> None:
        super().__init__([], by_hand=True)
        self.plain, self.readings = plain, readings
        self.edited = [
            {name for glob in reading.edit for name in plain.names(glob.partition("@")[0])}
            for reading in readings
        ]

    def passes(self, name: str, position: int | None, value: Tensor) -> Tensor:
        reached = [False] * len(self.readings)
        if value.dim() and len(value) > 1:  # else it is the same for all rows
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
