"""What the page asks about: a text as a model on the page has read it."""

import hashlib
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from translucid.catalogue import describe, entry, formula
from translucid.errors import InputError, nearest
from translucid.models.variants import formulas
from translucid.render.mathml import mathml
from translucid.see.adapters import has_adapters
from translucid.see.of_points import scale_of
from translucid.see.reading import Reading
from translucid.see.saliency import Saliency
from translucid.see.switches import Switch, at_strength, switches, together
from translucid.studio.layer_inputs import (
    Enough,
    KernelLayerReading,
    KernelReading,
    LayerInputs,
    LayerReading,
    passed_over,
    passed_over_before,
    pattern_bytes,
)
from translucid.studio.model import StudioModel
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.outputs import Outputs
from translucid.trace import Edit
from translucid.tuning.source import digest_of

MAX_TOKENS = 2048  # tokens; attention has the square of them in memory, several times
LENGTHS = 8  # of texts, whose points need not be told anew
BUDGET = 2**28  # bytes of a run that are kept; what is larger is computed again when asked for


as_mathml = cache(mathml)  # the same few formulas, in every layer


def clipped(value: object) -> str:
    """What was given, for a message."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"


def _hinted(name: str, allowed: Iterable[str]) -> str:
    close = nearest(name[:200], list(allowed), 3)
    return clipped(name) + (f"; the nearest are {', '.join(close)}" if close else "")


@dataclass(frozen=True)
class Opened:
    """A model on the page."""

    key: str  # in addresses: a, b, ...
    name: str  # of its folder
    model: StudioModel
    _points: dict[tuple[tuple[str, tuple[int, ...]], ...], list[dict[str, Any]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _examples: dict[tuple[str, str | None], Example] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def switches(self) -> dict[str, Switch]:
        return {switch.key: switch for switch in switches(self.model.network)}

    @cached_property
    def adapted(self) -> bool:
        """Whether it has LoRA adapters."""
        return has_adapters(self.model.network)

    @cached_property
    def fingerprint(self) -> str:
        """Of the weights and of what they are for."""
        digest = hashlib.sha256(repr(self.model.network.config).encode())
        for name, value in self.model.network.state_dict().items():
            digest.update(name.encode())
            digest.update(value.detach().float().cpu().contiguous().numpy())
        return digest.hexdigest()[:16]

    @cached_property
    def weights(self) -> str:
        """As a model that was trained on from this one names them."""
        return digest_of(self.model.network)

    def began_from(self, other: "Opened") -> bool:
        """Whether its weights began as those of the other, so that unit i is the same unit."""
        start = self.model.facts.get("start")
        return isinstance(start, dict) and start.get("weights") == other.weights

    def points(self, shapes: Mapping[str, tuple[int, ...]]) -> list[dict[str, Any]]:
        """What the page is told of the points of a run; where this model computes one otherwise
        than the catalogue says of all, how. Runs have the same points again and again."""
        key = tuple(shapes.items())
        if key not in self._points:
            while len(self._points) >= LENGTHS:
                self._points.pop(next(iter(self._points)))
            own = formulas(self.model.network, tuple(shapes))
            self._points[key] = [
                {
                    "at": name, "shape": shape[1:], "axes": describe(name).axes[1:],
                    "scale": scale_of(name),
                    **(
                        {"formula": as_mathml(own[name])}
                        if own[name] != formula(entry(name))
                        else {}
                    ),
                }
                for name, shape in shapes.items()
            ]  # fmt: skip
        return self._points[key]

    def example(self, text: str, target: str | None = None) -> Example:
        """A text is read again for every part that is switched off."""
        key = text, target
        if key not in self._examples:
            while len(self._examples) >= LENGTHS:
                self._examples.pop(next(iter(self._examples)))
            self._examples[key] = self.model.task.example(text, target)
        return self._examples[key]

    def edit(self, keys: Sequence[str]) -> dict[str, Edit]:
        """What these switches do together; decoder.layers.0.self_attention.head.1@50 is a head at
        half its strength."""
        return together(map(self._switch, keys))

    def _switch(self, text: str) -> Switch:
        key, at, percent = text.partition("@")
        if key not in self.switches:
            raise InputError(f"off: this model has no switch {_hinted(key, self.switches)}")
        if not at:
            return self.switches[key]
        if not re.fullmatch("[0-9]{1,3}", percent) or int(percent) > 200:
            raise InputError(f"off: behind @ stands 0 to 200 percent, not {clipped(percent)}")
        return at_strength(self.switches[key], int(percent) / 100)


class Selection(KernelReading):
    """Meets every point, and keeps as many as there is room for: what stands outside of the layers
    and takes a sixteenth of it at most, and what goes from layer to layer; then small ones before
    large ones, weights of attention before the tables they come from, late layers before early
    ones. Where the weights of all heads have no room, attention goes by the fused kernel."""

    def __init__(self, opened: Opened, example: Example, edit: Mapping[str, Edit]) -> None:
        model = opened.model
        # By hand: what is kept of it must be the same numbers, whatever else is kept.
        super().__init__(
            model.network, model.task, example, edit=edit, budget_bytes=None, by_hand=True
        )
        self.by_kernel = pattern_bytes(model.network, example) > BUDGET
        self.inputs = LayerInputs(model.network)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.logits: Tensor | None = None
        self._output = model.network.output_point
        self._last: dict[str, tuple[Any, ...]] = {}  # of what is kept: the largest goes first
        self._held: set[int] = set()

    def read(self) -> None:
        """Let the network read the text."""
        with torch.no_grad(), self.inputs.noted() if self.by_kernel else nullcontext():
            self.network(**self.example.inputs_for(self.network), trace=self)
        self._make_room()

    def wants(self, *names: str) -> bool:
        return super().wants(*names) if self.by_kernel else True

    def keeps(self, name: str, position: int | None, value: Tensor) -> None:
        shape = tuple(value.shape)
        if position is not None:
            shape = (shape[0], position + 1, *shape[1:])
        if self.by_kernel:
            self.shapes |= passed_over_before(name, self.shapes, self.network)
        known = name in self.shapes
        self.shapes[name] = shape
        if name == self._output and position is None:
            self.logits = value
        if known and name not in self:
            return  # there was no room for its first steps
        super().keeps(name, position, value)
        size = math.prod(shape)
        later = "layers" in name.split(".") or size > BUDGET // 64
        self._last[name] = later, size, not name.endswith(".pattern"), -len(self.shapes)
        # A small one may go into the next layer, which is known only then.
        self._make_room(spare=name if size <= BUDGET // 16 else None)

    def _make_room(self, spare: str | None = None) -> None:
        while self.bytes > BUDGET:
            gone = max(self._last.keys() - {spare}, key=self._last.__getitem__)
            rank, value = self._last.pop(gone), self[gone]
            if rank[0] and self.inputs.goes_in(value) and id(value) not in self._held:
                self._held.add(id(value))  # for the next layer anyway; one name of it is enough
                self._last[gone] = False, *rank[1:]
            else:
                self.drop(gone)


class Run:
    """One text as one model has read it, with some of its parts perhaps switched off."""

    def __init__(
        self,
        opened: Opened,
        key: str,
        text: str,
        target: str | None,
        off: tuple[str, ...],
        read: tuple[Reading, dict[str, tuple[int, ...]]] | None = None,
    ) -> None:
        """read: all points with their shapes, where it was read already."""
        began = time.perf_counter()
        self.opened, self.key, self.text, self.off = opened, key, text, off
        self.edit = opened.edit(off)
        self._short_enough("text", opened.example(text))
        self.target = opened.model.target_for(text, target)
        self.example: Example = opened.example(text, self.target)
        self._short_enough("target", self.example)
        self.kept = Selection(opened, self.example, self.edit) if read is None else read[0]
        self.lately: list[Reading] = []  # of a long text: the parts that were looked at last
        self.ends = self.kept  # and its logits
        if isinstance(self.kept, Selection):
            self.kept.read()
            self.shapes = self.kept.shapes
            if self.kept.logits is not None and self.output_point not in self.kept:
                self.ends = self._reading([self.output_point], self.edit)
                self.ends.keeps(self.output_point, None, self.kept.logits)
            self.kept.logits = None
        elif read is not None:
            self.shapes = read[1]
        self.saliency: dict[int, Saliency] = {}  # of the positions that were asked for
        self.whole = len(self.kept) == len(self.shapes)
        self.ms = 1000 * (time.perf_counter() - began)

    @property
    def by_kernel(self) -> bool:
        """Whether attention went by the fused kernel: what is inside of it is computed for one
        layer at a time."""
        return isinstance(self.kept, Selection) and self.kept.by_kernel

    @property
    def bytes(self) -> int:
        return sum(reading.bytes for reading in {self.kept, self.ends, *self.lately})

    def forget(self) -> None:
        """What can be computed again from what is kept."""
        self.lately, self.ends = [], self.kept

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.shapes:
                raise InputError(f"at: this run has no point {_hinted(name, self.shapes)}")

    def reading(self, names: Sequence[str]) -> Reading:
        """A reading that has these points."""
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
            self.lately.pop(0)  # gone before the next one needs its room
        self.lately.append(self._again(wanted))
        return self.lately[-1]

    def _again(self, names: list[str]) -> Reading:
        """What was not kept, computed from what went into its layers if that is known."""
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
        """Some points of one layer: those that the fused kernel passes over by hand, the others
        with it, as when the text was read first."""
        model = self.opened.model
        layer = (LayerReading if by_hand else KernelLayerReading)(
            model.network, model.task, self.example, keep=names, edit=self.edit
        )
        with suppress(Enough):
            inputs.run(scope, self.example, layer)
        return ((name, layer[name]) for name in names)

    def _with_neighbours(self, names: Sequence[str]) -> list[str]:
        """And the other points of the same parts, if they are not too many: whoever looks at the
        weights of a head asks for its scores next."""
        scopes = {name.rpartition(".")[0] for name in names}
        near = [name for name in self.shapes if name.rpartition(".")[0] in scopes]
        size = sum(math.prod(self.shapes[name]) for name in near)
        return near if size <= BUDGET // 4 else list(names)

    def __getitem__(self, name: str) -> Tensor:
        return self.reading([name])[name]

    def logits_without(self, off: Sequence[str]) -> Tensor:
        """What the model would say to the same text with other parts switched off."""
        at = self.output_point
        return self._read([at], self.opened.edit(off))[at]

    def _reading(self, keep: list[str], edit: Mapping[str, Edit]) -> Reading:
        """Empty as yet; by hand, or by the fused kernel, as what was kept at first."""
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
                f"{name}: {example.tokens:,} tokens; the studio takes {MAX_TOKENS:,} at once"
            )

    # ---- for the page ----

    def as_dict(self) -> dict[str, Any]:
        words = self.example.words
        return {
            "run": self.key, "m": self.opened.key, "text": self.text, "target": self.target,
            "off": list(self.off), "ms": round(self.ms, 1), "answer": self.answer(),
            "loss": self.loss(), "output": self.output_point,
            "tokens": {
                "source": list(words.source), "target": list(words.target),
                "follows": list(words.follows), "features": list(words.features),
            },
            "unknown": {
                "source": self._unknown(self.example.source),
                "target": self._unknown(self.example.target),
            },
            "ids": {
                name: value[0].tolist()
                for name, value in self.example.batch.inputs.items()
                if not value.is_floating_point() and value.dim() == 2
            },
            "points": self.opened.points(self.shapes),
        }  # fmt: skip

    def _unknown(self, side: TokenInput | None) -> list[int]:
        """Which of the tokens the vocabulary lacks: the model has read <unk> in their place."""
        if side is None:
            return []
        ids = self.example.batch.inputs[side.name][0].tolist()
        return [place for place, number in enumerate(ids) if number == side.tokenizer.unk_id]

    @property
    def outputs(self) -> Outputs:
        """What the model's last values mean."""
        return self.opened.model.task.outputs

    @property
    def output_point(self) -> str:
        return self.opened.model.network.output_point

    @property
    def logits(self) -> Tensor:
        """The model's last values. (1, outputs) or (1, length, outputs)"""
        return self[self.output_point]

    def answer(self, logits: Tensor | None = None) -> Any:
        """What the model says, by its own logits or others: a text, a label, tags, numbers."""
        plain = self.outputs.plain((self.logits if logits is None else logits)[0])
        return [plain] if isinstance(plain, float) else plain  # a perceptron's is one number

    def loss(self, logits: Tensor | None = None) -> float | None:
        """Nats for each target, where there are targets."""
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
