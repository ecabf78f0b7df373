"""The trace of one text with its tokens: the basis of every picture and table."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.models.base import Network
from translucid.see.pictures import Picture
from translucid.see.trace_pictures import FigureOptions, Head
from translucid.tasks.base import Task
from translucid.tasks.example import Example
from translucid.tasks.outputs import Outputs
from translucid.tasks.words import Words


class TextTrace(Trace):
    """Every intermediate value of one text, by name, with the labels along the axes."""

    def __init__(
        self, network: Network, task: Task[Any, Any], example: Example, **options: Any
    ) -> None:
        super().__init__(**options)
        self.network, self.task, self.example = network, task, example

    @property
    def words(self) -> Words:
        """The labels along the axes."""
        return self.example.words

    @property
    def outputs(self) -> Outputs:
        """How to interpret the network's outputs."""
        return self.task.outputs

    @property
    def output_values(self) -> Tensor:
        """The outputs of the network. (outputs,) or (length, outputs)"""
        return self[self.network.output_point][0]

    def check_eval(self) -> None:
        """Raise an InputError if dropout is active, because values could not be recomputed."""
        if self.network.training:
            raise InputError("the network is in training mode; call network.eval() and trace again")

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each position that has an output."""
        return self.words.steps or self.words.last

    @property
    def wanted(self) -> list[int]:
        """The correct output at each position; IGNORE where it is unknown."""
        return self.example.batch.targets[0].tolist()

    def figure(
        self,
        pattern: str,
        *,
        head: Head = None,
        tokens: tuple[int, int] | None = None,
        gold: Sequence[tuple[int, int]] = (),
    ) -> Picture:
        """Draw one point, or several points of the same shape, such as `*.lstm.*_gate`.

        head: an attention head, or "mean"; by default all. tokens: the range to show, (first,
        last + 1). gold: known (source, target) token pairs, framed in cross-attention pictures.
        """
        names = self.names(pattern)
        if not names:
            self[pattern]  # raises an error that names the cause
            raise InputError(f"the trace has no point that matches {pattern!r}")
        pairs = [(target, source) for source, target in gold]
        chosen = FigureOptions(self.words, head, tokens, pairs)
        return chosen.picture({name: self[name] for name in names})

    def names_at(self, place: int, choices: Sequence[int]) -> list[str]:
        """The names of the given outputs at a position."""
        read = self.example.target_ids
        before = read[place] if read else None
        return [self.outputs.name(choice, before) for choice in choices]
