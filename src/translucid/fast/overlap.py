"""Kernels of a decoding step that start while the previous one is still running (programmatic
dependent launch).

A step is a chain of short kernels, which take as long to start as to run. So a kernel may overlap
the one before it: it loads weights and cached keys at once, and waits only before it reads what the
previous kernel writes. It must not read anything earlier that this step has written in
overlapped kernels, and every program must wait, so that the end of a kernel implies the end of all
kernels before it.
"""

from functools import cache
from typing import Any

import torch

FEW = 4  # number of rows up to which a matrix multiplication takes as long as reading the weights


@cache
def overlapped(device: torch.device) -> dict[str, Any]:
    """Launch options of a kernel that starts while the previous one is still running. Needs Hopper
    or newer."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (9, 0):
        return {"OVERLAPS": False}
    return {"OVERLAPS": True, "launch_pdl": True}
