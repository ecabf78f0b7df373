"""What the page asks about: a text as a model on the page has read it."""

import hashlib
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from translucid.catalogue import describe, entry, formula
from translucid.errors import InputError, TraceBudgetError, nearest
from translucid.models.transformer import TransformerConfig
from translucid.models.variants import formulas
from translucid.render.mathml import mathml
from translucid.see.adapters import has_adapters
from translucid.see.of_points import scale_of
from translucid.see.reading import Reading
from translucid.see.saliency import Saliency
from translucid.see.switches import Switch, at_strength, switches, together
from translucid.studio.model import StudioModel
from translucid.tasks.example import Example, TokenInput
from translucid.tasks.outputs import Outputs
from translucid.trace import Edit, Trace
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


class Outline(Trace):
    """Meets every point and keeps nothing but its shape."""

    def __init__(self, edit: Mapping[str, Edit]) -> None:
        super().__init__("*", edit=edit)
        self.shapes: dict[str, tuple[int, ...]] = {}

    def keeps(self, name: str, position: int | None, value: Tensor) -> None:
        shape = tuple(value.shape)
        if position is not None:
            shape = (shape[0], position + 1, *shape[1:])
        self.shapes[name] = shape


class Run:
    """One text as one model has read it, with some of its parts perhaps switched off."""

    def __init__(
        self,
        opened: Opened,
        key: str,
        text: str,
        target: str | None,
        off: tuple[str, ...],
        reading: Reading | None = None,
    ) -> None:
        """reading: of all points, where it was read already."""
        began = time.perf_counter()
        self.opened, self.key, self.text, self.off = opened, key, text, off
        self.edit = opened.edit(off)
        self._short_enough("text", opened.example(text))
        self.target = opened.model.target_for(text, target)
        self.example: Example = opened.example(text, self.target)
        self._short_enough("target", self.example)
        try:
            if self._attention_bytes() > BUDGET:  # not tried: it would be read once for nothing
                raise TraceBudgetError("attention alone takes more than the budget")
            self.kept = self._read("*", BUDGET) if reading is None else reading
            self.shapes = {name: tuple(self.kept[name].shape) for name in self.kept}
        except TraceBudgetError:
            outline = Outline(self.edit)
            with torch.no_grad():
                opened.model.network(**self.example.inputs_for(opened.model.network), trace=outline)
            self.shapes = outline.shapes
            self.kept = self._read(self._worth_keeping(), None)
        self.lately = self.kept  # of a long text: the part that was looked at last
        self.saliency: dict[int, Saliency] = {}  # of the positions that were asked for
        self.whole = len(self.kept) == len(self.shapes)
        self.ms = 1000 * (time.perf_counter() - began)

    @property
    def bytes(self) -> int:
        return self.kept.bytes + (self.lately.bytes if self.lately is not self.kept else 0)

    def _attention_bytes(self) -> int:
        """At least so much would a Transformer's tables of queries and keys take: scores, scaled,
        masked, exponentials and weights."""
        config = self.opened.model.network.config
        if not isinstance(config, TransformerConfig):
            return 0
        return 5 * 4 * config.layers * config.heads * self.example.tokens**2

    def _worth_keeping(self) -> list[str]:
        """Of a long text: what is small, then the weights of attention, which are seen first."""

        def size(name: str) -> tuple[int, bool]:
            return math.prod(self.shapes[name]), not name.endswith(".pattern")

        names, room = [], BUDGET // 4  # numbers of four bytes
        for name in sorted(self.shapes, key=size):
            room -= math.prod(self.shapes[name])
            if room < 0:
                break
            names.append(name)
        return names

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.shapes:
                raise InputError(f"at: this run has no point {_hinted(name, self.shapes)}")

    def reading(self, names: Sequence[str]) -> Reading:
        """A reading that has these points."""
        self.check(names)
        for reading in (self.kept, self.lately):
            if all(name in reading for name in names):
                return reading
        self.lately = self.kept  # gone before the next one needs its room
        self.lately = self._read(self._with_neighbours(names), None)
        return self.lately

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
        return self._read([at], None, self.opened.edit(off))[at]

    def _read(
        self, keep: str | list[str], budget: int | None, edit: Mapping[str, Edit] | None = None
    ) -> Reading:
        model = self.opened.model
        edit = self.edit if edit is None else edit
        # By hand: what is kept of it must be the same numbers, whatever else is kept.
        reading = Reading(
            model.network, model.task, self.example, keep=keep, edit=edit, budget_bytes=budget,
            by_hand=True,
        )  # fmt: skip
        with torch.no_grad():
            model.network(**self.example.inputs_for(model.network), trace=reading)
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
        targets = self.example.batch.targets
        count = int(self.outputs.counts(targets).sum())
        if not self.outputs.probabilities or count == 0:
            return None
        logits = self.logits if logits is None else logits
        return float(self.outputs.summed_loss(logits, targets.to(logits.device))) / count
