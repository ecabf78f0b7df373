"""Classes by name: those of the package, and those that users add.

A registry is also the type of a key: `Annotated[str, TASKS]` takes the names it knows, and its
JSON schema lists them. Classes of the package are named with the module that holds them, which is
imported when one is asked for: names alone cost nothing. A name nobody knows is looked for among
the entry points of installed packages, so that these need not be imported by hand.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
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
    """Where a class comes from that is not the package's own."""

    file: str  # its name, for people
    sha256: str  # of its content; empty where there is no file, as in a notebook
    path: Path | None = None


class Registry(Generic[Registered]):
    """Classes of one kind: tasks, position schemes."""

    def __init__(
        self,
        noun: str,
        modules: Mapping[str, str],
        check: Callable[[Registered], None] | None = None,
        not_for_recipes: Mapping[str, str] | None = None,
    ) -> None:
        """modules: where the package's own classes live, by name. check: refuses a class that
        lacks something. not_for_recipes: names that no key may have, with the reason."""
        self.noun, self.group = noun, f"translucid.{noun}s"
        self._not_for_recipes = dict(not_for_recipes or {})
        self._modules, self._check = dict(modules), check
        self._classes: dict[str, Registered] = {}
        self._sources: dict[str, SourceFile] = {}

    def names(self) -> tuple[str, ...]:
        """All that a key may have and that are known without asking installed packages, the
        package's own first."""
        names = dict.fromkeys((*self._modules, *self._classes))
        return tuple(name for name in names if name not in self._not_for_recipes)

    def add(self, name: str, cls: Registered) -> None:
        """Make a class known. Defined again in the same file or notebook, it takes its place."""
        if not name:
            raise ConfigError(f"{place_of(cls)}: a {self.noun} needs a name; give it one")
        own, source = self._modules.get(name), _source_of(cls)
        before = self._sources.get(name, source)
        if own not in (None, cls.__module__) or before.path != source.path:
            raise ConfigError(
                f"{place_of(cls)}: there is a {self.noun} {name!r} already; choose another name"
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
        """Whether the package, the user or an installed package has a class of this name."""
        return name in self or self._installed(name)

    def require(self, name: str) -> None:
        """Refuse a name that nobody has."""
        if self.knows(name):
            return
        close = nearest(name, self.names())
        hint = f"did you mean {close[0]}? " if close else ""
        raise ConfigError(
            f"no such {self.noun}; {hint}there are {', '.join(self.names())}; one of your own is "
            "named with --code FILE.py, or in Python by importing its file first"
        )

    def source(self, name: str) -> SourceFile | None:
        """Where a class comes from; None for the package's own."""
        self.require(name)
        return self._sources.get(name)

    def from_file(self, path: Path) -> list[str]:
        """The names that a file of the user's has registered."""
        return [name for name, source in self._sources.items() if source.path == path]

    def _installed(self, name: str) -> bool:
        """Load the entry point of this name, if an installed package has one."""
        from importlib.metadata import entry_points  # slow to import, and seldom needed

        for point in entry_points(group=self.group, name=name):
            loaded = point.load()
            if name not in self._classes:
                self.add(name, loaded)
        return name in self._classes

    # ---- as the type of a key ----

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
    """The names that a key may have, if a registry is its type."""
    return next((entry.names() for entry in metadata if isinstance(entry, Registry)), ())


def place_of(cls: type) -> str:
    """`my_task.py:12: class Mine`, for messages."""
    source = _source_of(cls)
    line = 0
    if source.path is not None:
        try:
            line = inspect.getsourcelines(cls)[1]
        except (OSError, TypeError):  # the file has changed since, or was never read by Python
            line = 0
    return f"{source.file}:{line}: class {cls.__name__}" if line else f"class {cls.__name__}"


def _source_of(cls: type) -> SourceFile:
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if file is None or not Path(file).is_file():
        return SourceFile("a notebook or a shell", "")
    path = Path(file).resolve()
    return SourceFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), path)
