"""The result of `model.trace(text)`: a trace with methods for every picture and table.

The pictures are drawn by functions of a `TextTrace`. They are imported on first use, because the
drawing code is slow to load.
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
        """Draw gates and states of recurrent layers at each token, for one unit or averaged."""
        from translucid.see.trace_pictures import gates

        return gates(self, self.words, pattern, unit=unit)

    def top(self, k: int = 5, *, tokens: tuple[int, int] | None = None) -> Picture:
        """Draw the k likeliest tokens or tags at every position; for a classifier, all classes."""
        from translucid.see.predictions import likeliest

        return likeliest(self, k, tokens=tokens)

    def lens(self, k: int = 1, *, tokens: tuple[int, int] | None = None) -> Heat:
        """Draw what a Transformer would predict if it stopped after each layer."""
        from translucid.see.lens import lens

        return lens(self, k, tokens=tokens)

    def norms(self, pattern: str | None = None) -> Picture:
        """Draw mean and spread of each token's vector, before and after normalisation."""
        from translucid.see.norms import before_and_after

        return before_and_after(self, pattern)

    def walk(self, *, layer: int | None = None, head: int | None = None, top: int = 5) -> "Walk":
        """Explain the run from text to answer, step by step; print the result. layer, head: show
        only this layer or head, in detail. top: how many of the likeliest answers to show."""
        from translucid.see.walk.make_walk import walk

        return walk(self, layer=layer, head=head, top=top)

    def terms(self, address: str, *, top: int = 8) -> "OpenedNumber":
        """Show how one number is computed: `print(trace.terms("head.logits[0, 3, 5]"))`. Each
        number in the result has its own address. top: how many terms of a long sum to list."""
        from translucid.see.terms import computation, terms

        return terms(computation(self, shown=top), address)

    def contributions(self, position: int, output: int) -> "Contributions":
        """Split one logit of a Transformer into what the embedding, each head and each feed-forward
        layer contribute; with the remainder, the contributions sum to the logit."""
        from translucid.see.contributions import contributions

        return contributions(self, position, output)

    def diff(self, other: Trace, pattern: str = "*") -> "TraceDifference":
        """Compare this run with another at each trace point. Print the result, or draw its
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
        """Patch values from this (clean) run into a corrupted run of the same length, and measure
        which of them restore this run's answer."""
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
    """Run a network on a text and record the values it computes."""
    example = task.example(text, target)
    reading = Reading(network, task, example, keep=keep, edit=edit, budget_bytes=budget_bytes)
    with torch.no_grad():
        network(**example.inputs_for(network), trace=reading)
    reading.check()
    return reading
