"""Imports of torch without the garbage collector, for commands that make one page and end."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Around the first import of torch: what it makes stays, so that the collector, which would
    look through all of it many times, is off meanwhile and leaves it alone afterwards."""
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
