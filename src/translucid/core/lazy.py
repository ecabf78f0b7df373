"""Public names of a package that are imported when they are first used."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package. homes: the names that each of its
    modules exports; none may equal a submodule's name, which would hide it once imported."""
    places = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)  # next time, it is found directly
        return value

    def names_of_package() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return get, names_of_package, sorted(places)
