"""Inside of attention of a long text: some heads and some queries of one layer, never all of them.

A page shows one head, a row of it, or pictures of a few dozen cells. Queries do not know of each
other, so what is shown is computed from the queries and keys of the layer, block by block, by the
same `attend` as everything else.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor

from translucid.core.trace import Trace
from translucid.parts import masks
from translucid.parts.attention import Layout, MultiHead, attend
from translucid.studio.layer_inputs import Enough

BLOCK = 2**21  # numbers of a table that are computed at once


class Attended(NamedTuple):
    """What the attention of one layer was given."""

    q: Tensor  # (1, heads, queries, d_head)
    k: Tensor  # (1, kv_heads, keys, d_head)
    v: Tensor
    layout: Layout
    scale: float

    def points(self, names: Sequence[str], heads: range, queries: range) -> dict[str, Tensor]:
        """Some points of some heads and queries, by their last words: (heads, queries, keys)."""
        tables: dict[str, Tensor] = {}
        for block in blocks(queries, len(heads) * self.k.shape[2]):
            trace = Trace(names, budget_bytes=None, by_hand=True)
            self._attend(heads, block, self.k.shape[2], trace)
            at = block.start - queries.start
            for name in names:
                value = trace[name]
                if value.dim() < 4:  # the scale, which is one number
                    tables[name] = value
                    continue
                whole = (len(heads), len(queries), value.shape[-1])
                table = tables.setdefault(name, value.new_empty(whole))
                table[:, at : at + len(block)] = value[0]
        return tables

    def weights(self, queries: range) -> Tensor:
        """The weights of all heads: (heads, queries, keys); of keys that none of these queries may
        see, since they come later, there are none."""
        keys = queries.stop if self.layout.causal else self.k.shape[2]
        trace = Trace("pattern", budget_bytes=None)
        self._attend(range(self.q.shape[1]), queries, keys, trace)
        return trace["pattern"][0]

    def _attend(self, heads: range, queries: range, keys: int, trace: Trace) -> None:
        served = torch.arange(heads.start, heads.stop, device=self.q.device)
        served = served // (self.q.shape[1] // self.k.shape[1])
        q = self.q[:, heads.start : heads.stop, queries.start : queries.stop]
        k = self.k[:, served, :keys]
        layout = self._layout(heads, queries, keys)
        # Of the values nothing is wanted.
        attend(q, k, k[..., :0], layout, scaled=False, factor=self.scale, trace=trace)

    def _layout(self, heads: range, queries: range, keys: int) -> Layout:
        """Of these queries alone."""

        def cut(value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            value = value[..., :keys]  # an axis of size 1 holds what is the same for all
            for axis, some in ((1, heads), (2, queries)):
                if value.shape[axis] > 1:
                    value = value.narrow(axis, some.start, len(some))
            return value

        mask = cut(self.layout.mask)
        if self.layout.causal:
            slots = torch.arange(max(queries.stop, keys), device=self.q.device)
            mask = masks.causal(slots[queries.start : queries.stop], slots[:keys])[None, None]
        return Layout(mask, blind=self.layout.blind, bias=cut(self.layout.bias))


def blocks(queries: range, numbers: int, multiple: int = 1) -> Iterator[range]:
    """So many queries at a time that a table with so many numbers for each is a block; a multiple
    of some number, if one is given."""
    size = max(multiple, BLOCK // max(1, numbers) // multiple * multiple)
    for start in range(queries.start, queries.stop, size):
        yield range(start, min(start + size, queries.stop))


@contextmanager
def observed(part: MultiHead) -> Iterator[list[Attended]]:
    """While a layer runs: what its attention is given, at which the run ends. Nothing where
    attention goes by hand, since something inside of it is changed."""
    observations: list[Attended] = []

    def note(
        q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float, dropout: float
    ) -> NoReturn:
        observations.append(Attended(q, k, v, layout, scale))
        raise Enough

    before, part.kernel = part.kernel, note
    try:
        with suppress(Enough):
            yield observations
    finally:
        part.kernel = before
