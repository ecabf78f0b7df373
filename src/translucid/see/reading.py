"""What a model thought while it read one text: a trace that knows its words and draws itself.

The pictures stand in files of their own, which know a reading; so they are imported when asked for.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from translucid.errors import InputError
from translucid.models.base import Network
from translucid.see.examples import Example, make_example
from translucid.see.of_points import Chosen, Head
from translucid.see.pictures import Grid, Heat, Picture
from translucid.see.words import Words
from translucid.tasks.base import Task
from translucid.trace import DEFAULT_BUDGET, Edit, Trace

if TYPE_CHECKING:
    from translucid.see.difference import Difference
    from translucid.see.walk.data import Walk


class Reading(Trace):
    """Every intermediate of one text, by name. Made by `model.trace(text)`."""

    def __init__(
        self, network: Network, task: Task[Any, Any], example: Example, **options: Any
    ) -> None:
        super().__init__(**options)
        self.network, self.task, self.example = network, task, example

    @property
    def words(self) -> Words:
        """What stands along the axes."""
        return self.example.words

    def figure(
        self,
        pattern: str,
        *,
        head: Head = None,
        tokens: tuple[int, int] | None = None,
        gold: Sequence[tuple[int, int]] = (),
    ) -> Picture:
        """A picture of one point, or of several that look alike, such as `*.lstm.*_gate`.

        head: one of the attention heads, or "mean"; by default all. tokens: the first to show, and
        the one after the last. gold: known (source, target) pairs of words, to frame in
        cross-attention.
        """
        names = self.names(pattern)
        if not names:
            self[pattern]  # says what is wrong
            raise InputError(f"the trace has no point that matches {pattern!r}")
        pairs = [(target, source) for source, target in gold]
        chosen = Chosen(self.words, head, tokens, pairs)
        return chosen.picture({name: self[name] for name in names})

    def gates(self, pattern: str = "*", *, unit: int | None = None) -> Grid:
        """Gates and states of recurrent layers by words, of all units together or of one."""
        from translucid.see.gates import gates

        return gates(self, self.words, pattern, unit=unit)

    def top(self, k: int = 5, *, tokens: tuple[int, int] | None = None) -> Picture:
        """The k likeliest next words, or tags, at every position; of a classifier, all classes."""
        from translucid.see.likely import likeliest

        return likeliest(self, k, tokens=tokens)

    def lens(self, k: int = 1, *, tokens: tuple[int, int] | None = None) -> Heat:
        """What a Transformer would say if it stopped after each layer."""
        from translucid.see.lens import lens

        return lens(self, k, tokens=tokens)

    def norms(self, pattern: str | None = None) -> Picture:
        """Mean and spread of each word's vector, before and after normalisation."""
        from translucid.see.norms import before_and_after

        return before_and_after(self, pattern)

    def walk(self, *, layer: int | None = None, head: int | None = None, top: int = 5) -> "Walk":
        """What happened to the text, part by part: print it. layer, head: look closer at one."""
        from translucid.see.walk.walk import walk

        return walk(self, layer=layer, head=head, top=top)

    def diff(self, other: Trace, pattern: str = "*") -> "Difference":
        """Where another run parts ways with this one, point by point: print it, or ask for its
        `picture()`."""
        from translucid.see.difference import difference

        return difference(self, other, pattern)

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
    """Let a network read a text, and keep what it computes."""
    example = make_example(task, text, target)
    reading = Reading(network, task, example, keep=keep, edit=edit, budget_bytes=budget_bytes)
    with torch.no_grad():
        network(**example.inputs_for(network), trace=reading)
    reading.check()
    return reading
