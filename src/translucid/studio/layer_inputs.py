"""The inputs of each layer, used to recompute one layer of a long text for some heads and queries.

Most numbers of a long text are inside attention (heads × tokens × tokens per layer): too many to
store, and slow to compute. Torch's fused kernel does not compute them. The page shows the inside of
one layer at a time, which is recomputed from the layer's stored input.
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
CAUSAL = ("masks", "causal")  # handled by the kernel itself


def passed_over(name: str) -> bool:
    """Whether the fused kernel does not compute this point."""
    *_, scope, point = ("", "", *name.split("."))
    return (scope in SCOPES and point in INSIDE) or (scope, point) == CAUSAL


def pattern_bytes(network: Network, example: Example) -> int:
    """Upper bound of the memory for all heads' attention weights, in bytes."""
    heads = sum(part.heads for part in network.modules() if isinstance(part, MultiHead))
    return heads * example.tokens**2 * 4


def passed_over_before(
    name: str, shapes: Mapping[str, tuple[int, ...]], network: Network
) -> dict[str, tuple[int, ...]]:
    """Names and shapes, in model order, of the points that the fused kernel skipped just before the
    point `name`. shapes: the shapes of the points before `name` that were computed."""
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
    """A trace that uses the fused kernel: it sees no points inside attention, unless they are
    edited."""

    def wants(self, *names: str) -> bool:
        if all(map(passed_over, names)):
            return Trace([], edit=self.edit).wants(*names)
        return super().wants(*names)


class Enough(Exception):
    """Raised to stop a layer once all requested points are computed."""


class LayerReading(Reading):
    """Store some points of one layer, computed without the fused kernel, and stop the layer after
    the last of them."""

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
    """Like `LayerReading`, but attention uses the fused kernel."""


class LayerInputs:
    """The arguments with which the layers and the head of a Transformer were called in a forward
    pass."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._calls: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record the inputs while the network runs."""
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
        # A placeholder for the trace: `run` passes a different one.
        arguments = tuple(NO_TRACE if one is trace else one for one in arguments)
        named = {name: NO_TRACE if one is trace else one for name, one in named.items()}
        self._calls[trace.scope] = part, arguments, named

    def scope_of(self, name: str) -> str:
        """The name of the layer or head that computes a point; "" if none does."""
        parts = name.split(".")
        scopes = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
        return next((scope for scope in scopes if scope in self._calls), "")

    @torch.no_grad()
    def run(self, scope: str, example: Example, trace: Trace) -> None:
        """Run one layer again; scope "" runs the whole network."""
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
        """Whether this tensor object is an input of a layer."""
        return any(value is one for _, arguments, _ in self._calls.values() for one in arguments)


BLOCK = 2**21  # maximum numbers of a table to compute at once


class Attended(NamedTuple):
    """The inputs of the attention of one layer."""

    q: Tensor  # (1, heads, queries, d_head)
    k: Tensor  # (1, kv_heads, keys, d_head)
    v: Tensor
    layout: Layout
    scale: float

    def points(self, names: Sequence[str], heads: range, queries: range) -> dict[str, Tensor]:
        """Compute points for some heads and queries. Return a dict from the last component of each
        point's name to a tensor (heads, queries, keys)."""
        tables: dict[str, Tensor] = {}
        for block in blocks(queries, len(heads) * self.k.shape[2]):
            trace = Trace(names, budget_bytes=None, by_hand=True)
            self._attend(heads, block, self.k.shape[2], trace)
            at = block.start - queries.start
            for name in names:
                value = trace[name]
                if value.dim() < 4:  # the scale is one number
                    tables[name] = value
                    continue
                whole = (len(heads), len(queries), value.shape[-1])
                table = tables.setdefault(name, value.new_empty(whole))
                table[:, at : at + len(block)] = value[0]
        return tables

    def weights(self, queries: range) -> Tensor:
        """The weights of all heads, (heads, queries, keys), without the keys that a causal mask
        hides from all these queries."""
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
        # The values are not needed.
        attend(q, k, k[..., :0], layout, scaled=False, factor=self.scale, trace=trace)

    def _layout(self, heads: range, queries: range, keys: int) -> Layout:
        """The layout for these heads, queries and keys."""

        def cut(value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            value = value[..., :keys]  # an axis of size 1 is broadcast
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
    """Split queries into blocks, so that a table with `numbers` values per query fits into memory.
    The size of each block but the last is a multiple of `multiple`."""
    size = max(multiple, BLOCK // max(1, numbers) // multiple * multiple)
    for start in range(queries.start, queries.stop, size):
        yield range(start, min(start + size, queries.stop))


@contextmanager
def observed(part: MultiHead) -> Iterator[list[Attended]]:
    """Record the inputs of a layer's attention and stop the layer there. The list stays empty if an
    edit inside attention prevents the use of the fused kernel."""
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
