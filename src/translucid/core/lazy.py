"""Lazy imports: the public names of a package are imported on first use."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package. homes: for each module, the
    names that it exports; modules: modules that are exported themselves. No other exported name may
    be the name of a submodule, because importing that submodule would replace the exported object.
    """
    places = {name: f"{package}.{module}" for module, names in homes.items() for name in names}
    whole = {module.rpartition(".")[2]: f"{package}.{module}" for module in modules}

    def get(name: str) -> Any:
        if name in whole:
            value: Any = import_module(whole[name])
        elif name in places:
            value = getattr(import_module(places[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        setattr(sys.modules[package], name, value)  # next time, it is found directly
        return value

    def names_of_package() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places, *whole})

    return get, names_of_package, sorted({*places, *whole})
