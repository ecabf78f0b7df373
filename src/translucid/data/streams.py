"""Rows of one long text as batches that go on: row r of a batch follows row r of the batch before.

The text is cut into as many streams as a batch has rows. The plan is a pure function of lengths,
budget, seed and epoch.
"""

import numpy as np
from numpy.typing import NDArray

from translucid.data.batching import Plan, permutation


def plan_streams(lengths: NDArray[np.int64], budget: int, *, seed: int = 0, epoch: int = 0) -> Plan:
    """Every row exactly once. lengths: (rows, 1), all alike but the last of the text.

    An epoch begins at a row of its own, and behind the last row of the text comes the first: so
    rows meet others in every epoch. The last streams may end before the others; then batches have
    fewer rows.
    """
    rows, max_length = len(lengths), int(lengths.max())
    streams = max(min(budget // max_length, rows), 1)
    per_stream = -(-rows // streams)
    start = int(permutation(rows, seed, epoch)[0])
    order = (np.arange(rows) + start) % rows
    batches = [order[place::per_stream] for place in range(per_stream)]
    sizes = [(len(batch), int(lengths[batch].max())) for batch in batches]
    return Plan(
        batches,
        tokens=int(lengths.sum()),
        slots=sum(count * length for count, length in sizes),
        shapes=len(set(sizes)),
    )
