"""Check whether a network is unmodified, so that a fast path may be used; replace methods
temporarily.

If a user has changed a part of the network (by a hook, a subclass, a method assigned to an object
or a class, or a parametrised weight), the plain step is used, so that the change takes effect.
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
STANDARD = len(vars(nn.Module()))  # attributes that torch sets first in every module


def parts_of(module: nn.Module) -> list[nn.Module]:
    """List a module and its submodules, like `modules()` but faster; called in every search."""
    modules = [module]
    for part in modules:  # grows in the loop
        modules += [child for child in part._modules.values() if child is not None]
    return modules


def unchanged(modules: Iterable[nn.Module]) -> bool:
    """Whether these modules run the library's code, in evaluation mode and without hooks."""
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
    """The names of a class's methods. An attribute of the same name in an object would hide the
    method."""
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name)))


def _as_written(kind: type) -> bool:
    """Whether a class is from Translucid or torch, and its methods are still those of its source
    file."""
    if not kind.__module__.startswith((*OURS, TORCHS)):
        return False
    return all(
        method.__code__.co_filename == sys.modules[owner.__module__].__file__
        for owner, method in _written(kind)
    )


def _written(kind: type) -> Iterator[tuple[type, FunctionType]]:
    """The methods to check, each with the class that defines it: every method of Translucid's
    classes, but of torch's classes only the forward and call methods."""
    for owner in kind.__mro__:
        if owner.__module__.startswith(OURS):
            methods = list(vars(owner).values())
        elif owner.__module__.startswith(TORCHS):
            methods = [vars(owner).get(name) for name in ("forward", "__call__", "_call_impl")]
        else:
            continue
        yield from ((owner, method) for method in methods if isinstance(method, FunctionType))


class Snapshot:
    """Remembers a network, to detect later changes: of parts, attributes, code, hooks, or the
    addresses of weights. New values in the weights are not a change.

    The network is compared with the snapshot before every search. To be fast, the comparison checks
    only whether the objects are still the same.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parts = parts_of(model)
        self.as_made = unchanged(self.parts)
        kinds = {owner for kind in set(map(type, self.parts)) for owner in kind.__mro__}
        # The attributes, submodules, weights and code to compare. A module without weights or
        # submodules would not use new ones.
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
    """Replace a method within the block: `part.name(...)` calls `method(part, ...)`."""
    for part in parts:
        vars(part)[name] = types.MethodType(method, part)
    try:
        yield
    finally:
        for part in parts:
            del vars(part)[name]
