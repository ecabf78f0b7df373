"""Traces and edits of single requests.

A request with an edit takes its steps alone, so that the edit reaches no other row. The trace of a
generated text is one forward pass over prompt and output, as in `model.decode(text, trace=...)`.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError, TraceError, UnknownPointError
from translucid.core.trace import Edit, Trace
from translucid.generate.decoded import Candidate
from translucid.model.model import Model
from translucid.models.base import Network
from translucid.see.ablation import edited
from translucid.tasks.example import Example
from translucid.tasks.generator import Generator
from translucid.tasks.words import readable


class TraceTooLarge(TraceError):
    """A request asks for more values than the server returns."""


class RequestedTrace(Trace):
    """The trace points that a request asks for, on the CPU.

    most: the maximum number of values. labels: of the tokens that the network read, by side.
    """

    def __init__(self, keep: Sequence[str], edit: Mapping[str, Edit], most: int) -> None:
        super().__init__(keep, edit=edit, budget_bytes=None, device="cpu")
        self.most, self.count = most, 0
        self.labels: dict[str, Sequence[str]] = {}

    def keeps(self, name: str, position: int | None, value: Tensor) -> None:
        self.count += value.numel()
        if self.count <= self.most:
            super().keeps(name, position, value)

    def check(self) -> None:
        super().check()
        if self.count > self.most:
            raise TraceTooLarge(
                f"trace: the points have {self.count:,} values, but this server returns at most "
                f"{self.most:,} per request; request fewer points, or send a shorter text"
            )


class _Edits(Trace):
    """The edits of a request, with a check of the network's output after every run."""

    def __init__(self, edit: Mapping[str, Edit], output: str) -> None:
        super().__init__([], edit=edit)
        self.output = output

    def passes(self, name: str, position: int | None, value: Tensor) -> Tensor:
        if name == self.output and not bool(value.amax(dim=-1).isfinite().all()):
            raise InputError("edit: the model's output is not finite; use smaller values")
        return value


def with_edit(network: Network, edit: Mapping[str, Edit]) -> Any:
    """The network with an edit applied in every run and decoding step."""
    twin = edited(network, edit)
    twin.watched = _Edits(edit, network.output_point)
    return twin


def edited_model(model: Model, edit: Mapping[str, Edit]) -> Model:
    """A copy of the model that applies an edit in every run."""
    twin = copy(model)
    twin.network, twin._generator = with_edit(model.network, edit), None
    return twin


def trace_of_text(
    model: Model, text: Any, target: str | None, trace: RequestedTrace
) -> RequestedTrace:
    """Trace one forward pass over a text, as `model.trace` does."""
    example = example_of(model, text, target)
    model.task.check_line(example.text, "the text", model.network)
    with torch.no_grad():
        model.network(**example.inputs_for(model.network), trace=trace)
    trace.check()
    words = example.words
    sides = {"source": words.source, "target": words.target, "features": words.features}
    trace.labels = {side: labels for side, labels in sides.items() if labels}
    return trace


def trace_of_output(
    generator: Generator, item: Any, text: Candidate, trace: RequestedTrace
) -> RequestedTrace:
    """Trace one forward pass over a prompt or source and the text generated from it."""
    read = generator.read(item, text, trace)
    trace.check()
    tokenizers = {"target": generator.tokenizer} | generator.tokenizers
    for name, ids in read.items():
        side = "source" if name == "source" else "target"
        tokenizer = tokenizers.get(side, generator.tokenizer)
        trace.labels[side] = readable(tokenizer, ids[0].tolist())
    return trace


def points_of(model: Model, text: Any) -> list[str]:
    """The names of all trace points of a model. They do not depend on the text."""
    seen = Trace([], by_hand=True)
    example = example_of(model, text, None)
    with torch.no_grad():
        model.network(**example.inputs_for(model.network), trace=seen)
    return sorted(seen.met)


def axes_of(name: str, value: Tensor) -> list[str] | None:
    """The names of a value's axes; None if they are unknown. In a loop over time, a value has no
    axis for the position."""
    try:
        axes = [*describe(name).axes]
    except UnknownPointError:
        return None
    if len(axes) == value.dim() + 1 and "length" in axes:
        axes.remove("length")
    return axes if len(axes) == value.dim() else None


def example_of(model: Model, text: Any, target: str | None) -> Example:
    line = text if isinstance(text, str) else model.task.text_of_row(text)
    return model.task.example(line, target)
