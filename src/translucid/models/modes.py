"""Networks that answer, and go on as they were."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Without dropout and with kept statistics. Afterwards, also after an error, every module is in
    the mode it was in. A network that does not train is not touched, so that threads can share it.
    """
    training = [module for module in network.modules() if module.training]
    if training:
        network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
