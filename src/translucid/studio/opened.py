"""A model on the page: what is known of it whatever the text."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from translucid.core.catalogue import describe, entry, formula
from translucid.core.errors import InputError
from translucid.core.trace import Edit
from translucid.models.variants import formulas
from translucid.runs.fine_tuning.take_over import digest_of
from translucid.see.adapters import has_adapters
from translucid.see.of_points import scale_of
from translucid.see.render.mathml import mathml
from translucid.see.switches import Switch, at_strength, switches, together
from translucid.studio.model import StudioModel
from translucid.studio.query_values import clipped, hinted
from translucid.tasks.example import Example

LENGTHS = 8  # of texts, whose points need not be told anew

as_mathml = cache(mathml)  # the same few formulas, in every layer


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
            raise InputError(f"off: this model has no switch {hinted(key, self.switches)}")
        if not at:
            return self.switches[key]
        if not re.fullmatch("[0-9]{1,3}", percent) or int(percent) > 200:
            raise InputError(f"off: behind @ stands 0 to 200 percent, not {clipped(percent)}")
        return at_strength(self.switches[key], int(percent) / 100)
