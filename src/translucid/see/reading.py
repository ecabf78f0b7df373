"""What a model thought while it read one text: a trace that knows its words and draws itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from translucid.errors import InputError
from translucid.models.base import Network
from translucid.see.draw import Figure
from translucid.see.examples import Example, make_example
from translucid.see.gates import gates
from translucid.see.of_points import Chosen, Head
from translucid.see.words import Words
from translucid.tasks.base import Task
from translucid.trace import DEFAULT_BUDGET, Edit, Trace


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
    ) -> Figure:
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
        return Figure(chosen.picture({name: self[name] for name in names}))

    def gates(self, pattern: str = "*", *, unit: int | None = None) -> Figure:
        """Gates and states of recurrent layers by words, of all units together or of one."""
        return Figure(gates(self, self.words, pattern, unit=unit))


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
