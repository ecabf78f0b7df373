"""torch.compile for the layers of a Transformer: one program for all layers of a kind.

A whole model takes minutes to compile, and must be compiled again for each batch shape. A layer
takes seconds, and its program works for all layers of the same kind, any number of rows and any
length.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from translucid.models.transformer import Layer
from translucid.parts.attention import Layout


class CompiledLayers:
    """Within `used()`, the layers of a network run compiled. If they cannot be compiled (without a
    C compiler, for example), the first call reports it and the plain layers run."""

    def __init__(
        self, network: nn.Module, say: Callable[[str], None], *, one_shape: bool = False
    ) -> None:
        """one_shape: all batches have the same shape, so that their sizes are compiled as
        constants."""
        self._layers = [part for part in network.modules() if type(part) is Layer]
        self._say, self._fast = say, torch.compile(Layer.forward, options=_options())
        self._one_shape = one_shape
        self._works: bool | None = None  # not tried yet

    @contextmanager
    def used(self) -> Iterator[None]:
        for layer in self._layers:
            layer._compiled_call_impl = functools.partial(self._call, layer)
        try:
            yield
        finally:
            for layer in self._layers:
                layer._compiled_call_impl = None

    def _call(self, layer: Layer, x: Tensor, layout: Layout, *args: Any, **options: Any) -> Tensor:
        plain: Callable[..., Tensor] = layer._call_impl
        if self._works is False or _hooked(layer):
            return plain(x, layout, *args, **options)
        if not self._one_shape:
            _of_any_size(x, 0, 1)
            _of_any_layout(layout)
            _of_any_layout(options.get("cross_layout"))
            for projected in options.get("encoder_output") or ():
                _of_any_size(projected, 0, 2)
        if self._works:
            return self._fast(layer, x, layout, *args, **options)
        self._say("torch.compile: the layers are compiled once, which takes some seconds")
        try:
            outputs = self._fast(layer, x, layout, *args, **options)
            self._works = True
        except Exception as error:
            outputs = plain(x, layout, *args, **options)  # raises if the layer itself is at fault
            self._works = False
            reason = str(error).strip().splitlines()[0][:200]
            self._say(f"torch.compile does not work here, continuing without it ({reason})")
        return outputs


def _options() -> dict[str, Any]:
    """Options for torch.compile: compute the gradients of a norm's input and weights in separate
    kernels. If they are fused, as by default since torch 2.10, a Transformer-base takes 5 % longer
    (H200, torch 2.11)."""
    # On demand, since it is slow; dynamo first: in torch 2.11 each imports the other.
    import torch._dynamo  # noqa: F401
    import torch._inductor.config as inductor

    known = hasattr(inductor.triton, "mix_order_reduction")
    return {"triton.mix_order_reduction": False} if known else {}


def _hooked(layer: Layer) -> bool:
    """Whether a layer has hooks, so that calling it does more than `forward`."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks)
    return any(hooks) or bool(layer._backward_pre_hooks)


def _of_any_layout(layout: Layout | None) -> None:
    if layout is None:
        return
    for tensor in (layout.mask, layout.bias):
        _of_any_size(tensor, 0, 2, 3)
    for tensor in layout.turns or ():
        _of_any_size(tensor, 0, 1)
    _of_any_size(layout.angles, 0, 1)


def _of_any_size(tensor: Tensor | None, *axes: int) -> None:
    """Compile for any size of these axes of a tensor. An axis of size 1 is broadcast, so its size
    stays 1."""
    if tensor is None:
        return
    for axis in axes:
        if tensor.shape[axis] > 1:
            torch._dynamo.mark_dynamic(tensor, axis)
