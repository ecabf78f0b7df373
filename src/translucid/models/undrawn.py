"""A network that waits for its weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from translucid.core.errors import InputError
from translucid.models.base import Network
from translucid.models.build import ModelConfig, build

FILLS = {Tensor.bernoulli_, Tensor.exponential_, Tensor.normal_, Tensor.random_, Tensor.uniform_}
DRAWS = {
    torch.bernoulli, torch.multinomial, torch.normal, torch.rand, torch.rand_like, torch.randint,
    torch.randint_like, torch.randn, torch.randn_like, torch.randperm,
}  # fmt: skip


MAKES = {torch.arange, torch.empty, torch.eye, torch.full, torch.linspace, torch.ones, torch.zeros}
SPARE_TENSORS, SPARE_VALUES = 1000, 1 << 24  # beyond the weights: tables that are computed


def build_undrawn(config: ModelConfig, declared: Sequence[int]) -> Network:
    """A network whose weights are about to be read: no random generator of the process is drawn
    from, and little time is spent on what is overwritten.

    declared: how many values each tensor of its file has. A configuration that wants far more is
    refused before memory is taken for it.
    """
    with _Undrawn(declared):
        return build(config)


def build_shapes(config: ModelConfig) -> Network:
    """A network without memory, however large: what can be counted of it. To fill such tensors
    torch would import its compiler, which takes three seconds."""
    with torch.device("meta"), _Unfilled():
        return build(config)


class _Unfilled(TorchFunctionMode):
    """Nothing is filled, in this thread alone."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        scales = func is Tensor.div_ and isinstance(args[0], nn.Parameter)  # of initialisation
        if getattr(func, "__module__", None) == nn.init.__name__ or func in FILLS or scales:
            return (
                kwargs["tensor"] if "tensor" in kwargs else args[0]
            )  # as it is: no page is touched
        if func in DRAWS:  # in a part of the user's own
            with torch.random.fork_rng(devices=[]):
                return func(*args, **kwargs)
        return func(*args, **kwargs)


class _Undrawn(_Unfilled):
    """And not more is made than was declared."""

    def __init__(self, declared: Sequence[int]) -> None:
        super().__init__()
        # A tied or shared table is made twice, and once is thrown away.
        self._tensors = 4 * len(declared) + SPARE_TENSORS
        self._values = 4 * sum(declared) + SPARE_VALUES

    def _count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._tensors -= 1
        self._values -= func(*args, **{**kwargs, "device": "meta"}).numel()
        if self._tensors < 0 or self._values < 0:
            raise InputError(
                "the configuration describes a larger model than the weights beside it are; "
                "do not use this folder unless you know who made it"
            )

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in MAKES:
            self._count(func, args, kwargs or {})
        return super().__torch_function__(func, types, args, kwargs)
