"""A network as it answers, for those who ask for gradients of it."""

from copy import deepcopy
from typing import Any

from torch import nn

from translucid.models.base import Network


def still(network: Network, *, learning: bool = False) -> Network:
    """A twin without dropout that shares the numbers, and nothing else that could be changed: the
    network itself is not touched, so that several threads can ask at once.

    learning: the twin's weights get gradients, frozen or not; otherwise none do.
    """
    shared: dict[int, Any] = {id(buffer): buffer for buffer in network.buffers()}
    for weight in network.parameters():
        own = learning and weight.is_floating_point()
        shared[id(weight)] = nn.Parameter(weight.detach(), requires_grad=own)
    twin = deepcopy(network, shared).eval()
    for module in twin.modules():
        if isinstance(module, nn.RNNBase) and next(module.parameters()).is_cuda:
            # cuDNN's recurrent kernels have no way back outside of training.
            module.dropout = 0.0
            module.train()
    return twin
