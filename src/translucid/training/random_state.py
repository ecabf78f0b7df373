"""The random generators of the process: training seeds them, and leaves them as they were."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed the generators that a network on this device draws from, and no others.

    `torch.manual_seed` seeds those of all accelerators, also of one that is not in use yet: then as
    soon as it is, behind the back of whoever uses it first.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    elif device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


@contextmanager
def random_state_kept(device: torch.device | None = None) -> Iterator[None]:
    """Whatever is drawn or seeded inside, afterwards all generators of the process go on as if
    nothing had been. `device`: the one in use, if it is not the CPU."""
    on_cpu = device is None or device.type == "cpu"
    accelerator = None if on_cpu else torch.get_device_module(device)
    ours, theirs = random.getstate(), np.random.get_state()
    before = torch.get_rng_state()
    there = None if accelerator is None else accelerator.get_rng_state(device)
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(theirs)
        torch.set_rng_state(before)
        if accelerator is not None:
            accelerator.set_rng_state(there, device)
