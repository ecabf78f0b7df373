"""A run: one text, processed by one model, with its trace."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from translucid.core.cancellation import check_cancelled
from translucid.core.errors import InputError
from translucid.core.trace import Edit
from translucid.parts.attention import INSIDE, MultiHead
from translucid.see.reading import Reading
from translucid.see.saliency import Saliency
from translucid.studio.layer_inputs import (
    Attended,
    Enough,
    KernelLayerReading,
    KernelReading,
    LayerInputs,
    LayerReading,
    observed,
    passed_over,
    passed_over_before,
    pattern_bytes,
)
from translucid.studio.page_model import PageModel
from translucid.studio.query_values import hinted
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.outputs import Outputs

MAX_TOKENS = 2048  # attention memory grows with the square of the length
BUDGET = 2**28  # bytes stored per run; the rest is recomputed on request


class Selection(KernelReading):
    """A trace that sees every point and stores as many as fit into the memory budget.

    The layers' inputs are stored first, together with points outside the layers that need at most a
    sixteenth of the budget. Among these, and among the remaining points, small points come before
    large ones. Of equally large points, attention weights come before others, then late layers
    before early ones. If the weights of all heads do not fit, attention uses the fused kernel.
    """

    def __init__(self, opened: PageModel, example: Example, edit: Mapping[str, Edit]) -> None:
        model = opened.model
        # by_hand: a point's numbers must not depend on which other points are stored.
        super().__init__(
            model.network, model.task, example, edit=edit, budget_bytes=None, by_hand=True
        )
        self.by_kernel = pattern_bytes(model.network, example) > BUDGET
        self.inputs = LayerInputs(model.network)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.logits: Tensor | None = None
        self._output = model.network.output_point
        self._last: dict[str, tuple[Any, ...]] = {}  # rank of stored points; the largest is dropped
        self._held: set[int] = set()

    def read(self) -> None:
        """Run the network on the text."""
        with torch.no_grad(), self.inputs.noted() if self.by_kernel else nullcontext():
            self.network(**self.example.inputs_for(self.network), trace=self)
        self._make_room()

    def wants(self, *names: str) -> bool:
        return super().wants(*names) if self.by_kernel else True

    def keeps(self, name: str, position: int | None, value: Tensor) -> None:
        check_cancelled()
        shape = tuple(value.shape)
        if position is not None:
            # A backward layer starts at the last position.
            steps = max(position + 1, self.shapes[name][1] if name in self.shapes else 0)
            shape = (shape[0], steps, *shape[1:])
        if self.by_kernel:
            self.shapes |= passed_over_before(name, self.shapes, self.network)
        known = name in self.shapes
        self.shapes[name] = shape
        if name == self._output and position is None:
            self.logits = value
        if known and name not in self:
            return  # its first steps did not fit
        super().keeps(name, position, value)
        size = math.prod(shape)
        later = "layers" in name.split(".") or size > BUDGET // 64
        self._last[name] = later, size, not name.endswith(".pattern"), -len(self.shapes)
        # A small point may be the input of the next layer, which is not known yet.
        self._make_room(spare=name if size <= BUDGET // 16 else None)

    def _make_room(self, spare: str | None = None) -> None:
        while self.bytes > BUDGET:
            gone = max(self._last.keys() - {spare}, key=self._last.__getitem__)
            rank, value = self._last.pop(gone), self[gone]
            if rank[0] and self.inputs.goes_in(value) and id(value) not in self._held:
                self._held.add(id(value))  # a layer's input stays in memory anyway
                self._last[gone] = False, *rank[1:]
            else:
                self.drop(gone)


class Run:
    """One text, processed by one model, optionally with parts switched off."""

    def __init__(
        self,
        opened: PageModel,
        key: str,
        text: str,
        target: str | None,
        off: tuple[str, ...],
        read: tuple[Reading, dict[str, tuple[int, ...]]] | None = None,
    ) -> None:
        """`read`: all points with their shapes, if the text was processed already."""
        began = time.perf_counter()
        self.opened, self.key, self.text, self.off = opened, key, text, off
        self.edit = opened.edit(off)
        self._short_enough("text", opened.example(text, None))
        self.target = opened.model.default_target(text) if target is None else target
        self.example: Example = opened.example(text, self.target)
        self._short_enough("target", self.example)
        self.kept = Selection(opened, self.example, self.edit) if read is None else read[0]
        self.lately: list[Reading] = []  # for a long text: recently requested parts
        self._attended: tuple[str, Attended | None] = "", None  # the last requested attention
        self.ends = self.kept  # the reading that has the logits
        if isinstance(self.kept, Selection):
            self.kept.read()
            self.shapes = self.kept.shapes
            if self.kept.logits is not None and self.output_point not in self.kept:
                self.ends = self._reading([self.output_point], self.edit)
                self.ends.keeps(self.output_point, None, self.kept.logits)
            self.kept.logits = None
        elif read is not None:
            self.shapes = read[1]
        self.saliency: dict[int, Saliency] = {}  # by position, as requested
        self.whole = len(self.kept) == len(self.shapes)
        if self.example.words.features and not bool(self.logits.isfinite().all()):
            raise InputError(
                f"text: the model's output for {text!r:.60} is not finite (overflow); use smaller "
                "numbers"
            )
        self.ms = 1000 * (time.perf_counter() - began)

    @property
    def by_kernel(self) -> bool:
        """Whether attention used the fused kernel; its inner points are then recomputed one layer
        at a time."""
        return isinstance(self.kept, Selection) and self.kept.by_kernel

    @property
    def bytes(self) -> int:
        return sum(reading.bytes for reading in {self.kept, self.ends, *self.lately})

    def forget(self) -> None:
        """Drop everything that can be recomputed."""
        self.lately, self.ends = [], self.kept
        self._attended = "", None

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.shapes:
                raise InputError(f"at: unknown point {hinted(name, self.shapes)}")

    def reading(self, names: Sequence[str]) -> Reading:
        """A trace that contains these points."""
        self.check(names)
        for reading in (self.kept, *self.lately, self.ends):
            if all(name in reading for name in names):
                return reading
        if names == [self.output_point]:
            self.ends = self._again(names)
            return self.ends
        wanted = self._with_neighbours(names)
        room = BUDGET - sum(math.prod(self.shapes[name]) for name in wanted) * 4
        while self.lately and sum(reading.bytes for reading in self.lately) > room:
            self.lately.pop(0)  # freed before the next reading is computed
        self.lately.append(self._again(wanted))
        return self.lately[-1]

    def _again(self, names: list[str]) -> Reading:
        """Recompute points that were not stored, from the inputs of their layers if available."""
        kept = self.kept
        if not self.by_kernel:
            return self._read(names, self.edit)
        assert isinstance(kept, Selection)
        reading = self._reading([], self.edit)
        again: dict[tuple[str, bool], list[str]] = {}
        for name in names:
            if name in kept:
                reading.keeps(name, None, kept[name])
            else:
                again.setdefault((kept.inputs.scope_of(name), passed_over(name)), []).append(name)
        for (scope, by_hand), some in again.items():
            for name, value in self._of_layer(kept.inputs, scope, by_hand, some):
                reading.keeps(name, None, value)
        return reading

    def _of_layer(
        self, inputs: LayerInputs, scope: str, by_hand: bool, names: list[str]
    ) -> Iterator[tuple[str, Tensor]]:
        """Recompute points of one layer: with the fused kernel, as in the first pass, or without it
        if the kernel does not compute them."""
        model = self.opened.model
        layer = (LayerReading if by_hand else KernelLayerReading)(
            model.network, model.task, self.example, keep=names, edit=self.edit
        )
        with suppress(Enough):
            inputs.run(scope, self.example, layer)
        return ((name, layer[name]) for name in names)

    def attended(self, name: str) -> Attended | None:
        """Return the inputs of the attention that computes this point of a long text, so that the
        point can be computed in parts. Return None if the point is not computed by attention, or
        if its attention is edited; it is then computed as a whole."""
        scope, _, own = name.rpartition(".")
        if not self.by_kernel or own not in INSIDE or not passed_over(name):
            return None
        if self._attended[0] != scope:
            self._attended = "", None  # freed before the next one is computed
            self._attended = scope, self._observe(scope)
        return self._attended[1]

    def _observe(self, scope: str) -> Attended | None:
        model, kept = self.opened.model, self.kept
        assert isinstance(kept, Selection)
        part = model.network.get_submodule(scope)
        if not isinstance(part, MultiHead):
            return None
        layer = KernelLayerReading(model.network, model.task, self.example, keep=[], edit=self.edit)
        with observed(part) as observations:
            kept.inputs.run(kept.inputs.scope_of(f"{scope}.pattern"), self.example, layer)
        return observations[0] if observations else None

    def _with_neighbours(self, names: Sequence[str]) -> list[str]:
        """Add the other points of the same parts if they are not too large: after the weights of a
        head, for example, the page usually requests its scores."""
        scopes = {name.rpartition(".")[0] for name in names}
        near = [name for name in self.shapes if name.rpartition(".")[0] in scopes]
        size = sum(math.prod(self.shapes[name]) for name in near)
        return near if size <= BUDGET // 4 else list(names)

    def __getitem__(self, name: str) -> Tensor:
        return self.reading([name])[name]

    def logits_without(self, off: Sequence[str]) -> Tensor:
        """The logits for the same text with these parts switched off."""
        at = self.output_point
        return self._read([at], self.opened.edit(off))[at]

    def _reading(self, keep: list[str], edit: Mapping[str, Edit]) -> Reading:
        """An empty trace that uses the fused kernel if the first pass did."""
        model = self.opened.model
        return (KernelReading if self.by_kernel else Reading)(
            model.network, model.task, self.example, keep=keep, edit=edit, budget_bytes=None,
            by_hand=True,
        )  # fmt: skip

    def _read(self, keep: list[str], edit: Mapping[str, Edit]) -> Reading:
        reading, network = self._reading(keep, edit), self.opened.model.network
        with torch.no_grad():
            network(**self.example.inputs_for(network), trace=reading)
        return reading

    def _short_enough(self, name: str, example: Example) -> None:
        if example.tokens > MAX_TOKENS:
            raise InputError(
                f"{name}: {example.tokens:,} tokens; the studio's limit is {MAX_TOKENS:,}"
            )

    # ---- for the page ----

    def as_dict(self) -> dict[str, Any]:
        words = self.example.words
        return {
            "run": self.key, "m": self.opened.key, "text": self.text, "target": self.target,
            "off": list(self.off), "ms": round(self.ms, 1), "by_layer": self.by_kernel,
            "answer": self.answer(),
            "loss": self.loss(), "output": self.output_point,
            "tokens": {
                "source": list(words.source), "target": list(words.target),
                "follows": list(words.follows), "features": list(words.features),
            },
            "unknown": {
                "source": self.unknown_in(self.example.source),
                "target": self.unknown_in(self.example.target),
            },
            "ids": {
                name: value[0].tolist()
                for name, value in self.example.batch.inputs.items()
                if not value.is_floating_point() and value.dim() == 2
            },
            "points": self.opened.points(self.shapes),
        }  # fmt: skip

    def unknown_in(self, side: TokenInput | None) -> list[int]:
        """Positions of unknown tokens, which the model reads as <unk>."""
        if side is None:
            return []
        ids = self.example.batch.inputs[side.name][0].tolist()
        return [place for place, number in enumerate(ids) if number == side.tokenizer.unk_id]

    @property
    def outputs(self) -> Outputs:
        """The meaning of the model's outputs."""
        return self.opened.model.task.outputs

    @property
    def output_point(self) -> str:
        return self.opened.model.network.output_point

    @property
    def logits(self) -> Tensor:
        """The model's outputs: (1, outputs) or (1, length, outputs)."""
        return self[self.output_point]

    def answer(self, logits: Tensor | None = None) -> Any:
        """The answer (text, label, tags or numbers) for these logits; by default, the run's own."""
        plain = self.outputs.plain((self.logits if logits is None else logits)[0])
        return [plain] if isinstance(plain, float) else plain  # a perceptron has one output

    def loss(self, logits: Tensor | None = None) -> float | None:
        """Mean loss per target in nats, if there are targets."""
        return self._own_loss if logits is None else self._loss(logits)

    @cached_property
    def _own_loss(self) -> float | None:
        return self._loss(self.logits)

    def _loss(self, logits: Tensor) -> float | None:
        targets = self.example.batch.targets
        count = int(self.outputs.counts(targets).sum())
        if not self.outputs.probabilities or count == 0:
            return None
        return float(self.outputs.summed_loss(logits, targets.to(logits.device))) / count
