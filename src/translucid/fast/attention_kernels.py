"""Which attention kernels a GPU may choose from: torch's, and one for short rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch
from torch import nn

from translucid.core.device import has_triton
from translucid.parts.attention import CrossAttention, SelfAttention

_LOCK = Lock()
_inside, _before = 0, True  # callers that are within, and what the switch was before the first


@contextmanager
def without_plans(device: torch.device) -> Iterator[None]:
    """Without cuDNN's attention, which makes a plan for every new shape of a batch, 0.4 s each:
    with it, steps of a small Transformer took eleven times as long. The other kernels need none.

    The switch is torch's and of the whole process: it is put back when the last caller leaves, so
    that threads that come and go in any order leave it as it was.
    """
    global _inside, _before
    if device.type != "cuda":
        yield
        return
    with _LOCK:
        if _inside == 0:
            _before = torch.backends.cuda.cudnn_sdp_enabled()
            torch.backends.cuda.enable_cudnn_sdp(False)
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                torch.backends.cuda.enable_cudnn_sdp(_before)


@contextmanager
def with_plans(wanted: bool) -> Iterator[None]:
    """Within `without_plans`, for a shape that will come often: a plan of cuDNN's pays then."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(before or wanted)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


class ShortRows:
    """Within `used()`, attention over short rows has a kernel of its own (`short_attention`)."""

    def __init__(self, network: nn.Module) -> None:
        """Parts that are not exactly ours are left alone."""
        kinds = (SelfAttention, CrossAttention)
        self._parts = [part for part in network.modules() if type(part) in kinds]

    @staticmethod
    def fit(device: torch.device) -> bool:
        return device.type == "cuda" and has_triton()

    @contextmanager
    def used(self) -> Iterator[None]:
        from translucid.fast.short_attention import short_attention  # on demand: it needs Triton

        for part in self._parts:
            vars(part)["kernel"] = short_attention
        try:
            yield
        finally:
            for part in self._parts:
                del vars(part)["kernel"]
