"""Whether a network is as the library made it (only then may a fast path replace it), and
temporary replacement of methods.

A hook, a subclass, a method assigned to one object or to a class, a parametrised weight: whoever
changed a part of the network wants to see its effect, so the plain step is used.
"""

import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from operator import is_, methodcaller
from types import FunctionType
from typing import Any

import torch.nn.modules.module as torch_module
from torch import Tensor, nn

OURS = ("translucid.parts.", "translucid.models.", "translucid.fast.")
TORCHS = "torch.nn.modules."
VALUES = methodcaller("values")
STANDARD = len(vars(nn.Module()))  # what torch puts into every module, in front of its own


def parts_of(module: nn.Module) -> list[nn.Module]:
    """A module and all within it, as `modules` gives them, but sooner: every search asks."""
    modules = [module]
    for part in modules:  # it grows on the way
        modules += [child for child in part._modules.values() if child is not None]
    return modules


def unchanged(modules: Iterable[nn.Module]) -> bool:
    """Whether these do what the library wrote, as they do after training."""
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return False
    modules = list(modules)
    return all(map(_as_made, modules)) and all(map(_as_written, set(map(type, modules))))


def _as_made(module: nn.Module) -> bool:
    kind: Any = type(module)
    return not (
        module.training
        or module._forward_hooks
        or module._forward_pre_hooks
        or not _methods(kind).isdisjoint(islice(vars(module), STANDARD, None))
    )


@cache
def _methods(kind: Any) -> frozenset[str]:
    """What a value in the object itself would stand in front of."""
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name)))


def _as_written(kind: type) -> bool:
    """A class of ours or of torch, with the methods that stand in its file."""
    if not kind.__module__.startswith((*OURS, TORCHS)):
        return False
    return all(
        method.__code__.co_filename == sys.modules[owner.__module__].__file__
        for owner, method in _written(kind)
    )


def _written(kind: type) -> Iterator[tuple[type, FunctionType]]:
    """The methods of our classes, and how torch's are called."""
    for owner in kind.__mro__:
        if owner.__module__.startswith(OURS):
            methods = list(vars(owner).values())
        elif owner.__module__.startswith(TORCHS):
            methods = [vars(owner).get(name) for name in ("forward", "__call__", "_call_impl")]
        else:
            continue
        yield from ((owner, method) for method in methods if isinstance(method, FunctionType))


class Snapshot:
    """A network as it is now, and whether it still is so later: the same parts with the same
    attributes, the same code, no hook, and its weights where they lay. What is written into the
    weights themselves is no change: whoever reads them where they lie sees it.

    Asked before every search, so identities are compared, and in C.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parts = parts_of(model)
        self.as_made = unchanged(self.parts)
        kinds = {owner for kind in set(map(type, self.parts)) for owner in kind.__mro__}
        # What is read again: the attributes of modules, what stands in them by name, and the code.
        # A module that had no weights or no parts does nothing with new ones.
        self._dicts: list[Mapping[str, Any]] = [vars(part) for part in self.parts]
        for part in self.parts:
            self._dicts += filter(None, (part._modules, part._parameters, part._buffers))
        self._dicts += [vars(kind) for kind in kinds if kind.__module__.startswith((*OURS, TORCHS))]
        self._hooks = [torch_module._global_forward_hooks, torch_module._global_forward_pre_hooks]
        for part in self.parts:
            self._hooks += [part._forward_hooks, part._forward_pre_hooks]
        self._objects = self._read()
        self._weights = [value for value in self._objects if isinstance(value, Tensor)]
        self._addresses = [weight.data_ptr() for weight in self._weights]

    def holds(self, model: nn.Module) -> bool:
        objects = self._read()
        return (
            model is self.parts[0]
            and len(objects) == len(self._objects)
            and all(map(is_, objects, self._objects))
            and not any(self._hooks)
            and self._addresses == [weight.data_ptr() for weight in self._weights]
        )

    def _read(self) -> list[Any]:
        return [*map(type, self.parts), *chain.from_iterable(map(VALUES, self._dicts))]


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
