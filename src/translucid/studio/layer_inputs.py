"""What went into each layer of a long text: one layer is read again without the others.

Most numbers of a long text are inside of attention, heads × tokens × tokens of each kind in each
layer: more than can be kept, and slow to compute. Torch's fused kernel mixes the values without
them. Whoever looks inside looks at one layer, which is then run by hand on what it was given.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, Edit, NoTrace, Trace
from translucid.models.base import Network
from translucid.models.transformer import Layer
from translucid.parts.attention import INSIDE, MultiHead
from translucid.see.reading import Reading
from translucid.tasks.base import Task
from translucid.tasks.example import Example

SCOPES = ("self_attention", "cross_attention")
CAUSAL = ("masks", "causal")  # the kernel knows what that means


def passed_over(name: str) -> bool:
    """Whether the fused kernel computes without this point."""
    *_, scope, point = ("", "", *name.split("."))
    return (scope in SCOPES and point in INSIDE) or (scope, point) == CAUSAL


def pattern_bytes(network: Network, example: Example) -> int:
    """What the weights of all heads take, at most."""
    heads = sum(part.heads for part in network.modules() if isinstance(part, MultiHead))
    return heads * example.tokens**2 * 4


def passed_over_before(
    name: str, shapes: Mapping[str, tuple[int, ...]], network: Network
) -> dict[str, tuple[int, ...]]:
    """The points that the fused kernel has passed over before this one, in the order of the model;
    `shapes` has those before them."""
    scope, _, point = name.rpartition(".")
    stack, layer, _ = name.partition(".layers.0.")
    causal = ".".join((stack, *CAUSAL))
    if layer and causal not in shapes and getattr(network.get_submodule(stack), "causal", False):
        length = max(shape[1] for at, shape in shapes.items() if at.startswith(f"{stack}."))
        return {causal: (1, 1, length, length)}
    if point != "mixed" or f"{scope}.pattern" in shapes:
        return {}
    batch, heads, queries, _ = shapes[f"{scope}.query"]
    keys = shapes[f"{scope}.key"][2]
    biased = (
        ".self_attention" in scope and f"{scope.partition('.layers.')[0]}.positions.bias" in shapes
    )
    sizes = {"scale": (), **dict.fromkeys(("shift", "normaliser"), (batch, heads, queries, 1))}
    order = ("scores", "scale", *(inner for inner in INSIDE if inner not in ("scores", "scale")))
    return {
        f"{scope}.{inner}": sizes.get(inner, (batch, heads, queries, keys))
        for inner in order
        if inner != "biased" or biased
    }


class KernelReading(Reading):
    """Meets every point but those that the fused kernel passes over, unless one of them is
    edited."""

    def wants(self, *names: str) -> bool:
        if all(map(passed_over, names)):
            return Trace([], edit=self.edit).wants(*names)
        return super().wants(*names)


class Enough(Exception):
    """All that was asked for is there; the rest of a layer need not be computed."""


class LayerReading(Reading):
    """Keeps some points of one layer, by hand, and computes no further than the last of them."""

    def __init__(
        self,
        network: Network,
        task: Task[Any, Any],
        example: Example,
        keep: Sequence[str],
        edit: Mapping[str, Edit],
    ) -> None:
        super().__init__(
            network, task, example, keep=keep, edit=edit, budget_bytes=None, by_hand=True
        )
        self._awaited = set(keep)

    def keeps(self, name: str, position: int | None, value: Tensor) -> None:
        super().keeps(name, position, value)
        self._awaited.discard(name)
        if not self._awaited:
            raise Enough


class KernelLayerReading(KernelReading, LayerReading):
    """The same, with attention by the fused kernel."""


class LayerInputs:
    """The arguments that each layer of a Transformer, and its head, was called with."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._calls: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """While the network reads a text."""
        parts: list[nn.Module] = [
            part for part in self.network.modules() if isinstance(part, Layer)
        ]
        parts += [part for name, part in self.network.named_children() if name == "head"]
        hooks = [part.register_forward_pre_hook(self._note, with_kwargs=True) for part in parts]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _note(self, part: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        (trace,) = (one for one in (*arguments, *named.values()) if isinstance(one, NoTrace))
        # Not the trace itself: another one takes its place.
        arguments = tuple(NO_TRACE if one is trace else one for one in arguments)
        named = {name: NO_TRACE if one is trace else one for name, one in named.items()}
        self._calls[trace.scope] = part, arguments, named

    def scope_of(self, name: str) -> str:
        """The layer, or head, that computes a point; "" of what stands outside of them."""
        parts = name.split(".")
        scopes = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
        return next((scope for scope in scopes if scope in self._calls), "")

    @torch.no_grad()
    def run(self, scope: str, example: Example, trace: Trace) -> None:
        """One of them again; "" is the whole network."""
        if not scope:
            self.network(**example.inputs_for(self.network), trace=trace)
            return
        part, arguments, named = self._calls[scope]
        within = trace.at(scope)
        part(
            *(within if one is NO_TRACE else one for one in arguments),
            **{name: within if one is NO_TRACE else one for name, one in named.items()},
        )

    def goes_in(self, value: Tensor) -> bool:
        """Whether this very tensor went into one of them."""
        return any(value is one for _, arguments, _ in self._calls.values() for one in arguments)
