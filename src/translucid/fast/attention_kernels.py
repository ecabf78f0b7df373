"""Which of torch's attention kernels a GPU may choose from."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

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
