"""Registries of classes by name: built-in ones, and those that users add.

A registry is also the type of a key: `Annotated[str, TASKS]` accepts the known names, and its JSON
schema lists them. The module of a class is imported when the class is first used. Unknown names are
looked up among the entry points of installed packages.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from translucid.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from pydantic_core.core_schema import CoreSchema

Registered = TypeVar("Registered", bound=type)


@dataclass(frozen=True)
class SourceFile:
    """The source file of a class that is not built in."""

    file: str  # file name, for messages
    sha256: str  # of its content; empty without a file, as in a notebook
    path: Path | None = None


class Registry(Generic[Registered]):
    """Classes of one kind by name, such as tasks or position schemes."""

    def __init__(
        self,
        noun: str,
        modules: Mapping[str, str],
        check: Callable[[Registered], None] | None = None,
        not_for_recipes: Mapping[str, str] | None = None,
    ) -> None:
        """modules: the modules of built-in classes, by name. check: raises an error for an
        incomplete class. not_for_recipes: names that are not allowed in recipes, with the
        reason."""
        self.noun, self.group = noun, f"translucid.{noun}s"
        self._not_for_recipes = dict(not_for_recipes or {})
        self._modules, self._check = dict(modules), check
        self._classes: dict[str, Registered] = {}
        self._sources: dict[str, SourceFile] = {}

    def names(self) -> tuple[str, ...]:
        """The names allowed as a value, built-in ones first. A class from an installed package is
        included once it has been used."""
        names = dict.fromkeys((*self._modules, *self._classes))
        return tuple(name for name in names if name not in self._not_for_recipes)

    def add(self, name: str, cls: Registered) -> None:
        """Register a class. A new definition in the same file or notebook replaces the old one."""
        if not name:
            raise ConfigError(f"{place_of(cls)}: a {self.noun} needs a name; add one")
        own, source = self._modules.get(name), _source_of(cls)
        before = self._sources.get(name, source)
        if own not in (None, cls.__module__) or before.path != source.path:
            raise ConfigError(
                f"{place_of(cls)}: the {self.noun} {name!r} already exists; choose another name"
            )
        if self._check is not None:
            self._check(cls)
        self._classes[name] = cls
        if own is None:
            self._sources[name] = source

    def __getitem__(self, name: str) -> Registered:
        self.require(name)
        if name not in self._classes:
            import_module(self._modules[name])
        return self._classes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._classes or name in self._modules

    def knows(self, name: str) -> bool:
        """Whether a class of this name is registered or installed."""
        return name in self or self._installed(name)

    def require(self, name: str) -> None:
        """Raise an error if there is no class of this name."""
        if self.knows(name):
            return
        close = nearest(name, self.names())
        hint = f"did you mean {close[0]}? " if close else ""
        raise ConfigError(
            f"no such {self.noun}; {hint}there are {', '.join(self.names())}; load your own with "
            "--code FILE.py, or in Python by importing its file first"
        )

    def source(self, name: str) -> SourceFile | None:
        """The source file of a class; None for built-in classes."""
        self.require(name)
        return self._sources.get(name)

    def from_file(self, path: Path) -> list[str]:
        """The names that a user's file has registered."""
        return [name for name, source in self._sources.items() if source.path == path]

    def _installed(self, name: str) -> bool:
        """Load the entry point of this name, if an installed package has one."""
        from importlib.metadata import entry_points  # slow to import and seldom needed

        for point in entry_points(group=self.group, name=name):
            loaded = point.load()
            if name not in self._classes:
                self.add(name, loaded)
        return name in self._classes

    # ---- use as the type of a configuration key ----

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> "CoreSchema":
        from pydantic_core import core_schema

        def known(name: str) -> str:
            self.require(name)
            if name in self._not_for_recipes:
                raise ConfigError(
                    f"{self._not_for_recipes[name]}; choose {', '.join(self.names())}"
                )
            return name

        return core_schema.no_info_after_validator_function(
            known, core_schema.str_schema(strict=True)
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.names())}


def choices(metadata: Iterable[object]) -> tuple[str, ...]:
    """The names that are allowed for a key: those of the registry in its metadata; empty if the
    metadata contains no registry."""
    return next((entry.names() for entry in metadata if isinstance(entry, Registry)), ())


def place_of(cls: type) -> str:
    """Where a class is defined, for messages: `my_task.py:12: class Mine`."""
    source = _source_of(cls)
    if source.path is not None:
        with suppress(OSError, TypeError):  # the file has changed, or was never read by Python
            line = inspect.getsourcelines(cls)[1]
            return f"{source.file}:{line}: class {cls.__name__}"
    return f"class {cls.__name__}"


def _source_of(cls: type) -> SourceFile:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is None or not Path(file).is_file():
        return SourceFile("a notebook or a shell", "")
    path = Path(file).resolve()
    return SourceFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), path)
