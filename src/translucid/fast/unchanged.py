"""Whether a network is as the library made it: only then may a shortcut stand in for it.

A hook, a subclass, a method put into one object or into a class, a parametrised weight: whoever
changed a part of the network wants to see what it does then, and the plain step shows it.
"""

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from types import FunctionType
from typing import Any

import torch.nn.modules.module as torch_module
from torch import nn

OURS = ("translucid.parts.", "translucid.models.", "translucid.fast.")
TORCHS = "torch.nn.modules."
STANDARD = len(vars(nn.Module()))  # what torch puts into every module, in front of its own
SETTINGS = frozenset({type(None), bool, int, float, str})


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


def fingerprint(model: nn.Module) -> tuple[Any, ...]:
    """What a captured graph has taken for granted: which parts there are, their settings, and
    where their weights lie. What is written into the weights themselves, a graph sees."""
    parts: list[Any] = []
    for module in parts_of(model):
        parts.append(id(module))
        for value in islice(vars(module).values(), STANDARD, None):
            if value.__class__ in SETTINGS or callable(value):
                parts.append(value)
        for weights in (module._parameters, module._buffers):
            parts += [None if weight is None else weight.data_ptr() for weight in weights.values()]
    return tuple(parts)
