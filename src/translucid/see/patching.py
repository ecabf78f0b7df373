"""Causal tracing: which values from a clean run restore its answer when put into a corrupted run.

    clean, corrupted = model.trace(text, target), model.trace(other, target)
    patching = clean.patching(corrupted)
    patching.recovered("encoder.layers.0.feedforward_residual.sum")  # a fraction for each token
    patching.picture()  # all depths: the causal map

The measure is the logit of one answer minus the logit of another: by default the top answer of the
clean run minus that of the corrupted run, at the position where the two differ most. A fraction of
0 means the value of the corrupted run, 1 that of the clean run.

Meng et al. 2022 (causal tracing), Vig et al. 2020.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from translucid.core.catalogue import describe
from translucid.core.errors import InputError
from translucid.core.trace import Trace
from translucid.see.difference import ROUNDING, STREAM, difference
from translucid.see.pictures import Grid, Heat
from translucid.see.text_trace import TextTrace
from translucid.see.trace_pictures import token_axis

TOKENS = 8192  # maximum tokens in a batch of patched copies of the text
NAMED = 12  # number of tokens that an error message lists


class Patching:
    """Patch values from a clean run into a corrupted run and measure the effect on one answer.

    position: position of the answer. output: id of the answer. against: id of the answer to
    subtract, or None for the logit alone. The module docstring describes the defaults.
    """

    def __init__(
        self,
        clean: TextTrace,
        corrupted: TextTrace,
        *,
        position: int | None = None,
        output: int | None = None,
        against: int | None = None,
    ) -> None:
        _check_comparable(clean, corrupted)
        self.clean, self.corrupted = clean, corrupted
        ours, theirs = (_answers(trace.output_values) for trace in (clean, corrupted))
        if position is None:
            position = int(variation(ours, theirs, clean.outputs.probabilities).argmax())
        if not 0 <= position < len(ours):
            raise InputError(f"position = {position}: must be between 0 and {len(ours) - 1}")
        self.position = position
        if output is None:
            output = int(ours[position].argmax())
            rival = int(theirs[position].argmax())
            against = rival if against is None and rival != output else against
        for name, choice in (("output", output), ("against", against)):
            if choice is not None and not 0 <= choice < ours.shape[1]:
                raise InputError(f"{name} = {choice}: must be between 0 and {ours.shape[1] - 1}")
        self.output, self.against = output, against
        self.clean_value, self.corrupted_value = (
            float(self._measured(logits[position])) for logits in (ours, theirs)
        )

    def value(self, point: str, tokens: Sequence[int]) -> float:
        """The measure in the corrupted run with these tokens' vectors taken from the clean run."""
        return float(self._values(point, [tokens])[0])

    def fraction(self, value: float) -> float:
        """Express a value of the measure as a fraction of the way from its value in the corrupted
        run (0) to its value in the clean run (1)."""
        whole = self.clean_value - self.corrupted_value
        if abs(whole) <= ROUNDING * max(abs(self.clean_value), abs(self.corrupted_value), 1.0):
            raise InputError(
                f"both runs give the same value for {self.name()}, so nothing can be recovered; "
                "choose another position or output, or texts that the model answers differently"
            )
        return (value - self.corrupted_value) / whole

    def recovered(self, point: str, tokens: range | None = None) -> list[float]:
        """The fraction recovered by patching each token's vector alone. tokens: the positions to
        patch, by default all."""
        tokens = range(self.clean[point].shape[_along(point)]) if tokens is None else tokens
        values = self._values(point, [(token,) for token in tokens])
        return [self.fraction(float(value)) for value in values]

    def picture(
        self,
        pattern: str | Sequence[str] = STREAM,
        *,
        tokens: tuple[int, int] | None = None,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> Heat | Grid:
        """Draw the causal map: the fraction recovered by each token's vector at each depth.

        pattern: the points to patch, by default the values passed between layers. tokens: the range
        to show, (first, last + 1). progress: called with the number of points done and the total.
        """
        both = difference(self.clean, self.corrupted)
        sides = both.sides(pattern)
        every = [name for names in sides for name in names]

        def rows(names: Sequence[str], start: int, stop: int) -> Tensor:
            table = []
            for name in names:
                table.append(self.recovered(name))
                progress(every.index(name) + 1, len(every))
            return torch.tensor(table)[:, start:stop]

        note = f"recovered fraction of the difference in {self.name()}"
        return both.token_maps(
            sides, "Fraction recovered by each token{}", rows, "signed", note, tokens
        )

    def name(self) -> str:
        """The measure as text, for titles and messages."""
        choices = [self.output, *([] if self.against is None else [self.against])]
        words = self.clean.names_at(self.position, choices)
        return f"the logit of {' over '.join(map(repr, words))} at position {self.position}"

    def __str__(self) -> str:
        return (
            f"{self.name()}: clean {self.clean_value:.4g}, corrupted {self.corrupted_value:.4g}; "
            "recovered(point) patches every token at a point, picture() at every depth"
        )

    def _measured(self, logits: Tensor) -> Tensor:
        """The measure from logits: (..., outputs) -> (...)."""
        chosen = logits[..., self.output].double()
        return chosen if self.against is None else chosen - logits[..., self.against].double()

    def _values(self, point: str, cells: Sequence[Sequence[int]]) -> Tensor:
        """The measure for each cell, a list of positions whose vectors are patched together. A
        batch contains many copies of the text. (cells,)"""
        size = self.clean[point].shape[_along(point)]
        for token in (token for tokens in cells for token in tokens):
            if not 0 <= token < size:
                raise InputError(
                    f"token {token}: positions at {point} must be between 0 and {size - 1}"
                )
        at_once = max(1, TOKENS // max(self.corrupted.example.tokens, 1))
        values = []
        for begin in range(0, len(cells), at_once):
            logits = patched(self.clean, self.corrupted, point, cells[begin : begin + at_once])
            values.append(self._measured(logits[:, self.position] if logits.dim() > 2 else logits))
        return torch.cat(values)


def patched(
    clean: TextTrace, corrupted: TextTrace, point: str, cells: Sequence[Sequence[int]]
) -> Tensor:
    """The outputs for the corrupted text, once for each cell. A cell lists the positions whose
    vectors at `point` come from the clean run. (cells, [length,] outputs)"""
    network = corrupted.network
    inputs = {
        name: value.expand(len(cells), *value.shape[1:])
        for name, value in corrupted.example.inputs_for(network).items()
    }
    trace = _Patched(clean, point, cells, [network.output_point], corrupted)
    with torch.no_grad():
        network(**inputs, trace=trace)
    return trace[network.output_point]


class _Patched(Trace):
    """Patches vectors from a clean run into a batch, for different tokens in each row."""

    def __init__(
        self,
        clean: Trace,
        point: str,
        cells: Sequence[Sequence[int]],
        keep: list[str],
        corrupted: Trace,
    ) -> None:
        super().__init__(keep, edit=corrupted.edit, budget_bytes=None)
        self.point, self.along, self.value = point, _along(point), clean[point]
        pairs = [(row, token) for row, tokens in enumerate(cells) for token in tokens]
        self.rows, self.tokens = (torch.tensor(places) for places in zip(*pairs, strict=True))

    def wants(self, *names: str) -> bool:
        return self.point in names or super().wants(*names)

    def passes(self, name: str, position: int | None, value: Tensor) -> Tensor:
        if name != self.point:
            return value
        edited = value.clone()
        theirs = self.value.to(value)
        if position is None:
            here, there = (table.movedim(self.along, 1) for table in (edited, theirs))
            here[self.rows, self.tokens] = there[0, self.tokens]
        else:  # one step of a recurrent loop
            edited[self.rows[self.tokens == position]] = theirs[0, position]
        return edited


def _along(name: str) -> int:
    along = token_axis(name)
    if along is None:
        axes = ", ".join(describe(name).axes) or "none"
        raise InputError(
            f"{name} has no vector for each token (its axes are {axes}); choose a point along the "
            "text, such as *_residual.sum"
        )
    return along


def _answers(outputs: Tensor) -> Tensor:
    """Outputs as (positions, outputs); one position if the whole text has a single answer."""
    return outputs if outputs.dim() > 1 else outputs[None]


def variation(ours: Tensor, theirs: Tensor, probabilities: bool) -> Tensor:
    """Total variation distance between two distributions at each position; for regression outputs,
    the sum of absolute differences. (positions,)"""
    if not probabilities:
        return (ours - theirs).abs().sum(-1)
    return (ours.float().softmax(-1) - theirs.float().softmax(-1)).abs().sum(-1) / 2


def _check_comparable(clean: TextTrace, corrupted: TextTrace) -> None:
    """Raise an InputError for two different networks, inputs without tokens, or unequal lengths."""
    if clean.network is not corrupted.network:
        raise InputError(
            "patching: the two runs come from different networks; trace both with one model"
        )
    if not clean.words.last:
        raise InputError(
            "patching replaces the vectors of tokens, but this network reads numbers and has none; "
            "to change a value, trace with edit={point: value}"
        )
    for name, ours in clean.example.batch.inputs.items():
        theirs = corrupted.example.batch.inputs.get(name)
        if theirs is not None and theirs.shape == ours.shape:
            continue
        own, other = (_tokens(trace, name) for trace in (clean, corrupted))
        raise InputError(
            f"{name}: the clean run has {len(own)} tokens ({_shown(own)}), the corrupted one "
            f"{len(other)} ({_shown(other)}), but patching needs the same number in both; choose "
            "texts of equal length (for translation, with the same target), or pair the positions "
            "yourself: from_trace(clean, point, tokens={3: 2})"
        )


def _tokens(trace: TextTrace, name: str) -> tuple[str, ...]:
    example = trace.example
    if example.target is not None and example.target.name == name:
        return example.words.target
    return example.words.source


def _shown(tokens: Sequence[str]) -> str:
    return " ".join(tokens[:NAMED]) + (" …" if len(tokens) > NAMED else "")
