"""A network that waits for its weights."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from translucid.models.base import Network
from translucid.models.build import ModelConfig, build

FILLS = {Tensor.bernoulli_, Tensor.exponential_, Tensor.normal_, Tensor.random_, Tensor.uniform_}
DRAWS = {
    torch.bernoulli, torch.multinomial, torch.normal, torch.rand, torch.rand_like, torch.randint,
    torch.randint_like, torch.randn, torch.randn_like, torch.randperm,
}  # fmt: skip


def build_undrawn(config: ModelConfig) -> Network:
    """A network whose weights are about to be read: no random generator of the process is drawn
    from, and little time is spent on what is overwritten."""
    with _Undrawn():
        return build(config)


class _Undrawn(TorchFunctionMode):
    """Nothing is filled at random, in this thread alone."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__ or func in FILLS:
            with torch.no_grad():
                return (kwargs["tensor"] if "tensor" in kwargs else args[0]).zero_()
        if func in DRAWS:  # in a part of the user's own
            with torch.random.fork_rng(devices=[]):
                return func(*args, **kwargs)
        return func(*args, **kwargs)
