"""Methods that some parts of a network have for a while, in place of those of their class."""

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def swapped(parts: Sequence[nn.Module], name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Within the block, `part.name(...)` is `method(part, ...)`."""
    for part in parts:
        vars(part)[name] = types.MethodType(method, part)
    try:
        yield
    finally:
        for part in parts:
            del vars(part)[name]
