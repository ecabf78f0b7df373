"""The inputs of each layer of a long text, from which one layer can be computed again without the
others, for some heads and queries.

Most numbers of a long text are inside attention, heads × tokens × tokens of each kind in each
layer: more than can be stored, and slow to compute. Torch's fused kernel mixes the values without
storing them. The page shows the inside of one layer at a time, which is then computed from its
stored input.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from translucid.core.trace import NO_TRACE, Edit, NoTrace, Trace
from translucid.models.base import Network
from translucid.models.transformer import Layer
from translucid.parts import masks
from translucid.parts.attention import INSIDE, Layout, MultiHead, attend
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


BLOCK = 2**21  # numbers of a table that are computed at once


class Attended(NamedTuple):
    """What the attention of one layer was given."""

    q: Tensor  # (1, heads, queries, d_head)
    k: Tensor  # (1, kv_heads, keys, d_head)
    v: Tensor
    layout: Layout
    scale: float

    def points(self, names: Sequence[str], heads: range, queries: range) -> dict[str, Tensor]:
        """Some points of some heads and queries, by their last words: (heads, queries, keys)."""
        tables: dict[str, Tensor] = {}
        for block in blocks(queries, len(heads) * self.k.shape[2]):
            trace = Trace(names, budget_bytes=None, by_hand=True)
            self._attend(heads, block, self.k.shape[2], trace)
            at = block.start - queries.start
            for name in names:
                value = trace[name]
                if value.dim() < 4:  # the scale, which is one number
                    tables[name] = value
                    continue
                whole = (len(heads), len(queries), value.shape[-1])
                table = tables.setdefault(name, value.new_empty(whole))
                table[:, at : at + len(block)] = value[0]
        return tables

    def weights(self, queries: range) -> Tensor:
        """The weights of all heads: (heads, queries, keys); of keys that none of these queries may
        see, since they come later, there are none."""
        keys = queries.stop if self.layout.causal else self.k.shape[2]
        trace = Trace("pattern", budget_bytes=None)
        self._attend(range(self.q.shape[1]), queries, keys, trace)
        return trace["pattern"][0]

    def _attend(self, heads: range, queries: range, keys: int, trace: Trace) -> None:
        served = torch.arange(heads.start, heads.stop, device=self.q.device)
        served = served // (self.q.shape[1] // self.k.shape[1])
        q = self.q[:, heads.start : heads.stop, queries.start : queries.stop]
        k = self.k[:, served, :keys]
        layout = self._layout(heads, queries, keys)
        # Of the values nothing is wanted.
        attend(q, k, k[..., :0], layout, scaled=False, factor=self.scale, trace=trace)

    def _layout(self, heads: range, queries: range, keys: int) -> Layout:
        """Of these queries alone."""

        def cut(value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            value = value[..., :keys]  # an axis of size 1 holds what is the same for all
            for axis, some in ((1, heads), (2, queries)):
                if value.shape[axis] > 1:
                    value = value.narrow(axis, some.start, len(some))
            return value

        mask = cut(self.layout.mask)
        if self.layout.causal:
            slots = torch.arange(max(queries.stop, keys), device=self.q.device)
            mask = masks.causal(slots[queries.start : queries.stop], slots[:keys])[None, None]
        return Layout(mask, blind=self.layout.blind, bias=cut(self.layout.bias))


def blocks(queries: range, numbers: int, multiple: int = 1) -> Iterator[range]:
    """So many queries at a time that a table with so many numbers for each is a block; a multiple
    of some number, if one is given."""
    size = max(multiple, BLOCK // max(1, numbers) // multiple * multiple)
    for start in range(queries.start, queries.stop, size):
        yield range(start, min(start + size, queries.stop))


@contextmanager
def observed(part: MultiHead) -> Iterator[list[Attended]]:
    """While a layer runs: what its attention is given, at which the run ends. Nothing where
    attention goes by hand, since something inside of it is changed."""
    observations: list[Attended] = []

    def note(
        q: Tensor, k: Tensor, v: Tensor, layout: Layout, scale: float, dropout: float
    ) -> NoReturn:
        observations.append(Attended(q, k, v, layout, scale))
        raise Enough

    before, part.kernel = part.kernel, note
    try:
        with suppress(Enough):
            yield observations
    finally:
        part.kernel = before
