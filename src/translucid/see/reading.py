"""The result of `model.trace(text)`: a trace with methods for every picture and table.

The pictures are functions over a `TextTrace`, imported on first use: drawing is slow to load.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from translucid.core.trace import DEFAULT_BUDGET, Edit, Trace
from translucid.models.base import Network
from translucid.see.pictures import Grid, Heat, Picture
from translucid.see.text_trace import TextTrace
from translucid.tasks.base import Task

if TYPE_CHECKING:
    from translucid.see.contributions import Contributions
    from translucid.see.difference import TraceDifference
    from translucid.see.patching import Patching
    from translucid.see.terms import OpenedNumber
    from translucid.see.walk.walk import Walk


class Reading(TextTrace):
    """Every intermediate value of one text, by name. Made by `model.trace(text)`."""

    def gates(self, pattern: str = "*", *, unit: int | None = None) -> Grid:
        """Gates and states of recurrent layers by tokens, averaged over all units or for one."""
        from translucid.see.trace_pictures import gates

        return gates(self, self.words, pattern, unit=unit)

    def top(self, k: int = 5, *, tokens: tuple[int, int] | None = None) -> Picture:
        """The k likeliest tokens or tags at every position; for a classifier, all classes."""
        from translucid.see.predictions import likeliest

        return likeliest(self, k, tokens=tokens)

    def lens(self, k: int = 1, *, tokens: tuple[int, int] | None = None) -> Heat:
        """What a Transformer would predict if it stopped after each layer."""
        from translucid.see.lens import lens

        return lens(self, k, tokens=tokens)

    def norms(self, pattern: str | None = None) -> Picture:
        """Mean and spread of each token's vector, before and after normalisation."""
        from translucid.see.norms import before_and_after

        return before_and_after(self, pattern)

    def walk(self, *, layer: int | None = None, head: int | None = None, top: int = 5) -> "Walk":
        """The steps from the text to the answer, to print. layer, head: show one in detail."""
        from translucid.see.walk.make_walk import walk

        return walk(self, layer=layer, head=head, top=top)

    def terms(self, address: str, *, top: int = 8) -> "OpenedNumber":
        """How one number is computed: `print(trace.terms("head.logits[0, 3, 5]"))`. Each number in
        the result has its own address. top: how many terms of a long sum to show one by one."""
        from translucid.see.terms import computation, terms

        return terms(computation(self, shown=top), address)

    def contributions(self, position: int, output: int) -> "Contributions":
        """What the embedding, each head and each feed-forward layer of a Transformer add to one
        logit; together with the remainder they sum to it."""
        from translucid.see.contributions import contributions

        return contributions(self, position, output)

    def diff(self, other: Trace, pattern: str = "*") -> "TraceDifference":
        """The differences between this run and another, point by point: print it, or draw its
        `picture()`."""
        from translucid.see.difference import difference

        return difference(self, other, pattern)

    def patching(
        self,
        corrupted: TextTrace,
        *,
        position: int | None = None,
        output: int | None = None,
        against: int | None = None,
    ) -> "Patching":
        """Put values of this run, the clean one, into a corrupted run of the same length, and
        measure which restore this run's answer."""
        from translucid.see.patching import Patching

        return Patching(self, corrupted, position=position, output=output, against=against)

    def _repr_html_(self) -> str:
        from translucid.see.display import reading_html

        return reading_html(self)


def read(
    network: Network,
    task: Task[Any, Any],
    text: str,
    target: str | None = None,
    *,
    keep: str | Sequence[str] = "*",
    edit: Mapping[str, Edit] | None = None,
    budget_bytes: int | None = DEFAULT_BUDGET,
) -> Reading:
    """Run a network on a text and keep what it computes."""
    example = task.example(text, target)
    reading = Reading(network, task, example, keep=keep, edit=edit, budget_bytes=budget_bytes)
    with torch.no_grad():
        network(**example.inputs_for(network), trace=reading)
    reading.check()
    return reading
